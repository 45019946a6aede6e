// What a client that sends requests all the time has printed, and which of its requests are lost.

/** Where a client Pod runs: in a Pod's network or in the node's. */
export type ClientPlace = 'pod' | 'node'

/** A request that a client lost. */
interface FailedRequest {
  at: string
  kind: string
  target: string
  why: string
  /** How many lines of counts the log has before it. */
  after: number
}

/** What a client has printed. */
interface ClientCounts {
  /** The addresses that it calls; none while it waits for the first answers. */
  targets: string[]
  /** Answered requests. */
  answered: number
  /** How many lines of counts the log has. */
  counts: number
  failed: FailedRequest[]
}

/** A client and its log. */
export interface ClientLog extends ClientCounts {
  /** Its Pod, or `outside`. */
  pod: string
  /** Another one for each start. */
  uid: string
  /** Its node, or `outside`. */
  node: string
  place: ClientPlace | 'outside'
}

const FAILED = /^FAILED (\S+) (\S+) (\S+): (.*)$/
/** The reasons of a failure for which a client has waited. */
const WAITED = /timed out|no answer/
const COUNTS = /^new=(\d+) kept=(\d+) failed=\d+$/

/** What a client's log says. Pure. */
export function readClientLog(log: string): ClientCounts {
  const lines = log.split('\n')
  const [, made = 0, kept = 0] =
    lines.map((line) => COUNTS.exec(line)).findLast((match) => match !== null) ?? []
  return {
    targets:
      lines
        .findLast((line) => line.startsWith('targets '))
        ?.split(' ')
        .slice(1) ?? [],
    answered: Number(made) + Number(kept),
    ...readFailures(lines),
  }
}

function readFailures(lines: readonly string[]): Pick<ClientCounts, 'failed' | 'counts'> {
  const failed: FailedRequest[] = []
  let counts = 0
  for (const line of lines) {
    if (COUNTS.test(line)) counts++
    const [, at, kind, target, why] = FAILED.exec(line) ?? []
    if (at && kind && target && why !== undefined)
      failed.push({ at, kind, target, why, after: counts })
  }
  return { failed, counts }
}

/**
 * The requests that a client has lost since it is counted. It prints its counts every second unless
 * it waits for an answer, up to five seconds: a failure before the next counts may be of a request
 * that it sent before.
 */
export function lostSince(
  failed: readonly FailedRequest[],
  before: number,
  countsBefore: number | undefined,
): FailedRequest[] {
  const lost = failed.slice(before)
  const [first] = lost
  return first && first.after === countsBefore && WAITED.test(first.why) ? lost.slice(1) : lost
}
