// The one door of the embedded cluster: what the rest of the project may use of it. README.md beside this file says what it is.

// Which address of a load balancer leads to which nodes: kind's load balancer works by the same rules.
export type { Node, Service } from './controllers/resources.ts'
// A running cluster: its daemon, and commands on its nodes.
export type { DaemonMessage, DaemonOptions } from './daemon-messages.ts'
export { restoreCommand } from './kube-proxy/guest-node.ts'
export { tableInput } from './kube-proxy/iptables-input.ts'
export { addressInputs, ipsetInput, serverInputs } from './kube-proxy/ipvs-input.ts'
export { genuineAnnotation } from './kube-proxy/manifests.ts'
export { balancedAddresses, healthChecks, healthKey } from './load-balancer/balanced-addresses.ts'
export type { BalancedAddress } from './load-balancer/routes.ts'
// A single kernel without a cluster, for measuring, and how kube-proxy's state is written to one.
export type { GuestProcess, Machine } from './machine/machine.ts'
export { unpackPackages } from './machine/package-tree.ts'
// Where it can run, and what it needs there.
export { ensurePackages, requireSupport, Unsupported } from './machine/packages.ts'
export { startMachine } from './machine/uml-machine.ts'
export { firstModules, laterModules } from './network/modules.ts'
export { type ExecEndpoint, execOnNode, shellOnNode } from './node-exec.ts'
export { scriptOnNode, syncedOnNode } from './node-script.ts'
export { daemonOf, readDaemonState, removeClusterFolder } from './state-file.ts'
