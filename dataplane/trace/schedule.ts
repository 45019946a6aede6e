import { printEndpoint } from '../ip-address.ts'
import type { RealServer, VirtualServer } from '../ipvsadm-save.ts'
import type { Flow } from './flow.ts'

/** A real server and the share of new connections that it gets. */
export interface Share {
  real: RealServer
  share: number
}

/**
 * Schedulers that look at weights only to leave out 0: every other real server is as likely. For hashing ones (sh, dh, mh)
 * the client decides, which for an unknown client is the same. Source: net/netfilter/ipvs/ip_vs_*.c.
 */
const UNWEIGHTED = new Set(['rr', 'lc', 'dh', 'lblc', 'lblcr'])

/** Virtual servers by virtualServerKey. */
export type VirtualServers = ReadonlyMap<string, VirtualServer>

/** The virtual server that takes a packet: by firewall mark first, then by address and port, then by port 0 (any port). */
export function findVirtualServer(servers: VirtualServers, flow: Flow): VirtualServer | undefined {
  const key = (port: number) => `${flow.protocol.toUpperCase()} ${printEndpoint(flow.destination, port)}`
  const marked = flow.mark === 0 ? undefined : servers.get(`FWM ${flow.mark}`)
  return marked ?? servers.get(key(flow.port)) ?? servers.get(key(0))
}

/**
 * How new connections spread over the real servers: none of weight 0 gets any; equal shares for schedulers that ignore
 * weights, shares by weight for the others. Empty when there is no usable one.
 */
export function scheduleShares(server: VirtualServer): Share[] {
  const usable = server.realServers.filter(({ weight }) => weight > 0)
  if (server.scheduler === 'fo') return failover(usable)
  const weightOf = (real: RealServer) => (UNWEIGHTED.has(server.scheduler) ? 1 : real.weight)
  const total = usable.reduce((sum, real) => sum + weightOf(real), 0)
  return usable.map((real) => ({ real, share: weightOf(real) / total }))
}

/** Weighted failover: the heaviest takes everything. */
function failover(usable: readonly RealServer[]): Share[] {
  const [first, ...others] = usable
  if (!first) return []
  return [{ real: others.reduce((best, real) => (real.weight > best.weight ? real : best), first), share: 1 }]
}
