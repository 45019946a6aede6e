// Output of `ip route`: default via 172.18.0.1 dev eth0 / 10.244.1.0/24 dev cni0 proto kernel scope
// link src 10.244.1.1

import { familyOf, parsePrefix } from './ip-address.ts'
import { LineError, readLines } from './program-output.ts'

/**
 * One route. `destination` is a prefix (`default` is read as 0.0.0.0/0 or ::/0); of several next
 * hops the first is kept.
 */
export interface Route {
  /**
   * `unicast`, or the type at the start of the line: `local`, `broadcast`, `blackhole`,
   * `unreachable`, `prohibit`, `throw`.
   */
  type: string
  destination: string
  via?: string
  device?: string
  source?: string
  metric: number
}

const TYPES = new Set(
  'unicast local broadcast multicast anycast blackhole unreachable prohibit throw'.split(' '),
)
const NEXT_HOP = /^\s+nexthop\s/

/**
 * Reads the text of `ip route` or `ip route show table all` (v4 or v6). Throws ParseError for a
 * line without a destination. Attributes that do not determine the next hop are skipped.
 */
export function parseIpRoute(text: string): Route[] {
  const routes: Route[] = []
  readLines('ip route', text, (line) => {
    if (line.trim() === '') return
    const tokens = line.trim().split(/\s+/)
    if (NEXT_HOP.test(line)) readNextHop(tokens.slice(1), routes.at(-1))
    else routes.push(readRoute(tokens))
  })
  return routes
}

/** Reads a further line of a route with several next hops; only the first one is kept. */
function readNextHop(attributes: string[], route: Route | undefined): void {
  if (!route) throw new LineError('a next hop without its route')
  if (route.device === undefined && route.via === undefined) readAttributes(attributes, route)
}

function readRoute(tokens: string[]): Route {
  const type = TYPES.has(tokens[0] ?? '') ? (tokens.shift() ?? '') : 'unicast'
  const target = tokens.shift() ?? ''
  if (target !== 'default' && !parsePrefix(target))
    throw new LineError('not a route: the line does not begin with a destination')
  const destination = target === 'default' ? defaultDestination(tokens) : target
  const route: Route = { type, destination, metric: 0 }
  readAttributes(tokens, route)
  return route
}

/** The prefix of a default route, which has the family of its next hop. */
function defaultDestination(attributes: string[]): string {
  const via = attributes.indexOf('via')
  const isIPv6 = via !== -1 && familyOf(attributes[via + 1] ?? '') === 'ipv6'
  return isIPv6 ? '::/0' : '0.0.0.0/0'
}

function readAttributes(tokens: string[], route: Route): void {
  for (let at = 0; at + 1 < tokens.length; at++) {
    const value = tokens[at + 1] ?? ''
    switch (tokens[at]) {
      case 'via':
        route.via = familyOf(value) ? value : (tokens[at + 2] ?? value)
        break
      case 'dev':
        route.device = value
        break
      case 'src':
        route.source = value
        break
      case 'metric':
        route.metric = Number(value) || 0
        break
      default:
        continue
    }
    at++
  }
}
