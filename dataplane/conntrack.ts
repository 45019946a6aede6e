// Output of `conntrack -L`: tcp 6 98 TIME_WAIT src=… dst=… sport=… dport=… src=… … [ASSURED] mark=0
// use=1

import { LineError, readLines } from './program-output.ts'

/** One direction of a connection. Ports are absent for protocols that have none (icmp). */
export interface Tuple {
  source: string
  destination: string
  sourcePort?: number
  destinationPort?: number
}

/** One tracked connection: `reply` is the tuple of the replies, which shows the translation. */
export interface ConntrackEntry {
  original: Tuple
  reply: Tuple
}

const SUMMARY = /^conntrack v\S+ \(conntrack-tools\):/
const TUPLE = / src=(\S+) dst=(\S+)(?: sport=(\d+) dport=(\d+))?/g
const PROTOCOL = /^(ipv[46] +\d+ +)?\w+ +\d+ /

/**
 * Reads the tuples in the output of `conntrack -L` or of /proc/net/nf_conntrack (whose lines begin
 * with `ipv4 2`). The summary line that conntrack prints is skipped. Throws ParseError for a line
 * without both directions.
 */
export function parseConntrack(text: string): ConntrackEntry[] {
  const connections: ConntrackEntry[] = []
  readLines('conntrack -L', text, (line) => {
    if (line.trim() === '' || SUMMARY.test(line)) return
    const [original, reply] = [...line.matchAll(TUPLE)].map(readTuple)
    if (!PROTOCOL.test(line) || !original || !reply)
      throw new LineError('not a line of conntrack -L')
    connections.push({ original, reply })
  })
  return connections
}

function readTuple([
  ,
  source = '',
  destination = '',
  sourcePort,
  destinationPort,
]: RegExpMatchArray): Tuple {
  if (sourcePort === undefined) return { source, destination }
  return {
    source,
    destination,
    sourcePort: Number(sourcePort),
    destinationPort: Number(destinationPort),
  }
}
