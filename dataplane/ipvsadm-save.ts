// Output of `ipvsadm -Sn`: -A -t 10.96.0.1:443 -s rr / -a -t 10.96.0.1:443 -r 172.18.0.2:6443 -m -w
// 1

import { parseEndpoint, printEndpoint } from './ip-address.ts'
import { LineError, readLines } from './program-output.ts'

export type IpvsProtocol = 'TCP' | 'UDP' | 'SCTP' | 'FWM'

export interface RealServer {
  address: string
  port: number
  forward: 'masq' | 'route' | 'tunnel'
  weight: number
}

/**
 * One virtual server. For FWM `address` is the firewall mark and `port` 0; `persistent` is in
 * seconds.
 */
export interface VirtualServer {
  protocol: IpvsProtocol
  address: string
  port: number
  scheduler: string
  persistent?: number
  netmask?: string
  /**
   * Scheduler flags (`mh-port`), `ops` for one-packet scheduling, `pe=sip`, `inet6` for a firewall
   * mark of IPv6.
   */
  flags: string[]
  realServers: RealServer[]
}

const SERVICE_OPTION: Record<IpvsProtocol, string> = {
  TCP: '-t',
  UDP: '-u',
  SCTP: '--sctp-service',
  FWM: '-f',
}
const FORWARD_OPTION: Record<RealServer['forward'], string> = {
  masq: '-m',
  route: '-g',
  tunnel: '-i',
}
/** As ipvsadm -S prints options that it reads in another spelling. */
const ALIASES = new Map([
  ['ops', '-o'],
  ['pe', '--pe'],
])
/** Options with a value; thresholds and the encapsulation of tunnels are not kept. */
const VALUED = new Set([
  ...Object.values(SERVICE_OPTION),
  ...'-s -p -M -b --pe -r -w -x -y --tun-type --tun-port'.split(' '),
])
const UNVALUED = new Set([
  ...Object.values(FORWARD_OPTION),
  '-o',
  '-6',
  '--tun-nocsum',
  '--tun-csum',
  '--tun-remcsum',
])

/** The key of a virtual server: `TCP 10.96.0.1:443`, `FWM 5`. */
export function virtualServerKey(
  server: Pick<VirtualServer, 'protocol' | 'address' | 'port'>,
): string {
  if (server.protocol === 'FWM') return `FWM ${server.address}`
  return `${server.protocol} ${printEndpoint(server.address, server.port)}`
}

/** Live connections by real server: `TCP 10.96.0.1:443 172.18.0.2:6443`. */
export type LiveConnections = ReadonlyMap<string, { active: number; inactive: number }>

/**
 * Reads the connections that the kernel counts for each real server from the output of
 * `ipvsadm -Ln`.
 */
export const parseIpvsadmList = (text: string): LiveConnections =>
  readRealServers(text, /^ +-> (\S+) +\S+ +\d+ +(\d+) +(\d+) *$/)

/**
 * The same from `ipvsadm -Ln --stats --exact`, which counts every connection since the real server
 * was added; none is inactive.
 */
export const parseIpvsadmStats = (text: string): LiveConnections =>
  readRealServers(text, /^ +-> (\S+) +(\d+)/)

function readRealServers(text: string, pattern: RegExp): LiveConnections {
  const connections = new Map<string, { active: number; inactive: number }>()
  let server = ''
  for (const line of text.split('\n')) {
    server = /^((?:TCP|UDP|SCTP|FWM) +\S+) /.exec(line)?.[1]?.replace(/ +/, ' ') ?? server
    const [, real, active, inactive = 0] = pattern.exec(line) ?? []
    if (real !== undefined)
      connections.set(`${server} ${real}`, { active: Number(active), inactive: Number(inactive) })
  }
  return connections
}

/**
 * Reads the output of `ipvsadm -Sn` (`ipvsadm-save -n`) and keeps its order. Throws ParseError for
 * any other line, a real server whose virtual server is not listed before it, and for names instead
 * of numbers (`ipvsadm -S` without -n).
 */
export function parseIpvsadmSave(text: string): VirtualServer[] {
  const servers = new Map<string, VirtualServer>()
  readLines('ipvsadm -Sn', text, (line) => {
    if (line.trim() === '' || line.startsWith('#')) return
    const [command, ...tokens] = line.split(' ').filter((word) => word !== '')
    if (command !== '-A' && command !== '-a') throw new LineError('not a line of ipvsadm -Sn')
    const options = readOptions(tokens)
    const service = readServiceAddress(options)
    const key = virtualServerKey(service)
    const listed = servers.get(key)
    if (command === '-a' && !listed)
      throw new LineError('a real server of a virtual server that is not listed before it')
    if (command === '-A' && listed) throw new LineError('this virtual server is listed twice')
    if (listed) listed.realServers.push(readRealServer(options))
    else servers.set(key, { ...service, ...readVirtualServer(options) })
  })
  return [...servers.values()]
}

/** The options of a line, with '' for one that has no value. */
type Options = ReadonlyMap<string, string>

function readOptions(tokens: readonly string[]): Options {
  const options = new Map<string, string>()
  for (let at = 0; at < tokens.length; at++) {
    const option = ALIASES.get(tokens[at] ?? '') ?? tokens[at] ?? ''
    if (!VALUED.has(option) && !UNVALUED.has(option))
      throw new LineError(`unknown option ${option}`)
    const value = VALUED.has(option) ? tokens[++at] : ''
    if (value === undefined) throw new LineError(`the option ${option} has no value`)
    options.set(option, value)
  }
  return options
}

function readServiceAddress(
  options: Options,
): Pick<VirtualServer, 'protocol' | 'address' | 'port'> {
  const protocol = optionKey(SERVICE_OPTION, options)
  if (!protocol) throw new LineError('the line names no service (-t, -u, --sctp-service or -f)')
  if (protocol === 'FWM') return { protocol, address: `${readNumber('-f', options)}`, port: 0 }
  return { protocol, ...readEndpoint(SERVICE_OPTION[protocol], 'service', options) }
}

function readVirtualServer(options: Options): Omit<VirtualServer, 'protocol' | 'address' | 'port'> {
  const scheduler = options.get('-s')
  if (scheduler === undefined) throw new LineError('the virtual server has no scheduler (-s)')
  const netmask = options.get('-M')
  const flags = [
    options.has('-6') ? 'inet6' : [],
    options.get('-b')?.split(',') ?? [],
    options.has('--pe') ? `pe=${options.get('--pe')}` : [],
    options.has('-o') ? 'ops' : [],
  ].flat()
  const persistent = options.has('-p') && { persistent: readNumber('-p', options) }
  return {
    scheduler,
    flags,
    realServers: [],
    ...persistent,
    ...(netmask !== undefined && { netmask }),
  }
}

function readRealServer(options: Options): RealServer {
  if (!options.has('-r')) throw new LineError('the line names no real server (-r)')
  const weight = options.has('-w') ? readNumber('-w', options) : 1
  return {
    ...readEndpoint('-r', 'real server', options),
    forward: optionKey(FORWARD_OPTION, options) ?? 'route',
    weight,
  }
}

const optionKey = <Key extends string>(
  names: Record<Key, string>,
  options: Options,
): Key | undefined => (Object.keys(names) as Key[]).find((key) => options.has(names[key]))

function readNumber(option: string, options: Options): number {
  const word = options.get(option) ?? ''
  const value = /^\d{1,10}$/.test(word) ? Number(word) : Number.NaN
  if (!(value <= 0xffffffff)) throw new LineError(`the value of ${option} is not a number`)
  return value
}

function readEndpoint(
  option: string,
  what: string,
  options: Options,
): { address: string; port: number } {
  const endpoint = parseEndpoint(options.get(option) ?? '')
  if (!endpoint)
    throw new LineError(
      `the ${what} is not a numeric ADDRESS:PORT (take the output with ipvsadm -Sn)`,
    )
  return endpoint
}

/** `-t 10.96.0.1:443`, `-f 5`: a virtual server in a command. */
export const serviceOption = ({ protocol, address, port }: VirtualServer): string =>
  `${SERVICE_OPTION[protocol]} ${protocol === 'FWM' ? address : printEndpoint(address, port)}`

/** Prints virtual servers as `ipvsadm -Sn` does; `ipvsadm -R` reads it. */
export function printIpvsadmSave(servers: readonly VirtualServer[]): string {
  const lines: string[] = []
  for (const server of servers) {
    const service = `${serviceOption(server)}${server.flags.includes('inet6') ? ' -6' : ''}`
    lines.push(`-A ${service} -s ${server.scheduler}${printServiceOptions(server)}`)
    for (const real of server.realServers) {
      const endpoint = printEndpoint(real.address, real.port)
      lines.push(`-a ${service} -r ${endpoint} ${FORWARD_OPTION[real.forward]} -w ${real.weight}`)
    }
  }
  return lines.map((line) => `${line}\n`).join('')
}

function printServiceOptions(server: VirtualServer): string {
  let text = server.persistent === undefined ? '' : ` -p ${server.persistent}`
  if (server.netmask !== undefined) text += ` -M ${server.netmask}`
  const scheduler = server.flags.filter(
    (flag) => flag !== 'ops' && flag !== 'inet6' && !flag.startsWith('pe='),
  )
  if (scheduler.length > 0) text += ` -b ${scheduler.join(',')}`
  for (const flag of server.flags) if (flag.startsWith('pe=')) text += ` --pe ${flag.slice(3)}`
  return server.flags.includes('ops') ? `${text} -o` : text
}
