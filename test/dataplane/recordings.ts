import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { type CapturedNode, readCapturedNode } from '../../dataplane/capture.ts'

/** Where the recordings of genuine kube-proxies stand. */
export const RECORDINGS = join(import.meta.dirname, '../../data/recordings')

/** Every file of the recordings with this name, by its path below the recordings. */
export function recordedFiles(name: string): { path: string; text: string }[] {
  return readdirSync(RECORDINGS, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name === name)
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path: relative(RECORDINGS, path), text: readFileSync(path, 'utf8') }))
}

/** Reads the node recorded in a folder below the recordings, as `v1.30.3/ipvs/web-lb`. */
export function recordedNode(folder: string): CapturedNode {
  const path = join(RECORDINGS, folder)
  return readCapturedNode(new Map(readdirSync(path).map((name) => [name, readFileSync(join(path, name), 'utf8')])))
}
