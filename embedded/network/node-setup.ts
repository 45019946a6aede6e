import type { Machine } from '../machine/machine.ts'
import { nodeFirewall } from './node-firewall.ts'
import { bridge, interfaceName, type NodePlan, outside, podGateway } from './node-plan.ts'

/** Folder of the guest that holds the nodes' file systems. */
const nodesFolder = '/run/nodes'

/** A node's root file system, as seen from the guest's own mount namespace. */
export const nodeRoot = (name: string) => `${nodesFolder}/${name}/root`

interface GuestFile {
  path: string
  content: string
}

/** Lines every shell of the cluster starts with, in place of the host user's own. */
export const shellProfile = "PS1='\\u@\\h:\\w\\$ '\nalias ls='ls --color=auto'\n"

/** `/etc/hosts` of a node: itself and the others, which Docker's name server would answer for. */
function hosts(nodes: readonly NodePlan[]): string {
  return ['127.0.0.1\tlocalhost', ...nodes.map(({ name, address }) => `${address}\t${name}`), ''].join('\n')
}

/** fstab lines for the nodes' roots: each a separate overlay over the guest's file system. */
export function nodeMounts(
  machine: Pick<Machine, 'layer'>,
  nodes: readonly NodePlan[],
): { folders: string[]; mounts: string[] } {
  const works = nodes.map(({ name }) => {
    const [root, work] = [nodeRoot(name), `${nodesFolder}/${name}/work`]
    const { folders, mounts } = machine.layer(root, `${nodesFolder}/${name}/upper`, work)
    // Hides the host's /tmp.
    const inside = [`/dev ${root}/dev none rbind 0 0`, `tmpfs ${root}/tmp tmpfs mode=1777 0 0`]
    return { folders: [root, work, ...folders], mounts: [...mounts, ...inside] }
  })
  return { folders: works.flatMap(({ folders }) => folders), mounts: works.flatMap(({ mounts }) => mounts) }
}

/**
 * Shell command that writes /proc/cpuinfo with the lines that ps of procps-ng 4.0.2 needs and User-Mode Linux lacks, for the
 * nodes and, in the guest's own /run, for containers.
 */
export function cpuinfoCommand(nodes: readonly NodePlan[]): string {
  const copies = nodes.map(({ name }) => `${nodesFolder}/${name}/upper/run/cpuinfo`)
  return `(cat /proc/cpuinfo; printf 'core id\\t\\t: 0\\napicid\\t\\t: 0\\n') | tee ${copies.join(' ')} >/run/cpuinfo`
}

/** `ip -batch` lines of the guest's own namespace: the bridge, the nodes' namespaces, a cable from each to the bridge. */
export function bridgeLines(nodes: readonly NodePlan[]): string[] {
  const cable = (name: string) => interfaceName('veth', name)
  return [
    'link set lo up',
    `link add ${bridge.name} type bridge forward_delay 0`,
    `address add ${bridge.address}/${bridge.prefix} broadcast + dev ${bridge.name}`,
    `link set ${bridge.name} up`,
    ...outside.lines,
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

/** What a node's file system has of its own. Paths are the guest's. */
export function nodeFiles(node: NodePlan, nodes: readonly NodePlan[]): GuestFile[] {
  const upper = `${nodesFolder}/${node.name}/upper`
  const own: Record<string, string> = {
    '/etc/hostname': `${node.name}\n`,
    '/etc/hosts': hosts(nodes),
    '/etc/resolv.conf': `nameserver ${bridge.address}\noptions timeout:1 attempts:1\n`,
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

// rp_filter 0: replies to a masqueraded or IPVS connection may come in on another interface than the request left by.
const settings: Record<string, number> = {
  'net/ipv4/ip_forward': 1,
  'net/ipv4/conf/all/forwarding': 1,
  'net/ipv4/conf/all/route_localnet': 1,
  'net/ipv4/conf/all/rp_filter': 0,
  'net/ipv4/conf/default/rp_filter': 0,
  'net/netfilter/nf_conntrack_acct': 1,
}

/** The command that becomes a node: it takes its namespaces, sets them up, prints `ready`, and keeps them until it is killed. */
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
  return [
    ...['nsenter', `--net=/run/netns/${name}`],
    ...[
      'unshare',
      '--mount',
      '--uts',
      '--ipc',
      '--propagation',
      'slave',
      '--mount-proc',
      `--root=${nodeRoot(name)}`,
      '--wd=/',
    ],
    ...['sh', '-c', script, name],
  ]
}
