import { leftoverFindings } from '../../checks/02-ipvs/mode-switch.ts'
import type { Capture } from '../../cluster/capture-folder.ts'
import { printIptablesSave } from '../../dataplane/iptables-save.ts'
import { Snapshot } from '../../grading/snapshot.ts'

/** A recorded cluster in IPVS mode, with what iptables mode left taken out as `make flush-nat` does. */
export function flushed(capture: Capture): Capture {
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
    return { ...node, files: new Map(node.files).set('iptables-save', printIptablesSave(ruleset)) }
  })
  return { ...capture, nodes }
}
