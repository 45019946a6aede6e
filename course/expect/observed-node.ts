import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CAPTURE_FILES, readCapturedNode } from '../../dataplane/capture.ts'
import type { Family } from '../../dataplane/ip-address.ts'
import { DUMMY_LINK } from '../../dataplane/kube-proxy/ipvs/dummy-link.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { UserError } from '../../host/main.ts'
import { isFolder, readPlainFile } from '../../host/plain-file.ts'

/** The folder of one node's files: DIR itself, or DIR/nodes/NODE of a capture. */
export function nodeFolder(directory: string, node: string): string {
  if (!isFolder(directory))
    throw new UserError(`"${directory}" is no folder; give a capture (make capture) or the folder of one node's files.`)
  if (existsSync(join(directory, 'iptables-save'))) return directory
  const folder = join(directory, 'nodes', node)
  if (isFolder(folder)) return folder
  throw new UserError(
    `"${directory}" holds neither "iptables-save" nor "nodes/${node}"; take a capture with: make capture`,
  )
}

/** Reads one node's files; its rules are those of one family. */
export function observedNode(folder: string, family: Family): NodeState {
  const files = new Map<string, string>()
  for (const name of CAPTURE_FILES) {
    const path = join(folder, name)
    if (existsSync(path)) files.set(name, readPlainFile(path))
  }
  const { state, faults } = readCapturedNode(files, { family })
  if (faults.length > 0)
    throw new UserError(
      `"${folder}" cannot be read:\n${faults.map(({ file, message }) => `  ${file}: ${message}`).join('\n')}`,
    )
  return state
}

/** The node's own addresses, those of kube-ipvs0 left out. */
export const ownAddresses = (state: NodeState): string[] =>
  state.links.filter((link) => link.name !== DUMMY_LINK).flatMap((link) => link.addresses.map(({ address }) => address))
