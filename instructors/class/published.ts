import { type Dirent, readdirSync, readFileSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { type Capture, readCaptureFolder } from '../../cluster/capture-folder.ts'
import { projectRoot } from '../../host/layout.ts'
import { readSubmission } from '../submission/read-submission.ts'
import { type DrawnKind, type DrawnValues, drawnValues } from './drawn-values.ts'

/** Path in the repository → kind → digests, separated by a space. */
export type PublishedValues = Record<string, Partial<Record<DrawnKind, string>>>

export const PUBLISHED_FILE = join(projectRoot, 'instructors/class/published-values.json')

export function readPublishedValues(): PublishedValues {
  return JSON.parse(readFileSync(PUBLISHED_FILE, 'utf8'))
}

/** Files that identify a folder with one node's recorded state. */
const OF_A_NODE = ['ip-addr.json', 'ipset-save', 'conntrack', 'kube-proxy.log']

/** The values of every submission, capture and recorded node in data/. */
export async function gatherPublished(folder = join(projectRoot, 'data')): Promise<PublishedValues> {
  const found: PublishedValues = {}
  const entries = readdirSync(folder, { withFileTypes: true })
  const path = relative(projectRoot, folder)
  const has = (name: string) => entries.some((entry) => entry.name === name)
  const note = (source: string, values: DrawnValues) => {
    if (values.size > 0) found[source] = byKind(values)
  }
  for (const { name } of entries.filter((entry) => entry.isFile() && entry.name.endsWith('.labgrade'))) {
    const { captures } = await readSubmission(join(folder, name))
    note(join(path, name), drawnValues([...captures.values()].map(({ capture }) => capture)))
  }
  if (has('objects.json') && has('nodes')) {
    note(path, drawnValues([readCaptureFolder(folder)]))
    return found
  }
  if (OF_A_NODE.some(has)) note(path, drawnValues([nodeAlone(folder, entries)]))
  for (const entry of entries)
    if (entry.isDirectory()) Object.assign(found, await gatherPublished(join(folder, entry.name)))
  return found
}

function nodeAlone(folder: string, entries: readonly Dirent[]): Capture {
  const files = entries
    .filter((entry) => entry.isFile())
    .map(({ name }) => [name, readFileSync(join(folder, name), 'utf8')] as const)
  return {
    objects: { apiVersion: 'v1', kind: 'List', items: [] },
    nodes: [{ name: basename(folder), files: new Map(files) }],
  }
}

function byKind(values: DrawnValues): PublishedValues[string] {
  const kinds: PublishedValues[string] = {}
  for (const value of [...values].sort()) {
    const [kind, digest] = value.split(' ') as [DrawnKind, string]
    kinds[kind] = kinds[kind] ? `${kinds[kind]} ${digest}` : digest
  }
  return kinds
}
