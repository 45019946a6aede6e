import { isDeepStrictEqual } from 'node:util'
import { type ConntrackEntry, parseConntrack } from '../../dataplane/conntrack.ts'
import type { ServicePort } from '../../dataplane/kube-proxy/service-ports.ts'
import type { GuestNode } from './guest-node.ts'

/** `address:port`, or `:port` for a node port, to the addresses of the endpoints behind it. */
type Backends = ReadonlyMap<string, ReadonlySet<string>>

/** The valid destinations of UDP flows. */
function udpBackends(services: readonly ServicePort[]): Backends {
  const backends = new Map<string, Set<string>>()
  for (const { protocol, port, nodePort, endpoints, ...addresses } of services) {
    if (protocol !== 'udp') continue
    const usable = new Set(
      endpoints.flatMap(({ ready, serving, ip }) => (ready || serving ? [ip] : [])),
    )
    const { clusterIP, externalIPs, loadBalancerIPs } = addresses
    for (const address of [clusterIP, ...externalIPs, ...loadBalancerIPs])
      backends.set(`${address}:${port}`, usable)
    if (nodePort !== 0) backends.set(`:${nodePort}`, usable)
  }
  return backends
}

/** No program is started if the kernel tracks no connection. */
const listUdp = `read -r flows </proc/sys/net/netfilter/nf_conntrack_count && [ "$flows" = 0 ] && exit
conntrack -L -p udp 2>/dev/null
`

/**
 * Deletes UDP flows that conntrack would keep sending to a deleted endpoint; TCP connections end by
 * themselves (RST, FIN).
 */
export class ConntrackCleanup {
  readonly #node: GuestNode
  #known: Backends = new Map()

  constructor(node: GuestNode) {
    this.#node = node
  }

  /** Called after the rules of a sync are written; does nothing if no UDP Service has changed. */
  async after(
    services: readonly ServicePort[],
    localAddresses: ReadonlySet<string>,
  ): Promise<void> {
    const backends = udpBackends(services)
    if (isDeepStrictEqual(backends, this.#known)) return
    // A deleted Service has no valid destination.
    const deleted = [...this.#known.keys()].map((key): [string, ReadonlySet<string>] => [
      key,
      new Set(),
    ])
    const watched = new Map([...deleted, ...backends])
    const { stdout } = await this.#node.run(listUdp)
    const stale = parseConntrack(stdout).filter((flow) => isStale(flow, watched, localAddresses))
    if (stale.length > 0) await this.#node.run(stale.map(deletion).join(''))
    // Recorded only after success, so that a failed cleanup is retried.
    this.#known = backends
  }
}

/**
 * Whether a flow to a Service address or node port leads to an address that is not an endpoint of
 * that Service.
 */
export function isStale(
  { original, reply }: ConntrackEntry,
  backends: Backends,
  localAddresses: ReadonlySet<string>,
): boolean {
  const { destination, destinationPort } = original
  const behind =
    backends.get(`${destination}:${destinationPort}`) ??
    (localAddresses.has(destination) ? backends.get(`:${destinationPort}`) : undefined)
  return behind !== undefined && !behind.has(reply.source)
}

const deletion = ({ original }: ConntrackEntry) =>
  `conntrack -D -p udp -s ${original.source} -d ${original.destination} --sport ${original.sourcePort} --dport ${original.destinationPort} >/dev/null 2>&1\n`
