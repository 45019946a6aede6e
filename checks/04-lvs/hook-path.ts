import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail } from '../../grading/failure.ts'
import { HOOKS, type Hook, type HookCounts, HookProbes, LOOK_AT_PROBES } from '../../grading/hook-probes.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Truth } from '../../grading/question.ts'
import { REAL_PORT, VIP } from './addresses.ts'
import { askFromOutside, mustBeAnswered } from './outside-client.ts'
import { lvsStage, type Stage } from './stage.ts'

const probes = new HookProbes('lab-4', REAL_PORT.masq)
/** The path of a packet that IPVS takes at LOCAL_IN and sends on from LOCAL_OUT (net/netfilter/ipvs: ip_vs_core.c, ip_vs_xmit.c). */
const PATH = new Set<Hook>(['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'])

/** One request moves the counters on the path through IPVS by one, and not the one in FORWARD. */
export async function requestTakesThePath(context: CheckContext): Promise<void> {
  const stage = await lvsStage(context)
  const before = probes.expectInEveryHook(stage.director)
  const { live } = context
  const moved = live ? await movedByRequest(live, stage) : before
  const wrong = HOOKS.filter((hook) =>
    live ? moved[hook] !== Number(PATH.has(hook)) : !moved[hook] === PATH.has(hook),
  )
  if (wrong.length === 0) return
  fail({
    node: stage.director.name,
    look: onNode(stage.director.name, LOOK_AT_PROBES),
    expected: `one SYN counted in ${[...PATH].join(', ')}, and none in FORWARD`,
    actual: HOOKS.map((hook) => `${hook} ${moved[hook] ?? 0}`).join(', '),
    hint: `Each probe must match what is sent to port ${REAL_PORT.masq} with SYN alone: -p tcp --syn --dport ${REAL_PORT.masq}`,
  })
}

async function movedByRequest(live: LiveCluster, stage: Stage): Promise<HookCounts> {
  const read = async () => {
    const { stdout } = await live.onNode(stage.director.name, 'iptables-save -c -t mangle')
    return probes.countsIn(parseIptablesSave(stdout))
  }
  const before = await read()
  const request = { to: `${VIP}:${REAL_PORT.masq}` }
  mustBeAnswered(stage, [request], await askFromOutside(live, [request]), 'make check-4 STEP=virtual-server says why.')
  const after = await read()
  return Object.fromEntries(HOOKS.map((hook) => [hook, (after[hook] ?? 0) - (before[hook] ?? 0)]))
}

/** Which hook a request passes by, worked out from what the learner's probes have counted. */
export async function unseenHook(context: CheckContext): Promise<Truth> {
  const stage = await lvsStage(context)
  const counts = probes.expectInEveryHook(stage.director)
  if (HOOKS.every((hook) => !counts[hook]))
    fail({
      node: stage.director.name,
      look: onNode(stage.director.name, LOOK_AT_PROBES),
      expected: 'probes that have counted a request',
      actual: 'all of them are at 0',
      hint: `make exec NODE=outside CMD='curl -s ${VIP}:${REAL_PORT.masq}'`,
    })
  return { accepts: HOOKS.filter((hook) => !counts[hook]), look: onNode(stage.director.name, LOOK_AT_PROBES) }
}
