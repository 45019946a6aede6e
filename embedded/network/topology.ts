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

/** What the cluster runs on in its default state. */
export const firstModules: readonly string[] = [
  ...['bridge', 'veth', 'ip_tables', 'iptable_nat', 'iptable_filter', 'iptable_mangle', 'ipt_REJECT'],
  ...['xt_comment', 'xt_conntrack', 'xt_mark', 'xt_MASQUERADE', 'xt_nat', 'xt_tcpudp', 'xt_addrtype', 'xt_statistic'],
  ...['xt_nfacct', 'nfnetlink_acct', 'nf_conntrack_netlink'],
]

/**
 * What iptables has the kernel look for where it knows of it (up to 6.8), which takes a tenth of a second in each node unless it is
 * there already.
 */
const soughtModule = 'bpfilter'

/** What labs need besides: IPVS with its schedulers, ipset, further matches. They come while the nodes are in use already. */
export const laterModules: readonly string[] = [
  ...['dummy', 'xt_multiport', 'xt_recent', 'xt_set', 'xt_physdev', 'xt_ipvs', 'xt_LOG', 'xt_REDIRECT', 'xt_limit'],
  ...['ip_vs', 'ip_vs_rr', 'ip_vs_wrr', 'ip_vs_lc', 'ip_vs_wlc', 'ip_vs_lblc', 'ip_vs_lblcr', 'ip_vs_sh', 'ip_vs_dh'],
  ...['ip_vs_sed', 'ip_vs_nq', 'ip_vs_fo', 'ip_vs_ovf', 'ip_vs_mh', 'nf_log_syslog'],
  ...['ip_set', 'ip_set_hash_ip', 'ip_set_hash_ipport', 'ip_set_hash_ipportip', 'ip_set_hash_ipportnet'],
  ...['ip_set_hash_net', 'ip_set_hash_netport', 'ip_set_bitmap_port', 'ip_set_list_set'],
]

/** The nodes of a cluster as namespaces on one bridge, and the links of the Pods on them. */
export interface Network {
  readonly nodes: readonly NodePlan[]
  /** Does further work in the guest, together with whatever else is to be done at the moment. */
  readonly worker: GuestWorker
  /** Settles when IPVS, ipset and what else labs need is loaded; rejects when the kernel lacks a part. */
  readonly modulesLoaded: Promise<void>
  /** The namespaces of a node. Throws for an unknown one. */
  placement(node: string): Placement
  /** A link with a fresh address for a Pod that is not attached yet. Throws when the node has none left. */
  reserve(node: string, podUid: string): PodLink
  /** Makes the Pod's namespace and joins it to its node. */
  attach(link: PodLink): Promise<void>
  /** Takes the link away and frees its address. */
  detach(link: PodLink): Promise<void>
}

/** Resolves when a node said it is set up; rejects with what it said when it ended instead. */
function readiness(name: string, process: GuestProcess): Promise<void> {
  let said = ''
  return new Promise((resolve, reject) => {
    process.stdout.on('data', (bytes: Buffer) => {
      if (bytes.toString().includes('ready')) resolve()
    })
    process.stderr.on('data', (bytes: Buffer) => {
      said += bytes
    })
    void process.exited.then(() => reject(new Error(`node "${name}" could not be set up: ${said.trim()}`)))
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
  return new GuestNetwork(machine, nodes, processes)
}

const loadFirst = [
  `for sought in /lib/modules/*/kernel/net/*/${soughtModule}.ko*; do [ -e "$sought" ] && sought=${soughtModule} || sought=; done`,
  `modprobe -a ${firstModules.join(' ')} $sought || exit 1`,
]

async function loadModules(machine: Machine): Promise<void> {
  if (!machine.ownKernel) return
  const { exitCode, stderr } = await machine.run(['modprobe', '-a', ...laterModules])
  if (exitCode !== 0) throw new Error(`kernel modules are missing: ${stderr.trim()}`)
}

class GuestNetwork implements Network {
  readonly nodes: readonly NodePlan[]
  readonly worker: GuestWorker
  readonly modulesLoaded: Promise<void>
  private readonly processes: ReadonlyMap<string, number>
  private readonly pools: ReadonlyMap<string, AddressPool>

  constructor(machine: Machine, nodes: readonly NodePlan[], processes: ReadonlyMap<string, number>) {
    this.nodes = nodes
    this.worker = new GuestWorker(machine)
    this.processes = processes
    this.modulesLoaded = loadModules(machine)
    // Whoever needs them asks; a kernel without IPVS still makes a cluster.
    this.modulesLoaded.catch(() => {})
    this.pools = new Map(nodes.map(({ name, podCIDR }) => [name, new AddressPool(podCIDR)]))
  }

  placement(node: string): Placement {
    const pid = this.processes.get(node)
    if (pid === undefined) throw new Error(`there is no node "${node}"`)
    return { pid }
  }

  reserve(node: string, podUid: string): PodLink {
    const plan = this.nodes.find(({ name }) => name === node)
    const pool = this.pools.get(node)
    if (!plan || !pool) throw new Error(`there is no node "${node}"`)
    return podLink(podUid, pool.take(), plan)
  }

  attach(link: PodLink): Promise<void> {
    return this.worker.perform(attachWork(link))
  }

  async detach(link: PodLink): Promise<void> {
    await this.worker.perform(detachWork(link))
    this.pools.get(link.node.name)?.release(link.address)
  }
}
