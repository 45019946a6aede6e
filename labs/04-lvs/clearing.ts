// The way back: takes away from every machine what a learner of this lab has put there.

import { ApiException, PatchStrategy, setHeaderOptions } from '../../cluster/kubernetes.ts'
import { runOnNode } from '../../cluster/node-script.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import { hasOutside, OUTSIDE } from '../../host/outside.ts'

/** Virtual servers of this lab's addresses and marks, the addresses, routes, tunl0, and IPVS as it was before anybody used it. */
const clearNode = `
servers=$(ipvsadm -Sn 2>/dev/null)
case $servers in *'-A -f '* | *' 192.0.2.'*)
  printf '%s\\n' "$servers" | awk '$1 == "-A" && ($2 == "-f" || $3 ~ /^192[.]0[.]2[.]/) { print "-D", $2, $3 }' | ipvsadm -R 2>/dev/null ;;
esac
ip -force -batch - 2>/dev/null <<'END'
address flush to 192.0.2.0/24
route del 198.18.0.0/16
route del local 198.19.0.0/16 dev lo
link set tunl0 down
END
[ ! -e /proc/sys/net/ipv4/vs/conntrack ] || echo 0 >/proc/sys/net/ipv4/vs/conntrack
true`

const clearOutside = `
ip -force -batch - 2>/dev/null <<'END'
route del 192.0.2.0/24
route del 198.19.0.0/16
route del local 198.18.0.0/16 dev lo
END
true`

/** Clears every node and the machine outside; what is not there does not matter. */
export async function clearMachines({ cluster }: LabBench): Promise<void> {
  const nodes = (await cluster.nodes()).map((node) => runOnNode(cluster, node, clearNode))
  const others = hasOutside(cluster) ? [runOnNode(cluster, OUTSIDE, clearOutside)] : []
  await Promise.all([...nodes, ...others])
}

const kubeProxy = { namespace: 'kube-system', name: 'kube-proxy' }

/** Writes ipvs.excludeCIDRs into kube-proxy's configuration; it is read when kube-proxy starts. */
export async function excludeRanges({ client: { core } }: LabBench, ranges: readonly string[]): Promise<void> {
  try {
    const { data } = await core.readNamespacedConfigMap(kubeProxy)
    const before = data?.['config.conf'] ?? ''
    const after = before.replace(/^( *excludeCIDRs:).*(?:\n *- .*)*/m, `$1 ${JSON.stringify(ranges)}`)
    const asBefore = ranges.length === 0 && !/^ *excludeCIDRs: *(?:\[[^\]]|\n *-)/m.test(before)
    if (after === before || asBefore) return
    const merge = setHeaderOptions('Content-Type', PatchStrategy.MergePatch)
    await core.patchNamespacedConfigMap({ ...kubeProxy, body: { data: { 'config.conf': after } } }, merge)
  } catch (error) {
    // Without that ConfigMap there is nothing to exclude from.
    if (!(error instanceof ApiException && error.code === 404)) throw error
  }
}
