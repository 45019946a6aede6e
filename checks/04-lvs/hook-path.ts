import { parseIptablesSave, type Rule, type Ruleset } from '../../dataplane/iptables-save.ts'
import { commentOf, targetOf } from '../../dataplane/rule-text.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { mismatchedProbe } from '../../grading/mismatched-probe.ts'
import type { Truth } from '../../grading/question.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { REAL_PORT, VIP } from './addresses.ts'
import { askFromOutside, mustBeAnswered } from './outside-client.ts'
import { lvsStage, type Stage } from './stage.ts'

const HOOKS = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'] as const
/** The way of a packet that IPVS takes at LOCAL_IN and sends on from LOCAL_OUT (net/netfilter/ipvs: ip_vs_core.c, ip_vs_xmit.c). */
const WAY = new Set<Hook>(['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'])
const LOOK = 'iptables -t mangle -nvL'
type Hook = (typeof HOOKS)[number]
type Counts = Partial<Record<Hook, number>>

/** One request moves the counters of the way through IPVS by one, and not the one in FORWARD. */
export async function requestTakesTheWay(context: CheckContext): Promise<void> {
  const stage = await lvsStage(context)
  const before = mustHaveProbes(stage)
  const { live } = context
  const moved = live ? await movedByRequest(live, stage) : before
  const wrong = HOOKS.filter((hook) => (live ? moved[hook] !== Number(WAY.has(hook)) : !moved[hook] === WAY.has(hook)))
  if (wrong.length === 0) return
  fail({
    node: stage.director.name,
    look: onNode(stage.director.name, LOOK),
    expected: `one SYN counted in ${[...WAY].join(', ')}, and none in FORWARD`,
    actual: HOOKS.map((hook) => `${hook} ${moved[hook] ?? 0}`).join(', '),
    hint: `Each probe must match what is sent to port ${REAL_PORT.masq} with SYN alone: -p tcp --syn --dport ${REAL_PORT.masq}`,
  })
}

async function movedByRequest(live: LiveCluster, stage: Stage): Promise<Counts> {
  const read = async () => {
    const { stdout } = await live.onNode(stage.director.name, 'iptables-save -c -t mangle')
    return probesIn(parseIptablesSave(stdout))
  }
  const before = await read()
  const request = { to: `${VIP}:${REAL_PORT.masq}` }
  mustBeAnswered(stage, [request], await askFromOutside(live, [request]), 'make check-4 STEP=virtual-server says why.')
  const after = await read()
  return Object.fromEntries(HOOKS.map((hook) => [hook, (after[hook] ?? 0) - (before[hook] ?? 0)]))
}

/** Which hook a request passes by, told from what the learner's probes have counted. */
export async function unseenHook(context: CheckContext): Promise<Truth> {
  const stage = await lvsStage(context)
  const counts = mustHaveProbes(stage)
  if (HOOKS.every((hook) => !counts[hook]))
    fail({
      node: stage.director.name,
      look: onNode(stage.director.name, LOOK),
      expected: 'probes that have counted a request',
      actual: 'all of them are at 0',
      hint: `make exec NODE=outside CMD='curl -s ${VIP}:${REAL_PORT.masq}'`,
    })
  return { accepts: HOOKS.filter((hook) => !counts[hook]), look: onNode(stage.director.name, LOOK) }
}

function mustHaveProbes({ director }: Stage): Counts {
  const counts = probesIn(director.state.iptables)
  const missing = HOOKS.filter((hook) => counts[hook] === undefined)
  if (missing.length === 0) {
    mustCountTheSame(director)
    return counts
  }
  fail({
    node: director.name,
    look: onNode(director.name, 'iptables -t mangle -S'),
    expected: 'a rule with the comment lab-4 and without a target in each of the five chains of mangle',
    actual: `none in ${missing.join(', ')}`,
    hint: `iptables -t mangle -A ${missing[0]} -p tcp --syn --dport ${REAL_PORT.masq} -m comment --comment lab-4`,
  })
}

function mustCountTheSame({ name, state }: NodeView): void {
  const probes = new Map([...probeRules(state.iptables)].map(([hook, { spec }]) => [hook, spec]))
  const odd = mismatchedProbe(probes, REAL_PORT.masq)
  if (!odd) return
  fail({
    node: name,
    look: onNode(name, LOOK),
    expected: `probes that all count new connections to port ${REAL_PORT.masq}`,
    actual: `-A ${odd.hook} ${odd.spec}`,
    hint: `Delete it, with -D in place of -A, and add: iptables -t mangle -A ${odd.hook} -p tcp --syn --dport ${REAL_PORT.masq} -m comment --comment lab-4`,
  })
}

/** What the learner's probes have counted. */
function probesIn(ruleset: Ruleset): Counts {
  const counts: Counts = {}
  for (const [hook, { packets }] of probeRules(ruleset)) counts[hook] = packets ?? 0
  return counts
}

/** The learner's probes; the oldest in each hook, where somebody typed the command twice. */
function probeRules(ruleset: Ruleset): Map<Hook, Rule> {
  const mangle = ruleset.get('mangle')
  const probes = new Map<Hook, Rule>()
  for (const hook of HOOKS) {
    const rules = mangle?.get(hook)?.rules ?? []
    const probe = rules.find(({ spec }) => commentOf(spec) === 'lab-4' && targetOf(spec) === undefined)
    if (probe) probes.set(hook, probe)
  }
  return probes
}
