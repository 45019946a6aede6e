import type { GuestProcess, Machine, Placement } from '../machine/machine.ts'
import {
  bridgeLines,
  cpuinfoCommand,
  type NodePlan,
  nodeCommand,
  nodeFiles,
  nodeMounts,
  outside,
} from './node-setup.ts'
import { AddressPool, attachWork, detachWork, GuestWorker, guestScript, type PodLink, podLink } from './pod-link.ts'

/** The modules of a cluster in its default state. */
export const firstModules: readonly string[] = [
  ...['bridge', 'veth', 'ip_tables', 'iptable_nat', 'iptable_filter', 'iptable_mangle', 'ipt_REJECT'],
  ...['xt_comment', 'xt_conntrack', 'xt_mark', 'xt_MASQUERADE', 'xt_nat', 'xt_tcpudp', 'xt_addrtype', 'xt_statistic'],
  ...['xt_nfacct', 'nfnetlink_acct', 'nf_conntrack_netlink'],
]

/**
 * A module that iptables makes kernels up to 6.8 look for, which takes 0.1 s in each node unless it is loaded.
 */
const soughtModule = 'bpfilter'

/** Further modules for labs: IPVS with its schedulers, ipset, more matches. */
export const laterModules: readonly string[] = [
  ...['dummy', 'xt_multiport', 'xt_recent', 'xt_set', 'xt_physdev', 'xt_ipvs', 'xt_LOG', 'xt_REDIRECT', 'xt_limit'],
  ...['ip_vs', 'ip_vs_rr', 'ip_vs_wrr', 'ip_vs_lc', 'ip_vs_wlc', 'ip_vs_lblc', 'ip_vs_lblcr', 'ip_vs_sh', 'ip_vs_dh'],
  ...['ip_vs_sed', 'ip_vs_nq', 'ip_vs_fo', 'ip_vs_ovf', 'ip_vs_mh', 'nf_log_syslog'],
  ...['ip_set', 'ip_set_hash_ip', 'ip_set_hash_ipport', 'ip_set_hash_ipportip', 'ip_set_hash_ipportnet'],
  ...['ip_set_hash_net', 'ip_set_hash_netport', 'ip_set_bitmap_port', 'ip_set_list_set'],
]

/** Resolves when a node reports that it is set up; rejects with its error output if it ends instead. */
function readiness(name: string, process: GuestProcess): Promise<void> {
  let errors = ''
  return new Promise((resolve, reject) => {
    process.stdout.on('data', (bytes: Buffer) => {
      if (bytes.toString().includes('ready')) resolve()
    })
    process.stderr.on('data', (bytes: Buffer) => {
      errors += bytes
    })
    void process.exited.then(() => reject(new Error(`node "${name}" could not be set up: ${errors.trim()}`)))
  })
}

/**
 * Loads the kernel modules, makes the bridge and the nodes. Each node has its own network, mount, uts and ipc namespace, a
 * writable layer over the guest's files, kind's routes and firewall.
 */
export async function createNetwork(machine: Machine, nodes: readonly NodePlan[]): Promise<Network> {
  const { folders, mounts } = nodeMounts(machine, nodes)
  const shared = ['/run/nodes', '/run/pods']
  await machine.write([
    ...nodes.flatMap((node) => nodeFiles(node, nodes)),
    ...[...shared, ...folders].map((folder) => ({ path: `${folder}/`, content: '' })),
  ])
  // Mounts below a shared folder that go away here go away in all namespaces, too (they are made as slaves).
  const script = [
    ...(machine.ownKernel ? loadFirst : []),
    ...shared.map((folder) => `mount --bind --make-shared ${folder} ${folder} || exit 1`),
    outside.script,
    cpuinfoCommand(nodes),
    guestScript([{ mounts, links: bridgeLines(nodes) }]),
  ].join('\n')
  const { exitCode, stderr } = await machine.run(['sh', '-c', script])
  if (exitCode !== 0) throw new Error(`The cluster's network could not be made: ${stderr.trim()}`)
  const processes = new Map<string, number>()
  await Promise.all(
    nodes.map(async ({ name }) => {
      const process = await machine.spawn(nodeCommand(name), {}, { noInput: true })
      processes.set(name, process.pid)
      await readiness(name, process)
    }),
  )
  // Loaded while the nodes are in use already; a kernel without IPVS also makes a cluster.
  if (machine.ownKernel) machine.run(['modprobe', '-a', ...laterModules]).catch(() => {})
  return new Network(machine, nodes, processes)
}

const loadFirst = [
  `for sought in /lib/modules/*/kernel/net/*/${soughtModule}.ko*; do [ -e "$sought" ] && sought=${soughtModule} || sought=; done`,
  `modprobe -a ${firstModules.join(' ')} $sought || exit 1`,
]

/** The nodes of a cluster as namespaces on one bridge, and the links of the Pods on them. */
export class Network {
  readonly nodes: readonly NodePlan[]
  /** Does further work in the guest, together with all other pending work. */
  readonly worker: GuestWorker
  private readonly processes: ReadonlyMap<string, number>
  private readonly pools: ReadonlyMap<string, AddressPool>

  constructor(machine: Machine, nodes: readonly NodePlan[], processes: ReadonlyMap<string, number>) {
    this.nodes = nodes
    this.worker = new GuestWorker(machine)
    this.processes = processes
    this.pools = new Map(nodes.map(({ name, podCIDR }) => [name, new AddressPool(podCIDR)]))
  }

  /** The namespaces of a node. Throws for an unknown one. */
  placement(node: string): Placement {
    const pid = this.processes.get(node)
    if (pid === undefined) throw new Error(`there is no node "${node}"`)
    return { pid }
  }

  /** A link with a new address for a Pod. Throws if the node has none left. */
  reserve(node: string, podUid: string): PodLink {
    const plan = this.nodes.find(({ name }) => name === node)
    const pool = this.pools.get(node)
    if (!plan || !pool) throw new Error(`there is no node "${node}"`)
    return podLink(podUid, pool.take(), plan)
  }

  /** Creates the Pod's namespace and joins it to its node. */
  attach(link: PodLink): Promise<void> {
    return this.worker.perform(attachWork(link))
  }

  /** Removes the link and frees its address. */
  async detach(link: PodLink): Promise<void> {
    await this.worker.perform(detachWork(link))
    this.pools.get(link.node.name)?.release(link.address)
  }
}
