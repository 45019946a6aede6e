import { hash } from 'node:crypto'
import { lstatSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { type ClassKey, isSignature } from '../../grading/class-key.ts'
import { type Manifest, manifestSchema } from './manifest.ts'
import { Contents, SubmittedCapture } from './submitted-capture.ts'
import { readTar } from './tar.ts'
import {
  type ArchiveLimits,
  parseUntrustedJson,
  plainUtf8,
  quoted,
  Refusal,
  refuse,
  SUBMISSION_LIMITS,
} from './untrusted-text.ts'

/** The ratio is checked only after this many unpacked bytes: the first bytes of a stream are not representative. */
const RATIO_FROM = 2 ** 20
const CHUNK = 2 ** 21

/**
 * The unpacked bytes of a gzip file. Unpacking stops at the limits, regardless of the size that the file claims.
 * @throws Refusal when it is not a regular file, not gzip, truncated, or larger than the limits
 */
function gunzipFile(file: string, limits: ArchiveLimits): Buffer {
  requirePlainFile(file, limits)
  let byRatio = RATIO_FROM
  try {
    const packed = readFileSync(file)
    byRatio = Math.max(RATIO_FROM, packed.length * limits.ratio)
    // Most submissions unpack into one chunk, without a copy.
    return gunzipSync(packed, { maxOutputLength: Math.min(byRatio, limits.unpackedBytes), chunkSize: CHUNK })
  } catch (error) {
    if (codeOf(error) === 'ERR_BUFFER_TOO_LARGE')
      refuse(
        byRatio < limits.unpackedBytes
          ? `It unpacks to more than ${limits.ratio} times its size: no capture is that uniform.`
          : `It unpacks to more than ${limits.unpackedBytes} bytes.`,
      )
    throw asRefusal(error)
  }
}

function requirePlainFile(file: string, limits: ArchiveLimits): void {
  const stats = lstatSync(file, { throwIfNoEntry: false }) ?? refuse('There is no such file.')
  if (!stats.isFile()) refuse('It is not a regular file.')
  if (stats.size === 0) refuse('It is empty.')
  if (stats.size > limits.packedBytes) refuse(`It has ${stats.size} bytes; ${limits.packedBytes} is the most.`)
}

function asRefusal(error: unknown): unknown {
  if (error instanceof Refusal) return error
  const code = codeOf(error)
  if (code === 'Z_BUF_ERROR') return new Refusal('It is truncated: its gzip stream has no end.')
  if (code.startsWith('Z_')) return new Refusal('It is damaged, or not a gzip file.')
  if (code === 'EACCES' || code === 'EPERM') return new Refusal("It can't be read: check its permissions.")
  return error
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''

export type SignatureState = 'valid' | 'not checked' | 'none'

/** A submission whose integrity was checked. Its verdicts are only claims. */
export interface Submission {
  manifest: Manifest
  signature: SignatureState
  captures: ReadonlyMap<string, SubmittedCapture>
}

export interface ReadOptions {
  /** With the class's key, a submission without a valid signature of its learner is refused. */
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
    else refuse(`It contains ${quoted(path)}, which is not part of a submission.`)
  }
  if (!manifestBytes) refuse('It has no submission.json: it was not made by `make submit`.')
  const manifest = readManifest(manifestBytes, limits)
  const state = signatureState(manifest, manifestBytes, signature, key)
  return { manifest, signature: state, captures: capturesOf(manifest, contents) }
}

function readManifest(bytes: Buffer, limits: ArchiveLimits): Manifest {
  const json = parseUntrustedJson(plainUtf8(bytes, 'submission.json', limits), 'submission.json')
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
      `It is not signed, though this class has a key: ${manifest.learner} made it without CLASS_KEY_FILE, or the signature was removed.`,
    )
  if (key.kind === 'learner' && key.learner !== manifest.learner)
    refuse(`The given key is that of ${quoted(key.learner)} and cannot verify ${quoted(manifest.learner)}.`)
  if (isSignature(signature, key, manifest.learner, bytes)) return 'valid'
  return refuse(
    `Its signature is not one of ${quoted(manifest.learner)} under the key of this class: it was altered, or signed with another key.`,
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
    if (!used.has(digest)) refuse('It contains a file that its submission.json does not name, or that was altered.')
  const ids = new Set<string>()
  for (const { id, capture } of steps) {
    if (ids.has(id)) refuse(`It names the step ${quoted(id)} twice.`)
    ids.add(id)
    if (capture !== undefined && !found.has(capture))
      refuse(`It claims that step ${quoted(id)} passed on the capture ${quoted(capture)}, which is not in it.`)
  }
  if (final !== undefined && !found.has(final))
    refuse(`It names ${quoted(final)} as its last capture, which is not in it.`)
  return found
}
