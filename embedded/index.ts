// The public interface of the embedded cluster; no other file of this folder may be imported. See
// README.md.

export type { NodeObject, ServiceObject } from './controllers/resources.ts'
export { leakingDescriptors } from './inherited-descriptors.ts'
export { assignments } from './load-balancer/assignments.ts'
export {
  type BalancedAddress,
  balancedAddresses,
  requiredHealthChecks,
} from './load-balancer/load-balancer.ts'
export {
  CONFINE,
  type Confinement,
  detectConfinement,
  remainingAccess,
} from './machine/confinement.ts'
export { startMachine } from './machine/guest-machine.ts'
export { type HostKernelTrouble, hostKernelTrouble } from './machine/host-kernel.ts'
export { GUEST_MEGABYTES, type MemoryPlace, memoryPlaces } from './machine/host-resources.ts'
export { KERNELS, type KernelName } from './machine/kernel.ts'
export { umlTrouble } from './machine/kernel-package.ts'
export type { Machine } from './machine/machine.ts'
export { makeOffline } from './machine/offline.ts'
export { unpackPackages } from './machine/package-tree.ts'
export { ensurePackages, provePackages, requireSupport, Unsupported } from './machine/packages.ts'
export { firstModules, laterModules } from './network/topology.ts'
export {
  type ExecEndpoint,
  execOnNode,
  scriptOnNode,
  shellOnNode,
  syncedOnNode,
} from './node-exec.ts'
export type { DaemonMessage, DaemonOptions } from './state-file.ts'
export {
  daemonOf,
  genuineAnnotation,
  readDaemonState,
  removeClusterFolder,
  type UnexpectedEnd,
  unexpectedEnd,
} from './state-file.ts'

/**
 * What kube-proxy writes for a change; loaded when it is used, because every command imports this
 * file, and few need the proxiers.
 */
export async function proxierInputs() {
  const { restoreCommand } = await import('./kube-proxy/guest-node.ts')
  const { tableInput } = await import('./kube-proxy/iptables-proxier.ts')
  const { addressInputs, ipsetInput, serverInputs } = await import('./kube-proxy/ipvs-proxier.ts')
  return { restoreCommand, tableInput, addressInputs, ipsetInput, serverInputs }
}

/**
 * A certificate that is signed by itself, with its key, for these names and addresses; loaded when
 * it is used, as above.
 */
export async function selfSignedTls(names: readonly string[]) {
  const { createServerTls } = await import('./apiserver/certificate.ts')
  return createServerTls(names)
}
