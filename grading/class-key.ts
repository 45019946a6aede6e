import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { Capture } from '../cluster/capture-folder.ts'
import { readPlainFile } from '../host/plain-file.ts'
import { configMapIn } from './lab-notes.ts'

/** Valid names of learners, and words of classes; they become parts of file names and reports. */
export const LEARNER_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/

/** Validates and returns the name. Throws with the rule if it is invalid. */
export function learnerName(text: string | undefined): string {
  if (text !== undefined && LEARNER_NAME.test(text)) return text
  throw new Error(
    `"${text ?? ''}" can't name a learner: use letters, digits, dots, dashes, at most 63, as in \`make submit LEARNER=alice LAB=2\`.`,
  )
}

/** The seed of a learner's variant of the labs: derived from the name only, case-insensitive. */
export function seedOf(learner: string): string {
  return createHash('sha256')
    .update(`kube-service-labs seed ${learner.toLowerCase()}`)
    .digest('hex')
    .slice(0, 16)
}

/** The secret of a class, or the key derived from it for one learner. */
export type ClassKey =
  | { kind: 'class'; secret: Buffer }
  | { kind: 'learner'; learner: string; secret: Buffer }

const LEARNER_KEY = /^labgrade-learner-key (\S+) ([0-9a-f]{64})$/
const LEAST_BYTES = 16

/**
 * Reads CLASS_KEY_FILE: the output of `class-key.ts --learner`, else any text of 16 or more bytes
 * as a class's. Throws Error otherwise.
 */
export function readClassKey(file: string): ClassKey {
  let text: string
  try {
    text = readPlainFile(file, 2 ** 20).trim()
  } catch {
    throw new Error(
      `The key file "${file}" can't be read: make one with \`node --import tsx scripts/class-key.ts --new ${file}\`.`,
    )
  }
  const own = LEARNER_KEY.exec(text)
  if (own?.[1] && own[2])
    return { kind: 'learner', learner: own[1], secret: Buffer.from(own[2], 'hex') }
  const secret = Buffer.from(text, 'utf8')
  if (secret.length < LEAST_BYTES)
    throw new Error(`The key in "${file}" has ${secret.length} bytes: ${LEAST_BYTES} is the least.`)
  return { kind: 'class', secret }
}

/** The line with the key of one learner. */
export function learnerKeyLine(key: ClassKey, learner: string): string {
  if (!LEARNER_NAME.test(learner)) throw new Error(`"${learner}" can't name a learner.`)
  return `labgrade-learner-key ${learner} ${learnerSecret(key, learner).toString('hex')}`
}

/**
 * HMAC-SHA256 (RFC 2104) of a manifest's bytes under the learner's part of the key, in hexadecimal.
 */
export function signatureOf(key: ClassKey, learner: string, manifest: Buffer): string {
  return createHmac('sha256', learnerSecret(key, learner))
    .update('kube-service-labs/submission/v1\n')
    .update(manifest)
    .digest('hex')
}

/** The word for a learner's cluster if the class has a key; different for each learner. */
export const wordOf = (key: ClassKey, learner: string): string =>
  createHmac('sha256', learnerSecret(key, learner))
    .update('kube-service-labs class word')
    .digest('hex')
    .slice(0, 16)

/** Verifies a signature with the key of this learner. */
export function isSignature(
  text: string,
  key: ClassKey,
  learner: string,
  manifest: Buffer,
): boolean {
  const right = Buffer.from(signatureOf(key, learner, manifest), 'hex')
  const bytes = Buffer.from(/^[0-9a-f]{64}$/.test(text) ? text : '', 'hex')
  return bytes.length === right.length && timingSafeEqual(bytes, right)
}

function learnerSecret(key: ClassKey, learner: string): Buffer {
  if (key.kind === 'class')
    return createHmac('sha256', key.secret).update(`kube-service-labs learner ${learner}`).digest()
  if (key.learner === learner) return key.secret
  throw new Error(`The key is ${key.learner}'s and can't sign for "${learner}".`)
}

/** The ConfigMap with the class's word in a learner's cluster; its only key is `word`. */
export const CLASS_MAP = 'class'

/** Validates the word. Throws with the rule if it is invalid. */
export function classWord(text: string): string {
  if (LEARNER_NAME.test(text)) return text
  throw new Error(
    `"${text}" can't be a class's word: use letters, digits, dots, dashes, at most 63, as in \`CLASS=spring-7f3a make lab-2\`.`,
  )
}

/**
 * The word for a learner's cluster: CLASS, or from the key in CLASS_KEY_FILE; undefined without
 * either. Throws if it is invalid.
 */
export function wordFromEnvironment(
  { CLASS, CLASS_KEY_FILE, LEARNER } = process.env,
): string | undefined {
  if (CLASS) return classWord(CLASS)
  if (!CLASS_KEY_FILE) return undefined
  const key = readClassKey(CLASS_KEY_FILE)
  const learner = key.kind === 'learner' ? key.learner : LEARNER
  return learner ? wordOf(key, learner) : undefined
}

/** The words that the grader accepts for a learner; empty if the class has no word. */
export function expectedWords(
  word: string | undefined,
  key: ClassKey | undefined,
  learner: string,
): string[] {
  const own = key && (key.kind === 'class' || key.learner === learner) ? [wordOf(key, learner)] : []
  return word === undefined ? own : [word, ...own]
}

/** The word in a cluster's objects; undefined if there is none. */
export const wordIn = (items: readonly unknown[]): string | undefined =>
  configMapIn(items, CLASS_MAP)?.data?.word

/** Whether the objects of a capture contain one of the words. */
export function wordState(
  { objects }: Pick<Capture, 'objects'>,
  terms: readonly string[],
): 'shown' | 'missing' | 'other' {
  const word = wordIn(objects.items)
  if (word === undefined) return 'missing'
  return terms.includes(word) ? 'shown' : 'other'
}
