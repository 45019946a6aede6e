// The reference solution of lab 3, played by `make solve-3` and, without a terminal, by `make lab-3`.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import {
  answers,
  expose,
  independent,
  patchLoadBalancer,
  readsOnly,
  rolledOut,
  typing,
  web,
  withVariables,
} from '../../course/typed-commands.ts'
import { projectRoot } from '../../host/layout.ts'
import { OUTSIDE, printOutsideAddresses, readOutsideAddresses } from '../../host/outside.ts'

/** For two replicas; a variant with more of them grows to six. */
const REPLICAS = 4
const ANTI_AFFINITY = 'labs/03-from-outside/manifests/anti-affinity.yaml'
const rollout = rolledOut('Deployment', 'web')
const answer = answers(3, 'make answer')

/** `kubectl cordon` and `kubectl uncordon` */
const cordon = (bench: LabBench, node: string, unschedulable: boolean) =>
  bench.patch('Node', node, { spec: { unschedulable } })

/** Sends a request to the control plane from outside and reads the client address in the Pods' logs. */
async function readLoggedClient(bench: LabBench): Promise<string> {
  const [controlPlane] = await bench.nodes()
  const { ports } = await bench.service(`${bench.variant.name}-np`)
  const url = `http://${controlPlane?.address}:${ports?.[0]?.nodePort}/`
  return bench.clientInLogs('web', (mark) =>
    bench.onNode(OUTSIDE, `curl -s -o /dev/null --max-time 3 '${url}?${mark}' || true`),
  )
}

/** The share of one Pod on the node with the most Pods, as `kubectl get pods -o wide` shows them. */
async function readFullestShare(bench: LabBench): Promise<string> {
  const counts = new Map<string, number>()
  for (const { spec } of await bench.pods('web'))
    counts.set(spec?.nodeName ?? '', (counts.get(spec?.nodeName ?? '') ?? 0) + 1)
  return `1/${counts.size * Math.max(...counts.values())}`
}

const { printed } = withVariables()

export const solution: LabSolution = {
  steps: {
    web,
    'node-port': independent(expose('np', 'NodePort')),
    'node-port-chain': printed(
      answer,
      'node-port-chain',
      '',
      `'iptables -t nat -S KUBE-NODEPORTS | grep web-np | tail -n 1 | sed "s/.*-j //"'`,
    ),
    'cluster-policy': readsOnly,
    'logged-client': typing(
      { commands: ['make exec NODE=outside CMD="curl -s -o /dev/null http://$CP:$NP/?who"'] },
      answer(
        'logged-client',
        `"$(kubectl logs -l app=web --tail=20 | grep who | tail -n 1 | cut -d ' ' -f 1)"`,
        readLoggedClient,
      ),
    ),
    'load-balancer': independent(expose('lb', 'LoadBalancer')),
    'local-policy': independent(patchLoadBalancer({ externalTrafficPolicy: 'Local' })),
    'health-check': readsOnly,
    uneven: {
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
    },
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
    'source-ranges': {
      independent: true,
      commands: [
        `kubectl patch service web-lb -p "{\\"spec\\":{\\"loadBalancerSourceRanges\\":[\\"$ME/32\\"]}}"`,
      ],
      play: async (bench) => {
        const { own } = readOutsideAddresses(await bench.onNode(OUTSIDE, printOutsideAddresses))
        await patchLoadBalancer({ loadBalancerSourceRanges: [`${own}/32`] }).play?.(bench)
      },
    },
    whole: readsOnly,
  },

  async leave(bench) {
    const { items } = await bench.client.core.listNode()
    const cordoned = items.filter(({ spec }) => spec?.unschedulable)
    await Promise.all(cordoned.map(({ metadata }) => cordon(bench, metadata?.name ?? '', false)))
  },
}
