import type { KernelMode } from '../../dataplane/kube-proxy/mode-ownership.ts'

import { programText } from '../../host/program-text.ts'
import type { NodeAccess } from '../driver.ts'
import { runOnNode } from '../node-script.ts'

/**
 * Shell: tests whether a module is compiled in, loaded, or present by its symbols, because a kernel
 * without module files may also contain it.
 */
export const HAS_MODULE = programText('cluster/kube-proxy/has-module.sh')

/**
 * Prints those of its arguments that are no modules of this kernel, neither loaded nor compiled in
 * nor to be loaded. Loads none.
 */
export const missingModulesScript =
  HAS_MODULE + programText('cluster/kube-proxy/missing-modules.sh')

/**
 * Tests, by using them, that the kernel supports the expressions that kube-proxy writes in mode
 * nftables, inside the node's own network namespace: with `nft -c` the kernel checks a table
 * without adding it. Without nft, the modules must exist. kube-proxy itself requires Linux 5.13
 * (pkg/proxy/nftables), because distributions with an older kernel may have an nft that crashes on
 * its rules.
 */
export const nftProbe = HAS_MODULE + programText('cluster/kube-proxy/probe-nftables.sh')

/**
 * Tests, by using them, that the kernel has IPVS with this scheduler and ip_set, inside the node's
 * own network namespace: /proc/net/ip_vs appears with ip_vs, and a virtual server is created and
 * removed (kube-proxy does the same since 1.27, with the same test address of RFC 5737). Without
 * ipvsadm the scheduler's module must exist.
 */
const ipvsProbe = HAS_MODULE + programText('cluster/kube-proxy/probe-ipvs.sh')

const iptablesProbe = programText('cluster/kube-proxy/probe-iptables.sh')

/** "a", "a and b", "a, b and c". */
function enumerated(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}

/**
 * What the kernels of nodes lack for a mode, in one clause that names the nodes; undefined if every
 * node can run it. If all nodes share a kernel, one is enough.
 */
export async function modeLacks(
  cluster: NodeAccess,
  nodes: readonly string[],
  mode: KernelMode,
  scheduler: string,
): Promise<string | undefined> {
  const script = { ipvs: ipvsProbe, iptables: iptablesProbe, nftables: nftProbe }[mode]
  const lacking = new Map<string, string[]>()
  const probed = cluster.capabilities.sharedKernel ? nodes.slice(0, 1) : nodes
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
        cluster.capabilities.sharedKernel && stdout.trim()
          ? nodes
          : [...(lacking.get(reason) ?? []), node]
      lacking.set(reason, [...those].sort())
    }),
  )
  const faults = [...lacking].map(
    ([reason, names]) => `the kernel of ${enumerated(names)} ${reason}`,
  )
  return faults.length === 0 ? undefined : faults.join('; ')
}
