import { readCapturedNode } from '../../../dataplane/capture.ts'
import { writeMode } from '../../../dataplane/kube-proxy/config-conf.ts'
import type { NodeState } from '../../../dataplane/node-state.ts'
import { waitFor } from '../../../host/wait.ts'
import type { Draft } from '../../apiserver/api.ts'
import { ThreeNodes, webPods, worker, worker2 } from './three-nodes.ts'

export type Mode = 'iptables' | 'ipvs'
/** One worker runs in each mode: no flow has to wait for a switch. */
export const nodeOf = { ipvs: worker, iptables: worker2 } as const

type Nodes = readonly (keyof typeof webPods)[]
const both: Nodes = [worker, worker2]

/**
 * Services by name: the last part of their ClusterIP, their spec and the nodes of their endpoints.
 */
const SERVICES: Record<string, [host: number, spec: Record<string, unknown>, endpoints: Nodes]> = {
  only1: [1, {}, [worker]],
  only2: [2, {}, [worker2]],
  none: [3, { type: 'NodePort', ports: [{ port: 80, nodePort: 30003 }] }, []],
  np: [4, { type: 'NodePort', ports: [{ port: 80, nodePort: 30004 }] }, both],
  npl1: [
    5,
    { type: 'NodePort', externalTrafficPolicy: 'Local', ports: [{ port: 80, nodePort: 30005 }] },
    [worker],
  ],
  npl2: [
    6,
    { type: 'NodePort', externalTrafficPolicy: 'Local', ports: [{ port: 80, nodePort: 30006 }] },
    [worker2],
  ],
  itp: [7, { internalTrafficPolicy: 'Local' }, both],
  itp1: [8, { internalTrafficPolicy: 'Local' }, [worker]],
  itp2: [9, { internalTrafficPolicy: 'Local' }, [worker2]],
  sticky: [10, { sessionAffinity: 'ClientIP' }, both],
  lb: [12, { type: 'LoadBalancer' }, both],
  ranges: [13, { type: 'LoadBalancer', loadBalancerSourceRanges: ['172.18.0.1/32'] }, both],
  nodes: [14, { type: 'LoadBalancer', loadBalancerSourceRanges: ['172.18.0.0/16'] }, both],
  lbl: [15, { type: 'LoadBalancer', externalTrafficPolicy: 'Local' }, both],
  ext: [16, { externalIPs: ['198.51.100.16'] }, both],
}
const BALANCED = ['lb', 'ranges', 'nodes', 'lbl']

export const clusterIP = (service: string): string => `10.96.200.${SERVICES[service]?.[0] ?? 99}`
export const balancerIP = (service: string): string => `172.18.255.${SERVICES[service]?.[0] ?? 99}`

function createUdpService(nodes: ThreeNodes): void {
  nodes.addService('udp', '10.96.200.11', {
    type: 'NodePort',
    ports: [{ port: 53, protocol: 'UDP', nodePort: 30011 }],
  })
  nodes.api.create('endpointslices', 'default', {
    metadata: { name: 'udp-abcde', labels: { 'kubernetes.io/service-name': 'udp' } },
    addressType: 'IPv4',
    ports: [{ name: '', port: 53, protocol: 'UDP' }],
    endpoints: both.map((node) => ({
      addresses: [webPods[node]],
      nodeName: node,
      conditions: { ready: true },
    })),
  } as Draft)
}

function createServices(nodes: ThreeNodes): void {
  for (const [name, [, spec, endpoints]] of Object.entries(SERVICES)) {
    nodes.addService(name, clusterIP(name), spec)
    if (endpoints.length > 0) nodes.setEndpoints(name, endpoints)
  }
  for (const name of BALANCED)
    nodes.api.patch(
      'services',
      'default',
      name,
      { status: { loadBalancer: { ingress: [{ ip: balancerIP(name) }] } } },
      'status',
    )
  createUdpService(nodes)
}

/** Answers each datagram with the name of its Pod and the sender's address. */
const UDP_SERVER = `use IO::Socket::INET; $s = IO::Socket::INET->new(LocalPort => 53, Proto => 'udp') or die;
while (my $from = $s->recv(my $data, 99)) { $s->send("$ARGV[0] " . $s->peerhost . "\\n") }`

/** What a node holds, with its routes and the counters' text beside. */
export async function readNode(nodes: ThreeNodes, mode: Mode): Promise<NodeState> {
  const commands = ['iptables-save', 'ipset save', 'ipvsadm -Sn', 'ip -j -d addr', 'ip route']
  const output = await nodes.sh(nodeOf[mode], commands.join('; echo ==; '))
  const names = ['iptables-save', 'ipset-save', 'ipvsadm-save', 'ip-addr.json', 'ip-route']
  const parts = output.split('==\n')
  const { state, faults } = readCapturedNode(
    new Map(names.map((name, index) => [name, parts[index] ?? ''])),
  )
  if (faults.length > 0) throw new Error(faults.map(({ message }) => message).join('; '))
  return state
}

/**
 * What takes every packet of a connection but the first, so that counters show the way of that one
 * alone.
 */
export const NOT_THE_FIRST = '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'

/**
 * Three nodes with Services of every kind, one worker in each mode; kube-proxy is stopped once all
 * of it is programmed, so that nothing rewrites a counter. A rule on top of each filter chain takes
 * every packet of a connection but the first.
 */
export async function startTwoModes(): Promise<ThreeNodes> {
  const nodes = await ThreeNodes.start()
  createServices(nodes)
  for (const [index, pod] of ['web1', 'web2'].entries()) {
    const server = await nodes.machine.spawn(['perl', '-e', UDP_SERVER, pod], {
      netns: `web${index + 1}`,
    })
    server.stdout.resume()
    server.stderr.resume()
  }
  for (const mode of ['ipvs', 'iptables'] as const) {
    nodes.configure((text) => writeMode(text, { mode }))
    nodes.startProxy(nodeOf[mode])
    const differences = async () =>
      nodes.differences(await readNode(nodes, mode), nodeOf[mode], mode)
    await waitFor(
      `${mode} mode to be programmed`,
      30_000,
      async () => (await differences()).length === 0,
      400,
    )
  }
  await nodes.stopProxies()
  const established = ['INPUT', 'FORWARD', 'OUTPUT'].map(
    (chain) => `iptables -I ${chain} ${NOT_THE_FIRST}`,
  )
  for (const node of Object.values(nodeOf)) await nodes.sh(node, established.join('; '))
  return nodes
}
