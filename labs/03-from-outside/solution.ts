// The reference solution of lab 3, played by `make solve-3` and, without a terminal, by `make lab-3`.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import { projectRoot } from '../../host/layout.ts'
import { OUTSIDE, printOutsideAddresses, readOutsideAddresses } from '../../host/outside.ts'
import { waitFor } from '../../host/wait.ts'

const LAB = 3
/** For two replicas; a variant with more of them grows to six. */
const REPLICAS = 4
const ANTI_AFFINITY = 'labs/03-from-outside/manifests/anti-affinity.yaml'
const rollout = 'kubectl rollout status deployment/web --timeout=90s'
const readsOnly = { commands: [] }

/** `kubectl patch service web-lb -p '{"spec":…}'` */
const patchLoadBalancer = (bench: LabBench, spec: object) =>
  bench.patch('Service', `${bench.variant.name}-lb`, { spec })

/** `kubectl cordon` and `kubectl uncordon` */
const cordon = (bench: LabBench, node: string, unschedulable: boolean) =>
  bench.patch('Node', node, { spec: { unschedulable } })

/** The target of the rule for the node port, as iptables prints it on a node. */
async function nodePortChain(bench: LabBench): Promise<string> {
  const [node = ''] = (await bench.cluster.nodes()).slice(-1)
  const rules = (await bench.onNode(node, 'iptables -t nat -S KUBE-NODEPORTS')).split('\n')
  const comment = new RegExp(`/${bench.variant.name}-np[" ]`)
  return /-j (\S+)$/.exec(rules.findLast((line) => comment.test(line)) ?? '')?.[1] ?? ''
}

/** Sends a request to the control plane from outside and reads the client address in the Pods' logs. */
async function loggedClient(bench: LabBench): Promise<string> {
  const [controlPlane] = await bench.nodes()
  const { ports } = await bench.service(`${bench.variant.name}-np`)
  const mark = `who-${Date.now()}`
  const url = `http://${controlPlane?.address}:${ports?.[0]?.nodePort}/?${mark}`
  await bench.onNode(OUTSIDE, `curl -s -o /dev/null --max-time 3 '${url}' || true`)
  return waitFor('the request in the logs', 5000, async () => {
    const lines = (await bench.logs('web')).join('\n').split('\n')
    return lines.find((line) => line.includes(mark))?.split(' ', 1)[0]
  })
}

/** The share of one Pod on the node with the most Pods, as `kubectl get pods -o wide` shows them. */
async function shareOnFullestNode(bench: LabBench): Promise<string> {
  const counts = new Map<string, number>()
  for (const { spec } of await bench.pods('web'))
    counts.set(spec?.nodeName ?? '', (counts.get(spec?.nodeName ?? '') ?? 0) + 1)
  return `1/${counts.size * Math.max(...counts.values())}`
}

export const solution: LabSolution = {
  steps: {
    web: { commands: ['make web'], play: (bench) => bench.web() },
    'node-port': {
      independent: true,
      commands: ['kubectl expose deployment web --name web-np --type NodePort --port 80'],
      play: (bench) => bench.expose('np', 'NodePort'),
    },
    'node-port-chain': {
      commands: [
        `make answer Q=node-port-chain A="$(make -s exec CMD='iptables -t nat -S KUBE-NODEPORTS' | grep web-np | tail -n 1 | sed 's/.*-j //')"`,
      ],
      play: async (bench) => bench.answer(LAB, 'node-port-chain', await nodePortChain(bench)),
    },
    'cluster-policy': readsOnly,
    'logged-client': {
      commands: [
        'make exec NODE=outside CMD="curl -s -o /dev/null http://$CP:$NP/?who"',
        `make answer Q=logged-client A="$(kubectl logs -l app=web --tail=20 | grep who | tail -n 1 | cut -d ' ' -f 1)"`,
      ],
      play: async (bench) => bench.answer(LAB, 'logged-client', await loggedClient(bench)),
    },
    'load-balancer': {
      independent: true,
      commands: ['kubectl expose deployment web --name web-lb --type LoadBalancer --port 80'],
      play: (bench) => bench.expose('lb', 'LoadBalancer'),
    },
    'local-policy': {
      independent: true,
      commands: [`kubectl patch service web-lb -p '{"spec":{"externalTrafficPolicy":"Local"}}'`],
      play: (bench) => patchLoadBalancer(bench, { externalTrafficPolicy: 'Local' }),
    },
    'health-check': readsOnly,
    uneven: {
      commands: [
        'kubectl cordon $WORKER',
        `kubectl scale deployment web --replicas ${REPLICAS}`,
        rollout,
        'kubectl uncordon $WORKER',
      ],
      play: async (bench) => {
        const [worker = ''] = (await bench.cluster.nodes()).slice(-1)
        await cordon(bench, worker, true)
        await bench.scale(bench.variant.name, bench.variant.replicas > 2 ? 6 : REPLICAS)
        await cordon(bench, worker, false)
      },
    },
    'crowded-share': {
      commands: [
        `make answer Q=crowded-share A="$(kubectl get pods -l app=web -o go-template='{{range .items}}{{if not .metadata.deletionTimestamp}}{{println .spec.nodeName}}{{end}}{{end}}' | sort | uniq -c | awk '{n++; if ($1 > most) most = $1} END {print "1/" n * most}')"`,
      ],
      play: async (bench) => bench.answer(LAB, 'crowded-share', await shareOnFullestNode(bench)),
    },
    'anti-affinity': {
      commands: [`kubectl patch deployment web --patch-file ${ANTI_AFFINITY}`, rollout],
      play: async (bench) => {
        const { name } = bench.variant
        await bench.patch('Deployment', name, parse(readFileSync(join(projectRoot, ANTI_AFFINITY), 'utf8')))
        await bench.rolledOut('Deployment', name)
      },
    },
    'source-ranges': {
      independent: true,
      commands: [`kubectl patch service web-lb -p "{\\"spec\\":{\\"loadBalancerSourceRanges\\":[\\"$ME/32\\"]}}"`],
      play: async (bench) => {
        const { own } = readOutsideAddresses(await bench.onNode(OUTSIDE, printOutsideAddresses))
        await patchLoadBalancer(bench, { loadBalancerSourceRanges: [`${own}/32`] })
      },
    },
    whole: readsOnly,
  },

  async leave(bench) {
    const { items } = await bench.client.core.listNode()
    const cordoned = items.filter(({ spec }) => spec?.unschedulable)
    await Promise.all(cordoned.map(({ metadata }) => cordon(bench, metadata?.name ?? '', false)))
  },

  async reset(bench) {
    await Promise.all([solution.leave?.(bench), bench.deleteLabelled('app=web'), bench.delete('ConfigMap', 'lab-3')])
    await bench.startIn('iptables')
  },
}
