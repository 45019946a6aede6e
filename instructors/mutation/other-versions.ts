import type { Capture } from '../../cluster/capture-folder.ts'
import { printIpAddr } from '../../dataplane/ip-addr.ts'
import { printIpsetSave } from '../../dataplane/ipset-save.ts'
import { printIptablesSave, type Ruleset } from '../../dataplane/iptables-save.ts'
import { printIpvsadmSave, type VirtualServer, virtualServerKey } from '../../dataplane/ipvsadm-save.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { type NodeView, Snapshot } from '../../grading/snapshot.ts'

/** Versions of kube-proxy whose rules differ from each other somewhere. */
export const OTHER_VERSIONS = [20, ...Array.from({ length: 14 }, (_, index) => 23 + index)].map(
  (minor) => `v1.${minor}.0`,
)

/** A good capture as it would have been under another version of kube-proxy. */
export function underVersion(capture: Capture, version: string): Capture {
  const objects = { ...capture.objects, items: capture.objects.items.map((item) => withVersion(item, version)) }
  const before = new Snapshot(capture)
  const snapshot = new Snapshot({ ...capture, objects })
  const nodes = snapshot.nodes.map((node, index) => {
    const files = new Map(capture.nodes[index]?.files)
    const { mode } = node
    if (mode !== 'ipvs' && mode !== 'iptables') return { name: node.name, files }
    const { iptables, ipsets, virtualServers, links } = evaluate(node, mode).expected
    files.set('iptables-save', printIptablesSave(withForeign(node, iptables), { counters: true }))
    if (mode === 'ipvs') {
      files.set('ipset-save', printIpsetSave(ipsets))
      files.set('ipvsadm-save', printIpvsadmSave([...virtualServers, ...byHand(before.node(node.name), mode)]))
      const own = links.map(({ name }) => name)
      const kept = node.state.links.filter(({ name }) => !own.includes(name))
      const made = links.map((link) => ({
        ...node.state.links.find(({ name }) => name === link.name),
        ...link,
        flags: ['BROADCAST', 'NOARP'],
      }))
      files.set('ip-addr.json', printIpAddr([...kept, ...made]))
    }
    return { name: node.name, files }
  })
  return { ...capture, objects, nodes }
}

/** Virtual servers that are not kube-proxy's stay, as those that lab 4 has its reader build. */
function byHand(node: NodeView, mode: 'ipvs' | 'iptables'): VirtualServer[] {
  const own = new Set(evaluate(node, mode).expected.virtualServers.map(virtualServerKey))
  return node.state.virtualServers.filter((server) => !own.has(virtualServerKey(server)))
}

/** Foreign rules in built-in chains remain, after kube-proxy's own jumps. */
function withForeign({ state }: NodeView, predicted: Ruleset): Ruleset {
  const ruleset = structuredClone(predicted)
  for (const [name, table] of state.iptables) {
    const target = ruleset.get(name) ?? new Map()
    ruleset.set(name, target)
    for (const [chain, { rules, ...rest }] of table) {
      if (/^KUBE-(?!KUBELET|IPTABLES-HINT)/.test(chain)) continue
      const foreign = rules.filter(({ spec }) => !/-j KUBE-/.test(spec))
      const made = target.get(chain)
      target.set(chain, { ...rest, ...made, rules: [...(made?.rules ?? []), ...foreign] })
    }
  }
  return ruleset
}

const IMAGE = /("image":\s*"[^"]*kube-proxy[^":]*:)v[^"]+"/g
const NODE_INFO = /("kube(?:Proxy|let)Version":\s*")v[^"]+"/g

function withVersion(item: unknown, version: string): unknown {
  const text = JSON.stringify(item)
  return JSON.parse(text.replace(IMAGE, `$1${version}"`).replace(NODE_INFO, `$1${version}"`))
}
