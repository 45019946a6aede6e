import { createHash } from 'node:crypto'
import type { NodePlan } from '../../host/layout.ts'
import type { Api, Draft } from '../apiserver/api.ts'
import { gitVersion } from '../apiserver/documents.ts'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { EventRecorder } from '../controllers/events.ts'
import { isTerminal } from '../controllers/resources.ts'
import { processor } from '../machine/kernel-package.ts'
import type { Machine } from '../machine/machine.ts'
import { Prober } from '../network/prober.ts'
import type { Network } from '../network/topology.ts'
import { createBackend } from './backend.ts'
import { registerOwnImages } from './images/own-images.ts'
import { imageList } from './images/registry.ts'
import type { NodeContext, NodeObject, Pod } from './objects.ts'
import { PodWorker } from './pod-worker.ts'

const architecture = processor?.kubernetes ?? process.arch

type GuestFacts = Awaited<ReturnType<typeof guestFacts>>

/** Facts about the kernel that all nodes share; its boot ID is random at each start. */
async function guestFacts(machine: Machine) {
  const { stdout } = await machine.script(`cat /proc/sys/kernel/osrelease
read -r _ memory _ </proc/meminfo; echo "$memory"
. /etc/os-release; echo "$PRETTY_NAME"
cat /proc/sys/kernel/random/boot_id`)
  const [kernelVersion = '', kilobytes = '0', osImage = 'Linux', bootId = ''] = stdout
    .trim()
    .split('\n')
  return { kernelVersion, osImage, memory: `${kilobytes}Ki`, bootId, ownKernel: machine.ownKernel }
}

/**
 * The Node object as kubeadm and the kubelet create it. The first node of a cluster is its control
 * plane.
 */
function nodeObject({ name, address, podCIDR }: NodePlan, facts: GuestFacts, index: number): Draft {
  const controlPlane = index === 0
  const now = timestamp()
  const conditions = [
    [
      'MemoryPressure',
      'False',
      'KubeletHasSufficientMemory',
      'kubelet has sufficient memory available',
    ],
    ['DiskPressure', 'False', 'KubeletHasNoDiskPressure', 'kubelet has no disk pressure'],
    ['PIDPressure', 'False', 'KubeletHasSufficientPID', 'kubelet has sufficient PID available'],
    ['Ready', 'True', 'KubeletReady', 'kubelet is posting ready status'],
  ].map(([type, status, reason, message]) => {
    return { type, status, reason, message, lastHeartbeatTime: now, lastTransitionTime: now }
  })
  const id = createHash('sha256').update(`${facts.bootId} ${name}`).digest('hex').slice(0, 32)
  const capacity = {
    cpu: '1',
    memory: facts.memory,
    'ephemeral-storage': facts.memory,
    pods: '110',
  }
  return {
    metadata: {
      name,
      labels: {
        'beta.kubernetes.io/arch': architecture,
        'beta.kubernetes.io/os': 'linux',
        'kubernetes.io/arch': architecture,
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        // A cloud provider sets it. The last node has a zone of its own, as in kind.yaml.
        'topology.kubernetes.io/zone': index < 2 ? 'zone-a' : 'zone-b',
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
      // A kernel that is older than the cluster may also run another cluster, so it does not
      // identify the cluster of a capture.
      providerID: `${facts.ownKernel ? 'embedded' : 'embedded-host'}://${name}`,
      ...(controlPlane && {
        taints: [{ key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' }],
      }),
    },
    status: {
      addresses: [
        { type: 'InternalIP', address },
        { type: 'Hostname', address: name },
      ],
      capacity,
      allocatable: capacity,
      conditions,
      daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
      images: imageList().map((line) => ({ names: [line.replace(/ .*/, '')], sizeBytes: 0 })),
      nodeInfo: {
        architecture,
        bootID: facts.bootId,
        containerRuntimeVersion: 'embedded://1.0.0',
        kernelVersion: facts.kernelVersion,
        kubeProxyVersion: '',
        kubeletVersion: gitVersion,
        machineID: id,
        operatingSystem: 'linux',
        osImage: facts.osImage,
        systemUUID: id,
      },
    },
  }
}

const leaseSeconds = 40

/**
 * The heartbeat of a node's kubelet: its Lease in kube-node-lease, created at the first call and
 * renewed by each later one.
 */
function renewLease(api: Api, { metadata: { name, uid } }: NodeObject): void {
  const renewTime = new Date().toISOString().replace('Z', '000Z')
  const owner = { apiVersion: 'v1', kind: 'Node', name, uid }
  if (api.get('leases', 'kube-node-lease', name))
    api.patch('leases', 'kube-node-lease', name, { spec: { renewTime } })
  else
    api.create('leases', 'kube-node-lease', {
      metadata: { name, ownerReferences: [owner] },
      spec: { holderIdentity: name, leaseDurationSeconds: leaseSeconds, renewTime },
    })
}

/** As in the kubelet: a quarter of the Lease's 40 s. */
const leaseRenewalMs = 10_000

/**
 * Registers the Nodes, control plane first, and runs the Pods that are bound to them. `stop` ends
 * every container immediately.
 */
export async function startKubelets(machine: Machine, network: Network, api: Api) {
  registerOwnImages()
  const facts = await guestFacts(machine)
  const contexts = new Map<string, NodeContext>()
  const leases: NodeJS.Timeout[] = []
  for (const [index, node] of network.nodes.entries()) {
    const object = api.create<NodeObject>('nodes', undefined, nodeObject(node, facts, index))
    const events = new EventRecorder(api, 'kubelet', node.name)
    const prober = new Prober(machine, network.placement(node.name))
    contexts.set(node.name, { machine, network, api, node, events, prober })
    renewLease(api, object)
    leases.push(setInterval(() => renewLease(api, object), leaseRenewalMs))
    events.event(object, 'Normal', 'NodeReady', `Node ${node.name} status is now: NodeReady`)
  }
  const pods = new Map<string, PodWorker>()
  const unwatch = api.watch<Pod>('pods', (type, pod) => {
    const { uid } = pod.metadata
    const worker = pods.get(uid)
    if (type === 'DELETED') {
      pods.delete(uid)
      void worker?.terminate(0)
      return
    }
    if (worker) return worker.update(pod)
    const context = contexts.get(pod.spec.nodeName ?? '')
    if (!context || isTerminal(pod)) return
    if (pod.metadata.deletionTimestamp)
      api.delete('pods', pod.metadata.namespace, pod.metadata.name, { gracePeriodSeconds: 0 })
    else pods.set(uid, new PodWorker(context, pod))
  })
  return {
    backend: createBackend(machine, network, pods),
    async stop() {
      for (const timer of leases) clearInterval(timer)
      unwatch()
      await Promise.all([...pods.values()].map((worker) => worker.terminate(0)))
      await Promise.all([...contexts.values()].map(({ prober }) => prober.stop()))
    },
  }
}
