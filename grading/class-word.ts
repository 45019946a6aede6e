import { createHash } from 'node:crypto'
import type { Capture } from '../cluster/capture-folder.ts'
import { parseNodeBoot } from '../dataplane/capture.ts'
import { NOTES_NAMESPACE } from './lab-notes.ts'
import { type ClassKey, readClassKey, wordOf } from './signature.ts'

/** The ConfigMap with the class's word in a learner's cluster; its only key is `word`. */
export const CLASS_MAP = 'class'

const CLASS_WORD = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/

/** Validates the word. Throws with the rule if it is invalid. */
export function classWord(text: string): string {
  if (CLASS_WORD.test(text)) return text
  throw new Error(
    `"${text}" can't be a class's word: use letters, digits, dots, dashes, at most 63, as in \`CLASS=spring-7f3a make lab-2\`.`,
  )
}

/**
 * The word for a learner's cluster: CLASS, or else derived from the key in CLASS_KEY_FILE; undefined without
 * either.
 * @throws Error when CLASS is invalid or the key file can't be read
 */
export function wordFromEnvironment({ CLASS, CLASS_KEY_FILE, LEARNER } = process.env): string | undefined {
  if (CLASS) return classWord(CLASS)
  if (!CLASS_KEY_FILE) return undefined
  const key = readClassKey(CLASS_KEY_FILE)
  const learner = key.kind === 'learner' ? key.learner : LEARNER
  return learner ? wordOf(key, learner) : undefined
}

/** The words that the grader accepts for a learner; empty if the class has no word. */
export function expectedWords(word: string | undefined, key: ClassKey | undefined, learner: string): string[] {
  const own = key && (key.kind === 'class' || key.learner === learner) ? [wordOf(key, learner)] : []
  return word === undefined ? own : [word, ...own]
}

/** The mark of a word on a node: it depends on the boot, so a mark can't be copied to a capture of another boot. */
export const classMark = (word: string, bootId: string): string =>
  createHash('sha256').update(`${word} ${bootId}`).digest('hex')

/** The word in a cluster's objects; undefined if there is none. */
export function wordIn(items: readonly unknown[]): string | undefined {
  for (const item of items as readonly { kind?: unknown; metadata?: Record<string, unknown>; data?: unknown }[]) {
    if (item?.kind !== 'ConfigMap' || item.metadata?.name !== CLASS_MAP) continue
    if (item.metadata.namespace !== NOTES_NAMESPACE) continue
    const { word } = (item.data ?? {}) as { word?: unknown }
    return typeof word === 'string' ? word : undefined
  }
  return undefined
}

/** True if a capture contains one of the words, in its objects and as the mark on each of its nodes. */
export function wordState({ objects, nodes }: Capture, words: readonly string[]): 'shown' | 'missing' | 'other' {
  const word = wordIn(objects.items)
  if (word === undefined) return 'missing'
  if (!words.includes(word)) return 'other'
  const boots = nodes.filter(({ files }) => files.size > 0).map(({ files }) => parseNodeBoot(files.get('boot')))
  if (boots.some((boot) => boot?.classMark === undefined)) return 'missing'
  return boots.every((boot) => boot?.classMark === classMark(word, boot?.bootId ?? '')) ? 'shown' : 'other'
}
