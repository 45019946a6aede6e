import * as z from 'zod'
import { type Check, type CheckContext, onceSeen } from '../../grading/check-context.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import { expectThat, NotApplicable, onNode } from '../../grading/failure.ts'
import { expectJumpsFirst } from '../01-iptables/service-chains.ts'

/** A mode that this lab enters and leaves again. */
export interface ModeVisit {
  mode: 'userspace' | 'nftables'
  /** The first step in the mode, and the key of its note. */
  step: string
  note: string
  /** The command that shows the mode on a node. */
  inspect: string
  /** The commands that lead back to iptables mode. */
  back: string
  /** Throws NotApplicable, with the reason, on a cluster that can't run the mode. */
  require(context: CheckContext): void | Promise<void>
}

/** A step that passes once it was proven while every kube-proxy ran in the mode. */
export function onceInMode<Context extends CheckContext>(
  { mode, require }: ModeVisit,
  note: string,
  prove: (context: Context) => Promise<object>,
): Check<Context> {
  const check = onceSeen(note, (context: Context) => {
    expectMode(context, mode, { next: `make ${mode}` })
    return prove(context)
  })
  return async (context) => {
    await require(context)
    await check(context)
  }
}

/**
 * The step back: the mode was seen on every node, and all run iptables mode as predicted, before
 * foreign rules, without its leftovers.
 */
export const backInIptablesMode =
  ({ mode, step, note, inspect, back, require }: ModeVisit): Check =>
  async (context) => {
    await require(context)
    const { nodes, notes, live } = context
    const wasSeen = notes.read(note, z.looseObject({})) !== undefined
    if (!wasSeen && !live)
      throw new NotApplicable(`${mode} mode had not been seen when this capture was taken`)
    expectThat(wasSeen, {
      inspect: onNode(nodes.at(-1)?.name ?? '', inspect),
      expected: `that ${mode} mode was seen on every node before the return`,
      actual: 'the grader has not seen it',
      next: `make ${mode} && make check-7 STEP=${step}`,
    })
    expectMode(context, 'iptables', { next: `${back} && make flush-nat` })
    expectNodes(nodes).nothingOfOtherModes('iptables', {
      inspect: 'iptables-save | grep "^:KUBE-"',
    })
    expectNodes(nodes)
      .everything('iptables-save')
      .equalPrediction(
        'iptables',
        'exactly the chains and rules that follow from the Services and their endpoints',
      )
    expectJumpsFirst(nodes)
  }
