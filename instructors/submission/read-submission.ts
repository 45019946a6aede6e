import { hash } from 'node:crypto'
import type { Capture, NodeFiles } from '../../cluster/capture-folder.ts'
import { type ClassKey, isSignature } from '../../grading/class-key.ts'
import { quoted } from '../../host/plain-text.ts'
import { type Manifest, type ManifestCapture, manifestSchema, readItems } from './manifest.ts'
import { gunzipFile, readTar } from './tar.ts'
import { parseUntrustedJson, plainUtf8, refuse } from './untrusted-text.ts'

export type SignatureState = 'valid' | 'not checked' | 'none'

export interface SubmittedCapture {
  takenAt: number
  capture: Capture
  /** Path in the capture → digest of its content. */
  digests: ReadonlyMap<string, string>
}

/** A submission whose integrity was checked. Its verdicts are only claims. */
export interface Submission {
  manifest: Manifest
  signature: SignatureState
  captures: ReadonlyMap<string, SubmittedCapture>
}

/**
 * Reads a `.labgrade` file into memory; nothing is written to disk. With the class's key, a
 * submission without a valid signature of its learner is refused.
 * @throws Refusal with one sentence that names what is wrong with it
 */
export async function readSubmission(file: string, key?: ClassKey): Promise<Submission> {
  const contents = new Map<string, Buffer>()
  let manifestBytes: Buffer | undefined
  let signature: string | undefined
  for (const { path, content } of readTar(gunzipFile(file))) {
    if (path === 'submission.json') manifestBytes = content
    else if (path === 'signature') signature = content.toString('latin1', 0, 200).trim()
    else contents.set(hash('sha256', content), content)
  }
  if (!manifestBytes) refuse('It has no submission.json: it was not made by `make submit`.')
  const manifest = readManifest(manifestBytes)
  const state = signatureState(manifest, manifestBytes, signature, key)
  const captures = readCaptures(manifest, contents)
  requireNamed(manifest, captures)
  return { manifest, signature: state, captures }
}

function readManifest(bytes: Buffer): Manifest {
  const json = parseUntrustedJson(plainUtf8(bytes, 'submission.json'), 'submission.json')
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
    refuse(
      `The given key is that of ${quoted(key.learner)} and cannot verify ${quoted(manifest.learner)}.`,
    )
  if (isSignature(signature, key, manifest.learner, bytes)) return 'valid'
  return refuse(
    `Its signature is not one of ${quoted(manifest.learner)} under the key of this class: it was altered, or signed with another key.`,
  )
}

/** Reads every capture; a content or an object that several of them share is read once. */
function readCaptures(manifest: Manifest, contents: ReadonlyMap<string, Buffer>) {
  const texts = new Map<string, string>()
  const items = new Map<string, unknown>()
  const textOf = (digest: string, path: string) => {
    const content = contents.get(digest) ?? Buffer.alloc(0)
    const text = texts.get(digest) ?? plainUtf8(content, path)
    texts.set(digest, text)
    return text
  }
  const captures = new Map<string, SubmittedCapture>()
  for (const described of manifest.captures) {
    const { id, takenAt } = described
    if (captures.has(id)) refuse(`It describes the capture ${quoted(id)} twice.`)
    const digests = digestsOf(described, contents)
    const nodes = new Map<string, NodeFiles & { files: Map<string, string> }>()
    for (const [path, digest] of digests) {
      const [, name, file] = path.split('/')
      if (name === undefined || file === undefined) continue
      const node = nodes.get(name) ?? { name, files: new Map() }
      nodes.set(name, node)
      node.files.set(file, textOf(digest, path))
    }
    const list = textOf(digests.get('objects.json') ?? '', 'objects.json')
    const capture: Capture = {
      objects: {
        apiVersion: 'v1',
        kind: 'List',
        items: readItems(list, `objects.json of capture ${id}`, items),
      },
      nodes: [...nodes.values()].sort((a, b) => (a.name < b.name ? -1 : 1)),
    }
    captures.set(id, { takenAt: Date.parse(takenAt), capture, digests })
  }
  if ([...contents.keys()].some((digest) => !texts.has(digest)))
    refuse('It contains a file that its submission.json does not name, or that was altered.')
  return captures
}

function digestsOf(
  { id, files }: ManifestCapture,
  contents: ReadonlyMap<string, Buffer>,
): Map<string, string> {
  const digests = new Map<string, string>()
  for (const { path, sha256 } of files) {
    if (!contents.has(sha256))
      refuse(`The file ${quoted(path)} of its capture ${quoted(id)} is missing or was altered.`)
    if (digests.has(path)) refuse(`Its capture ${quoted(id)} names ${quoted(path)} twice.`)
    digests.set(path, sha256)
  }
  if (!digests.has('objects.json')) refuse(`Its capture ${quoted(id)} has no objects.json.`)
  if (digests.size < 2) refuse(`Its capture ${quoted(id)} has no node.`)
  return digests
}

function requireNamed({ steps, final }: Manifest, captures: ReadonlyMap<string, unknown>): void {
  const ids = new Set<string>()
  for (const { id, capture, held: beforeAnswer } of steps) {
    if (ids.has(id)) refuse(`It names the step ${quoted(id)} twice.`)
    ids.add(id)
    const lost = [capture, beforeAnswer].find((one) => one !== undefined && !captures.has(one))
    if (lost !== undefined)
      refuse(
        `It claims that step ${quoted(id)} passed on the capture ${quoted(lost)}, which is not in it.`,
      )
  }
  if (final !== undefined && !captures.has(final))
    refuse(`It names ${quoted(final)} as its last capture, which is not in it.`)
}
