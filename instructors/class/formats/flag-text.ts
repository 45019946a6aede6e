import type { Flag } from '../result.ts'

/** The flags of a submission in one line. */
export const flagText = (flags: readonly Flag[]) => flags.map(({ kind, text }) => `${kind}: ${text}`).join(' ')
