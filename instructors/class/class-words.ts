import type { Capture } from '../../cluster/capture-folder.ts'
import { expectedWords, wordState } from '../../grading/class-word.ts'
import type { ClassKey } from '../../grading/signature.ts'
import type { Submission } from '../submission/read-submission.ts'
import type { Flag } from './result.ts'

const NAMES_SHOWN = 4

export interface ClassSecrets {
  key?: ClassKey | undefined
  word?: string | undefined
}

/** Captures of a submission that do not show the word of the class; nothing where the class has none. */
export function classWordFlags({ manifest, captures }: Submission, { key, word }: ClassSecrets): Flag[] {
  const words = expectedWords(word, key, manifest.learner)
  if (words.length === 0) return []
  return wordFlags(
    [...captures].map(([id, { capture }]) => ({ id, capture })),
    words,
  )
}

/** One flag for captures without a word, one for those with another. */
export function wordFlags(captures: readonly { id: string; capture: Capture }[], words: readonly string[]): Flag[] {
  const states = captures.map(({ id, capture }) => ({ id, state: wordState(capture, words) }))
  const flag = (wanted: 'missing' | 'other', what: string): Flag[] => {
    const ids = states.filter(({ state }) => state === wanted).map(({ id }) => id)
    if (ids.length === 0) return []
    const which = ids.length === captures.length ? 'All its captures' : `Its captures ${listed(ids)}`
    return [{ kind: 'class', text: `${which} ${what}.` }]
  }
  return [
    ...flag('missing', 'lack the word of this class'),
    ...flag('other', 'hold another word than that of this class'),
  ]
}

const listed = (ids: readonly string[]) =>
  `${ids.slice(0, NAMES_SHOWN).join(', ')}${ids.length > NAMES_SHOWN ? ` and ${ids.length - NAMES_SHOWN} more` : ''}`
