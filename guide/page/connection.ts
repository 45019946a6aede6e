// The page's connection to the guide's server: pushes in, actions out.

import type {
  ActionArguments,
  ActionName,
  CountersPush,
  ProgressPush,
  Pushes,
  Reply,
} from '../protocol.ts'
import { now, type PageState, say, update } from './store.ts'
import { VERDICTS } from './words.ts'

/** The pause before a connection that ended is made again. */
export const RETRY_MS = 1000

/** Connects to the server, and again whenever the connection ends. */
export function keepConnected(): void {
  const socket = socketTo('/events')
  socket.onopen = () => update({ connected: true })
  socket.onmessage = ({ data }) => take(JSON.parse(data))
  socket.onclose = () => {
    update({ connected: false })
    setTimeout(keepConnected, RETRY_MS)
  }
}

/** The address of a WebSocket of this server. */
export const socketTo = (path: string): WebSocket => new WebSocket(`ws://${location.host}${path}`)

function take({ counters, ...push }: Partial<Pushes>): void {
  if (push.progress) tellVerdict(push.progress)
  // A push of all entries has their newest counters.
  update({
    ...push,
    ...(push.dataplane && { moved: {} }),
    ...(counters && { moved: withCounters(counters) }),
  })
}

/** Announces the verdict of the shown step when it changes. */
function tellVerdict({ at, steps }: ProgressPush): void {
  const { progress, lab } = now()
  const verdictOf = (list: typeof steps | undefined) => list?.find(({ id }) => id === at)?.verdict
  const verdict = verdictOf(steps)
  if (!progress || progress.at !== at || !verdict || verdict === verdictOf(progress.steps)) return
  const index = lab?.steps.findIndex(({ id }) => id === at) ?? -1
  say(`Step ${index + 1}: ${VERDICTS[verdict].word}. ${lab?.steps[index]?.title ?? at}`)
}

/** The counters that moved since the latest push of all entries. */
function withCounters(counters: CountersPush): PageState['moved'] {
  const at = Date.now()
  const timed = Object.entries(counters).map(([key, counter]) => [key, { ...counter, at }])
  return { ...now().moved, ...Object.fromEntries(timed) }
}

/** Performs an action; undefined if it was refused (the page shows the reason). */
export async function performAction<Name extends ActionName>(
  name: Name,
  input: ActionArguments<Name>,
): Promise<Reply<Name> | undefined> {
  try {
    // A reason that is shown again is announced again.
    update({ fault: undefined })
    const response = await fetch(`/api/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(input),
    })
    const reply = await response.json()
    if (reply.error === undefined) return reply
    update({ fault: reply.error })
  } catch {
    update({ fault: 'The guide’s server does not answer: is `make guide` still running?' })
  }
  return undefined
}
