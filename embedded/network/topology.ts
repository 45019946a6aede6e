import type { NodePlan } from '../../host/layout.ts'
import type { GuestProcess, Machine, Placement } from '../machine/machine.ts'
import {
  bridgeLines,
  cpuinfoCommand,
  interfaceName,
  nodeCommand,
  nodeFiles,
  nodeMounts,
  podGateway,
} from './node-setup.ts'

/** The modules of a cluster in its default state. */
export const firstModules: readonly string[] = [
  'bridge',
  'veth',
  'ip_tables',
  'iptable_nat',
  'iptable_filter',
  'iptable_mangle',
  'ipt_REJECT',
  'xt_comment',
  'xt_conntrack',
  'xt_mark',
  'xt_MASQUERADE',
  'xt_nat',
  'xt_tcpudp',
  'xt_addrtype',
  'xt_statistic',
  'xt_nfacct',
  'nfnetlink_acct',
  'nf_conntrack_netlink',
]

/** Further modules for labs: IPVS with its schedulers, ipset, more matches. */
export const laterModules: readonly string[] = [
  'dummy',
  'xt_multiport',
  'xt_recent',
  'xt_set',
  'xt_physdev',
  'xt_ipvs',
  'xt_LOG',
  'xt_REDIRECT',
  'xt_limit',
  'ip_vs',
  'ip_vs_rr',
  'ip_vs_wrr',
  'ip_vs_lc',
  'ip_vs_wlc',
  'ip_vs_lblc',
  'ip_vs_lblcr',
  'ip_vs_sh',
  'ip_vs_dh',
  'ip_vs_sed',
  'ip_vs_nq',
  'ip_vs_fo',
  'ip_vs_ovf',
  'ip_vs_mh',
  'nf_log_syslog',
  'ip_set',
  'ip_set_hash_ip',
  'ip_set_hash_ipport',
  'ip_set_hash_ipportip',
  'ip_set_hash_ipportnet',
  'ip_set_hash_net',
  'ip_set_hash_netport',
  'ip_set_bitmap_port',
  'ip_set_list_set',
]

/**
 * Resolves when a node reports that it is set up; rejects with its error output if it ends instead.
 */
function readiness(name: string, process: GuestProcess): Promise<void> {
  let errors = ''
  return new Promise((resolve, reject) => {
    process.stdout.on('data', (bytes: Buffer) => {
      if (bytes.toString().includes('ready')) resolve()
    })
    process.stderr.on('data', (bytes: Buffer) => {
      errors += bytes
    })
    void process.exited.then(() =>
      reject(new Error(`node "${name}" could not be set up: ${errors.trim()}`)),
    )
  })
}

/**
 * A command of sh that runs lines of ip(8) in one process, in the guest's own network namespace or
 * a named one.
 */
export const ipBatch = (lines: readonly string[], netns?: string) =>
  `ip ${netns === undefined ? '' : `-n ${netns} `}-batch - <<'END'\n${lines.join('\n')}\nEND\n`

/** Runs a script in the guest's own namespaces. Rejects with its error output if it fails. */
export async function runInGuest(machine: Machine, script: string): Promise<void> {
  const { exitCode, stderr } = await machine.script(script)
  if (exitCode !== 0) throw new Error(stderr.trim().split('\n').slice(0, 5).join('; '))
}

/**
 * Loads the kernel modules, makes the bridge and the nodes: namespaces with a layer over the
 * guest's files, kind's routes and firewall.
 */
export async function createNetwork(
  machine: Machine,
  nodes: readonly NodePlan[],
): Promise<Network> {
  const { folders, mounts } = nodeMounts(machine, nodes)
  const shared = ['/run/nodes', '/run/pods']
  await machine.write([
    ...nodes.flatMap((node) => nodeFiles(node, nodes)),
    ...[...shared, ...folders].map((folder) => ({ path: `${folder}/`, content: '' })),
    { path: nodesFstab, content: `${mounts.join('\n')}\n` },
  ])
  // Mounts below a shared folder that go away here go away in all namespaces, too (they are made as
  // slaves).
  const script = [
    machine.ownKernel ? `modprobe -a ${firstModules.join(' ')} || exit 1` : '',
    ...shared.map((folder) => `mount --bind --make-shared ${folder} ${folder} || exit 1`),
    // A route to several nodes distributes connections, not clients: the hash includes ports.
    'echo 1 >/proc/sys/net/ipv4/fib_multipath_hash_policy || exit 1',
    cpuinfoCommand(nodes),
    `mount -a -T ${nodesFstab} || exit 1`,
    ipBatch(bridgeLines(nodes)),
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

const nodesFstab = '/run/nodes.fstab'

/** A Pod's network namespace and its link to the node. */
export interface PodLink {
  /** Name of the Pod's network namespace, as a CNI runtime would name it. */
  netns: string
  /** The node's end of the veth pair. */
  hostInterface: string
  node: NodePlan
}

export function podLink(node: NodePlan, podUid: string): PodLink {
  return { netns: `cni-${podUid}`, hostInterface: interfaceName('veth', podUid), node }
}

/** The nodes of a cluster as namespaces on one bridge, and the links of the Pods on them. */
export class Network {
  readonly nodes: readonly NodePlan[]
  readonly #machine: Machine
  readonly #processes: ReadonlyMap<string, number>
  /**
   * The free addresses of each node: as in CNI's host-local plugin, a released one is reused as
   * late as possible.
   */
  readonly #free: ReadonlyMap<string, string[]>

  constructor(
    machine: Machine,
    nodes: readonly NodePlan[],
    processes: ReadonlyMap<string, number>,
  ) {
    this.nodes = nodes
    this.#machine = machine
    this.#processes = processes
    this.#free = new Map(
      nodes.map(({ name, podCIDR }) => {
        const prefix = podGateway(podCIDR).slice(0, -1)
        return [name, Array.from({ length: 253 }, (_, index) => prefix + (index + 2))]
      }),
    )
  }

  /** The namespaces of a node. Throws for an unknown one. */
  placement(node: string): Placement {
    const pid = this.#processes.get(node)
    if (pid === undefined) throw new Error(`there is no node "${node}"`)
    return { pid }
  }

  /**
   * Creates a Pod's namespace with a new address, which it returns. Rejects, and leaves nothing, if
   * the node has none left.
   */
  async attach(link: PodLink): Promise<string> {
    const { name, podCIDR } = link.node
    const address = this.#free.get(name)?.shift()
    if (address === undefined) throw new Error(`no IP addresses available in range set: ${podCIDR}`)
    try {
      await runInGuest(this.#machine, attachScript(link, address))
    } catch (error) {
      await this.detach(link, address).catch(() => {})
      throw error
    }
    return address
  }

  /**
   * Removes the link immediately and frees its address; the namespace ends with its last process.
   */
  async detach({ netns, hostInterface, node }: PodLink, address: string): Promise<void> {
    try {
      await runInGuest(
        this.#machine,
        `ip -n ${node.name} link delete ${hostInterface}; ip netns delete ${netns}\n`,
      )
    } finally {
      this.#free.get(node.name)?.push(address)
    }
  }
}

/**
 * Joins a Pod's namespace to its node as kind's CNI configuration does it (the ptp plugin): no
 * bridge, one host route per Pod, and in the Pod even addresses of the same range are routed
 * through the node, so that every packet passes its Netfilter hooks.
 */
function attachScript({ netns, hostInterface, node }: PodLink, address: string): string {
  const gateway = podGateway(node.podCIDR)
  const both = [
    `netns add ${netns}`,
    `link add ${hostInterface} netns ${node.name} type veth peer name eth0 netns ${netns}`,
  ]
  const ofNode = [
    `address add ${gateway}/32 dev ${hostInterface}`,
    `link set ${hostInterface} up`,
    `route add ${address}/32 dev ${hostInterface} scope host`,
  ]
  const ofPod = [
    'link set lo up',
    `address add ${address}/24 broadcast + dev eth0 noprefixroute`,
    'link set eth0 up',
    `route add ${gateway}/32 dev eth0 scope link src ${address}`,
    `route add ${node.podCIDR} via ${gateway} dev eth0 src ${address}`,
    `route add default via ${gateway} dev eth0`,
  ]
  return `set -e\n${ipBatch(both)}${ipBatch(ofNode, node.name)}${ipBatch(ofPod, netns)}`
}
