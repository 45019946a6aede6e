import type { CheckContext } from '../../grading/check-context.ts'
import { PORT, VIP } from './addresses.ts'
import { type Act, type Answer, countOf, holdFromOutside, mustBeAnswered, nodeOf } from './outside-client.ts'
import { lvsStage, type Stage } from './stage.ts'
import { expectScheduling, heaviest, mustHold } from './virtual-server.ts'

type Counting = 'lc' | 'wlc' | 'sed' | 'nq'

/**
 * What a scheduler must do with connections that stay open, weights being 4 and 1: how many of the first three and of all
 * eight go to the heavy one. Worked out from ip_vs_lc.c, ip_vs_wlc.c, ip_vs_sed.c and ip_vs_nq.c; ties never decide these.
 */
const RULES: Record<Counting, { early: readonly number[]; all: number; because: string }> = {
  lc: { early: [1, 2], all: 4, because: 'it counts connections and knows no weights' },
  wlc: { early: [2], all: 6, because: 'it divides connections by weight' },
  sed: { early: [3], all: 7, because: 'it counts the new connection in before it divides, so the light one waits' },
  nq: { early: [2], all: 7, because: 'it gives an idle server the next one, else it does as sed' },
}
const OPENED = 8
const EARLY = 3
const AFTERWARDS = 2

/** Each of the four schedulers that count connections spreads open connections in its own way. */
export async function schedulersCountConnections(context: CheckContext): Promise<void> {
  const stage = await lvsStage(context)
  const all = Object.keys(RULES) as Counting[]
  const heavy = all.map((scheduler) =>
    heaviest(
      stage,
      mustHold(stage, { key: `TCP ${VIP}:${PORT[scheduler]}`, scheduler, forward: 'masq', weights: [4, 1] }),
    ),
  )
  const { live } = context
  if (!live) return
  const acts = all.flatMap((scheduler, index) => actsFor(scheduler, heavy[index] ?? ''))
  const answers = await holdFromOutside(live, acts)
  const each = OPENED + AFTERWARDS
  const lines = all.map((scheduler, index) => {
    const own = answers.slice(index * each, (index + 1) * each)
    return judged(stage, scheduler, own, heavy[index] ?? '')
  })
  context.show(['H: the heavy one, L: the light one, in the order in which connections were opened', ...lines])
}

/** Opens eight, ends those of the heavy one, opens two more. */
function actsFor(scheduler: Counting, heavy: string): Act[] {
  const hold = { hold: `${VIP}:${PORT[scheduler]}` }
  const opened = Array.from({ length: OPENED }, () => hold)
  const afterwards = Array.from({ length: AFTERWARDS }, () => hold)
  return [...opened, { release: heavy }, ...afterwards, 'release all']
}

/** Fails when the scheduler did otherwise; else one line that shows what it did. */
function judged(stage: Stage, scheduler: Counting, answers: readonly Answer[], heavy: string): string {
  const { early, all, because } = RULES[scheduler]
  const opened = answers.slice(0, OPENED)
  const firstHeavy = countOf(opened.slice(0, EARLY), heavy)
  const allHeavy = countOf(opened, heavy)
  const back = countOf(answers.slice(OPENED), heavy)
  const drawn = answers.map((answer) => letter(answer, heavy))
  const line = `${scheduler.padEnd(3)}  ${drawn.slice(0, OPENED).join(' ')}  then, the heavy one's ended:  ${drawn.slice(OPENED).join(' ')}`
  const to = `${VIP}:${PORT[scheduler]}`
  const hint = 'Other open connections count as well: close yours, then check again.'
  if (answers.includes(undefined)) mustBeAnswered(stage, [{ to }], [undefined], hint)
  expectScheduling(stage, {
    of: `-t ${to}`,
    holds: early.includes(firstHeavy) && allHeavy === all && back === AFTERWARDS,
    expected: `${early.join(' or ')} of the first ${EARLY} and ${all} of ${OPENED} open connections at ${heavy} (weight 4), and the next ${AFTERWARDS} when it is empty: ${scheduler}, as ${because}`,
    actual: line,
    hint,
  })
  return line
}

function letter(answer: Answer, heavy: string): string {
  if (answer === undefined) return '-'
  return nodeOf(answer) === heavy ? 'H' : 'L'
}
