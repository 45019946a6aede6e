// The reference solution of lab 3, played by `make solve-3` and, without a terminal, by
// `make lab-3`.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { solveIncident } from '../../course/incident/solve-incident.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution, SolutionStep } from '../../course/lab-solution.ts'
import {
  answers,
  expose,
  independent,
  patchLoadBalancer,
  predictions,
  readsOnly,
  rolledOut,
  typing,
  web,
  withVariables,
} from '../../course/typed-commands.ts'
import { projectRoot } from '../../host/layout.ts'
import { OUTSIDE, printOutsideAddresses, readOutsideAddresses } from '../../host/outside.ts'
import { waitFor } from '../../host/wait.ts'

/** For two replicas; a variant with more of them grows to six. */
const REPLICAS = 4
const ANTI_AFFINITY = 'labs/03-from-outside/manifests/anti-affinity.yaml'
const rollout = rolledOut('Deployment', 'web')
const LAB = 3
const answer = answers(LAB)
const predictAt = predictions(LAB)

/** `kubectl get nodes`, counted. */
const nodeCount = async (bench: LabBench) => `${(await bench.nodes()).length}`

/** The number of nodes on which `kubectl get pods -o wide` shows Pods of web. */
const nodesWithPods = async (bench: LabBench) =>
  `${new Set((await bench.pods('web')).map(({ spec }) => spec?.nodeName)).size}`
const NODES_WITH_PODS = `"$(kubectl get pods -l app=web -o wide --no-headers | awk '{print $7}' | sort -u | wc -l)"`

/** A request from outside with a word of the learner's. */
const requestOutside = (
  command: string,
  url: (bench: LabBench) => Promise<string>,
): SolutionStep => ({
  commands: [command],
  play: async (bench) => {
    await bench.onNode(
      OUTSIDE,
      `curl -s -o /dev/null --max-time 1 --retry 9 --retry-delay 1 --retry-all-errors '${await url(bench)}' || true`,
    )
  },
})

/** The control plane's node port of web-np. */
async function nodePortUrl(bench: LabBench): Promise<string> {
  const [controlPlane] = await bench.nodes()
  const { ports } = await bench.service(`${bench.variant.name}-np`)
  return `http://${controlPlane?.address}:${ports?.[0]?.nodePort}/`
}

/** The load balancer's address of web-lb, as soon as it has one. */
function loadBalancerUrl(bench: LabBench): Promise<string> {
  const name = `${bench.variant.name}-lb`
  return waitFor('an address of the load balancer', 60_000, async () => {
    const { status } = await bench.client.core.readNamespacedService({ namespace: 'default', name })
    const address = status?.loadBalancer?.ingress?.[0]?.ip
    return address && `http://${address}:${bench.variant.port}/`
  })
}

/** `kubectl cordon` and `kubectl uncordon` */
const cordon = (bench: LabBench, node: string, unschedulable: boolean) =>
  bench.patch('Node', node, { spec: { unschedulable } })

/**
 * Sends a request to the control plane from outside and reads the client address in the Pods' logs.
 */
async function readLoggedClient(bench: LabBench): Promise<string> {
  const url = await nodePortUrl(bench)
  return bench.clientInLogs('web', (mark) =>
    bench.onNode(OUTSIDE, `curl -s -o /dev/null --max-time 3 '${url}?${mark}' || true`),
  )
}

/**
 * The share of one Pod on the node with the most Pods, as `kubectl get pods -o wide` shows them.
 */
async function readFullestShare(bench: LabBench): Promise<string> {
  const counts = new Map<string, number>()
  for (const { spec } of await bench.pods('web'))
    counts.set(spec?.nodeName ?? '', (counts.get(spec?.nodeName ?? '') ?? 0) + 1)
  return `1/${counts.size * Math.max(...counts.values())}`
}

/**
 * Sent until a Pod logs the client's own address: the load balancer and the nodes notice the new
 * policy after a while.
 */
const requestAfterPatch: SolutionStep = {
  commands: [
    'make exec NODE=outside CMD="curl -sS --max-time 1 --retry 9 --retry-delay 1 --retry-all-errors http://$LB/?kept"',
  ],
  reads: true,
  play: async (bench) => {
    const url = await loadBalancerUrl(bench)
    const { own } = readOutsideAddresses(await bench.onNode(OUTSIDE, printOutsideAddresses))
    const ask = (mark: string) =>
      bench.onNode(OUTSIDE, `curl -s -o /dev/null --max-time 1 '${url}?kept-${mark}' || true`)
    await waitFor('a request whose client a Pod logs', 60_000, async () => {
      const client = await bench.clientInLogs('web', ask).catch(() => undefined)
      return client === own
    })
  },
}

const { printed } = withVariables()

export const solution: LabSolution = {
  steps: {
    web,
    'node-port': independent(
      typing(
        predictAt('node-port', '"$(kubectl get nodes --no-headers | wc -l)"', nodeCount),
        expose('np', 'NodePort'),
      ),
    ),
    'node-port-chain': printed(
      answer,
      'node-port-chain',
      '',
      `'iptables -t nat -S KUBE-NODEPORTS | grep web-np | tail -n 1 | sed "s/.*-j //"'`,
    ),
    'cluster-policy': independent(
      typing(
        predictAt('cluster-policy', 'node', 'node'),
        requestOutside(
          'make exec NODE=outside CMD="curl -s --max-time 3 http://$CP:$NP/?mine"',
          async (bench) => `${await nodePortUrl(bench)}?mine`,
        ),
      ),
    ),
    'logged-client': typing(
      { commands: ['make exec NODE=outside CMD="curl -s -o /dev/null http://$CP:$NP/?who"'] },
      answer(
        'logged-client',
        `"$(kubectl logs -l app=web --tail=20 | grep who | tail -n 1 | cut -d ' ' -f 1)"`,
        readLoggedClient,
      ),
    ),
    'load-balancer': independent(
      typing(predictAt('load-balancer', '0', '0'), expose('lb', 'LoadBalancer')),
    ),
    'local-policy': independent(
      typing(
        predictAt('local-policy', NODES_WITH_PODS, nodesWithPods),
        patchLoadBalancer({ externalTrafficPolicy: 'Local' }),
        requestAfterPatch,
      ),
    ),
    'health-check': predictAt('health-check', '503', '503'),
    uneven: typing(predictAt('uneven', '1/2', '1/2'), {
      commands: [
        'kubectl cordon $WORKER',
        `kubectl scale deployment web --replicas ${REPLICAS}`,
        ...rollout.commands,
        'kubectl uncordon $WORKER',
      ],
      play: async (bench) => {
        const [worker = ''] = (await bench.cluster.nodes()).slice(-1)
        await cordon(bench, worker, true)
        await bench.scale(bench.variant.name, bench.variant.replicas > 2 ? 6 : REPLICAS)
        await cordon(bench, worker, false)
      },
    }),
    'crowded-share': answer(
      'crowded-share',
      `"$(kubectl get pods -l app=web -o go-template='{{range .items}}{{if not .metadata.deletionTimestamp}}{{println .spec.nodeName}}{{end}}{{end}}' | sort | uniq -c | awk '{n++; if ($1 > most) most = $1} END {print "1/" n * most}')"`,
      readFullestShare,
    ),
    'anti-affinity': typing(
      {
        commands: [`kubectl patch deployment web --patch-file ${ANTI_AFFINITY}`],
        play: (bench) =>
          bench.patch(
            'Deployment',
            bench.variant.name,
            parse(readFileSync(join(projectRoot, ANTI_AFFINITY), 'utf8')),
          ),
      },
      rollout,
    ),
    'source-ranges': independent(
      typing(predictAt('source-ranges', 'yes', 'yes'), {
        commands: [
          `kubectl patch service web-lb -p "{\\"spec\\":{\\"loadBalancerSourceRanges\\":[\\"$ME/32\\"]}}"`,
        ],
        play: async (bench) => {
          const { own } = readOutsideAddresses(await bench.onNode(OUTSIDE, printOutsideAddresses))
          await patchLoadBalancer({ loadBalancerSourceRanges: [`${own}/32`] }).play?.(bench)
        },
      }),
    ),
    whole: readsOnly,
    incident: solveIncident(LAB),
  },

  async leave(bench) {
    const { items } = await bench.client.core.listNode()
    const cordoned = items.filter(({ spec }) => spec?.unschedulable)
    await Promise.all(cordoned.map(({ metadata }) => cordon(bench, metadata?.name ?? '', false)))
  },
}
