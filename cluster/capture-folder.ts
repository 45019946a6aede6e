import { existsSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../host/main.ts'
import { readPlainFile } from '../host/plain-file.ts'

/**
 * What one node reported, by the name of the file in the capture (`iptables-save`, `ip-addr.json`,
 * …).
 */
export interface NodeFiles {
  name: string
  files: Map<string, string>
  /** Why this node could not be read, in one sentence; its files are then incomplete. */
  trouble?: string
}

/** A whole cluster at one moment: the API objects as a v1 List and what each node reported. */
export interface Capture {
  objects: { apiVersion: 'v1'; kind: 'List'; items: unknown[] }
  nodes: NodeFiles[]
  /** Milliseconds since the epoch; absent for a capture read from a folder. */
  takenAt?: number
}

/**
 * Names of Nodes by the rules of the API (RFC 1123): a learner's cluster must not choose where
 * files are written.
 */
const NODE_NAME = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/

/**
 * Reads a capture folder (`objects.json` and `nodes/<node>/<file>`). Every file of a node is read,
 * also unknown ones.
 * @throws Refusal when the folder, its objects or its nodes are missing or are not JSON.
 */
export function readCaptureFolder(folder: string): Capture {
  const objectsFile = join(folder, 'objects.json')
  const nodesFolder = join(folder, 'nodes')
  for (const path of [folder, objectsFile, nodesFolder])
    if (!existsSync(path))
      throw new Refusal(`"${path}" is missing: give a folder that \`make capture\` wrote.`)
  // Links could lead out of the capture, to files of the user who reads it.
  if (!lstatSync(nodesFolder).isDirectory())
    throw new Refusal(`"${nodesFolder}" is not a folder: take the capture again.`)
  if (!lstatSync(objectsFile).isFile())
    throw new Refusal(`"${objectsFile}" is not a regular file: take the capture again.`)
  const nodes = readdirSync(nodesFolder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => ({ name, files: readNodeFolder(join(nodesFolder, name)) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  if (nodes.length === 0)
    throw new Refusal(`"${nodesFolder}" contains no node: take the capture again.`)
  return { objects: { apiVersion: 'v1', kind: 'List', items: readListItems(objectsFile) }, nodes }
}

function readListItems(file: string): unknown[] {
  const text = readPlainFile(file)
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw new Refusal(`"${file}" is not JSON: take the capture again.`)
  }
  const items =
    typeof json === 'object' && json !== null && 'items' in json ? json.items : undefined
  if (!Array.isArray(items))
    throw new Refusal(`"${file}" is not a v1 List of objects: take the capture again.`)
  return items
}

/** The files of one node, by name. */
function readNodeFolder(folder: string): Map<string, string> {
  const names = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile())
  return new Map(names.map(({ name }) => [name, readPlainFile(join(folder, name))]))
}

/**
 * Writes a capture in the same format; creates missing folders and replaces files of the same name.
 */
export function writeCaptureFolder(folder: string, capture: Capture): void {
  for (const { name, files } of capture.nodes) {
    if (!NODE_NAME.test(name))
      throw new Refusal(`Node "${name}" can't name a folder: its files were not written.`)
    const nodeFolder = join(folder, 'nodes', name)
    mkdirSync(nodeFolder, { recursive: true })
    for (const [file, text] of files) writeFileSync(join(nodeFolder, file), text)
  }
  writeFileSync(join(folder, 'objects.json'), `${JSON.stringify(capture.objects, null, 1)}\n`)
}
