// The reference solution of lab 1, played by `make solve-1` and, without a terminal, by `make lab-1`.

import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'

const LAB = 1
const MANIFESTS = 'labs/01-iptables/manifests'
const CLIENT = `${MANIFESTS}/client.yaml`
const SERVICES = `${MANIFESTS}/three-services.yaml`

const HOOKS = 'PREROUTING INPUT FORWARD OUTPUT POSTROUTING'
const probe = (command: string) =>
  `for HOOK in ${HOOKS}; do ${command} -t mangle -A $HOOK -p tcp --syn --dport 10256 -m comment --comment probe; done`
const CURL = 'curl -s --max-time 3'

const readsOnly = { commands: [] }

/** The names and addresses of the client Pod's node and of another one. */
async function twoNodes(bench: LabBench) {
  const { spec } = await bench.client.core.readNamespacedPod({ namespace: 'default', name: 'client' })
  const nodes = await bench.nodes()
  const own = nodes.find(({ name }) => name === spec?.nodeName)
  const other = nodes.find((node) => node !== own)
  if (!own || !other) throw new Error(`The node "${spec?.nodeName}" has no neighbour.`)
  return { own, other }
}

const onFirstNode = async (bench: LabBench, script: string) =>
  bench.onNode((await bench.cluster.nodes())[0] ?? '', script)

/** The chain's name, computed on a node as in the lab. */
async function webChain(bench: LabBench): Promise<string> {
  const hash = 'sha256sum | head -c 64 | tr a-f A-F | basenc --base16 -d | base32 | head -c 16'
  return `KUBE-SVC-${(await onFirstNode(bench, `printf %s default/${bench.variant.name}tcp | ${hash}`)).trim()}`
}

export const solution: LabSolution = {
  steps: {
    mode: {
      commands: [`make answer Q=mode A="$(make -s exec CMD='curl -s localhost:10249/proxyMode')"`],
      play: async (bench) => {
        await bench.answer(LAB, 'mode', await onFirstNode(bench, 'curl -s localhost:10249/proxyMode'))
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
        await bench.onNode((await twoNodes(bench)).own.name, probe('iptables'))
      },
    },
    'three-ways': {
      independent: true,
      commands: [
        `make exec NODE=$OTHER CMD="${CURL} http://$NODE_IP:10256/healthz"`,
        `kubectl exec client -- ${CURL} http://$OTHER_IP:10256/healthz`,
        `make exec NODE=$NODE CMD="${CURL} http://$OTHER_IP:10256/healthz"`,
      ],
      play: async (bench) => {
        const { own, other } = await twoNodes(bench)
        await bench.onNode(other.name, `${CURL} http://${own.address}:10256/healthz`)
        await bench.inPod('client', `${CURL} http://${other.address}:10256/healthz`)
        await bench.onNode(own.name, `${CURL} http://${other.address}:10256/healthz`)
      },
    },
    namespaces: readsOnly,
    families: {
      independent: true,
      commands: [`make exec NODE=$NODE CMD='${probe('ip6tables')}'`],
      play: async (bench) => {
        await bench.onNode((await twoNodes(bench)).own.name, probe('ip6tables'))
      },
    },
    'chain-name': {
      commands: ['make answer Q=chain-name A=KUBE-SVC-$HASH'],
      play: async (bench) => bench.answer(LAB, 'chain-name', await webChain(bench)),
    },
    chains: readsOnly,
    'no-address': readsOnly,
    scale: {
      commands: ['kubectl scale deployment web --replicas=5'],
      play: (bench) => bench.scale(bench.variant.name, 5),
    },
    probability: {
      commands: [
        `make answer Q=probability A="$(make -s exec CMD="iptables -t nat -S $CHAIN" | sed -n 's/.*--probability \\([0-9.]*\\).*/\\1/p' | sed -n 2p)"`,
      ],
      play: async (bench) => {
        const rules = await onFirstNode(bench, `iptables -t nat -S ${await webChain(bench)}`)
        const [, second = ''] = [...rules.matchAll(/--probability (\S+)/g)].map(([, probability]) => probability)
        await bench.answer(LAB, 'probability', second)
      },
    },
    shares: readsOnly,
    ports: {
      independent: true,
      commands: [`kubectl apply -f ${SERVICES}`, 'kubectl wait --for=condition=Ready pod/mirror --timeout=90s'],
      play: async (bench) => {
        await bench.apply(SERVICES)
        await bench.podReady('mirror')
      },
    },
    hairpin: readsOnly,
    'no-endpoints': readsOnly,
    rejected: {
      commands: [
        `make answer Q=rejected A="$(make -s exec CMD='iptables -t filter -S KUBE-SERVICES' | sed -n 's/.*nobody.*--reject-with //p')"`,
      ],
      play: async (bench) => {
        const rules = await onFirstNode(bench, 'iptables -t filter -S KUBE-SERVICES')
        await bench.answer(LAB, 'rejected', /nobody.*--reject-with (\S+)/.exec(rules)?.[1] ?? '')
      },
    },
    whole: readsOnly,
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
