import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { CAPTURE_FILES, readCapturedNode } from '../dataplane/capture.ts'
import type { Family } from '../dataplane/ip-address.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { UserError } from '../host/main.ts'
import { isFolder, readPlainFile } from '../host/plain-file.ts'

/**
 * The state of a node in a capture, with the rules of one address family. `capture` may also be the folder of one node's files;
 * `node` may be omitted if there is only one.
 * @throws UserError with every error in the node's files, or with the names of the nodes that the capture has
 */
export function recordedNode(capture: string, node: string | undefined, family: Family | undefined): NodeState {
  const folder = nodeFolder(capture, node)
  const present = CAPTURE_FILES.filter((name) => existsSync(join(folder, name)))
  const files = new Map(present.map((name) => [name, readPlainFile(join(folder, name))]))
  const { state, faults } = readCapturedNode(files, { family })
  if (faults.length > 0)
    throw new UserError(`"${folder}" cannot be read:\n${faults.map(({ message }) => `  ${message}`).join('\n')}`)
  return state
}

function nodeFolder(capture: string, node: string | undefined): string {
  if (!isFolder(capture)) throw new UserError(`"${capture}" is not a folder; make a capture with: make capture`)
  if (existsSync(join(capture, 'iptables-save'))) return capture
  const nodes = join(capture, 'nodes')
  if (!isFolder(nodes))
    throw new UserError(
      `"${capture}" is not a capture, it has neither "nodes" nor "iptables-save"; make one with: make capture`,
    )
  const names = readdirSync(nodes).filter((name) => isFolder(join(nodes, name)))
  const chosen = node ?? (names.length === 1 ? names[0] : undefined)
  if (chosen === undefined) throw new UserError(`--node must be given; "${capture}" has: ${names.join(', ') || 'none'}`)
  if (names.includes(chosen)) return join(nodes, chosen)
  throw new UserError(`"${chosen}" is not a node of "${capture}"; it has: ${names.join(', ') || 'none'}`)
}
