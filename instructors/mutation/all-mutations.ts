import type { Capture } from '../../cluster/capture-folder.ts'
import { iptablesEdits } from './iptables-edits.ts'
import { ipsetEdits, ipvsEdits, linkEdits } from './ipvs-edits.ts'
import { type FileEdit, type Mutation, onNode } from './mutation.ts'
import { objectMutations } from './object-mutations.ts'

const EDITS: readonly [file: string, edits: (text: string) => Iterable<FileEdit>][] = [
  ['iptables-save', iptablesEdits],
  ['ipset-save', ipsetEdits],
  ['ipvsadm-save', ipvsEdits],
  ['ip-addr.json', linkEdits],
  ['proxyMode', proxyEdits],
]

/** Every single mutation of these nodes, and of every API object. */
export function* mutationsOf(capture: Capture, nodes: readonly string[]): Generator<Mutation> {
  for (const node of nodes) yield* nodeMutations(capture, node)
  yield* objectMutations(capture)
}

function* nodeMutations(capture: Capture, node: string): Generator<Mutation> {
  const files = capture.nodes.find(({ name }) => name === node)?.files
  for (const [file, edits] of EDITS) {
    const text = files?.get(file)
    if (text === undefined || text === '') continue
    for (const edit of edits(text)) if (edit.edit(text) !== text) yield onNode(node, file, edit)
  }
}

function* proxyEdits(text: string): Generator<FileEdit> {
  const other = text.trim() === 'ipvs' ? 'iptables' : 'ipvs'
  const words = ['proxyMode', 'proxier', 'mode']
  yield { operator: 'other proxier', place: 'kube-proxy', detail: other, words, edit: () => other }
}
