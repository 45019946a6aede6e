import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { readCaptureFolder, readNodeFolder } from '../../cluster/capture-folder.ts'
import { groupBy } from '../../dataplane/collections.ts'
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
export async function gatherPublished(
  folder = join(projectRoot, 'data'),
): Promise<PublishedValues> {
  const found: PublishedValues = {}
  const entries = readdirSync(folder, { withFileTypes: true })
  const path = relative(projectRoot, folder)
  const has = (name: string) => entries.some((entry) => entry.name === name)
  const note = (source: string, values: DrawnValues) => {
    if (values.size > 0) found[source] = byKind(values)
  }
  for (const { name } of entries.filter(
    (entry) => entry.isFile() && entry.name.endsWith('.labgrade'),
  )) {
    const { captures } = await readSubmission(join(folder, name))
    note(join(path, name), drawnValues([...captures.values()].map(({ capture }) => capture)))
  }
  if (has('objects.json') && has('nodes')) {
    note(path, drawnValues([readCaptureFolder(folder)]))
    return found
  }
  if (OF_A_NODE.some(has)) {
    const node = { name: basename(folder), files: readNodeFolder(folder) }
    note(
      path,
      drawnValues([{ objects: { apiVersion: 'v1', kind: 'List', items: [] }, nodes: [node] }]),
    )
  }
  for (const entry of entries)
    if (entry.isDirectory()) Object.assign(found, await gatherPublished(join(folder, entry.name)))
  return found
}

function byKind(values: DrawnValues): PublishedValues[string] {
  const kinds = groupBy([...values].sort(), (value) => value.split(' ')[0])
  return Object.fromEntries(
    [...kinds].map(([kind, own]) => [kind, own.map((value) => value.split(' ')[1]).join(' ')]),
  )
}

/**
 * Adds the values of everything in data/ to the list of published ones. Those of earlier versions of a file stay, because they
 * remain public. Returns the number of files and folders in the list.
 */
export async function publishValues(): Promise<number> {
  const all: Record<string, Record<string, string>> = {}
  for (const published of [readPublishedValues(), await gatherPublished()])
    for (const [source, kinds] of Object.entries(published))
      for (const [kind, digests] of Object.entries(kinds)) {
        const known = all[source]?.[kind]?.split(' ') ?? []
        const union = [...new Set([...known, ...digests.split(' ')])].sort()
        all[source] = { ...all[source], [kind]: union.join(' ') }
      }
  const sorted = Object.fromEntries(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1)))
  writeFileSync(PUBLISHED_FILE, `${JSON.stringify(sorted, null, 2)}\n`)
  return Object.keys(sorted).length
}
