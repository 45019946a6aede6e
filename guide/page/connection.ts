// The page's connection to the guide's server: pushes in, actions out.

import type { ActionArguments, ActionName, ActionReplies, CountersPush, LabContent, Push } from '../protocol.ts'
import { now, type State, say, update } from './store.ts'
import { VERDICTS } from './words.ts'

/** The pause before a connection that ended is made again. */
export const RETRY_MS = 1000

/** Connects to the server, and again whenever the connection ends. */
export function connect(): void {
  const socket = new WebSocket(`ws://${location.host}/events`)
  socket.onopen = () => void loadLab().then(() => update({ connected: true }))
  socket.onmessage = ({ data }) => take(JSON.parse(data))
  socket.onclose = () => {
    update({ connected: false })
    setTimeout(connect, RETRY_MS)
  }
}

/** The address of a WebSocket of this server. */
export const socketTo = (path: string): WebSocket => new WebSocket(`ws://${location.host}${path}`)

async function loadLab(): Promise<void> {
  try {
    const response = await fetch('/api/lab')
    if (response.ok) update({ lab: (await response.json()) as LabContent })
  } catch {
    // The connection is lost, which the page shows; it is loaded after the next one.
  }
}

function take(push: Push): void {
  switch (push.type) {
    case 'progress':
      tellVerdict(push)
      update({ progress: push })
      if (now().lab?.number !== push.lab) void loadLab()
      return
    case 'dataplane':
      update({ dataplane: push, moved: withoutCounters() })
      return
    case 'counters':
      update({ moved: withCounters(push) })
      return
    case 'timeline':
      update({ timeline: push.moments })
      return
    case 'terminals':
      update({ terminals: push })
      return
    case 'incident':
      update({ incident: push.incident })
      return
  }
}

/** Announces the verdict of the shown step when it changes. */
function tellVerdict({ at, steps }: Extract<Push, { type: 'progress' }>): void {
  const { progress, lab } = now()
  const verdictOf = (list: typeof steps | undefined) => list?.find(({ id }) => id === at)?.verdict
  const verdict = verdictOf(steps)
  if (!progress || progress.at !== at || !verdict || verdict === verdictOf(progress.steps)) return
  const index = lab?.steps.findIndex(({ id }) => id === at) ?? -1
  say(`Step ${index + 1}: ${VERDICTS[verdict].word}. ${lab?.steps[index]?.title ?? at}`)
}

/** The counters that were pushed last. */
function withCounters({ nodes }: CountersPush): State['moved'] {
  const { moved } = now()
  const at = Date.now()
  const timed = Object.entries(nodes).map(([node, counters]) => {
    const own = Object.entries(counters).map(([id, counter]) => [id, { ...counter, at }])
    return [node, { ...moved[node], ...Object.fromEntries(own) }]
  })
  return { ...moved, ...Object.fromEntries(timed) }
}

/** Only by how much counters moved: a push of all entries has their newest counters. */
function withoutCounters(): State['moved'] {
  const nodes = Object.entries(now().moved).map(([node, counters]) => {
    const own = Object.entries(counters).map(([id, { by, at }]) => [id, { by, at }])
    return [node, Object.fromEntries(own)]
  })
  return Object.fromEntries(nodes)
}

type Reply<Name extends ActionName> = Name extends keyof ActionReplies ? ActionReplies[Name] : object

/** Performs an action; undefined if it was refused (the page shows the reason). */
export async function act<Name extends ActionName>(
  name: Name,
  words: ActionArguments<Name>,
): Promise<Reply<Name> | undefined> {
  try {
    const response = await fetch(`/api/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(words),
    })
    const reply = (await response.json()) as Reply<Name> & { error?: string }
    if (reply.error === undefined) {
      update({ fault: undefined })
      return reply
    }
    update({ fault: reply.error })
  } catch {
    update({ fault: 'The guide’s server does not answer: is `make guide` still running?' })
  }
  return undefined
}
