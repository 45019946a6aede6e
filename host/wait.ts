import { setTimeout as pause } from 'node:timers/promises'
import { Trouble } from './trouble.ts'

/** The condition was not met in time. */
export class DeadlineError extends Trouble {}

/** `LAB_TIMEOUT_SCALE` stretches every deadline for slow machines (2 doubles them). */
export function timeoutScale(value = process.env.LAB_TIMEOUT_SCALE): number {
  const scale = Number(value || 1)
  return Number.isFinite(scale) && scale > 0 ? scale : 1
}

/** Node's timers take no more: a longer one fires at once. */
const LONGEST_MS = 2 ** 31 - 1

/**
 * A deadline in whole milliseconds, times LAB_TIMEOUT_SCALE: timers of Node refuse fractions, which
 * 180000 × 1.1 has.
 */
export const scaledMs = (milliseconds: number): number =>
  Math.min(Math.round(milliseconds * timeoutScale()), LONGEST_MS)

/**
 * Polls until the result is truthy and returns it. Between two polls it pauses, first `gapMs` and
 * then increasingly, up to half a second. Throws DeadlineError with `what` when `deadlineMs` (times
 * LAB_TIMEOUT_SCALE) have passed.
 */
export async function waitFor<T>(
  what: string,
  deadlineMs: number,
  ask: () => Promise<T>,
  gapMs = 50,
): Promise<Exclude<T, false | undefined | null>> {
  const patienceMs = scaledMs(deadlineMs)
  const end = Date.now() + patienceMs
  for (let gap = gapMs; ; gap = Math.min(gap * 1.15, 500)) {
    const answer = await ask()
    if (answer) return answer as Exclude<T, false | undefined | null>
    if (Date.now() > end)
      throw new DeadlineError(
        `Waited ${Math.round(patienceMs / 1000)} s for ${what} without success.`,
      )
    await pause(gap)
  }
}

/** Like waitFor, but resolves to whether the condition was met in time. */
export async function isMetWithin(
  deadlineMs: number,
  ask: () => Promise<boolean>,
): Promise<boolean> {
  try {
    return await waitFor('a condition', deadlineMs, ask)
  } catch (error) {
    if (error instanceof DeadlineError) return false
    throw error
  }
}
