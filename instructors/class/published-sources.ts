import { type Dirent, readdirSync, readFileSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { readCaptureFolder } from '../../cluster/capture-folder.ts'
import { projectRoot } from '../../host/layout.ts'
import { readSubmission } from '../submission/read-submission.ts'
import { valuesOfSubmission } from './copies.ts'
import { type DrawnKind, DrawnValueReader, type DrawnValues } from './drawn-values.ts'
import type { PublishedValues } from './published.ts'

/** Folders of a checkout that are not published with it. */
const PRIVATE = ['node_modules', '.git', '.cache', '.evidence', 'dist', 'submissions', 'captures']
/** Files that identify a folder with one node's recorded state. */
const OF_A_NODE = ['ip-addr.json', 'ipset-save', 'conntrack', 'kube-proxy.log']

/** The values of every submission, capture and recorded node in the repository. */
export async function gatherPublished(): Promise<PublishedValues> {
  const found: PublishedValues = {}
  await gatherFolder(projectRoot, found)
  return Object.fromEntries(Object.entries(found).filter(([, kinds]) => Object.keys(kinds).length > 0))
}

async function gatherFolder(folder: string, found: PublishedValues): Promise<void> {
  const entries = readdirSync(folder, { withFileTypes: true }).filter(({ name }) => !PRIVATE.includes(name))
  const path = relative(projectRoot, folder)
  const has = (name: string) => entries.some((entry) => entry.name === name)
  for (const { name } of entries.filter((entry) => entry.isFile() && entry.name.endsWith('.labgrade')))
    found[join(path, name)] = printed(await valuesOfFile(join(folder, name)))
  if (has('objects.json') && has('nodes')) {
    const reader = new DrawnValueReader()
    reader.addCapture(readCaptureFolder(folder))
    found[path] = printed(reader.values)
    return
  }
  if (OF_A_NODE.some(has)) found[path] = printed(valuesOfNode(folder, entries))
  for (const entry of entries) if (entry.isDirectory()) await gatherFolder(join(folder, entry.name), found)
}

async function valuesOfFile(file: string): Promise<DrawnValues> {
  const submission = await readSubmission(file)
  // Reads every capture, so that no value is missing.
  for (const submitted of submission.captures.values()) submitted.capture
  return valuesOfSubmission(submission)
}

function valuesOfNode(folder: string, entries: readonly Dirent[]): DrawnValues {
  const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name)
  const texts = new Map(files.map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
  const reader = new DrawnValueReader()
  reader.addCapture({
    objects: { apiVersion: 'v1', kind: 'List', items: [] },
    nodes: [{ name: basename(folder), files: texts }],
  })
  return reader.values
}

const printed = (values: DrawnValues): Partial<Record<DrawnKind, string>> =>
  Object.fromEntries([...values].map(([kind, digests]) => [kind, [...digests].sort().join(' ')]))
