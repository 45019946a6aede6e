import type { Change } from '../../dataplane/view/changes.ts'
import type { Verdict } from '../../grading/report-schema.ts'

/** The signs beside the colours, so that colour is never the only sign. */
export const SIGNS: Readonly<Record<Change['change'], string>> = {
  added: '+',
  removed: '−',
  changed: '~',
  moved: '↕',
}

/** The sign, the word and the style of a verdict; `looking` before there is one. */
export const VERDICTS: Readonly<Record<Verdict | 'looking', { sign: string; word: string; tone: string }>> = {
  passed: { sign: '✓', word: 'Passed', tone: 'good' },
  failed: { sign: '○', word: 'Not yet done', tone: 'open' },
  'not yet': { sign: '…', word: 'Not yet', tone: 'open' },
  'not applicable': { sign: '–', word: 'Not applicable', tone: 'calm' },
  'could not check': { sign: '!', word: 'Could not check', tone: 'bad' },
  looking: { sign: '…', word: 'Reading the nodes', tone: 'calm' },
}

/** Minutes and seconds, or hours and minutes. */
export function duration(ms: number): string {
  const minutes = Math.floor(ms / 60_000)
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
