import { z } from 'zod'
import type { Capture, NodeFiles } from '../../cluster/capture-folder.ts'
import { ItemTexts } from './item-texts.ts'
import type { ManifestCapture } from './manifest.ts'
import {
  type ArchiveLimits,
  parseUntrustedJson,
  plainUtf8,
  quoted,
  refuse,
  requirePlainLines,
} from './untrusted-text.ts'

const listSchema = z.object({ items: z.array(z.unknown()) })

/** The contents of an archive by their digests; each is decoded once, on first use. */
export class Contents {
  readonly #bytes = new Map<string, Buffer>()
  readonly #texts = new Map<string, string>()
  readonly #itemTexts = new ItemTexts()
  readonly #limits: ArchiveLimits

  constructor(limits: ArchiveLimits) {
    this.#limits = limits
  }

  add(digest: string, content: Buffer): void {
    this.#bytes.set(digest, content)
  }

  digests(): Iterable<string> {
    return this.#bytes.keys()
  }

  size(digest: string): number | undefined {
    return this.#bytes.get(digest)?.length
  }

  /**
   * The items of a list of objects; undefined when it is written otherwise than printItems does. Refuses anything but plain
   * text.
   */
  items(digest: string, path: string, what: string): unknown[] | undefined {
    const content = this.#bytes.get(digest) ?? Buffer.alloc(0)
    requirePlainLines(content, path, this.#limits)
    return this.#itemTexts.items(content, path, what)
  }

  /** Refuses anything but plain text. */
  text(digest: string, path: string): string {
    const text = this.#texts.get(digest) ?? plainUtf8(this.#bytes.get(digest) ?? Buffer.alloc(0), path, this.#limits)
    this.#texts.set(digest, text)
    return text
  }
}

/** One capture of a submission. Its integrity is checked by the constructor; its text is read when a step is judged on it. */
export class SubmittedCapture {
  readonly id: string
  readonly takenAt: number
  /** Path in the capture → digest of its content. */
  readonly digests: ReadonlyMap<string, string>
  readonly #contents: Contents
  #capture: Capture | undefined

  constructor({ id, takenAt, files }: ManifestCapture, contents: Contents) {
    this.id = id
    this.takenAt = Date.parse(takenAt)
    this.#contents = contents
    const digests = new Map<string, string>()
    for (const { path, sha256 } of files) {
      if (contents.size(sha256) === undefined)
        refuse(`The file ${quoted(path)} of its capture ${quoted(id)} is missing or was altered.`)
      if (digests.has(path)) refuse(`Its capture ${quoted(id)} names ${quoted(path)} twice.`)
      digests.set(path, sha256)
    }
    if (!digests.has('objects.json')) refuse(`Its capture ${quoted(id)} has no objects.json.`)
    if (digests.size < 2) refuse(`Its capture ${quoted(id)} has no node.`)
    this.digests = digests
  }

  /** True once the capture was read: captures that no step judged are not compared either. */
  get wasRead(): boolean {
    return this.#capture !== undefined
  }

  sizeOf(path: string): number {
    return this.#contents.size(this.digests.get(path) ?? '') ?? 0
  }

  /** The capture as from a folder. Refuses invalid text or objects. */
  get capture(): Capture {
    this.#capture ??= this.#read()
    return this.#capture
  }

  #read(): Capture {
    const nodes = new Map<string, NodeFiles>()
    let items: unknown[] = []
    for (const [path, digest] of this.digests) {
      if (path === 'objects.json') {
        items = this.#readItems(digest, path)
        continue
      }
      const text = this.#contents.text(digest, path)
      const [, node = '', name = ''] = path.split('/')
      const entry = nodes.get(node) ?? { name: node, files: new Map<string, string>() }
      entry.files.set(name, text)
      nodes.set(node, entry)
    }
    const sorted = [...nodes.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
    return { objects: { apiVersion: 'v1', kind: 'List', items }, nodes: sorted }
  }

  #readItems(digest: string, path: string): unknown[] {
    const what = `objects.json of capture ${this.id}`
    const items = this.#contents.items(digest, path, what)
    if (items) return items
    const read = listSchema.safeParse(parseUntrustedJson(this.#contents.text(digest, path), what))
    return read.success
      ? read.data.items
      : refuse(`The objects.json of its capture ${quoted(this.id)} is not a list of objects.`)
  }
}
