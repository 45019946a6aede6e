import { hash } from 'node:crypto'
import { type ClassKey, isSignature } from '../../grading/signature.ts'
import { gunzipFile } from './gunzip.ts'
import { type ArchiveLimits, SUBMISSION_LIMITS } from './limits.ts'
import { type Manifest, manifestSchema } from './manifest.ts'
import { quoted, refuse } from './refusal.ts'
import { Contents, SubmittedCapture } from './submitted-capture.ts'
import { readTar } from './tar-reader.ts'
import { hostileFreeJson, plainUtf8 } from './untrusted-text.ts'

export type SignatureState = 'valid' | 'not checked' | 'none'

/** What a learner handed in, read and found whole. Its verdicts are claims. */
export interface Submission {
  manifest: Manifest
  signature: SignatureState
  captures: ReadonlyMap<string, SubmittedCapture>
}

export interface ReadOptions {
  /** With the class's key, what is not signed by the learner that it names is refused. */
  key?: ClassKey | undefined
  limits?: ArchiveLimits
}

/**
 * Reads a `.labgrade` file into memory; nothing is written to disk.
 * @throws Refusal with one sentence that names what is wrong with it
 */
export async function readSubmission(
  file: string,
  { key, limits = SUBMISSION_LIMITS }: ReadOptions = {},
): Promise<Submission> {
  const contents = new Contents(limits)
  let manifestBytes: Buffer | undefined
  let signature: string | undefined
  for (const { path, content } of readTar(gunzipFile(file, limits), limits)) {
    if (path === 'submission.json') manifestBytes = content
    else if (path === 'signature') signature = content.toString('latin1', 0, 200).trim()
    else if (path.startsWith('captures/')) contents.add(hash('sha256', content), content)
    else refuse(`It holds ${quoted(path)}, which belongs in no submission.`)
  }
  if (!manifestBytes) refuse('It has no submission.json: it was not made by `make submit`.')
  const manifest = readManifest(manifestBytes, limits)
  const state = signatureState(manifest, manifestBytes, signature, key)
  return { manifest, signature: state, captures: capturesOf(manifest, contents) }
}

function readManifest(bytes: Buffer, limits: ArchiveLimits): Manifest {
  const json = hostileFreeJson(plainUtf8(bytes, 'submission.json', limits), 'submission.json')
  const read = manifestSchema.safeParse(json)
  if (read.success) return read.data
  const [issue] = read.error.issues
  const place = issue?.path.map(String).join('.') ?? ''
  return refuse(
    `Its submission.json is not what \`make submit\` writes: ${quoted(place)} is wrong (${quoted(issue?.message ?? '')}).`,
  )
}

function signatureState(
  manifest: Manifest,
  bytes: Buffer,
  signature: string | undefined,
  key: ClassKey | undefined,
): SignatureState {
  if (!key) return signature === undefined ? 'none' : 'not checked'
  if (signature === undefined)
    refuse(
      `It is not signed, though this class has a key: ${manifest.learner} made it without CLASS_KEY_FILE, or the signature was taken off.`,
    )
  if (key.kind === 'learner' && key.learner !== manifest.learner)
    refuse(`The key at hand is ${quoted(key.learner)}'s and says nothing about ${quoted(manifest.learner)}.`)
  if (isSignature(signature, key, manifest.learner, bytes)) return 'valid'
  return refuse(
    `Its signature is not one of ${quoted(manifest.learner)} under the key of this class: it was altered, or signed by somebody else.`,
  )
}

function capturesOf({ captures, steps, final }: Manifest, contents: Contents): Map<string, SubmittedCapture> {
  const used = new Set<string>()
  const found = new Map<string, SubmittedCapture>()
  for (const described of captures) {
    if (found.has(described.id)) refuse(`It describes the capture ${quoted(described.id)} twice.`)
    for (const { sha256 } of described.files) used.add(sha256)
    found.set(described.id, new SubmittedCapture(described, contents))
  }
  for (const digest of contents.digests())
    if (!used.has(digest)) refuse('It holds a file that its submission.json does not name, or that was altered.')
  const ids = new Set<string>()
  for (const { id, capture } of steps) {
    if (ids.has(id)) refuse(`It names the step ${quoted(id)} twice.`)
    ids.add(id)
    if (capture !== undefined && !found.has(capture))
      refuse(`It says that step ${quoted(id)} passed on the capture ${quoted(capture)}, which is not in it.`)
  }
  if (final !== undefined && !found.has(final))
    refuse(`It names ${quoted(final)} as its last capture, which is not in it.`)
  return found
}
