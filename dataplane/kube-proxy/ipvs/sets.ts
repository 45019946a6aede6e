import { idOf } from '../../entry-id.ts'
import type { Family } from '../../ip-address.ts'
import type { IpSets } from '../../ipset-save.ts'
import type { OriginRecorder, Origins, PortOrigins } from '../origins.ts'
import type { Features } from '../versions.ts'

/**
 * The sets of ipvs mode by their IPv4 name: the type, and the comment of the rules that match them.
 */
const SETS = {
  'KUBE-LOOP-BACK': [
    'hash:ip,port,ip',
    'Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose',
  ],
  'KUBE-CLUSTER-IP': [
    'hash:ip,port',
    'Kubernetes service cluster ip + port for masquerade purpose',
  ],
  'KUBE-EXTERNAL-IP': [
    'hash:ip,port',
    'Kubernetes service external ip + port for masquerade and filter purpose',
  ],
  'KUBE-EXTERNAL-IP-LOCAL': [
    'hash:ip,port',
    'Kubernetes service external ip + port with externalTrafficPolicy=local',
  ],
  'KUBE-LOAD-BALANCER': ['hash:ip,port', 'Kubernetes service lb portal'],
  'KUBE-LOAD-BALANCER-LOCAL': [
    'hash:ip,port',
    'Kubernetes service load balancer ip + port with externalTrafficPolicy=local',
  ],
  'KUBE-LOAD-BALANCER-FW': [
    'hash:ip,port',
    'Kubernetes service load balancer ip + port for load balancer with sourceRange',
  ],
  'KUBE-LOAD-BALANCER-SOURCE-IP': [
    'hash:ip,port,ip',
    'Kubernetes service load balancer ip + port + source IP for packet filter purpose',
  ],
  'KUBE-LOAD-BALANCER-SOURCE-CIDR': [
    'hash:ip,port,net',
    'Kubernetes service load balancer ip + port + source cidr for packet filter purpose',
  ],
  'KUBE-NODE-PORT-TCP': ['bitmap:port', 'Kubernetes nodeport TCP port for masquerade purpose'],
  'KUBE-NODE-PORT-LOCAL-TCP': [
    'bitmap:port',
    'Kubernetes nodeport TCP port with externalTrafficPolicy=local',
  ],
  'KUBE-NODE-PORT-UDP': ['bitmap:port', 'Kubernetes nodeport UDP port for masquerade purpose'],
  'KUBE-NODE-PORT-LOCAL-UDP': [
    'bitmap:port',
    'Kubernetes nodeport UDP port with externalTrafficPolicy=local',
  ],
  'KUBE-NODE-PORT-SCTP-HASH': [
    'hash:ip,port',
    "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'",
  ],
  'KUBE-NODE-PORT-LOCAL-SCTP-HASH': [
    'hash:ip,port',
    "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'",
  ],
  'KUBE-HEALTH-CHECK-NODE-PORT': ['bitmap:port', 'Kubernetes health check node port'],
  'KUBE-IPVS-IPS': ['hash:ip', ''],
} as const

export type SetName = keyof typeof SETS

const SET_NAMES = Object.keys(SETS) as SetName[]

const exists = (name: SetName, features: Features): boolean => {
  if (name === 'KUBE-HEALTH-CHECK-NODE-PORT') return features.ipvsHealthCheck
  if (name === 'KUBE-IPVS-IPS') return features.ipvsFilter
  return true
}

/** The IPv4 name, or for IPv6 `KUBE-6-…`, truncated to the kernel's limit of 31 characters. */
export const setName = (name: SetName, family: Family): string =>
  family === 'ipv4' ? name : name.replace('KUBE-', 'KUBE-6-').slice(0, 31)

/** The comment of the rules that match a set. */
export const setComment = (name: SetName): string => SETS[name][1]

/** The names of the sets of all versions in one family: later versions have only added sets. */
export const setNames = (family: Family): string[] => SET_NAMES.map((name) => setName(name, family))

/** Collects the members of kube-proxy's sets in one family. */
export class SetBuilder {
  readonly #family: Family
  readonly #members = new Map<SetName, Set<string>>()
  readonly #wanted = new Set<SetName>()

  readonly #origins: OriginRecorder | undefined

  constructor(family: Family, features: Features, origins?: OriginRecorder) {
    this.#family = family
    this.#origins = origins
    for (const name of SET_NAMES) if (exists(name, features)) this.#members.set(name, new Set())
  }

  /**
   * @param from what the member comes from in the current Service port
   * @param use what the rules that match against the set come from, which exist while it has any
   * member
   */
  add(name: SetName, member: string, from: Origins, use = from): void {
    this.#use(name, use)
    this.#members.get(name)?.add(member)
    this.#origins?.record(idOf.member(setName(name, this.#family), member), from)
  }

  #use(name: SetName, from: Origins): void {
    this.#wanted.add(name)
    this.#origins?.record(this.#useId(name), from)
  }

  #useId(name: SetName): string {
    return `use of ${idOf.set(setName(name, this.#family))}`
  }

  /** What the rules that match against the set come from. */
  originsOfUse(name: SetName): readonly PortOrigins[] {
    return this.#origins?.of(this.#useId(name)) ?? []
  }

  /**
   * Adds a source range. The kernel stores a single address without its prefix length and rejects
   * length 0 (ipset: "The value of the CIDR parameter of the IP address is invalid"), so that
   * kube-proxy has a rule but no member.
   */
  addRange(name: SetName, prefix: string, range: string, from: Origins): void {
    if (range.endsWith('/0')) {
      this.#use(name, from)
      return
    }
    const single = this.#family === 'ipv4' ? '/32' : '/128'
    const source = range.endsWith(single) ? range.slice(0, -single.length) : range
    this.add(name, `${prefix},${source}`, from)
  }

  /**
   * True if kube-proxy considers the set non-empty and therefore writes the rules that match
   * against it.
   */
  isUsed(name: SetName): boolean {
    return this.#wanted.has(name)
  }

  /** The sets as in `ipset save`, without options that depend on the kernel. */
  build(): IpSets {
    const sets: IpSets = new Map()
    for (const [key, members] of this.#members) {
      const name = setName(key, this.#family)
      const [type] = SETS[key]
      const options: Record<string, string> =
        type === 'bitmap:port'
          ? { range: '0-65535' }
          : {
              family: this.#family === 'ipv4' ? 'inet' : 'inet6',
              hashsize: '1024',
              maxelem: '65536',
            }
      sets.set(name, { name, type, options, members })
    }
    return sets
  }
}
