// The second DaemonSet of kube-proxy: its preparation, and the return to one.

import { isDeepStrictEqual } from 'node:util'
import { parse } from 'yaml'
import * as z from 'zod'
import { kubeProxy, kubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { readMode } from '../../dataplane/kube-proxy/config-conf.ts'
import type { ApiObject } from '../../grading/api-object.ts'
import { type CheckContext, onceSeen } from '../../grading/check-context.ts'
import { configOf } from '../../grading/evaluate.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { expectFound, expectThat } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { modeChange } from './migration.ts'

/** The label of the nodes that the second kube-proxy takes. */
export const NODE_LABEL = 'kube-proxy'
export const NEXT = 'kube-proxy-next'
const { namespace, name: FIRST } = kubeProxy

const termShape = z.looseObject({
  matchExpressions: z
    .array(
      z.object({ key: z.string(), operator: z.string(), values: z.array(z.string()).nullish() }),
    )
    .nullish(),
})
/** What of a DaemonSet decides where its Pods run, and with which configuration. */
const daemonSetShape = z.object({
  spec: z.object({
    template: z.object({
      metadata: z.object({ labels: z.record(z.string(), z.string()).nullish() }).nullish(),
      spec: z.object({
        nodeSelector: z.record(z.string(), z.string()).nullish(),
        affinity: z
          .object({
            nodeAffinity: z
              .object({
                requiredDuringSchedulingIgnoredDuringExecution: z
                  .object({ nodeSelectorTerms: z.array(termShape) })
                  .nullish(),
              })
              .nullish(),
          })
          .nullish(),
        volumes: z
          .array(z.looseObject({ configMap: z.object({ name: z.string() }).nullish() }))
          .nullish(),
      }),
    }),
  }),
  status: z
    .object({
      observedGeneration: z.number().optional(),
      desiredNumberScheduled: z.number().optional(),
      updatedNumberScheduled: z.number().optional(),
      numberReady: z.number().optional(),
    })
    .optional(),
})
type KubeProxySet = z.infer<typeof daemonSetShape> & { metadata: ApiObject['metadata'] }

/** A DaemonSet of kube-system; undefined if it does not exist. */
export function daemonSetIn(snapshot: Snapshot, name: string): KubeProxySet | undefined {
  const object = snapshot.find('DaemonSet', namespace, name)
  const read = object && daemonSetShape.safeParse(object).data
  return object && read && { ...read, metadata: object.metadata }
}

const podSpec = ({ spec }: KubeProxySet) => spec.template.spec

/** True if the Pods avoid the nodes with the label. */
const avoidsNext = (daemonSet: KubeProxySet): boolean => {
  const required =
    podSpec(daemonSet).affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution
  return (required?.nodeSelectorTerms ?? []).some(({ matchExpressions }) =>
    matchExpressions?.some(
      ({ key, operator, values }) =>
        key === NODE_LABEL && operator === 'NotIn' && values?.includes('next'),
    ),
  )
}

/** True once every Pod of a DaemonSet is of its latest template and ready. */
function isRolledOut({ metadata, status }: KubeProxySet): boolean {
  const wanted = status?.desiredNumberScheduled ?? 0
  return (
    (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0) &&
    (status?.updatedNumberScheduled ?? 0) >= wanted &&
    (status?.numberReady ?? 0) >= wanted
  )
}

/** The Pods of the second kube-proxy that are in service. */
export const nextPods = (snapshot: Snapshot): ApiObject[] =>
  kubeProxyPods(snapshot.items).filter(({ metadata }) => metadata.labels?.next === 'true')

/** The nodes with the label. */
const labelledNodes = (snapshot: Snapshot): string[] =>
  snapshot.items.flatMap(({ kind, metadata }) =>
    kind === 'Node' && metadata.labels?.[NODE_LABEL] !== undefined ? metadata.name : [],
  )

/** The second configuration is the first with another mode. Its ConfigMap is not in captures. */
async function expectSameConfiguration(live: LiveCluster, to: string): Promise<void> {
  const read = async (name: string) =>
    (await live.client.core.readNamespacedConfigMap({ namespace, name })).data?.['config.conf'] ??
    ''
  const [first, next] = await Promise.all([read(FIRST), read(NEXT).catch(() => undefined)])
  const inspect = `kubectl -n kube-system get configmap ${NEXT} -o yaml`
  const text = expectFound(next, { inspect, expected: `the ConfigMap ${NEXT}` })
  const { mode } = readMode(text)
  expectThat(mode === to, { inspect, expected: `mode: ${to}`, actual: `mode: ${mode || '""'}` })
  expectThat(isDeepStrictEqual({ ...parse(first), mode: to }, parse(text)), {
    inspect,
    expected: 'the configuration of the first kube-proxy, but for the mode',
    actual: 'another field differs, too',
    why: 'A canary that differs in two things does not tell which of them made the difference.',
  })
}

/**
 * Two DaemonSets: one runs on every node as before and avoids labelled ones, the other waits for a
 * label.
 */
export const secondIsPrepared = onceSeen('second', async (context: CheckContext) => {
  const { snapshot, live } = context
  const change = modeChange(context)
  const inspect = 'kubectl -n kube-system get daemonsets -o yaml'
  const next = expectFound(daemonSetIn(snapshot, NEXT), {
    inspect: 'kubectl -n kube-system get daemonsets',
    expected: `a second DaemonSet, ${NEXT}`,
  })
  const { nodeSelector, volumes, affinity } = podSpec(next)
  expectThat(nodeSelector?.[NODE_LABEL] === 'next' && !affinity?.nodeAffinity, {
    inspect,
    expected: `${NEXT} with the node selector ${NODE_LABEL}: next, and no other affinity`,
    actual: JSON.stringify({ nodeSelector, affinity }),
  })
  expectThat(
    volumes?.some(({ configMap }) => configMap?.name === NEXT),
    {
      inspect,
      expected: `the ConfigMap ${NEXT} in ${NEXT}`,
      actual: 'it has that of the first kube-proxy, and so its mode',
    },
  )
  const first = expectFound(daemonSetIn(snapshot, FIRST), { inspect, expected: FIRST })
  expectThat(avoidsNext(first), {
    inspect,
    expected: `an affinity of ${FIRST} that excludes nodes with ${NODE_LABEL}=next`,
    actual: 'none: two kube-proxies would write to one node',
  })
  const labelled = labelledNodes(snapshot)
  expectThat(labelled.length === 0 && nextPods(snapshot).length === 0, {
    inspect: `kubectl get nodes -L ${NODE_LABEL}`,
    expected: 'no node with the label yet',
    actual: labelled.join(', ') || `Pods of ${NEXT}`,
    next: `kubectl label node ${labelled[0] ?? '--all'} ${NODE_LABEL}-`,
  })
  expectThat(isRolledOut(first), {
    inspect: 'kubectl -n kube-system rollout status daemonset/kube-proxy',
    expected: 'every node with a kube-proxy of the changed template',
    actual: 'it is being restarted',
  })
  if (live) await expectSameConfiguration(live, change.to)
  expectMode(context, change.from, {})
  return { ...change }
})

/**
 * One kube-proxy again: the first DaemonSet, in the new mode, on every node; nothing of the second
 * is left.
 */
export function onlyOneKubeProxy(context: CheckContext): void {
  const { snapshot } = context
  const { to } = modeChange(context)
  const mode = configOf(snapshot).mode ?? 'iptables'
  expectThat(mode === to, {
    inspect: "kubectl -n kube-system get configmap kube-proxy -o yaml | grep ' mode:'",
    expected: `mode: ${to} in the ConfigMap of the first kube-proxy`,
    actual: `mode: ${mode}`,
    why: 'Its Pods would start in the old mode as soon as the label is gone.',
  })
  const inspect = 'kubectl -n kube-system get daemonsets'
  const labelled = labelledNodes(snapshot)
  expectThat(labelled.length === 0, {
    inspect: `kubectl get nodes -L ${NODE_LABEL}`,
    expected: 'no node with the label: the first kube-proxy takes all nodes back',
    actual: labelled.join(', '),
    next: `kubectl label node ${labelled[0]} ${NODE_LABEL}-`,
  })
  expectThat(!daemonSetIn(snapshot, NEXT), {
    inspect,
    expected: 'one DaemonSet',
    actual: `${NEXT} is still there`,
    next: `kubectl -n kube-system delete daemonset/${NEXT} configmap/${NEXT}`,
  })
  const first = expectFound(daemonSetIn(snapshot, FIRST), { inspect, expected: FIRST })
  expectThat(!avoidsNext(first) && isRolledOut(first), {
    inspect: 'kubectl -n kube-system get daemonset kube-proxy -o yaml',
    expected: 'the first DaemonSet without the affinity, on every node',
    actual: avoidsNext(first) ? 'it still avoids labelled nodes' : 'it is being restarted',
  })
  expectMode(context, to, {})
}
