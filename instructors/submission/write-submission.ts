import { createHash } from 'node:crypto'
import type { Capture } from '../../cluster/capture-folder.ts'
import { type ClassKey, signatureOf } from '../../grading/signature.ts'
import { printItems } from './item-texts.ts'
import { type Manifest, type ManifestCapture, manifestSchema } from './manifest.ts'
import type { TarEntry } from './tar-reader.ts'
import { writeTarGz } from './tar-writer.ts'

export interface CaptureToHandIn {
  id: string
  takenAt: string
  capture: Capture
}

/**
 * The bytes of a `.labgrade` file. Content that several captures share is stored once. Signed where a key is given.
 * @throws Error when the manifest would not be read again
 */
export function writeSubmission(
  about: Omit<Manifest, 'schema' | 'captures'>,
  captures: readonly CaptureToHandIn[],
  key?: ClassKey,
): Buffer {
  const entries = new Map<string, TarEntry>()
  const described = captures.map(({ id, takenAt, capture }): ManifestCapture => {
    const files = captureFiles(capture).map(({ path, content }) => {
      const sha256 = createHash('sha256').update(content).digest('hex')
      if (!entries.has(sha256)) entries.set(sha256, { path: `captures/${id}/${path}`, content })
      return { path, sha256 }
    })
    return { id, takenAt, files }
  })
  const manifest = manifestSchema.parse({ schema: 'kube-service-labs/submission/v1', ...about, captures: described })
  const content = Buffer.from(`${JSON.stringify(manifest, null, 1)}\n`)
  const signature = key && Buffer.from(`${signatureOf(key, manifest.learner, content)}\n`)
  return writeTarGz(
    [
      { path: 'submission.json', content },
      ...(signature ? [{ path: 'signature', content: signature }] : []),
      ...entries.values(),
    ],
    new Date(manifest.submittedAt),
  )
}

function captureFiles({ objects, nodes }: Capture): TarEntry[] {
  return [
    { path: 'objects.json', content: Buffer.from(printItems(objects.items)) },
    ...nodes.flatMap(({ name, files }) =>
      [...files].map(([file, text]) => ({ path: `nodes/${name}/${file}`, content: Buffer.from(text) })),
    ),
  ]
}
