// What a client that sends requests all the time has printed.

/** A request that a client lost. */
interface FailedRequest {
  at: string
  kind: string
  target: string
  why: string
}

/** What a client has printed. */
interface ClientCounts {
  /** The addresses that it calls; none while it waits for the first answers. */
  targets: string[]
  /** Answered requests. */
  answered: number
  failed: FailedRequest[]
}

/** A client and its log. */
export interface ClientLog extends ClientCounts {
  /** In sentences: `traffic-pod-x2x4x on k8s-guide-worker`. */
  name: string
  /** Another one for each start. */
  uid: string
  /** The targets that it must have. */
  wanted: string[]
  /** The command that prints its log. */
  log: string
  /** The command that starts it again, with the targets that it must have. */
  restart: string
}

const FAILED = /^FAILED (\S+) (\S+) (\S+): (.*)$/
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
    failed: lines.flatMap((line) => {
      const [, at, kind, target, why] = FAILED.exec(line) ?? []
      return at && kind && target && why !== undefined ? [{ at, kind, target, why }] : []
    }),
  }
}
