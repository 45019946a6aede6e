// Lab 10: rollouts and a drain of shop, and the requests that its clients lose.

import * as z from 'zod'
import {
  type CheckContext,
  type EvidenceCheck,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { podsWithLabel } from '../../grading/expect-object.ts'
import { expectFound, expectThat, fail } from '../../grading/failure.ts'
import { evidenceKey } from '../../grading/learning-notes.ts'
import { CONTROL_PLANE, type Snapshot } from '../../grading/snapshot.ts'
import {
  beginCounting,
  configuredTargets,
  expectRunning,
  nothingLost,
  readClients,
  readToldClients,
} from '../09-leaving-ipvs/clients.ts'
import { expectReady, expectShopProgrammed, podLives, shopService } from './shop.ts'

/** The clients keep a connection for so long. */
const KEPT_SECONDS = 3
const DEPLOYMENT = 'kubectl get deployment shop -o yaml'
const SHOW_LOST = 'kubectl logs -l app=traffic --prefix --tail=-1 | grep FAILED'

function expectShopIsCalled(snapshot: Snapshot): void {
  const { address, port } = shopService(snapshot)
  for (const { name } of snapshot.nodes)
    for (const place of ['pod', 'node'] as const)
      expectThat(configuredTargets(snapshot, place, name).includes(`${address}:${port}`), {
        inspect: 'kubectl get configmap traffic -o yaml',
        expected: 'clients that call shop',
        actual: `clients in the ${place} network call ${configuredTargets(snapshot, place, name).join(', ') || 'nothing'}`,
        next: 'kubectl apply -f labs/10-connections/manifests/clients.yaml',
      })
}

/** Two ready Pods of shop, and clients on every node that get answers from it. */
export const shopIsCalled = onceSeen('shop', async (context: CheckContext) => {
  const { snapshot, live } = context
  expectReady(shopService(snapshot), 2)
  expectShopIsCalled(snapshot)
  expectShopProgrammed(context)
  if (live) expectRunning(await readClients(live, snapshot), snapshot)
  return {}
})

/** shop has no readiness probe, and is programmed as its endpoints say. */
export const shopIsCareless = onceSeen('naive', async (context: CheckContext) => {
  const { snapshot } = context
  expectThat(
    podLives(snapshot).every(({ hasReadinessProbe }) => !hasReadinessProbe),
    {
      inspect: DEPLOYMENT,
      expected: 'the Deployment shop as it was applied',
      actual: 'a readiness probe',
      next: 'kubectl replace -f labs/10-connections/manifests/shop.yaml',
    },
  )
  expectReady(shopService(snapshot), 2)
  expectShopProgrammed(context)
  return {}
})

const lossNote = z.object({ starting: z.number(), ending: z.number() })

/** Evidence: clients have lost requests to Pods that did not listen yet, and to Pods that ended. */
export const rolloutLosesRequests: EvidenceCheck = async ({ live, snapshot, show }) => {
  const clients = await readToldClients(() => readClients(live, snapshot))
  const lost = clients.flatMap(({ failed }) => failed)
  const starting = lost.filter(({ why }) => /refused/i.test(why)).length
  const ending = lost.length - starting
  const answered = clients.reduce((sum, client) => sum + client.answered, 0)
  show([`${answered} requests answered, ${starting} refused, ${ending} closed or not answered`])
  expectThat(starting > 0 && ending > 0, {
    inspect: SHOW_LOST,
    expected: 'requests that were refused, and others that were closed or not answered',
    actual: `${starting} refused, ${ending} closed or not answered`,
    hint: 'Roll shop out while the clients run:',
    next: 'kubectl rollout restart deployment/shop',
  })
  return { answered, starting, ending }
}

/** What the learner's own rollout has cost; fails before it was counted. */
function lossesOf({ notes }: CheckContext): z.infer<typeof lossNote> {
  return expectFound(notes.read(evidenceKey('naive'), lossNote), {
    inspect: SHOW_LOST,
    expected: 'a rollout of shop whose lost requests were counted',
    next: 'make check-10 STEP=naive',
  })
}

/** Predict: which Pods cost requests in a rollout of shop as it is. */
export function podsThatLose(context: CheckContext): Truth {
  const { starting, ending } = lossesOf(context)
  const accepted = [
    ...(starting > 0 ? ['new-before-they-listen'] : []),
    ...(ending > 0 ? ['old-when-they-end'] : []),
  ]
  return {
    accepts: [accepted.join(', ')],
    inspect: SHOW_LOST,
    wrong: [
      {
        when: (answer) => !answer.includes('new-before-they-listen'),
        because:
          'Without a readiness probe a Pod is ready as soon as its container runs. This one listens four seconds later, and refuses until then.',
      },
      {
        when: (answer) => !answer.includes('old-when-they-end'),
        because:
          'The program of an old Pod is told to end at the same moment as kube-proxy is told of it. Connections that clients keep are closed.',
      },
    ],
    because: `${starting} requests were refused by Pods that did not listen yet, ${ending} were closed or not answered because an old Pod ended.`,
  }
}

/**
 * shop has a readiness probe, and a preStop hook that is longer than clients keep a connection; its
 * lost requests are counted from now on.
 */
export const shopIsCareful = onceSeen('careful', async (context: CheckContext) => {
  const { snapshot, live } = context
  const lives = podLives(snapshot)
  const preStopSeconds = Math.min(...lives.map((life) => life.preStopSeconds))
  const graceSeconds = Math.min(...lives.map((life) => life.graceSeconds))
  const advice = {
    inspect: DEPLOYMENT,
    next: 'kubectl patch deployment shop --patch-file labs/10-connections/manifests/careful.yaml',
  }
  expectThat(
    lives.every(({ hasReadinessProbe }) => hasReadinessProbe),
    {
      expected: 'a readiness probe of the Pods of shop',
      actual: 'none',
      ...advice,
    },
  )
  expectThat(preStopSeconds > KEPT_SECONDS && preStopSeconds < 60, {
    expected: `a preStop hook that sleeps longer than clients keep a connection (${KEPT_SECONDS} s), and less than a minute`,
    actual: `${preStopSeconds} s`,
    ...advice,
  })
  expectThat(graceSeconds > preStopSeconds, {
    expected: `a grace period longer than the ${preStopSeconds} s of the preStop hook, which is part of it`,
    actual: `${graceSeconds} s`,
    ...advice,
  })
  expectReady(shopService(snapshot), 2)
  expectShopProgrammed(context)
  if (live) beginCounting(context, await readClients(live, snapshot))
  return { pods: podNames(snapshot) }
})

/**
 * Predict: whether one of the two changes alone would have been enough for the rollout that was
 * counted.
 */
export function enoughAlone(context: CheckContext): Truth {
  const { starting, ending } = lossesOf(context)
  const accepted = starting > 0 ? (ending > 0 ? 'neither' : 'readiness-probe') : 'pre-stop-hook'
  return {
    accepts: [accepted],
    inspect: SHOW_LOST,
    wrong: [
      {
        when: 'readiness-probe',
        because: `It keeps requests away from Pods that do not listen yet. The ${ending} that were closed or not answered came to Pods that had been ready.`,
      },
      {
        when: 'pre-stop-hook',
        because: `It keeps the old Pods until clients have left them. The ${starting} that were refused came to new Pods.`,
      },
    ],
    because: 'Your first rollout has lost requests at both ends of a Pod’s life.',
  }
}

const podNames = (snapshot: Snapshot) =>
  podsWithLabel(snapshot, 'shop').map(({ metadata }) => metadata.name)

const carefulNote = z.looseObject({ pods: z.array(z.string()) })
const nodeShape = z.object({ spec: z.object({ unschedulable: z.boolean().nullish() }) })

/** The workers that take no new Pods, and have none of shop. */
function drainedNodes(snapshot: Snapshot): string[] {
  const busy = new Set(podsWithLabel(snapshot, 'shop').map(({ spec }) => spec?.nodeName))
  return snapshot.items.flatMap((item) => {
    const { kind, metadata } = item
    if (kind !== 'Node' || metadata.labels?.[CONTROL_PLANE] !== undefined) return []
    const isCordoned = nodeShape.safeParse(item).data?.spec.unschedulable === true
    return isCordoned && !busy.has(metadata.name) ? metadata.name : []
  })
}

/** Every Pod of shop is newer than those of the step before, and one worker is drained. */
export const rolledOutAndDrained = onceSeen('lossless', async (context: CheckContext) => {
  const { snapshot, notes } = context
  const { pods } = expectFound(notes.read('careful', carefulNote), {
    inspect: DEPLOYMENT,
    expected: 'a careful Deployment, seen before its rollout',
    next: 'make check-10 STEP=careful',
  })
  const old = podNames(snapshot).find((name) => pods.includes(name))
  expectThat(old === undefined, {
    inspect: 'kubectl get pods -l app=shop -o wide',
    expected: 'every Pod of shop replaced since lost requests are counted',
    actual: `${old} is still there`,
    next: 'kubectl rollout restart deployment/shop',
  })
  const [drained] = drainedNodes(snapshot)
  if (drained === undefined)
    fail({
      inspect: 'kubectl get nodes',
      expected: 'a worker that is drained: no Pod of shop, and unschedulable',
      actual: 'none',
      next: 'kubectl drain NODE --pod-selector=app=shop --timeout=90s',
    })
  expectReady(shopService(snapshot), 2)
  expectShopProgrammed(context)
  return { drained }
})

/** Evidence: not one request was lost since the step `careful`. */
export const rolloutLosesNothing: EvidenceCheck = nothingLost

/** Predict: what the program of an evicted Pod is told first. */
export function firstAtEviction({ snapshot }: CheckContext): Truth {
  const [{ preStopSeconds }] = podLives(snapshot)
  return {
    accepts: [preStopSeconds > 0 ? 'nothing-for-some-seconds' : 'the-signal-to-end'],
    inspect: DEPLOYMENT,
    wrong: [
      {
        when: 'the-signal-to-end',
        because:
          'That is what a Pod without a preStop hook gets. kubectl drain evicts, and an eviction is a graceful deletion like any other.',
      },
      {
        when: 'to-be-killed',
        because: 'Only a Pod whose grace period has ended is killed.',
      },
    ],
    because: `The preStop hook runs first, for ${preStopSeconds} s. Meanwhile the endpoint is left out for new connections, and those that exist end.`,
  }
}
