import { type Connection, parseConntrack } from '../../dataplane/conntrack.ts'
import type { Machine } from '../machine/machine.ts'
import type { GuestNode } from './guest-node.ts'

type Backends = ReadonlyMap<string, ReadonlySet<string>>

/** Machine → node → what was cleaned up there. */
const cleanups = new WeakMap<Machine, Map<string, ConntrackCleanup>>()

const same = (one: ReadonlySet<string> | undefined, other: ReadonlySet<string>) =>
  one !== undefined && one.size === other.size && [...other].every((address) => one.has(address))

/** No program is started where the kernel follows no connection at all. */
const listUdp = `read -r flows </proc/sys/net/netfilter/nf_conntrack_count && [ "$flows" = 0 ] && exit
conntrack -L -p udp 2>/dev/null
`

/** Ends UDP flows that conntrack would go on sending to an endpoint that is gone; TCP ends by itself (RST, FIN). */
export class ConntrackCleanup {
  private readonly node: GuestNode
  private known: Backends = new Map()

  private constructor(node: GuestNode) {
    this.node = node
  }

  /** That of a node: while its Services stay as they are, another kube-proxy goes on where the one before has ended. */
  static on(machine: Machine, name: string, node: GuestNode): ConntrackCleanup {
    const ofMachine = cleanups.get(machine) ?? new Map<string, ConntrackCleanup>()
    const cleanup = ofMachine.get(name) ?? new ConntrackCleanup(node)
    cleanups.set(machine, ofMachine.set(name, cleanup))
    return cleanup
  }

  /** Called after the rules of a sync stand; does nothing while no UDP Service changed. */
  async after(backends: Backends, localAddresses: ReadonlySet<string>): Promise<void> {
    const changed = [...backends].some(([key, now]) => !same(this.known.get(key), now))
    const gone = [...this.known.keys()].filter((key) => !backends.has(key))
    const watched = new Map([...backends, ...gone.map((key): [string, ReadonlySet<string>] => [key, new Set()])])
    if (!changed && gone.length === 0) return
    const { stdout } = await this.node.run(listUdp)
    const stale = parseConntrack(stdout).filter((flow) => isStale(flow, watched, localAddresses))
    if (stale.length > 0) await this.node.run(stale.map(deletion).join(''))
    // Only now: what could not be cleaned is tried again, by the next kube-proxy if need be.
    this.known = backends
  }
}

/** A flow to a Service address, or to a node port, that is answered by something else than an endpoint of that Service. */
export function isStale(
  { original, reply }: Connection,
  backends: Backends,
  localAddresses: ReadonlySet<string>,
): boolean {
  const { destination, destinationPort } = original
  const behind =
    backends.get(`${destination}:${destinationPort}`) ??
    (localAddresses.has(destination) ? backends.get(`:${destinationPort}`) : undefined)
  return behind !== undefined && !behind.has(reply.source)
}

const deletion = ({ original }: Connection) =>
  `conntrack -D -p udp -s ${original.source} -d ${original.destination} --sport ${original.sourcePort} --dport ${original.destinationPort} >/dev/null 2>&1\n`
