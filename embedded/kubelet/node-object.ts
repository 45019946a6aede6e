import { createHash } from 'node:crypto'
import type { Api } from '../apiserver/api.ts'
import { timestamp } from '../controllers/time.ts'
import type { Machine } from '../machine/machine.ts'
import type { NodePlan } from '../network/node-plan.ts'
import { imageList } from './images/registry.ts'
import type { Node } from './objects.ts'

const kubeletVersion = 'v1.34.11'

interface GuestFacts {
  kernelVersion: string
  osImage: string
  memory: string
  /** The kernel's own: drawn when it starts. */
  bootId: string
  ownKernel: boolean
}

/** What all nodes say of the one kernel they share. */
export async function guestFacts(machine: Machine): Promise<GuestFacts> {
  const { stdout } = await machine.run([
    'sh',
    '-c',
    'read -r r </proc/sys/kernel/osrelease; echo "$r"; read -r _ m _ </proc/meminfo; echo "$m"; . /etc/os-release; echo "$PRETTY_NAME"; read -r b </proc/sys/kernel/random/boot_id; echo "$b"',
  ])
  const [kernelVersion = '', kilobytes = '0', osImage = 'Linux', bootId = ''] = stdout.trim().split('\n')
  return { kernelVersion, osImage, memory: `${kilobytes}Ki`, bootId, ownKernel: machine.ownKernel }
}

const hash = (text: string) => createHash('sha256').update(text).digest('hex')

/** The Node of a node as kubeadm and its kubelet leave it. The first node of a cluster is its control plane. */
function nodeObject(
  node: NodePlan,
  facts: GuestFacts,
  controlPlane: boolean,
): Omit<Node, 'metadata'> & { metadata: Pick<Node['metadata'], 'name' | 'labels' | 'annotations'> } {
  const { name, address, podCIDR } = node
  const now = timestamp()
  const healthy = (type: string, reason: string, what: string) => ({
    ...{ type, status: 'False', reason, message: `kubelet has ${what}` },
    ...{ lastHeartbeatTime: now, lastTransitionTime: now },
  })
  const capacity = { cpu: '1', memory: facts.memory, 'ephemeral-storage': facts.memory, pods: '110' }
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      labels: {
        'beta.kubernetes.io/arch': 'amd64',
        'beta.kubernetes.io/os': 'linux',
        'kubernetes.io/arch': 'amd64',
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        ...(controlPlane && {
          'node-role.kubernetes.io/control-plane': '',
          'node.kubernetes.io/exclude-from-external-load-balancers': '',
        }),
      },
      annotations: { 'node.alpha.kubernetes.io/ttl': '0' },
    },
    spec: {
      podCIDR,
      podCIDRs: [podCIDR],
      // A kernel that is older than the cluster, and may be another cluster's, too, tells nothing of whose capture this is.
      providerID: `${facts.ownKernel ? 'embedded' : 'embedded-host'}://${name}`,
      ...(controlPlane && { taints: [{ key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' }] }),
    },
    status: {
      addresses: [
        { type: 'InternalIP', address },
        { type: 'Hostname', address: name },
      ],
      capacity,
      allocatable: capacity,
      conditions: [
        healthy('MemoryPressure', 'KubeletHasSufficientMemory', 'sufficient memory available'),
        healthy('DiskPressure', 'KubeletHasNoDiskPressure', 'no disk pressure'),
        healthy('PIDPressure', 'KubeletHasSufficientPID', 'sufficient PID available'),
        {
          ...{ type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'kubelet is posting ready status' },
          ...{ lastHeartbeatTime: now, lastTransitionTime: now },
        },
      ],
      daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
      images: imageList().map((line) => ({ names: [line.replace(/ .*/, '')], sizeBytes: 0 })),
      nodeInfo: {
        architecture: 'amd64',
        bootID: facts.bootId,
        containerRuntimeVersion: 'embedded://1.0.0',
        kernelVersion: facts.kernelVersion,
        kubeProxyVersion: '',
        kubeletVersion,
        machineID: hash(`machine ${facts.bootId} ${name}`).slice(0, 32),
        operatingSystem: 'linux',
        osImage: facts.osImage,
        systemUUID: hash(`uuid ${facts.bootId} ${name}`).slice(0, 32),
      },
    },
  }
}

/** Registers a node, or brings its object up to date. */
export function registerNode(api: Api, node: NodePlan, facts: GuestFacts, controlPlane: boolean): Node {
  const wanted = nodeObject(node, facts, controlPlane)
  const present = api.get<Node>('nodes', undefined, node.name)
  const created = present ?? api.create<Node>('nodes', undefined, { ...wanted })
  return api.update<Node>('nodes', { ...created, ...(wanted.status && { status: wanted.status }) }, 'status')
}

const leaseSeconds = 40

/** The heartbeat of a node's kubelet: its Lease in kube-node-lease, created at the first call and renewed by each later one. */
export function renewLease(api: Api, { metadata: { name, uid } }: Node): void {
  const renewTime = new Date().toISOString().replace('Z', '000Z')
  const owner = { apiVersion: 'v1', kind: 'Node', name, uid }
  if (api.get('leases', 'kube-node-lease', name)) api.patch('leases', 'kube-node-lease', name, { spec: { renewTime } })
  else
    api.create('leases', 'kube-node-lease', {
      metadata: { name, ownerReferences: [owner] },
      spec: { holderIdentity: name, leaseDurationSeconds: leaseSeconds, renewTime },
    })
}
