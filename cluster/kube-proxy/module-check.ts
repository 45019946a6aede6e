import type { KernelMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { Cluster, NodeAccess } from '../driver.ts'
import { runOnNode } from '../node-script.ts'

/**
 * Shell: tests whether a module is compiled in, loaded, or present by its symbols, because a kernel without module files may
 * also contain it.
 */
export const HAS_MODULE = `has_module() {
  [ -d "/sys/module/$1" ] || grep -qs "/$1\\.ko" "/lib/modules/$(uname -r)/modules.builtin" ||
    grep -qsE "( |\\[)$1(_[a-z_]+|\\])" /proc/kallsyms
}`

/** Prints those of its arguments that are no modules of this kernel, neither loaded nor compiled in nor to be loaded. Loads none. */
export const missingModulesScript = `${HAS_MODULE}
for module; do
  has_module "$module" || grep -qs "/$module\\.ko" "/lib/modules/$(uname -r)/modules.dep" || echo "$module"
done
`

/**
 * Tests, by using them, that the kernel supports the expressions that kube-proxy writes in mode nftables, inside the node's
 * own network namespace: with `nft -c` the kernel checks a table without adding it. Without nft, the modules must exist.
 * kube-proxy itself requires Linux 5.13 (pkg/proxy/nftables), because distributions with an older kernel may have an nft
 * that crashes on its rules.
 */
export const nftProbe = `${HAS_MODULE}
release=$(uname -r)
major=\${release%%.*}; minor=\${release#*.}; minor=\${minor%%[!0-9]*}
[ "$major" -gt 5 ] || { [ "$major" -eq 5 ] && [ "$minor" -ge 13 ]; } ||
  { echo "nftables as kube-proxy requires it (Linux 5.13 or newer, this is $release)"; exit 3; }
modprobe -a nf_tables nft_chain_nat nft_masq nft_numgen nft_ct nft_fib_ipv4 nft_reject_ipv4 >/dev/null 2>&1
if command -v nft >/dev/null; then
  nft -c -f - >/dev/null 2>&1 <<'END-OF-TABLE' || { echo 'NAT in nf_tables (module nft_chain_nat)'; exit 3; }
table ip kube-service-labs-probe {
  map services { type ipv4_addr . inet_proto . inet_service : verdict; }
  chain endpoint { meta l4proto tcp dnat to 198.51.100.1:80; }
  chain service { numgen random mod 1 vmap { 0 : goto endpoint }; }
  chain prerouting { type nat hook prerouting priority dstnat; ip daddr . meta l4proto . th dport vmap @services; jump service; }
  chain postrouting { type nat hook postrouting priority srcnat; fib saddr type local masquerade fully-random; }
}
END-OF-TABLE
else
  has_module nft_chain_nat || { echo 'NAT in nf_tables (module nft_chain_nat)'; exit 3; }
fi
`

/**
 * Tests, by using them, that the kernel has IPVS with this scheduler and ip_set, inside the node's own network namespace:
 * /proc/net/ip_vs appears with ip_vs, and a virtual server is created and removed (kube-proxy does the same since 1.27,
 * with the same test address of RFC 5737). Without ipvsadm the scheduler's module must exist.
 */
const ipvsProbe = `${HAS_MODULE}
scheduler=$1; missing=
for module in ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh "ip_vs_$scheduler" nf_conntrack ip_set xt_set dummy; do
  [ -d "/sys/module/$module" ] || missing="$missing $module"
done
[ -z "$missing" ] || modprobe -a $missing >/dev/null 2>&1
[ -e /proc/net/ip_vs ] || { echo 'IPVS (module ip_vs)'; exit 3; }
if command -v ipvsadm >/dev/null; then
  output=$(printf '%s\\n' "-A -t 198.51.100.0:20000 -s $scheduler" '-D -t 198.51.100.0:20000' | ipvsadm -R 2>&1)
  [ -z "$output" ] || { echo 'IPVS scheduler "'"$scheduler"'" (module ip_vs_'"$scheduler)"; exit 3; }
else
  has_module "ip_vs_$scheduler" || { echo 'IPVS scheduler "'"$scheduler"'" (module ip_vs_'"$scheduler)"; exit 3; }
fi
if command -v ipset >/dev/null; then ipset list -n >/dev/null 2>&1; else has_module ip_set; fi ||
  { echo 'ipset (module ip_set)'; exit 3; }
`

const iptablesProbe = `
iptables-save -t nat >/dev/null 2>&1 || { echo 'iptables nat table (module iptable_nat or nft_chain_nat)'; exit 3; }
`

/** "a", "a and b", "a, b and c". */
function enumerated(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}

/**
 * What the kernels of nodes lack for a mode, in one clause that names the nodes; undefined if every node can run it. If all
 * nodes share a kernel, one is enough.
 */
export async function modeLacks(
  cluster: NodeAccess & Pick<Cluster, 'sharedKernel'>,
  nodes: readonly string[],
  mode: KernelMode,
  scheduler: string,
): Promise<string | undefined> {
  const script = { ipvs: ipvsProbe, iptables: iptablesProbe, nftables: nftProbe }[mode]
  const lacking = new Map<string, string[]>()
  const probed = cluster.sharedKernel ? nodes.slice(0, 1) : nodes
  await Promise.all(
    probed.map(async (node) => {
      const { exitCode, stdout, stderr } = await runOnNode(cluster, node, script, {
        args: [scheduler],
      })
      if (exitCode === 0) return
      const reason = stdout.trim()
        ? `has no ${stdout.trim()}`
        : `could not be probed (${stderr.trim().split('\n').at(-1) || `exit code ${exitCode}`})`
      const those =
        cluster.sharedKernel && stdout.trim() ? nodes : [...(lacking.get(reason) ?? []), node]
      lacking.set(reason, [...those].sort())
    }),
  )
  const faults = [...lacking].map(
    ([reason, names]) => `the kernel of ${enumerated(names)} ${reason}`,
  )
  return faults.length === 0 ? undefined : faults.join('; ')
}
