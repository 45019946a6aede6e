import { join } from 'node:path'
import { leftoverFindings } from '../../checks/02-ipvs/leftovers.ts'
import { Snapshot } from '../../checks/snapshot.ts'
import { type Capture, readCaptureFolder } from '../../cluster/capture-folder.ts'
import { projectRoot } from '../../cluster/layout.ts'
import { printIptablesSave } from '../../dataplane/iptables-save.ts'

export const kindCapture = (stage: string) => join(projectRoot, 'test/fixtures/recordings/kind-v1.20.2', stage)

/** A genuine cluster in IPVS mode, with what iptables mode left taken out as `make flush-nat` does. */
export function flushedCapture(): Capture {
  const capture = readCaptureFolder(kindCapture('ipvs-kernel-3-flushed-and-used'))
  const snapshot = new Snapshot(capture)
  const nodes = capture.nodes.map((node) => {
    const view = snapshot.node(node.name)
    const ruleset = structuredClone(view.state.iptables)
    for (const { where, kind, actual = '' } of leftoverFindings(view)) {
      if (!('chain' in where) || kind !== 'stale') continue
      const table = ruleset.get(where.table)
      const chain = table?.get(where.chain)
      if (actual.startsWith(':')) table?.delete(where.chain)
      else if (chain) chain.rules = chain.rules.filter(({ spec }) => `-A ${where.chain} ${spec}` !== actual)
    }
    const files = new Map(node.files).set('iptables-save', printIptablesSave(ruleset))
    return { ...node, files }
  })
  return { ...capture, nodes }
}

/** The capture with one file of one node changed; the change must change something. */
export function breakFile(capture: Capture, node: string, file: string, edit: (text: string) => string): Capture {
  const nodes = capture.nodes.map((entry) => {
    if (entry.name !== node) return entry
    const before = entry.files.get(file) ?? ''
    const after = edit(before)
    if (after === before) throw new Error(`the edit of ${file} changed nothing`)
    return { ...entry, files: new Map(entry.files).set(file, after) }
  })
  return { ...capture, nodes }
}
