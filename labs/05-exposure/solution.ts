// The reference solution of lab 5, played by `make solve-5` and, without a terminal, by
// `make lab-5`.

import { readDaemonSet } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { solveIncident } from '../../course/incident/solve-incident.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import { type LabSolution, type SolutionStep, startOver } from '../../course/lab-solution.ts'
import {
  answers,
  atOnce,
  flush,
  independent,
  mode,
  podsReady,
  predictions,
  rolledOut,
  typing,
  web,
  withVariables,
} from '../../course/typed-commands.ts'
import { genuineAnnotation } from '../../embedded/index.ts'
import { waitFor } from '../../host/wait.ts'

const LAB = 5
const MANIFESTS = 'labs/05-exposure/manifests'
const AGENTS = `${MANIFESTS}/node-agent.yaml`
const CLIENT_POD = `${MANIFESTS}/client.yaml`

const answer = answers(LAB)
const predictAt = predictions(LAB)

async function readVariables(bench: LabBench) {
  const [{ spec, status }, { clusterIP = '' }] = await Promise.all([
    bench.client.core.readNamespacedPod({ namespace: 'default', name: 'client' }),
    bench.service(bench.variant.name),
  ])
  return { NODE: spec?.nodeName ?? '', CLIENT: status?.podIP ?? '', WEB: clusterIP }
}
const { exec, inPod, printed } = withVariables(readVariables)

/** Nodes that run an agent, also one that terminates. */
async function agentNodes({ client: { core } }: LabBench): Promise<string[]> {
  const { items } = await core.listNamespacedPod({
    namespace: 'default',
    labelSelector: 'app=node-agent',
  })
  return [...new Set(items.flatMap(({ spec }) => spec?.nodeName ?? []))]
}

/** Binds the agents to another address. */
const bindAgents = (value: string): SolutionStep => ({
  commands: [
    `kubectl set env daemonset/node-agent ${value.includes('$') ? `'BIND=${value}'` : `BIND=${value}`}`,
  ],
  play: async (bench) => {
    const containers = [{ name: 'agent', env: [{ name: 'BIND', value }] }]
    await bench.patch('DaemonSet', 'node-agent', { spec: { template: { spec: { containers } } } })
  },
})
const agentsReady = rolledOut('DaemonSet', 'node-agent', 60)

/**
 * The rules of 1.20 if the cluster can run any version; otherwise its own version's rules without
 * the jump added in 1.26.
 */
async function oldRules(bench: LabBench): Promise<void> {
  const { metadata } = await readDaemonSet(bench.client)
  const any =
    bench.cluster.capabilities.runsOldKubeProxies &&
    metadata?.annotations?.[genuineAnnotation] === undefined
  await bench.mode('ipvs', any ? { version: '1.20' } : {})
  const access = '-m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER'
  await Promise.all(
    (await agentNodes(bench)).map((node) =>
      bench.onNode(node, `iptables -D INPUT ${access} 2>/dev/null || true`),
    ),
  )
}

const FORWARD_RULE =
  'FORWARD -s $CLIENT -p tcp --dport 80 -m comment --comment lab-5 -j REJECT --reject-with tcp-reset'
const INPUT_RULE =
  'INPUT -s $CLIENT -d $WEB -p tcp -m comment --comment lab-5 -j REJECT --reject-with tcp-reset'
const filterCommand = (action: '-I' | '-D', rule: string) =>
  ['$NODE', `"iptables ${action} ${rule}"`] as const

const NO_PORT = '-m set ! --match-set KUBE-CLUSTER-IP dst,dst'
const REJECT = '-m comment --comment lab-5 -j REJECT'
/**
 * It matches new connections only. Without that it would match replies to the node's own requests,
 * too.
 */
const FILTER = 'INPUT -d 10.96.0.0/16 -m conntrack --ctstate NEW'

/** Adds or deletes the filter on every node with an agent. */
function ownFilter(action: '-I' | '-D'): SolutionStep {
  const command = `iptables ${action} ${FILTER} ${NO_PORT} ${REJECT}`
  const named = [
    `NO_PORT='${NO_PORT}'`,
    `REJECT='${REJECT}'`,
    `FILTER="${FILTER} $NO_PORT $REJECT"`,
  ]
  return {
    commands: [
      ...(action === '-I' ? named : []),
      `for N in $AGENTS; do make exec NODE=$N CMD="iptables ${action} $FILTER"; done`,
    ],
    play: async (bench) => {
      await Promise.all((await agentNodes(bench)).map((node) => bench.onNode(node, command)))
    },
  }
}

/**
 * The source that the client's node chooses for its own request to the API server, to which replies
 * are addressed.
 */
async function sourceOfOwnRequest(bench: LabBench): Promise<string> {
  const { NODE } = await readVariables(bench)
  const route = await bench.onNode(NODE, 'ip route get 10.96.0.1')
  return / src (\S+)/.exec(route)?.[1] ?? ''
}

/**
 * Counts in both chains while the client sends one request, and returns the chain that it
 * traversed.
 */
async function chainThatCounts(bench: LabBench): Promise<string> {
  const { NODE, CLIENT, WEB } = await readVariables(bench)
  const chains = ['INPUT', 'FORWARD']
  const rule = `-s ${CLIENT} -d ${WEB} -m comment --comment lab-5-count`
  const all = (action: string) =>
    chains.map((chain) => `iptables ${action} ${chain} ${rule}`).join('\n')
  await bench.onNode(NODE, all('-I'))
  const url = `http://${WEB}:${bench.variant.port}`
  await bench.inPod('client', `curl -s -o /dev/null --max-time 3 ${url} || true`)
  const listing = await bench.onNode(NODE, `iptables -nvxL\n${all('-D')}`)
  const seen = listing.split('\nChain ').find((text) => /^ *[1-9]\d* .*lab-5-count/m.test(text))
  return /^(?:Chain )?(\S+)/.exec(seen ?? '')?.[1] ?? ''
}

export const solution: LabSolution = {
  steps: {
    stage: typing(
      atOnce(web, {
        commands: [`kubectl apply -f ${MANIFESTS}`],
        play: async (bench) => {
          await Promise.all([bench.apply(CLIENT_POD), bench.apply(AGENTS)])
        },
      }),
      rolledOut('DaemonSet', 'node-agent'),
      podsReady('client'),
    ),
    closed: predictAt('closed', 'silence', 'silence'),
    'forward-rule': independent(
      typing(predictAt('forward-rule', 'Pod', 'Pod'), exec(filterCommand('-I', FORWARD_RULE))),
    ),
    exposed: typing(
      predictAt('exposed', '$NODE', async (bench) => (await readVariables(bench)).NODE),
      {
        ...mode('ipvs', { version: '1.20' }),
        play: oldRules,
      },
    ),
    'gained-addresses': printed(
      answer,
      'gained-addresses',
      '$NODE',
      "'ip -o -4 address show kube-ipvs0 | wc -l'",
    ),
    'not-asked': independent(
      typing(
        predictAt('not-asked', '0', '0'),
        inPod('client', 'curl -sS --max-time 3 http://$WEB:80/?mine'),
      ),
    ),
    'filter-chain': answer(
      'filter-chain',
      `"$(make -s exec NODE=$NODE CMD='iptables -nvL' | awk '/^Chain/ {chain = $2} /lab-5-count/ && $1 > 0 {print chain}')"`,
      chainThatCounts,
    ),
    'either-mode': {
      ...exec(filterCommand('-I', INPUT_RULE)),
      cleanup: exec(filterCommand('-D', INPUT_RULE), filterCommand('-D', FORWARD_RULE)),
    },
    'own-filter': {
      ...typing(
        predictAt('own-filter', 'client-web', 'client-web'),
        ownFilter('-I'),
        exec(['$NODE', '"curl -sS --max-time 2 http://$WEB:80/?mine"']),
        answer(
          'own-filter',
          `"$(make -s exec NODE=$NODE CMD='ip route get 10.96.0.1' | sed -n 's/.* src \\([0-9.]*\\).*/\\1/p')"`,
          sourceOfOwnRequest,
        ),
      ),
      cleanup: ownFilter('-D'),
    },
    bound: typing(predictAt('bound', 'kernel', 'kernel'), bindAgents('$(HOST_IP)'), agentsReady),
    'access-filter': typing(
      atOnce(bindAgents('0.0.0.0'), mode('ipvs', { version: 'own' })),
      agentsReady,
    ),
    'rejecting-set': printed(
      answer,
      'rejecting-set',
      '$NODE',
      String.raw`'iptables -S KUBE-IPVS-FILTER | sed -n "s/.*--match-set \(\S*\) dst -j REJECT.*/\1/p"'`,
    ),
    whole: flush,
    incident: solveIncident(LAB),
  },

  comments: [`lab-${LAB}`],

  async leave(bench) {
    await Promise.all([bench.remove(AGENTS), bench.delete('Pod', 'client')])
  },

  async reset(bench) {
    // New agents need the port that the old ones use until they have ended.
    const gone = async () => (await agentNodes(bench)).length === 0
    await Promise.all([
      startOver(LAB, solution, bench),
      waitFor('the node agents to be gone', 30_000, gone),
    ])
  },
}
