// The reference solution of lab 5, played by `make solve-5` and, without a terminal, by `make lab-5`.

import { readDaemonSet } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import { genuineAnnotation } from '../../embedded/index.ts'
import { waitFor } from '../../host/wait.ts'

const LAB = 5
const MANIFESTS = 'labs/05-exposure/manifests'
const AGENTS = `${MANIFESTS}/node-agent.yaml`
const CLIENT = `${MANIFESTS}/client.yaml`

/** The learner's $NODE, $CLIENT and $WEB. */
async function place(bench: LabBench) {
  const [{ spec, status }, { clusterIP = '' }] = await Promise.all([
    bench.client.core.readNamespacedPod({ namespace: 'default', name: 'client' }),
    bench.service(bench.variant.name),
  ])
  return { node: spec?.nodeName ?? '', client: status?.podIP ?? '', web: clusterIP }
}

/** Nodes that run an agent, also one that terminates. */
async function agentNodes({ client: { core } }: LabBench): Promise<string[]> {
  const { items } = await core.listNamespacedPod({ namespace: 'default', labelSelector: 'app=node-agent' })
  return [...new Set(items.flatMap(({ spec }) => spec?.nodeName ?? []))]
}

/** `kubectl set env daemonset/node-agent BIND=…` and `kubectl rollout status` */
async function bindAgents(bench: LabBench, value: string): Promise<void> {
  const containers = [{ name: 'agent', env: [{ name: 'BIND', value }] }]
  await bench.patch('DaemonSet', 'node-agent', { spec: { template: { spec: { containers } } } })
  await bench.rolledOut('DaemonSet', 'node-agent')
}

/** The rules of 1.20 if the cluster can run any version; otherwise its own version's rules without the jump added in 1.26. */
async function oldRules(bench: LabBench): Promise<void> {
  const { metadata } = await readDaemonSet(bench.client)
  const any = bench.cluster.driver === 'embedded' && metadata?.annotations?.[genuineAnnotation] === undefined
  await bench.mode('ipvs', any ? { version: '1.20' } : {})
  const access = '-m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER'
  await Promise.all(
    (await agentNodes(bench)).map((node) => bench.onNode(node, `iptables -D INPUT ${access} 2>/dev/null || true`)),
  )
}

const forwardRule = (client: string) =>
  `FORWARD -s ${client} -p tcp --dport 80 -m comment --comment lab-5 -j REJECT --reject-with tcp-reset`
const inputRule = (client: string, web: string) =>
  `INPUT -s ${client} -d ${web} -p tcp -m comment --comment lab-5 -j REJECT --reject-with tcp-reset`
const ownFilter =
  'INPUT -d 10.96.0.0/16 -m set ! --match-set KUBE-CLUSTER-IP dst,dst -m comment --comment lab-5 -j REJECT'
const onEveryAgentNode = (action: '-I' | '-D') =>
  `for N in $(kubectl get pods -l app=node-agent -o jsonpath='{.items[*].spec.nodeName}'); do make exec NODE=$N CMD="iptables ${action} ${ownFilter}"; done`

async function filterEverywhere(bench: LabBench, action: '-I' | '-D'): Promise<void> {
  await Promise.all((await agentNodes(bench)).map((node) => bench.onNode(node, `iptables ${action} ${ownFilter}`)))
}

/** Counts in both chains while the client sends one request, and returns the chain that it traversed. */
async function chainThatCounts(bench: LabBench): Promise<string> {
  const { node, client, web } = await place(bench)
  const chains = ['INPUT', 'FORWARD']
  const rule = `-s ${client} -d ${web} -m comment --comment lab-5-count`
  const all = (action: string) => chains.map((chain) => `iptables ${action} ${chain} ${rule}`).join('\n')
  await bench.onNode(node, all('-I'))
  const url = `http://${web}:${bench.variant.port}`
  await bench.inPod('client', `curl -s -o /dev/null --max-time 3 ${url} || true`)
  const listing = await bench.onNode(node, `iptables -nvxL\n${all('-D')}`)
  const seen = listing.split('\nChain ').find((text) => /^ *[1-9]\d* .*lab-5-count/m.test(text))
  return /^(?:Chain )?(\S+)/.exec(seen ?? '')?.[1] ?? ''
}

const readsOnly = { commands: [] }

export const solution: LabSolution = {
  steps: {
    stage: {
      commands: [
        'make web',
        `kubectl apply -f ${MANIFESTS}`,
        'kubectl rollout status daemonset/node-agent --timeout=90s',
        'kubectl wait --for=condition=Ready pod/client --timeout=90s',
      ],
      play: async (bench) => {
        await Promise.all([bench.web(), bench.apply(CLIENT), bench.apply(AGENTS)])
        await Promise.all([bench.podReady('client'), bench.rolledOut('DaemonSet', 'node-agent')])
      },
    },
    closed: readsOnly,
    'forward-rule': {
      independent: true,
      commands: [`make exec NODE=$NODE CMD="iptables -I ${forwardRule('$CLIENT')}"`],
      play: async (bench) => {
        const { node, client } = await place(bench)
        await bench.onNode(node, `iptables -I ${forwardRule(client)}`)
      },
    },
    exposed: { commands: ['make ipvs KUBE_PROXY_VERSION=1.20'], play: oldRules },
    'gained-addresses': {
      commands: [
        `make answer LAB=5 Q=gained-addresses A="$(make -s exec NODE=$NODE CMD='ip -o -4 address show kube-ipvs0' | wc -l)"`,
      ],
      play: async (bench) => {
        const { node } = await place(bench)
        const count = await bench.onNode(node, 'ip -o -4 address show kube-ipvs0 | wc -l')
        await bench.answer(LAB, 'gained-addresses', count.trim())
      },
    },
    'not-asked': readsOnly,
    'filter-chain': {
      commands: [
        `make answer LAB=5 Q=filter-chain A="$(make -s exec NODE=$NODE CMD='iptables -nvL' | awk '/^Chain/ {chain = $2} /lab-5-count/ && $1 > 0 {print chain}')"`,
      ],
      play: async (bench) => bench.answer(LAB, 'filter-chain', await chainThatCounts(bench)),
    },
    'either-mode': {
      commands: [`make exec NODE=$NODE CMD="iptables -I ${inputRule('$CLIENT', '$WEB')}"`],
      play: async (bench) => {
        const { node, client, web } = await place(bench)
        await bench.onNode(node, `iptables -I ${inputRule(client, web)}`)
      },
      cleanup: {
        commands: [
          `make exec NODE=$NODE CMD="iptables -D ${inputRule('$CLIENT', '$WEB')}"`,
          `make exec NODE=$NODE CMD="iptables -D ${forwardRule('$CLIENT')}"`,
        ],
        play: async (bench) => {
          const { node, client, web } = await place(bench)
          await bench.onNode(node, `iptables -D ${inputRule(client, web)}; iptables -D ${forwardRule(client)}`)
        },
      },
    },
    'own-filter': {
      commands: [onEveryAgentNode('-I')],
      play: (bench) => filterEverywhere(bench, '-I'),
      cleanup: { commands: [onEveryAgentNode('-D')], play: (bench) => filterEverywhere(bench, '-D') },
    },
    bound: {
      commands: [
        "kubectl set env daemonset/node-agent 'BIND=$(HOST_IP)'",
        'kubectl rollout status daemonset/node-agent --timeout=60s',
      ],
      play: (bench) => bindAgents(bench, '$(HOST_IP)'),
    },
    'access-filter': {
      commands: ['kubectl set env daemonset/node-agent BIND=0.0.0.0', 'make ipvs KUBE_PROXY_VERSION=own'],
      play: async (bench) => {
        await Promise.all([bindAgents(bench, '0.0.0.0'), bench.mode('ipvs', { version: 'own' })])
      },
    },
    'rejecting-set': {
      commands: [
        String.raw`make answer LAB=5 Q=rejecting-set A="$(make -s exec NODE=$NODE CMD='iptables -S KUBE-IPVS-FILTER' | sed -n 's/.*--match-set \(\S*\) dst -j REJECT.*/\1/p')"`,
      ],
      play: async (bench) => {
        const { node } = await place(bench)
        const rules = await bench.onNode(node, 'iptables -S KUBE-IPVS-FILTER')
        const set = /--match-set (\S+) dst -j REJECT/.exec(rules)?.[1] ?? ''
        await bench.answer(LAB, 'rejecting-set', set)
      },
    },
    whole: { commands: ['make flush-nat'], play: (bench) => bench.flush() },
  },

  comments: [`lab-${LAB}`],

  async leave(bench) {
    await Promise.all([bench.remove(AGENTS), bench.delete('Pod', 'client')])
  },

  async reset(bench) {
    await Promise.all([
      solution.leave?.(bench),
      bench.deleteLabelled('app=web'),
      bench.delete('ConfigMap', `lab-${LAB}`),
    ])
    // New agents need the port that the old ones use until they have ended.
    const gone = async () => (await agentNodes(bench)).length === 0
    await Promise.all([bench.startIn('iptables'), waitFor('the node agents to be gone', 30_000, gone)])
  },
}
