// Evidence of a learner's own request: its line in the access log of a Pod, and its connection on
// the node that sent it.

import * as z from 'zod'
import { type ConntrackEntry, parseConntrack } from '../dataplane/conntrack.ts'
import { ParseError } from '../dataplane/program-output.ts'
import type { EvidenceCheck, LiveContext } from './check-context.ts'
import { podsWithLabel, WEB_NAMESPACE } from './expect-object.ts'
import { fail } from './failure.ts'
import type { LabNotes } from './lab-notes.ts'
import { evidenceKey } from './learning-notes.ts'
import { nodeAddressOf, type Snapshot, stateOf } from './snapshot.ts'

/** Which request is meant. */
export interface OwnRequest {
  /** Where it was sent: in a Pod, on a node, or on the machine outside the cluster. */
  from: 'pod' | 'node' | 'outside'
  /** The `app` label of the Pods whose access logs are read; `web` if not written. */
  to?: string
  /** The Pod that sends, for `from: 'pod'`; `client` if not written. */
  pod?: string
  /** The container with the access log, of Pods that have several. */
  container?: string
  /**
   * The address and port to which the client sent it, where the access log has the Host header in
   * its second field.
   */
  host?: string
  /** What its word must begin with, where requests of several steps look alike. */
  word?: string
}

const tupleNote = z.object({
  source: z.string(),
  destination: z.string(),
  sourcePort: z.number().optional(),
  destinationPort: z.number().optional(),
})
const ownRequestNote = z.object({
  marker: z.string(),
  /** The address that the Pod logged as its client. */
  client: z.string(),
  /** The node on which it was sent; absent for one from outside. */
  node: z.string().optional(),
  backend: z.object({ pod: z.string(), address: z.string(), node: z.string() }),
  /** Its entry in the node's conntrack table, if it was still there. */
  connection: z.object({ original: tupleNote, reply: tupleNote }).optional(),
})
export type OwnRequestNote = z.infer<typeof ownRequestNote>

/** What the notes keep of a learner's own request at a step; undefined before it was seen. */
export const ownRequestIn = (notes: LabNotes, step: string): OwnRequestNote | undefined =>
  notes.read(evidenceKey(step), ownRequestNote)

/**
 * A request that the learner sent with a marker of their own (`/?anything`), found in the access
 * logs of the Pods with that label; the grader's own requests have other markers. Kept with its
 * conntrack entry on the node that sent it. Fails if there is none; throws Trouble if a log or a
 * node can't be read.
 */
export function ownRequest(wanted: OwnRequest): EvidenceCheck {
  return async (context): Promise<OwnRequestNote> => {
    const { snapshot } = context
    const requests = await requestsIn(context, wanted)
    const found = requests.findLast((one) => isMeant(snapshot, one, wanted))
    if (!found) return tellMissing(wanted, requests.at(-1))
    const node = sendingNode(snapshot, found.client, wanted)
    const connection = node === undefined ? undefined : await connectionOf(context, node, found)
    const { marker, client, backend } = found
    return { marker, client, backend, ...(node && { node }), ...(connection && { connection }) }
  }
}

const LOG_SECONDS = 3600
/** nginx's access log: the client, the user or in lab 4 the Host header, then the request line. */
const LOGGED = /^(\S+) - (\S+) .*?"[A-Z]+ \/\S*?\?(\S{1,80})\S* HTTP\//
/** The grader's own requests: `sendMarked` and `httpRequests` write these. */
const GRADERS = /^(?:probe-|request=)/

type Logged = Pick<OwnRequestNote, 'marker' | 'client' | 'backend'> & { host: string }

/**
 * The learner's requests in the logs of the Pods, those of one Pod in the order in which they came.
 */
async function requestsIn(
  { snapshot, live }: LiveContext,
  { to = 'web', container }: OwnRequest,
): Promise<Logged[]> {
  const pods = podsWithLabel(snapshot, to).filter(({ status }) => status?.podIP)
  const logged = pods.map(async ({ metadata: { name }, status, spec }) => {
    const place = { namespace: WEB_NAMESPACE, name, ...(container !== undefined && { container }) }
    const log = await live.log(place, LOG_SECONDS)
    const backend = { pod: name, address: status?.podIP ?? '', node: spec?.nodeName ?? '' }
    return log.split('\n').flatMap((line): Logged[] => {
      const [, client = '', host = '', marker = ''] = LOGGED.exec(line) ?? []
      return marker === '' || GRADERS.test(marker) ? [] : [{ marker, client, host, backend }]
    })
  })
  return (await Promise.all(logged)).flat()
}

const addressOfPod = (snapshot: Snapshot, { pod = 'client' }: OwnRequest): string | undefined =>
  snapshot.find('Pod', WEB_NAMESPACE, pod)?.status?.podIP

/** The node that has an address: its own, or one in the Pod network. */
function nodeWith(snapshot: Snapshot, address: string): string | undefined {
  return snapshot.nodes.find(
    (node) =>
      nodeAddressOf(snapshot, node.name) === address ||
      stateOf(node).links.some(({ addresses }) => addresses.some((one) => one.address === address)),
  )?.name
}

const isMeant = (snapshot: Snapshot, { client, host, marker }: Logged, wanted: OwnRequest) =>
  marker.startsWith(wanted.word ?? '') &&
  (wanted.host === undefined || host === wanted.host) &&
  isFrom(snapshot, client, wanted)

function isFrom(snapshot: Snapshot, client: string, wanted: OwnRequest): boolean {
  const isPod = snapshot.items.some(
    ({ kind, status, spec }) => kind === 'Pod' && status?.podIP === client && !spec?.hostNetwork,
  )
  if (wanted.from === 'pod') return client === addressOfPod(snapshot, wanted)
  if (isPod) return false
  const node = nodeWith(snapshot, client)
  return wanted.from === 'node' ? node !== undefined : node === undefined
}

function sendingNode(snapshot: Snapshot, client: string, wanted: OwnRequest): string | undefined {
  if (wanted.from === 'node') return nodeWith(snapshot, client)
  if (wanted.from === 'outside') return undefined
  return snapshot.find('Pod', WEB_NAMESPACE, wanted.pod ?? 'client')?.spec?.nodeName
}

/**
 * A connection of the sender to that backend in the conntrack table of its node. Entries last two
 * minutes after the end, of the grader's, which end by a reset, 10 s.
 */
async function connectionOf(
  { live }: LiveContext,
  node: string,
  { client, backend }: Logged,
): Promise<ConntrackEntry | undefined> {
  const script = `conntrack -L -p tcp --reply-src ${backend.address} 2>/dev/null | grep -v ' CLOSE ' || true`
  const { stdout } = await live.readOnNode(node, script)
  try {
    return parseConntrack(stdout).findLast(
      ({ original, reply }) =>
        reply.destination === client && original.destination !== backend.address,
    )
  } catch (error) {
    if (error instanceof ParseError) return undefined
    throw error
  }
}

const SENDERS = {
  pod: ({ pod = 'client' }: OwnRequest) => `the Pod ${pod}`,
  node: () => 'a node',
  outside: () => 'the machine outside the cluster',
}
const COMMANDS = {
  pod: (url: string, { pod = 'client' }: OwnRequest) => `kubectl exec ${pod} -- curl -s ${url}`,
  node: (url: string) => `make exec CMD='curl -s ${url}'`,
  outside: (url: string) => `make exec NODE=outside CMD='curl -s ${url}'`,
}

function tellMissing(wanted: OwnRequest, other: Logged | undefined): never {
  const { from, to = 'web', host, word } = wanted
  // A real server logs the director as the client of what the director masquerades.
  const sender = host === undefined ? from : 'outside'
  const command = COMMANDS[sender](`${host ?? 'ADDRESS'}/?${word ?? 'mine'}`, wanted)
  const toHost = host === undefined ? '' : ` to ${host}`
  const wordText = word === undefined ? 'a word of your choice' : `the word "${word}"`
  const last = other && `"${other.marker}", came from ${other.client}`
  fail({
    inspect: `kubectl logs -l app=${to} --prefix --tail=20`,
    expected: `a request of your own from ${SENDERS[sender](wanted)}${toHost}, with ${wordText} after "/?", in the access log of a Pod with the label app=${to}`,
    actual: last
      ? `the last request with a word of yours, ${last}${toHost && `, and was sent to ${other.host}`}`
      : 'none',
    hint: toHost
      ? 'Send one:'
      : 'Send one, with the address that you want to reach in place of ADDRESS:',
    next: command,
  })
}
