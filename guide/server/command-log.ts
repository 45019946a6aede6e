// Which command of the terminals changed the nodes: by the times at which it started and ended, and
// by what it can do.

import { isReading } from './reading-command.ts'

/** After its end a command still has effects: kube-proxy, kubelet and controllers act later. */
const EFFECT_MS = 15_000
/**
 * A change that comes later than that, but not later than this, has its reason probably in the
 * command.
 */
const LATE_MS = 60_000
const MOST = 200

interface LoggedCommand {
  terminal: string
  text: string
  startedAt: number
  endedAt?: number
}

/**
 * The commands of all terminals, with the times (milliseconds since 1970) at which their shells
 * reported them.
 */
export class CommandLog {
  #commands: LoggedCommand[] = []

  /**
   * A command starts in a terminal; one before it there has ended, also where its shell did not
   * report it.
   */
  started(terminal: string, text: string | undefined, at = Date.now()): void {
    this.ended(terminal, at)
    if (text === undefined) return
    this.#commands = [...this.#commands, { terminal, text, startedAt: at }].slice(-MOST)
  }

  /** The command of a terminal has ended. */
  ended(terminal: string, at = Date.now()): void {
    const running = this.#commands.findLast((one) => one.terminal === terminal)
    if (running) running.endedAt ??= at
  }

  /**
   * What changed the nodes between two reads: the command that ran then or, if none did, the last
   * one before (`after …` if that was long before); `while … ran` if several ran. Commands that
   * only read are left out. Undefined if there is none.
   */
  culprit(from: number, to: number): string | undefined {
    const changing = this.#commands.filter(
      ({ text, startedAt }) => startedAt <= to && !isReading(text),
    )
    const running = changing.filter(({ endedAt = Number.POSITIVE_INFINITY }) => endedAt >= from)
    const [first, ...others] = [...new Set(running.map(({ text }) => text))]
    if (first !== undefined && others.length > 0)
      return `while ${[first, ...others].join(' and ')} ran`
    if (first !== undefined) return first
    const last = changing.toSorted((a, b) => (a.endedAt ?? 0) - (b.endedAt ?? 0)).at(-1)
    if (last === undefined) return undefined
    const passedMs = from - (last.endedAt ?? 0)
    return passedMs < EFFECT_MS ? last.text : passedMs < LATE_MS ? `after ${last.text}` : undefined
  }
}
