import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { Cluster } from '../driver.ts'

/** A node's kernel can't do what a mode needs; nothing was changed. The message says which node and what is missing. */
export class ModeUnsupported extends Error {}

/**
 * Proves by function that the kernel has IPVS with this scheduler and ip_set, from inside the node's own network namespace:
 * /proc/net/ip_vs appears with ip_vs, and a virtual server can be made and is taken away again (what kube-proxy itself
 * tries since 1.27, with the same test address of RFC 5737). Without ipvsadm the scheduler's module must be loaded.
 */
const ipvsProbe = `
scheduler=$1
modprobe -a ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh "ip_vs_$scheduler" nf_conntrack ip_set xt_set dummy >/dev/null 2>&1
[ -e /proc/net/ip_vs ] || { echo 'its kernel has no IPVS (module ip_vs)'; exit 3; }
if command -v ipvsadm >/dev/null; then
  ipvsadm -A -t 198.51.100.0:20000 -s "$scheduler" 2>/dev/null ||
    { echo "its kernel has no IPVS scheduler \\"$scheduler\\" (module ip_vs_$scheduler)"; exit 3; }
  ipvsadm -D -t 198.51.100.0:20000
else
  [ -d "/sys/module/ip_vs_$scheduler" ] || grep -qs "/ip_vs_$scheduler\\.ko" "/lib/modules/$(uname -r)/modules.builtin" ||
    { echo "its kernel has no IPVS scheduler \\"$scheduler\\" (module ip_vs_$scheduler)"; exit 3; }
fi
if command -v ipset >/dev/null; then
  ipset list -n >/dev/null 2>&1 || { echo 'its kernel has no ipset (module ip_set)'; exit 3; }
else
  [ -d /sys/module/ip_set ] || { echo 'its kernel has no ipset (module ip_set)'; exit 3; }
fi
`

const iptablesProbe = `
iptables-save -t nat >/dev/null 2>&1 || { echo 'its kernel has no iptables nat table (module iptable_nat or nft_chain_nat)'; exit 3; }
`

/**
 * Makes sure that every node can run the mode, before anything is changed.
 * @throws ModeUnsupported naming each node that can't, and why
 */
export async function requireModules(
  cluster: Cluster,
  nodes: readonly string[],
  mode: SwitchedMode,
  scheduler: string,
) {
  const script = mode === 'ipvs' ? ipvsProbe : iptablesProbe
  const answers = await Promise.all(
    nodes.map(async (node) => {
      const { exitCode, stdout, stderr } = await cluster.exec(node, ['sh', '-c', script, 'sh', scheduler], {
        timeoutMs: 60_000,
      })
      if (exitCode === 0) return undefined
      const reason = stdout.trim() || stderr.trim().split('\n').at(-1) || `the check ended with ${exitCode}`
      return `${node}: ${reason}`
    }),
  )
  const faults = answers.filter((fault) => fault !== undefined)
  if (faults.length > 0)
    throw new ModeUnsupported(`Mode "${mode}" can't run here, so nothing was changed (${faults.join('; ')}).`)
}
