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
  original: Tuple
  reply: Tuple
}

const SUMMARY = /^conntrack v\S+ \(conntrack-tools\):/
const PROTOCOL = /^(ipv[46] +\d+ +)?\w+ +\d+ /

/**
 * Reads the tuples in the output of `conntrack -L` or of /proc/net/nf_conntrack (whose lines begin with `ipv4 2`). The summary line
 * that conntrack prints is skipped. Throws ParseError for a line without both directions.
 */
export function parseConntrack(text: string): Connection[] {
  const connections: Connection[] = []
  eachLine(text, (line, number) => {
    if (line.trim() === '' || SUMMARY.test(line)) return
    const [original, reply] = [readTuple(line, 0), readTuple(line, 1)]
    if (!PROTOCOL.test(line) || !original || !reply)
      throw new ParseError('conntrack -L', number, line, 'not a line of conntrack -L')
    connections.push({ original, reply })
  })
  return connections
}

function readTuple(line: string, direction: 0 | 1): Tuple | undefined {
  const fieldOf = (field: string) => [...line.matchAll(new RegExp(` ${field}=(\\S+)`, 'g'))][direction]?.[1]
  const [source, destination, sourcePort, destinationPort] = ['src', 'dst', 'sport', 'dport'].map(fieldOf)
  if (source === undefined || destination === undefined) return undefined
  return {
    source,
    destination,
    ...(sourcePort !== undefined && { sourcePort: Number(sourcePort) }),
    ...(destinationPort !== undefined && { destinationPort: Number(destinationPort) }),
  }
}
