// Output of `conntrack -L`:  tcp 6 98 TIME_WAIT src=… dst=… sport=… dport=… src=… … [ASSURED] mark=0 use=1

import { eachLine, ParseError } from './program-output.ts'

/** One direction of a connection. Ports are absent for protocols that have none (icmp). */
export interface Tuple {
  source: string
  destination: string
  sourcePort?: number
  destinationPort?: number
}

/** One tracked connection: `reply` is the tuple of the replies, which shows the translation. */
export interface Connection {
  protocol: string
  protocolNumber: number
  timeout?: number
  /** TCP and SCTP only: ESTABLISHED, TIME_WAIT, … */
  state?: string
  original: Tuple
  reply: Tuple
  mark: number
  /** The words in brackets: ASSURED, UNREPLIED, OFFLOAD, … */
  flags: string[]
}

const SOURCE = 'conntrack -L'
const PLACE_PREFIX = new Set(['ipv4', 'ipv6'])
const SUMMARY = /^conntrack v\S+ \(conntrack-tools\):/

/**
 * Reads the output of `conntrack -L` or of /proc/net/nf_conntrack (whose lines begin with `ipv4 2`). The summary line that
 * conntrack prints is skipped. Throws ParseError for a line without both directions.
 */
export function parseConntrack(text: string): Connection[] {
  const connections: Connection[] = []
  eachLine(text, (line, number) => {
    if (line.trim() === '' || SUMMARY.test(line)) return
    const connection = readConnection(line.trim().split(/\s+/))
    if (!connection) throw new ParseError(SOURCE, number, line, 'not a line of conntrack -L')
    connections.push(connection)
  })
  return connections
}

function readConnection(words: string[]): Connection | undefined {
  const [protocol, protocolNumber, ...rest] = PLACE_PREFIX.has(words[0] ?? '') ? words.slice(2) : words
  if (protocol === undefined || !/^\d+$/.test(protocolNumber ?? '')) return undefined
  const fields = new Map<string, string[]>()
  const flags: string[] = []
  let timeout: number | undefined
  let state: string | undefined
  for (const word of rest) {
    const equals = word.indexOf('=')
    if (equals > 0) {
      const values = fields.get(word.slice(0, equals)) ?? []
      values.push(word.slice(equals + 1))
      fields.set(word.slice(0, equals), values)
    } else if (word.startsWith('[')) flags.push(word.replace(/[[\]]/g, ''))
    else if (/^\d+$/.test(word)) timeout ??= Number(word)
    else state ??= word
  }
  const original = readTuple(fields, 0)
  const reply = readTuple(fields, 1)
  if (!original || !reply) return undefined
  const connection: Connection = {
    protocol,
    protocolNumber: Number(protocolNumber),
    original,
    reply,
    mark: Number(fields.get('mark')?.[0] ?? 0) || 0,
    flags,
  }
  if (timeout !== undefined) connection.timeout = timeout
  if (state !== undefined) connection.state = state
  return connection
}

function readTuple(fields: Map<string, string[]>, direction: 0 | 1): Tuple | undefined {
  const source = fields.get('src')?.[direction]
  const destination = fields.get('dst')?.[direction]
  if (source === undefined || destination === undefined) return undefined
  const tuple: Tuple = { source, destination }
  const sourcePort = fields.get('sport')?.[direction]
  const destinationPort = fields.get('dport')?.[direction]
  if (sourcePort !== undefined) tuple.sourcePort = Number(sourcePort)
  if (destinationPort !== undefined) tuple.destinationPort = Number(destinationPort)
  return tuple
}
