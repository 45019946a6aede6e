// The reference solution of lab 1, played by `make solve-1` and, without a terminal, by `make lab-1`.

import { runOnNode } from '../../cluster/node-script.ts'
import type { LabBench, LabSolution } from '../../course/lab-bench.ts'

const LAB = 1
const MANIFESTS = 'labs/01-iptables/manifests'
const CLIENT = `${MANIFESTS}/client.yaml`
const SERVICES = `${MANIFESTS}/three-services.yaml`

const HOOKS = 'PREROUTING INPUT FORWARD OUTPUT POSTROUTING'
const probe = (command: string) =>
  `for HOOK in ${HOOKS}; do ${command} -t mangle -A $HOOK -p tcp --syn --dport 10256 -m comment --comment probe; done`
const KNOCK = 'curl -s --max-time 3'

const look = { commands: [] }

/** What a command prints on a node. */
async function printed({ cluster }: LabBench, node: string, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await runOnNode(cluster, node, script)
  if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode} on ${node}: ${stderr.trim()}`)
  return stdout.trim()
}

async function clientNode({ client }: LabBench): Promise<string> {
  const { spec } = await client.core.readNamespacedPod({ namespace: 'default', name: 'client' })
  return spec?.nodeName ?? ''
}

/** Another node, and the addresses of both. */
async function neighbour({ client }: LabBench, node: string) {
  const { items } = await client.core.listNode()
  const addressed = items.map(({ metadata, status }) => ({
    name: metadata?.name ?? '',
    address: status?.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '',
  }))
  const own = addressed.find(({ name }) => name === node)
  const other = addressed.find(({ name }) => name !== node)
  if (!own || !other) throw new Error(`The node ${node} has no neighbour.`)
  return { own, other }
}

/** The chain's name, computed on a node as in the lab. */
async function webChain(bench: LabBench): Promise<string> {
  const [node = ''] = await bench.cluster.nodes()
  const hash = 'sha256sum | head -c 64 | tr a-f A-F | basenc --base16 -d | base32 | head -c 16'
  return `KUBE-SVC-${await printed(bench, node, `printf %s default/${bench.variant.name}tcp | ${hash}`)}`
}

export const solution: LabSolution = {
  steps: {
    mode: {
      commands: [`make answer Q=mode A="$(make -s exec CMD='curl -s localhost:10249/proxyMode')"`],
      play: async (bench) => {
        const [node = ''] = await bench.cluster.nodes()
        await bench.answer(LAB, 'mode', await printed(bench, node, 'curl -s localhost:10249/proxyMode'))
      },
    },
    web: { commands: ['make web'], independent: true, play: (bench) => bench.web() },
    probes: {
      independent: true,
      commands: [
        `kubectl apply -f ${CLIENT}`,
        'kubectl wait --for=condition=Ready pod/client --timeout=90s',
        `make exec NODE=$NODE CMD='${probe('iptables')}'`,
      ],
      play: async (bench) => {
        await bench.apply(CLIENT)
        await bench.podReady('client')
        await printed(bench, await clientNode(bench), probe('iptables'))
      },
    },
    'three-ways': {
      independent: true,
      commands: [
        `make exec NODE=$OTHER CMD="${KNOCK} http://$NODE_IP:10256/healthz"`,
        `kubectl exec client -- ${KNOCK} http://$OTHER_IP:10256/healthz`,
        `make exec NODE=$NODE CMD="${KNOCK} http://$OTHER_IP:10256/healthz"`,
      ],
      play: async (bench) => {
        const { own, other } = await neighbour(bench, await clientNode(bench))
        await printed(bench, other.name, `${KNOCK} http://${own.address}:10256/healthz`)
        await bench.inPod('client', `${KNOCK} http://${other.address}:10256/healthz`)
        await printed(bench, own.name, `${KNOCK} http://${other.address}:10256/healthz`)
      },
    },
    namespaces: look,
    families: {
      independent: true,
      commands: [`make exec NODE=$NODE CMD='${probe('ip6tables')}'`],
      play: async (bench) => {
        await printed(bench, await clientNode(bench), probe('ip6tables'))
      },
    },
    'chain-name': {
      commands: ['make answer Q=chain-name A=KUBE-SVC-$HASH'],
      play: async (bench) => bench.answer(LAB, 'chain-name', await webChain(bench)),
    },
    chains: look,
    'no-address': look,
    scale: {
      commands: ['kubectl scale deployment web --replicas=5'],
      play: (bench) => bench.scale(bench.variant.name, 5),
    },
    probability: {
      commands: [
        `make answer Q=probability A="$(make -s exec CMD="iptables -t nat -S $CHAIN" | sed -n 's/.*--probability \\([0-9.]*\\).*/\\1/p' | sed -n 2p)"`,
      ],
      play: async (bench) => {
        const [node = ''] = await bench.cluster.nodes()
        const rules = await printed(bench, node, `iptables -t nat -S ${await webChain(bench)}`)
        const [, second = ''] = [...rules.matchAll(/--probability (\S+)/g)].map(([, probability]) => probability)
        await bench.answer(LAB, 'probability', second)
      },
    },
    shares: look,
    ports: {
      independent: true,
      commands: [`kubectl apply -f ${SERVICES}`, 'kubectl wait --for=condition=Ready pod/mirror --timeout=90s'],
      play: async (bench) => {
        await bench.apply(SERVICES)
        await bench.podReady('mirror')
      },
    },
    hairpin: look,
    'no-endpoints': look,
    rejected: {
      commands: [
        `make answer Q=rejected A="$(make -s exec CMD='iptables -t filter -S KUBE-SERVICES' | sed -n 's/.*nobody.*--reject-with //p')"`,
      ],
      play: async (bench) => {
        const [node = ''] = await bench.cluster.nodes()
        const rules = await printed(bench, node, 'iptables -t filter -S KUBE-SERVICES')
        await bench.answer(LAB, 'rejected', /nobody.*--reject-with (\S+)/.exec(rules)?.[1] ?? '')
      },
    },
    whole: look,
  },

  comments: ['probe'],

  async leave(bench) {
    await Promise.all([CLIENT, SERVICES].map((file) => bench.remove(file)))
  },

  async reset(bench) {
    await Promise.all([solution.leave?.(bench), bench.deleteLabelled('app=web'), bench.delete('ConfigMap', 'lab-1')])
    await bench.startIn('iptables')
  },
}
