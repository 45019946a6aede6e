import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Capture, NodeFiles } from '../../cluster/capture-folder.ts'
import { gunzipFile } from './gunzip.ts'
import { type ArchiveLimits, SUBMISSION_LIMITS } from './limits.ts'
import { type Manifest, type ManifestCapture, manifestSchema } from './manifest.ts'
import { quoted, refuse } from './refusal.ts'
import { type ClassKey, isSignature } from './signature.ts'
import { readTar } from './tar-reader.ts'
import { hostileFreeJson, plainUtf8 } from './untrusted-text.ts'

export type SignatureState = 'valid' | 'not checked' | 'none'

/** What a learner handed in, read and found whole. Its verdicts are claims. */
export interface Submission {
  manifest: Manifest
  signature: SignatureState
  captures: ReadonlyMap<string, SubmittedCapture>
}

export interface SubmittedCapture {
  capture: Capture
  takenAt: number
  /** Path in the capture → digest of its content. */
  digests: ReadonlyMap<string, string>
}

export interface ReadOptions {
  /** With the class's key, what is not signed by the learner that it names is refused. */
  key?: ClassKey | undefined
  limits?: ArchiveLimits
}

/**
 * Reads a `.labgrade` file into memory; nothing is written to disk.
 * @throws Refusal with one sentence for whatever is wrong with it
 */
export async function readSubmission(
  file: string,
  { key, limits = SUBMISSION_LIMITS }: ReadOptions = {},
): Promise<Submission> {
  const texts = new Map<string, string>()
  let manifestBytes: Buffer | undefined
  let signature: string | undefined
  for await (const { path, content } of readTar(gunzipFile(file, limits), limits)) {
    if (path === 'submission.json') manifestBytes = Buffer.from(content)
    else if (path === 'signature') signature = content.toString('latin1', 0, 200).trim()
    else if (path.startsWith('captures/')) texts.set(digestOf(content), plainUtf8(content, path, limits))
    else refuse(`It holds ${quoted(path)}, which belongs in no submission.`)
  }
  if (!manifestBytes) refuse('It has no submission.json: it was not made by `make submit`.')
  const manifest = readManifest(manifestBytes, limits)
  const state = signatureState(manifest, manifestBytes, signature, key)
  return { manifest, signature: state, captures: capturesOf(manifest, texts) }
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

function capturesOf(
  { captures, steps, final }: Manifest,
  texts: ReadonlyMap<string, string>,
): Map<string, SubmittedCapture> {
  const objects = new Map<string, unknown[]>()
  const used = new Set<string>()
  const found = new Map<string, SubmittedCapture>()
  for (const described of captures) {
    if (found.has(described.id)) refuse(`It describes the capture ${quoted(described.id)} twice.`)
    for (const { sha256 } of described.files) used.add(sha256)
    found.set(described.id, { ...assemble(described, texts, objects), takenAt: Date.parse(described.takenAt) })
  }
  if ([...texts.keys()].some((digest) => !used.has(digest)))
    refuse('It holds a file that its submission.json does not name, or that was altered.')
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

const listSchema = z.object({ items: z.array(z.unknown()) })

function assemble(
  { id, files }: ManifestCapture,
  texts: ReadonlyMap<string, string>,
  objects: Map<string, unknown[]>,
): Omit<SubmittedCapture, 'takenAt'> {
  const digests = new Map<string, string>()
  const nodes = new Map<string, NodeFiles>()
  let items: unknown[] | undefined
  for (const { path, sha256 } of files) {
    const text =
      texts.get(sha256) ?? refuse(`The file ${quoted(path)} of its capture ${quoted(id)} is missing or was altered.`)
    if (digests.has(path)) refuse(`Its capture ${quoted(id)} names ${quoted(path)} twice.`)
    digests.set(path, sha256)
    if (path === 'objects.json') {
      items = objects.get(sha256) ?? readItems(text, id)
      objects.set(sha256, items)
      continue
    }
    const [, node = '', name = ''] = path.split('/')
    const entry = nodes.get(node) ?? { name: node, files: new Map<string, string>() }
    entry.files.set(name, text)
    nodes.set(node, entry)
  }
  if (!items) refuse(`Its capture ${quoted(id)} has no objects.json.`)
  if (nodes.size === 0) refuse(`Its capture ${quoted(id)} has no node.`)
  const sorted = [...nodes.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  return { capture: { objects: { apiVersion: 'v1', kind: 'List', items }, nodes: sorted }, digests }
}

function readItems(text: string, id: string): unknown[] {
  const read = listSchema.safeParse(hostileFreeJson(text, `objects.json of capture ${id}`))
  return read.success ? read.data.items : refuse(`The objects.json of its capture ${quoted(id)} is no list of objects.`)
}

const digestOf = (content: Buffer) => createHash('sha256').update(content).digest('hex')
