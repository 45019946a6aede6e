import { printEndpoint } from '../../dataplane/ip-address.ts'
import { type RealServer, type VirtualServer, virtualServerKey } from '../../dataplane/ipvsadm-save.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail } from '../../grading/failure.ts'
import { REAL_PORT } from './addresses.ts'
import type { RealNode, Stage } from './stage.ts'

/** A virtual server that the learner was asked to build. */
export interface Wanted {
  /** `TCP 192.0.2.10:8090` or `FWM 8109`. */
  key: string
  scheduler: string
  forward: RealServer['forward']
  /** Weights of the real servers, the largest first. They say how many there are. */
  weights: readonly number[]
  /** Ports of the real servers; by default the one of that method. */
  ports?: readonly number[]
}

const OPTION = { masq: '-m', route: '-g', tunnel: '-i' } as const
const NAME = { masq: 'Masq', route: 'Route', tunnel: 'Tunnel' } as const

/** The director holds this virtual server with these real servers and nothing else in it. Returns it. */
export function mustHold({ director, realServers }: Stage, wanted: Wanted): VirtualServer {
  const { key, scheduler, forward, weights, ports = [REAL_PORT[forward]] } = wanted
  const found = director.state.virtualServers.find((server) => virtualServerKey(server) === key)
  const possible = new Set(realServers.flatMap(({ address }) => ports.map((port) => printEndpoint(address, port))))
  const faults = found ? faultsOf(found, wanted, possible) : ['no such virtual server']
  if (found && faults.length === 0) return found
  fail({
    node: director.name,
    look: onNode(director.name, 'ipvsadm -Ln'),
    expected: `the virtual server ${key} with scheduler ${scheduler} and ${weights.length} real servers out of ${[...possible].join(', ')}, ${NAME[forward]}, weights ${weights.join(' and ')}`,
    actual: faults.join('; '),
    hint: `ipvsadm on ${director.name}: -A and ${optionsOf(key)} -s ${scheduler} for the virtual server, -a … -r ADDRESS:PORT ${OPTION[forward]} -w WEIGHT for each real server; -E and -e change what is there.`,
  })
}

function optionsOf(key: string): string {
  const [protocol, place = ''] = key.split(' ')
  return `${protocol === 'FWM' ? '-f' : '-t'} ${place}`
}

function faultsOf(
  found: VirtualServer,
  { scheduler, forward, weights }: Wanted,
  possible: ReadonlySet<string>,
): string[] {
  const real = found.realServers
  const foreign = real.find(({ address, port }) => !possible.has(printEndpoint(address, port)))
  const other = real.find((server) => server.forward !== forward)
  const given = real.map(({ weight }) => weight).sort((one, another) => another - one)
  const unknownFlags = found.persistent !== undefined || found.flags.length > 0
  return [
    ...(found.scheduler === scheduler ? [] : [`its scheduler is ${found.scheduler}`]),
    ...(unknownFlags ? ['it is persistent or has flags'] : []),
    ...(foreign ? [`${printEndpoint(foreign.address, foreign.port)} is none of the real servers`] : []),
    ...(other ? [`${printEndpoint(other.address, other.port)} is reached by ${NAME[other.forward]}`] : []),
    ...(given.join() === weights.join() ? [] : [`weights ${given.join(' and ') || 'of no real server'}`]),
  ]
}

/** What the real servers answered, or the director lists, is what its scheduler must do. */
export function expectScheduling(
  { director }: Stage,
  { holds, of = '--stats', ...told }: { holds: boolean; of?: string; expected: string; actual: string; hint?: string },
): void {
  if (!holds) fail({ node: director.name, look: onNode(director.name, `ipvsadm -Ln ${of}`), ...told })
}

/** The real node behind an address. */
const nodeAt = (realServers: readonly RealNode[], address: string): string =>
  realServers.find((server) => server.address === address)?.node ?? address

/** The node of the real server with the largest weight. */
export function heaviest({ realServers }: Stage, server: VirtualServer): string {
  const [first] = server.realServers.toSorted((one, other) => other.weight - one.weight)
  return nodeAt(realServers, first?.address ?? '')
}
