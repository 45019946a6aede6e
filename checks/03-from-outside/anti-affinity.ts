import { z } from 'zod'
import { matchesSelector } from '../../dataplane/label-selector.ts'
import type { ApiObject } from '../../grading/api-object.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectField, expectSpread } from '../../grading/expect-object.ts'
import { WEB_NAMESPACE, webService } from '../../grading/web-service.ts'
import { localService } from './exposed-service.ts'
import { measureShares } from './measured-shares.ts'
import { isUneven, podsByNode, spanOf } from './shares.ts'
import { unevenShares } from './uneven.ts'

const HOSTNAME = 'kubernetes.io/hostname'
const MANIFEST = 'labs/03-from-outside/manifests/anti-affinity.yaml'

const expressions = z.array(
  z.object({ key: z.string(), operator: z.string(), values: z.array(z.string()).default([]) }),
)
const term = z.looseObject({
  topologyKey: z.string(),
  labelSelector: z
    .looseObject({
      matchLabels: z.record(z.string(), z.string()).default({}),
      matchExpressions: expressions.default([]),
    })
    .optional(),
})
const specSchema = z.looseObject({
  affinity: z.looseObject({
    podAntiAffinity: z.looseObject({
      preferredDuringSchedulingIgnoredDuringExecution: z.array(z.looseObject({ podAffinityTerm: term })).default([]),
      requiredDuringSchedulingIgnoredDuringExecution: z.array(term).default([]),
    }),
  }),
})

/** Every Pod of web asks for a node without others of its kind, they stand evenly, and each gets the same share: measured. */
export async function sharesAreEven(context: CheckContext): Promise<void> {
  const { snapshot, live, show } = context
  localService(snapshot)
  const web = webService(snapshot)
  for (const { pod } of web.backends) {
    const found = snapshot.find('Pod', WEB_NAMESPACE, pod)
    expectField(`pod ${pod}`, 'podAntiAffinity', {
      holds: found !== undefined && keepsAway(found),
      expected: `a podAntiAffinity term with topologyKey ${HOSTNAME} that selects the Pods of web, in every Pod of web`,
      actual: `${pod} has none`,
      hint: `kubectl patch deployment ${web.name} --patch-file ${MANIFEST}`,
    })
  }
  const pods = podsByNode(snapshot, web)
  expectSpread(pods, (counts) => counts.length >= 2 && !isUneven(counts), {
    look: `kubectl -n ${WEB_NAMESPACE} get pods -l app=web -o wide`,
    expected: 'as many Pods of web on one node as on another, on two nodes or more',
    why: 'The scheduler places a Pod once. A Pod that runs is never moved, not even when a node comes back.',
    hint: 'Is the number of replicas even, and does every node take new Pods (kubectl uncordon)? Then kubectl rollout restart places all of them again.',
  })
  if (!live) return
  const { shares, lines } = await measureShares(context, live)
  const before = unevenShares(context)
  if (before) show([...lines, `One Pod's share went from ${spanOf(before)} before to ${spanOf(shares)} now.`])
}

/** True when a Pod asks not to stand beside others with its own labels. */
function keepsAway({ spec, metadata: { labels = {} } }: ApiObject): boolean {
  const read = specSchema.safeParse(spec)
  if (!read.success) return false
  const { podAntiAffinity: asked } = read.data.affinity
  const terms = [
    ...asked.requiredDuringSchedulingIgnoredDuringExecution,
    ...asked.preferredDuringSchedulingIgnoredDuringExecution.map(({ podAffinityTerm }) => podAffinityTerm),
  ]
  return terms.some(
    ({ topologyKey, labelSelector }) => topologyKey === HOSTNAME && matchesSelector(labelSelector, labels),
  )
}
