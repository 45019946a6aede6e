import { createHash } from 'node:crypto'
import { secondClientOf } from '../../host/address-pool.ts'
import type { NodePlan } from '../../host/layout.ts'
import type { GuestFile, Layer, Machine } from '../machine/machine.ts'

/** The bridge that kind gives its Docker network, and the address "outside" the cluster. */
export const bridge = {
  name: 'kind',
  address: '172.18.0.1',
  prefix: 16,
  network: '172.18.0.0/16',
} as const

/** All Pods of all nodes. */
const clusterCIDR = '10.244.0.0/16'

/**
 * The address of a node for its Pods: the first of its Pod range (`10.244.1.0/24` → `10.244.1.1`).
 */
export function podGateway(podCIDR: string): string {
  const base = podCIDR.split('/')[0] ?? ''
  return `${base.slice(0, base.lastIndexOf('.'))}.1`
}

/**
 * Name of a host-side interface: a prefix and eight hexadecimal digits that only depend on `seed`,
 * as CNI's plugins make them.
 */
export function interfaceName(prefix: string, seed: string): string {
  return prefix + createHash('sha1').update(seed).digest('hex').slice(0, 8)
}

/**
 * A node's rules before kube-proxy starts: kind's masquerading of traffic that leaves the cluster,
 * and those of a kubelet since 1.27.
 */
const nodeFirewall = `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
COMMIT
*nat
:KIND-MASQ-AGENT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
-A POSTROUTING -m addrtype ! --dst-type LOCAL -m comment --comment "kind-masq-agent: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom KIND-MASQ-AGENT chain" -j KIND-MASQ-AGENT
-A KIND-MASQ-AGENT -d ${clusterCIDR} -m comment --comment "kind-masq-agent: local traffic is not subject to MASQUERADE" -j RETURN
-A KIND-MASQ-AGENT -m comment --comment "kind-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)" -j MASQUERADE
COMMIT
`

/** Folder of the guest with the nodes' file systems. */
const nodesFolder = '/run/nodes'

/** A node's root file system, as seen from the guest's own mount namespace. */
export const nodeRoot = (name: string) => `${nodesFolder}/${name}/root`

/** The profile of every shell of the cluster, instead of the host user's. */
export const shellProfile = "PS1='\\u@\\h:\\w\\$ '\nalias ls='ls --color=auto'\n"

/** `/etc/resolv.conf` of a node. */
export const nodeResolvConf = `nameserver ${bridge.address}\noptions timeout:1 attempts:1\n`

/** `/etc/hosts` of a node: itself and the others, which Docker's name server would resolve. */
function hosts(nodes: readonly NodePlan[]): string {
  return [
    '127.0.0.1\tlocalhost',
    ...nodes.map(({ name, address }) => `${address}\t${name}`),
    '',
  ].join('\n')
}

/** fstab lines for the nodes' roots: each a separate overlay over the guest's file system. */
export function nodeMounts(machine: Machine, nodes: readonly NodePlan[]): Layer {
  const works = nodes.map(({ name }) => {
    const [root, work] = [nodeRoot(name), `${nodesFolder}/${name}/work`]
    const { folders, mounts } = machine.layer(root, `${nodesFolder}/${name}/upper`, work)
    // Hides the host's /tmp.
    const inside = [`/dev ${root}/dev none rbind 0 0`, `tmpfs ${root}/tmp tmpfs mode=1777 0 0`]
    return { folders: [root, work, ...folders], mounts: [...mounts, ...inside] }
  })
  return {
    folders: works.flatMap(({ folders }) => folders),
    mounts: works.flatMap(({ mounts }) => mounts),
  }
}

/**
 * Shell: writes /proc/cpuinfo, with what ps of procps-ng 4.0.2 needs and User-Mode Linux lacks, for
 * the nodes and for containers.
 */
export function cpuinfoCommand(nodes: readonly NodePlan[]): string {
  const copies = nodes.map(({ name }) => `${nodesFolder}/${name}/upper/run/cpuinfo`)
  return `(cat /proc/cpuinfo; printf 'core id\\t\\t: 0\\napicid\\t\\t: 0\\n') | tee ${copies.join(' ')} >/run/cpuinfo`
}

/**
 * `ip -batch` lines of the guest's own namespace: the bridge, the nodes' namespaces, and a veth
 * pair from each to the bridge.
 */
export function bridgeLines(nodes: readonly NodePlan[]): string[] {
  const cable = (name: string) => interfaceName('veth', name)
  return [
    'link set lo up',
    `link add ${bridge.name} type bridge forward_delay 0`,
    `address add ${bridge.address}/${bridge.prefix} broadcast + dev ${bridge.name}`,
    `link set ${bridge.name} up`,
    // The second client "outside", with an address after those of load balancers.
    `address add ${secondClientOf(bridge.network)}/32 dev ${bridge.name}`,
    ...nodes.flatMap(({ name }) => [
      `netns add ${name}`,
      `link add ${cable(name)} type veth peer name eth0 netns ${name}`,
      `link set ${cable(name)} master ${bridge.name} up`,
    ]),
  ]
}

/** `ip -batch` lines of one node. */
function nodeLines(node: NodePlan, nodes: readonly NodePlan[]): string[] {
  return [
    'link set lo up',
    `address add ${node.address}/${bridge.prefix} broadcast + dev eth0`,
    'link set eth0 up',
    `route add default via ${bridge.address} dev eth0`,
    ...nodes
      .filter((other) => other !== node)
      .map(({ podCIDR, address }) => `route add ${podCIDR} via ${address} dev eth0`),
  ]
}

/** The files of a node's file system that differ from the guest's. Paths are in the guest. */
export function nodeFiles(node: NodePlan, nodes: readonly NodePlan[]): GuestFile[] {
  const upper = `${nodesFolder}/${node.name}/upper`
  const own: Record<string, string> = {
    '/etc/hostname': `${node.name}\n`,
    '/etc/hosts': hosts(nodes),
    '/etc/resolv.conf': nodeResolvConf,
    '/etc/fstab': 'sysfs /sys sysfs\n/run/cpuinfo /proc/cpuinfo none bind\n',
    '/root/.bashrc': shellProfile,
    '/root/.profile': '. ~/.bashrc\n',
    '/root/.bash_profile': '. ~/.bashrc\n',
    // The host's file may not be readable for the current user.
    '/root/.bash_logout': '',
    '/run/node/links': `${nodeLines(node, nodes).join('\n')}\n`,
    '/run/node/firewall': nodeFirewall,
    '/run/xtables.lock': '',
    '/var/lib/kubelet/.keep': `Pod range ${node.podCIDR}, gateway ${podGateway(node.podCIDR)}\n`,
  }
  return Object.entries(own).map(([path, content]) => ({ path: upper + path, content }))
}

// rp_filter 0: replies to a masqueraded or IPVS connection may arrive at another interface than the
// one by which the request left.
const settings: Record<string, number> = {
  'net/ipv4/ip_forward': 1,
  'net/ipv4/conf/all/forwarding': 1,
  'net/ipv4/conf/all/route_localnet': 1,
  'net/ipv4/conf/all/rp_filter': 0,
  'net/ipv4/conf/default/rp_filter': 0,
  'net/netfilter/nf_conntrack_acct': 1,
}

/**
 * The process of a node: it creates its namespaces, sets them up, prints `ready`, and keeps them
 * until it is killed.
 */
export function nodeCommand(name: string): string[] {
  const script = [
    'set -e',
    'mount -a',
    'hostname "$0"',
    ...Object.entries(settings).map(([key, value]) => `echo ${value} >/proc/sys/${key} || true`),
    'ip -batch /run/node/links',
    'iptables-restore </run/node/firewall',
    'echo ready',
    'exec sleep infinity',
  ].join('\n')
  const enter = `nsenter --net=/run/netns/${name} unshare --mount --uts --ipc --propagation slave --mount-proc`
  return [...enter.split(' '), `--root=${nodeRoot(name)}`, '--wd=/', 'sh', '-c', script, name]
}
