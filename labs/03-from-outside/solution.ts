// The reference solution of lab 3, played by `make solve-3` and, without a terminal, by `make lab-3`.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ApiException, V1Pod } from '@kubernetes/client-node'
import { parse } from 'yaml'
import { runOnNode } from '../../cluster/node-script.ts'
import type { LabBench, LabSolution } from '../../course/lab-bench.ts'
import { projectRoot } from '../../host/layout.ts'
import { OUTSIDE, printOutsideAddresses, readOutsideAddresses } from '../../host/outside.ts'
import { waitFor } from '../../host/wait.ts'

const LAB = 3
/** For two replicas; a variant with more of them grows to six. */
const REPLICAS = 4
const ANTI_AFFINITY = 'labs/03-from-outside/manifests/anti-affinity.yaml'
const namespace = 'default'
const rollout = 'kubectl rollout status deployment/web --timeout=90s'
const look = { commands: [] }

/** `kubectl patch service NAME -p '{"spec":…}'` */
async function patchService({ client, variant }: LabBench, spec: object): Promise<void> {
  const name = `${variant.name}-lb`
  await client.core.patchNamespacedService({ namespace, name, body: { spec } }, client.mergePatch)
}

/** `kubectl patch deployment web`, until every replica is updated and ready, and no old one is left. */
async function rollOut({ client: { apps, mergePatch }, variant: { name } }: LabBench, body: object): Promise<void> {
  await apps.patchNamespacedDeployment({ namespace, name, body }, mergePatch)
  await waitFor(`every replica of ${name} to be ready`, 90_000, async () => {
    const { metadata, spec, status = {} } = await apps.readNamespacedDeployment({ namespace, name })
    const { observedGeneration = 0, replicas, updatedReplicas, readyReplicas } = status
    if (observedGeneration < (metadata?.generation ?? 0)) return false
    return [replicas, updatedReplicas, readyReplicas].every((count) => count === spec?.replicas)
  })
}

/** `kubectl cordon` and `kubectl uncordon` */
async function cordon({ client }: LabBench, name: string, unschedulable: boolean): Promise<void> {
  await client.core.patchNode({ name, body: { spec: { unschedulable } } }, client.mergePatch)
}

/** `kubectl expose deployment web --name web-lb --type LoadBalancer --port 80` */
async function exposeToOutside({ client, variant }: LabBench): Promise<void> {
  const labels = { app: 'web' }
  const spec = { type: 'LoadBalancer', selector: labels, ports: [{ port: variant.port, targetPort: 80 }] }
  const metadata = { name: `${variant.name}-lb`, labels }
  try {
    await client.core.createNamespacedService({ namespace, body: { metadata, spec } })
  } catch (error) {
    if ((error as ApiException<unknown>).code !== 409) throw error
  }
}

async function onMachine({ cluster }: LabBench, machine: string, script: string): Promise<string> {
  return (await runOnNode(cluster, machine, script)).stdout
}

/** The target of the rule for the node port, as iptables prints it on a node. */
async function nodePortChain(bench: LabBench): Promise<string> {
  const [node = ''] = (await bench.cluster.nodes()).slice(-1)
  const rules = await onMachine(bench, node, 'iptables -t nat -S KUBE-NODEPORTS')
  const own = rules
    .split('\n')
    .filter((line) => line.includes(`/${bench.variant.name}-np"`) || line.includes(`/${bench.variant.name}-np `))
  return /-j (\S+)$/.exec(own.at(-1) ?? '')?.[1] ?? ''
}

/** Sends a request to the control plane from outside and reads the client address in the Pods' logs. */
async function loggedClient(bench: LabBench): Promise<string> {
  const { core } = bench.client
  const [controlPlane = ''] = await bench.cluster.nodes()
  const { status } = await core.readNode({ name: controlPlane })
  const address = status?.addresses?.find(({ type }) => type === 'InternalIP')?.address
  const { spec } = await core.readNamespacedService({ namespace, name: `${bench.variant.name}-np` })
  const mark = `who-${Date.now()}`
  await onMachine(
    bench,
    OUTSIDE,
    `curl -s -o /dev/null --max-time 3 'http://${address}:${spec?.ports?.[0]?.nodePort}/?${mark}'`,
  )
  const pods = await webPods(bench)
  return waitFor('the request in the logs', 5000, async () => {
    const logs = pods.map(({ metadata }) =>
      core.readNamespacedPodLog({ namespace, name: metadata?.name ?? '', tailLines: 20 }),
    )
    const line = (await Promise.all(logs))
      .join('\n')
      .split('\n')
      .find((one) => one.includes(mark))
    return line?.split(' ', 1)[0]
  })
}

/** The Pods of web without terminating ones, which can take 30 s to end. */
async function webPods({ client }: LabBench): Promise<V1Pod[]> {
  const { items } = await client.core.listNamespacedPod({ namespace, labelSelector: 'app=web' })
  return items.filter(({ metadata }) => !metadata?.deletionTimestamp)
}

/** The share of one Pod on the node with the most Pods, as `kubectl get pods -o wide` shows them. */
async function crowdedShare(bench: LabBench): Promise<string> {
  const counts = new Map<string, number>()
  for (const { spec } of await webPods(bench))
    counts.set(spec?.nodeName ?? '', (counts.get(spec?.nodeName ?? '') ?? 0) + 1)
  return `1/${counts.size * Math.max(...counts.values())}`
}

export const solution: LabSolution = {
  steps: {
    web: { commands: ['make web'], play: (bench) => bench.web() },
    'node-port': {
      independent: true,
      commands: ['kubectl expose deployment web --name web-np --type NodePort --port 80'],
      play: (bench) => bench.nodePort(`${bench.variant.name}-np`, { app: 'web' }, bench.variant.port, 80),
    },
    'node-port-chain': {
      commands: [
        `make answer Q=node-port-chain A="$(make -s exec CMD='iptables -t nat -S KUBE-NODEPORTS' | grep web-np | tail -n 1 | sed 's/.*-j //')"`,
      ],
      play: async (bench) => bench.answer(LAB, 'node-port-chain', await nodePortChain(bench)),
    },
    'cluster-policy': look,
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
      play: exposeToOutside,
    },
    'local-policy': {
      independent: true,
      commands: [`kubectl patch service web-lb -p '{"spec":{"externalTrafficPolicy":"Local"}}'`],
      play: (bench) => patchService(bench, { externalTrafficPolicy: 'Local' }),
    },
    'health-check': look,
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
        await rollOut(bench, { spec: { replicas: bench.variant.replicas > 2 ? 6 : REPLICAS } })
        await cordon(bench, worker, false)
      },
    },
    'crowded-share': {
      commands: [
        `make answer Q=crowded-share A="$(kubectl get pods -l app=web -o go-template='{{range .items}}{{if not .metadata.deletionTimestamp}}{{println .spec.nodeName}}{{end}}{{end}}' | sort | uniq -c | awk '{n++; if ($1 > most) most = $1} END {print "1/" n * most}')"`,
      ],
      play: async (bench) => bench.answer(LAB, 'crowded-share', await crowdedShare(bench)),
    },
    'anti-affinity': {
      commands: [`kubectl patch deployment web --patch-file ${ANTI_AFFINITY}`, rollout],
      play: (bench) => rollOut(bench, parse(readFileSync(join(projectRoot, ANTI_AFFINITY), 'utf8'))),
    },
    'source-ranges': {
      independent: true,
      commands: [`kubectl patch service web-lb -p "{\\"spec\\":{\\"loadBalancerSourceRanges\\":[\\"$ME/32\\"]}}"`],
      play: async (bench) => {
        const { own } = readOutsideAddresses(await onMachine(bench, OUTSIDE, printOutsideAddresses))
        await patchService(bench, { loadBalancerSourceRanges: [`${own}/32`] })
      },
    },
    whole: look,
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
