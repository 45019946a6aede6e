import type { Capture } from '../../cluster/capture-folder.ts'
import { printIpsetSave } from '../../dataplane/ipset-save.ts'
import { printIptablesSave, type Ruleset } from '../../dataplane/iptables-save.ts'
import { printIpvsadmSave, virtualServerKey } from '../../dataplane/ipvsadm-save.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { Snapshot, stateOf } from '../../grading/snapshot.ts'
import type { GoodCapture } from './good-captures.ts'

/** A good capture as it would have been under another version of kube-proxy. */
export function underVersion({ capture, snapshot: before }: GoodCapture, version: string): Capture {
  const objects = {
    ...capture.objects,
    items: capture.objects.items.map((item) => withVersion(item, version)),
  }
  const snapshot = new Snapshot({ ...capture, objects })
  const nodes = snapshot.nodes.map((node, index) => {
    const { name, mode } = node
    const files = new Map(capture.nodes[index]?.files)
    if (mode !== 'ipvs' && mode !== 'iptables') return { name, files }
    const { iptables, ip6tables, ipsets, virtualServers } = evaluate(node, mode).expected
    const current = stateOf(node)
    files.set(
      'iptables-save',
      printIptablesSave(withForeign(current.iptables, iptables), { counters: true }),
    )
    if (ip6tables && current.ip6tables)
      files.set(
        'ip6tables-save',
        printIptablesSave(withForeign(current.ip6tables, ip6tables), { counters: true }),
      )
    if (mode === 'iptables') return { name, files }
    files.set('ipset-save', printIpsetSave(ipsets))
    // Virtual servers that are not kube-proxy's are kept, for example those of lab 4.
    const own = new Set(
      evaluate(before.node(name), mode).expected.virtualServers.map(virtualServerKey),
    )
    const others = current.virtualServers.filter((server) => !own.has(virtualServerKey(server)))
    files.set('ipvsadm-save', printIpvsadmSave([...virtualServers, ...others]))
    return { name, files }
  })
  return { ...capture, objects, nodes }
}

/** Foreign rules in built-in chains remain, after kube-proxy's own jumps. */
function withForeign(current: Ruleset, predicted: Ruleset): Ruleset {
  const ruleset = structuredClone(predicted)
  for (const [name, table] of current) {
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
