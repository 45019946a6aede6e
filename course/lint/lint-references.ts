// Steps are renumbered when one is added: a text or a hint names another step by its id.

import type { LintMessage } from './course-files.ts'

/**
 * "step 12", "steps 4 and 8", "STEP=3"; the sections of other documents have a dot in their
 * numbers.
 */
const BY_NUMBER = /\b(?:(?:steps?|sections?) |(?:STEP|Q)=)\d+\b(?!\.\d)/i

/** Each line of a lab's files that refers to a step by its number. */
export function* lintReferences(sources: Readonly<Record<string, string>>): Generator<LintMessage> {
  for (const [path, text] of Object.entries(sources))
    for (const [index, line] of text.split('\n').entries()) {
      const [found] = BY_NUMBER.exec(line) ?? []
      if (found !== undefined)
        yield {
          file: `${path}:${index + 1}`,
          text: `"${found}" names a step by its number, which changes: write its id.`,
        }
    }
}
