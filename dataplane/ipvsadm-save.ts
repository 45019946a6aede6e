// Output of `ipvsadm -Sn`:  -A -t 10.96.0.1:443 -s rr / -a -t 10.96.0.1:443 -r 172.18.0.2:6443 -m -w 1

import { parseEndpoint, printEndpoint } from './ip-address.ts'
import { eachLine, ParseError } from './program-output.ts'

export type IpvsProtocol = 'TCP' | 'UDP' | 'SCTP' | 'FWM'

export interface RealServer {
  address: string
  port: number
  forward: 'masq' | 'route' | 'tunnel'
  weight: number
}

/** One virtual server. For FWM `address` is the firewall mark and `port` 0; `persistent` is in seconds. */
export interface VirtualServer {
  protocol: IpvsProtocol
  address: string
  port: number
  scheduler: string
  persistent?: number
  netmask?: string
  /** Scheduler flags (`mh-port`), `ops` for one-packet scheduling, `pe=sip`, `inet6` for a firewall mark of IPv6. */
  flags: string[]
  realServers: RealServer[]
}

const SOURCE = 'ipvsadm -Sn'
const SERVICE_OPTION: Record<IpvsProtocol, string> = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service', FWM: '-f' }
const FORWARD_OPTION: Record<RealServer['forward'], string> = { masq: '-m', route: '-g', tunnel: '-i' }
/** Other spellings of options. */
const ALIASES = new Map(
  (
    '--add-service -A, --add-server -a, --tcp-service -t, --udp-service -u, --fwmark-service -f, --scheduler -s, ' +
    '--persistent -p, --netmask -M, --sched-flags -b, --ops -o, ops -o, pe --pe, --real-server -r, --weight -w, ' +
    '--masquerading -m, --gatewaying -g, --ipip -i, --u-threshold -x, --l-threshold -y'
  )
    .split(', ')
    .map((pair) => pair.split(' ') as [string, string]),
)
/** Options of a real server with a value that the model ignores (thresholds, tunnel encapsulation). */
const UNKEPT = new Set(['-x', '-y', '--tun-type', '--tun-port'])
const UNKEPT_FLAGS = new Set(['-6', '--tun-nocsum', '--tun-csum', '--tun-remcsum'])
/** The kernel's default when -p has no value (IPVS_SVC_PERSISTENT_TIMEOUT of ipvsadm). */
const DEFAULT_PERSISTENCE = 300

/** The key of a virtual server: `TCP 10.96.0.1:443`, `FWM 5`. */
export function virtualServerKey(server: Pick<VirtualServer, 'protocol' | 'address' | 'port'>): string {
  if (server.protocol === 'FWM') return `FWM ${server.address}`
  return `${server.protocol} ${printEndpoint(server.address, server.port)}`
}

/** Live connections by real server: `TCP 10.96.0.1:443 172.18.0.2:6443`. */
export type LiveConnections = ReadonlyMap<string, { active: number; inactive: number }>

/** Reads the connections that the kernel counts for each real server from the output of `ipvsadm -Ln`. */
export const parseIpvsadmList = (text: string): LiveConnections =>
  readRealServers(text, /^ +-> (\S+) +\S+ +\d+ +(\d+) +(\d+) *$/)

/** The same from `ipvsadm -Ln --stats --exact`, which counts every connection since the real server was added; none is inactive. */
export const parseIpvsadmStats = (text: string): LiveConnections => readRealServers(text, /^ +-> (\S+) +(\d+)/)

function readRealServers(text: string, pattern: RegExp): LiveConnections {
  const connections = new Map<string, { active: number; inactive: number }>()
  let server = ''
  for (const line of text.split('\n')) {
    server = /^((?:TCP|UDP|SCTP|FWM) +\S+) /.exec(line)?.[1]?.replace(/ +/, ' ') ?? server
    const [, real, active, inactive = 0] = pattern.exec(line) ?? []
    if (real !== undefined) connections.set(`${server} ${real}`, { active: Number(active), inactive: Number(inactive) })
  }
  return connections
}

/**
 * Reads the output of `ipvsadm -Sn` (`ipvsadm-save -n`) and keeps its order. Throws ParseError for any other line, for
 * a real server whose virtual server is not listed before it, and for names instead of numbers (`ipvsadm -S` without
 * -n).
 */
export function parseIpvsadmSave(text: string): VirtualServer[] {
  const servers = new Map<string, VirtualServer>()
  eachLine(text, (line, number) => {
    if (line.trim() === '' || line.startsWith('#')) return
    new LineReader(line, (fault) => new ParseError(SOURCE, number, line, fault)).readInto(servers)
  })
  return [...servers.values()]
}

class LineReader {
  readonly #words: string[]
  readonly #fail: (fault: string) => ParseError
  #at = 0

  constructor(line: string, fail: (fault: string) => ParseError) {
    this.#words = line.split(' ').filter((word) => word !== '')
    this.#fail = fail
  }

  /** Adds the line's virtual server, or its real server to the virtual server that is listed above. */
  readInto(servers: Map<string, VirtualServer>): void {
    const command = this.#option()
    if (command === '-A') {
      const server = this.#virtualServer()
      const key = virtualServerKey(server)
      if (servers.has(key)) throw this.#fail('this virtual server is listed twice')
      servers.set(key, server)
    } else if (command === '-a') {
      const server = servers.get(virtualServerKey(this.#service()))
      if (!server) throw this.#fail('a real server of a virtual server that is not listed before it')
      server.realServers.push(this.#realServer())
    } else throw this.#fail('not a line of ipvsadm -Sn')
  }

  #service(): Pick<VirtualServer, 'protocol' | 'address' | 'port'> {
    const option = this.#option() ?? ''
    const protocol = keyOf(SERVICE_OPTION, option)
    if (!protocol) throw this.#fail('the line names no service (-t, -u, --sctp-service or -f)')
    if (protocol === 'FWM') return { protocol, address: String(this.#number(option)), port: 0 }
    return { protocol, ...this.#endpoint(option, 'service') }
  }

  #virtualServer(): VirtualServer {
    const server: VirtualServer = { ...this.#service(), scheduler: '', flags: [], realServers: [] }
    for (let option = this.#option(); option !== undefined; option = this.#option()) {
      if (option === '-s') server.scheduler = this.#value(option)
      else if (option === '-p') {
        const hasValue = /^\d+$/.test(this.#words[this.#at] ?? '')
        server.persistent = hasValue ? this.#number(option) : DEFAULT_PERSISTENCE
      } else if (option === '-M') server.netmask = this.#value(option)
      else if (option === '-b') server.flags.push(...this.#value(option).split(','))
      else if (option === '-o') server.flags.push('ops')
      else if (option === '--pe') server.flags.push(`pe=${this.#value(option)}`)
      else if (option === '-6') server.flags.push('inet6')
      else throw this.#fail(`unknown option ${option}`)
    }
    if (server.scheduler === '') throw this.#fail('the virtual server has no scheduler (-s)')
    return server
  }

  #realServer(): RealServer {
    let endpoint: { address: string; port: number } | undefined
    let forward: RealServer['forward'] = 'route'
    let weight = 1
    for (let option = this.#option(); option !== undefined; option = this.#option()) {
      const method = keyOf(FORWARD_OPTION, option)
      if (option === '-r') endpoint = this.#endpoint(option, 'real server')
      else if (option === '-w') weight = this.#number(option)
      else if (method) forward = method
      else if (UNKEPT.has(option)) this.#value(option)
      else if (!UNKEPT_FLAGS.has(option)) throw this.#fail(`unknown option ${option}`)
    }
    if (!endpoint) throw this.#fail('the line names no real server (-r)')
    return { ...endpoint, forward, weight }
  }

  #option(): string | undefined {
    const word = this.#words[this.#at++]
    return ALIASES.get(word ?? '') ?? word
  }

  #value(option: string): string {
    const word = this.#words[this.#at++]
    if (word === undefined) throw this.#fail(`the option ${option} has no value`)
    return word
  }

  #number(option: string): number {
    const word = this.#value(option)
    const value = /^\d{1,10}$/.test(word) ? Number(word) : Number.NaN
    if (!(value <= 0xffffffff)) throw this.#fail(`the value of ${option} is not a number`)
    return value
  }

  #endpoint(option: string, what: string): { address: string; port: number } {
    const endpoint = parseEndpoint(this.#value(option))
    if (!endpoint) throw this.#fail(`the ${what} is not a numeric ADDRESS:PORT (take the output with ipvsadm -Sn)`)
    return endpoint
  }
}

const keyOf = <Key extends string>(options: Record<Key, string>, option: string): Key | undefined =>
  (Object.keys(options) as Key[]).find((key) => options[key] === option)

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
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`
}

function printServiceOptions(server: VirtualServer): string {
  let text = server.persistent === undefined ? '' : ` -p ${server.persistent}`
  if (server.netmask !== undefined) text += ` -M ${server.netmask}`
  const scheduler = server.flags.filter((flag) => flag !== 'ops' && flag !== 'inet6' && !flag.startsWith('pe='))
  if (scheduler.length > 0) text += ` -b ${scheduler.join(',')}`
  for (const flag of server.flags) if (flag.startsWith('pe=')) text += ` --pe ${flag.slice(3)}`
  return server.flags.includes('ops') ? `${text} -o` : text
}
