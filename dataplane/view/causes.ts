import { entryName, idOf } from '../entry-id.ts'
import { canonicalCidr, printEndpoint } from '../ip-address.ts'
import { virtualServerKey } from '../ipvsadm-save.ts'
import {
  DUMMY_LINK,
  isIpvsModeSet,
  isKubeProxyChain,
  isSharedChain,
  kubeProxyVirtualServers,
} from '../kube-proxy/mode-ownership.ts'
import {
  type EntryOrigin,
  OriginRecorder,
  type Origins,
  outsideAddresses,
  type PortOrigins,
  type PortSetting,
  rangeOrigins,
} from '../kube-proxy/origins.ts'
import { isBuiltIn } from '../kube-proxy/ruleset-builder.ts'
import type { ServicePort } from '../kube-proxy/service-ports.ts'
import { KUBE_PROXY_TABLE } from '../nft-table.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects, Endpoint, EndpointSlice, Service } from '../objects.ts'
import { type PredictOptions, proxiersOf, writeState } from '../predict.ts'
import { targetOf } from '../rule.ts'
import { type Entry, holdingsOf, type NodeHoldings, outlineOf, placedEntries } from './holdings.ts'
import { purposeOf } from './purposes.ts'

/** Why an entry of a node exists: the field of the API object from which kube-proxy made it. */
export interface Cause {
  /**
   * `kube-proxy` for what it makes without any Service, `left over` for what it no longer makes,
   * `other` for what it never made.
   */
  kind: 'service' | 'kube-proxy' | 'left over' | 'other'
  /** `namespace/name` of the Service. */
  service?: string
  /** `10.244.1.6:80`, if the entry exists because of one endpoint. */
  endpoint?: string
  /**
   * Such as `Service default/web` or `EndpointSlice default/web-x7k2p`; empty where no object asks
   * for the entry.
   */
  object: string
  /** Such as `spec.ports[0].nodePort`. */
  field: string
  /**
   * Words to follow "It exists", or a sentence of its own for what is left over or another
   * program's.
   */
  reason: string
}

/** Causes by the id of the entry (holdings.ts): every entry has at least one. */
export type Causes = ReadonlyMap<string, readonly Cause[]>

/**
 * Why each entry of a node exists, told from a prediction: kube-proxy's rule builders record which
 * Service port, and which of its fields or endpoints, they write an entry for
 * (kube-proxy/origins.ts).
 * @throws VersionError, PredictError as predict does
 */
export function causesOf(
  state: NodeState,
  objects: ClusterObjects,
  options: PredictOptions,
  holdings: NodeHoldings = holdingsOf(options.node, state),
): Causes {
  const predicted = predictedCauses(objects, options)
  const isKubeProxys = ownership(state)
  const causes = new Map<string, readonly Cause[]>()
  for (const { entry, parents } of placedEntries(holdings.groups)) {
    const known = predicted.get(entry.id) ?? predicted.get(withoutNumber(entry.id))
    if (parents.length > 0)
      causes.set(entry.id, known ?? [isKubeProxys(entry, parents) ? LEFT_OVER : OTHER])
  }
  return causes
}

const LEFT_OVER: Cause = {
  kind: 'left over',
  object: '',
  field: '',
  reason: 'left over: nothing in the API asks for it',
}
const OTHER: Cause = { kind: 'other', object: '', field: '', reason: 'kube-proxy did not make it' }

/** The id of the first of several equal entries. */
const withoutNumber = (id: string): string => id.replace(/ #\d+$/, '')

function predictedCauses(
  objects: ClusterObjects,
  options: PredictOptions,
): Map<string, readonly Cause[]> {
  const origins = new OriginRecorder()
  const state = writeState(proxiersOf(objects, options), options, origins)
  const known = new Map<ServicePort, PortCauses>()
  const causesOfPort = ({ port, from }: PortOrigins): readonly Cause[] => {
    const ofPort = known.get(port) ?? new PortCauses(port, objects, options.node)
    known.set(port, ofPort)
    return ofPort.causesOf(from)
  }
  const causes = new Map<string, readonly Cause[]>()
  for (const { entry } of placedEntries(outlineOf(state))) {
    const recorded = origins.of(withoutNumber(entry.id)).flatMap(causesOfPort)
    causes.set(
      entry.id,
      recorded.length > 0 ? distinct(recorded) : [ofKubeProxy(entry, options.mode)],
    )
  }
  return causes
}

/** One cause for each field of an object: the ports of a Service share some. */
const distinct = (causes: readonly Cause[]): Cause[] => [
  ...new Map(causes.map((cause) => [`${cause.object} ${cause.field}`, cause])).values(),
]

/** The causes that a Service port can give to entries, by their origins. */
class PortCauses {
  /** In the order in which they are told. */
  readonly #byOrigin = new Map<EntryOrigin | string, Cause[]>()
  readonly #order = new Map<Cause, number>()
  readonly #port: ServicePort
  readonly #service: Service
  /** `Service default/web` */
  readonly #object: string
  /** `port http of Service default/web` */
  readonly #called: string
  readonly #main: Cause

  constructor(port: ServicePort, objects: ClusterObjects, node: string) {
    const [path = '', portName = ''] = port.name.split(':')
    this.#port = port
    this.#service = objects.services.find(
      ({ namespace, name }) => `${namespace}/${name}` === path,
    ) as Service
    this.#object = `Service ${path}`
    this.#called = `port ${portName || port.port} of ${this.#object}`
    const index = this.#service.ports.findIndex(
      ({ name, protocol }) => name === portName && protocol.toLowerCase() === port.protocol,
    )
    this.#addOutside(index)
    this.#addRanges()
    this.#addSettings(node)
    this.#addEndpoints(objects)
    const address = `${port.protocol.toUpperCase()} ${printEndpoint(port.clusterIP, port.port)}`
    this.#main = this.#causeOf(`spec.ports[${index}]`, `${this.#called} is ${address}`)
    this.#add(this.#main, 'port')
  }

  /** The port as a whole, if it has nothing of what an entry comes from. */
  causesOf(from: Origins): readonly Cause[] {
    const causes = new Set(from.flatMap((origin) => this.#byOrigin.get(originKey(origin)) ?? []))
    if (causes.size === 0) return [this.#main]
    const rank = (cause: Cause) => this.#order.get(cause) ?? 0
    return [...causes].sort((a, b) => rank(a) - rank(b))
  }

  #add(cause: Cause, ...origins: (EntryOrigin | string)[]): void {
    this.#order.set(cause, this.#order.size)
    for (const origin of origins)
      this.#byOrigin.set(origin, [...(this.#byOrigin.get(origin) ?? []), cause])
  }

  #causeOf(field: string, reason: string): Cause {
    const { namespace, name } = this.#service
    const service = `${namespace}/${name}`
    return { kind: 'service', service, object: this.#object, field, reason: `because ${reason}` }
  }

  #addOutside(index: number): void {
    const { nodePort } = this.#port
    const service = this.#service
    if (nodePort !== 0) {
      const reason = `${this.#called} has nodePort ${nodePort}`
      this.#add(this.#causeOf(`spec.ports[${index}].nodePort`, reason), 'nodePort', 'outside')
    }
    for (const { address, origin } of outsideAddresses(this.#port)) {
      const cause =
        origin.list === 'externalIPs'
          ? this.#causeOf(
              `spec.externalIPs[${service.externalIPs.indexOf(address)}]`,
              `${this.#object} has the external IP ${address}`,
            )
          : this.#causeOf(
              `status.loadBalancer.ingress[${service.loadBalancerIngress.findIndex(({ ip }) => ip === address)}].ip`,
              `the load balancer of ${this.#object} has the address ${address}`,
            )
      this.#add(cause, originKey(origin), origin.list, 'outside')
    }
  }

  #addRanges(): void {
    const ranges = this.#service.loadBalancerSourceRanges.map(canonicalCidr)
    for (const origin of rangeOrigins(this.#port.sourceRanges)) {
      const cause = this.#causeOf(
        `spec.loadBalancerSourceRanges[${ranges.indexOf(origin.value)}]`,
        `the load balancer of ${this.#object} admits ${origin.value}`,
      )
      this.#add(cause, originKey(origin), 'sourceRanges')
    }
  }

  #addSettings(node: string): void {
    const port = this.#port
    const hasLocal = port.endpoints.some(({ isLocal }) => isLocal)
    const local = `Local${hasLocal ? '' : `, and none of its endpoints is on ${node}`}`
    const add = (setting: PortSetting, field: string, value: string | number) =>
      this.#add(this.#causeOf(`spec.${field}`, `${this.#object} has ${field} ${value}`), setting)
    if (port.affinity !== undefined)
      add('affinity', 'sessionAffinity', `ClientIP for ${port.affinity} seconds`)
    if (port.internalLocal) add('internalLocal', 'internalTrafficPolicy', local)
    if (port.externalLocal) add('externalLocal', 'externalTrafficPolicy', local)
    if (port.healthCheckNodePort !== 0)
      add('healthCheckNodePort', 'healthCheckNodePort', port.healthCheckNodePort)
  }

  #addEndpoints({ endpointSlices }: ClusterObjects): void {
    const { endpoints } = this.#port
    const { namespace, name } = this.#service
    const slices = endpointSlices.filter(
      (slice) => slice.namespace === namespace && slice.serviceName === name,
    )
    if (!endpoints.some(({ ready }) => ready)) {
      const cause = this.#causeOf('spec.selector', `${this.#called} has no ready endpoint`)
      const [slice] = slices
      this.#add(slice ? { ...cause, ...fieldOf(slice, 'endpoints') } : cause, 'unready')
      return
    }
    for (const endpoint of endpoints) {
      const isIt = ({ addresses }: Endpoint) => addresses[0] === endpoint.ip
      const slice = slices.find(
        (one) => one.endpoints.some(isIt) && one.ports.some(({ port }) => port === endpoint.port),
      )
      if (!slice) continue
      const field = fieldOf(slice, `endpoints[${slice.endpoints.findIndex(isIt)}].addresses[0]`)
      const listed = `${field.object} lists ${endpoint.text} as an endpoint of ${this.#object}`
      this.#add({ ...this.#causeOf('', listed), ...field, endpoint: endpoint.text }, endpoint)
    }
  }
}

const fieldOf = ({ namespace, name }: EndpointSlice, field: string) => {
  return { object: `EndpointSlice ${namespace}/${name}`, field }
}

/** The same for equal origins. */
const originKey = (origin: EntryOrigin): EntryOrigin | string =>
  typeof origin === 'object' && 'list' in origin ? `${origin.list} ${origin.value}` : origin

/**
 * Whether an entry that is not predicted is of a kind that only kube-proxy makes; by its place, as
 * in compare/.
 */
function ownership(state: NodeState): (entry: Entry, parents: readonly Entry[]) => boolean {
  const servers = new Set(
    kubeProxyVirtualServers(state).map((server) => idOf.virtualServer(virtualServerKey(server))),
  )
  return (entry, parents) => {
    const [group, first = entry, second = entry] = parents
    const name = entryName(first.id)
    switch (group?.id) {
      case 'iptables': {
        const chain = entryName(second.id)
        if (isKubeProxyChain(chain) || entry.kind !== 'rule')
          return isKubeProxyChain(chain) && !isSharedChain(name, chain)
        const target = targetOf(entry.text) ?? ''
        return isKubeProxyChain(target) && !isSharedChain(name, target)
      }
      case 'ipset':
        return isIpvsModeSet(name)
      case 'ipvs':
        return servers.has(first.id)
      case 'links':
        return name === DUMMY_LINK
      default:
        return name.endsWith(` ${KUBE_PROXY_TABLE}`)
    }
  }
}

function ofKubeProxy(entry: Entry, mode: string): Cause {
  const [group, table = '', chain = ''] = entry.id.split('/')
  if (
    group === 'iptables' &&
    (entry.kind === 'table' || (entry.kind === 'chain' && isBuiltIn(table, chain)))
  )
    return { ...OTHER, reason: 'the kernel has it by itself' }
  return {
    kind: 'kube-proxy',
    object: 'ConfigMap kube-system/kube-proxy',
    field: 'mode',
    reason: `because kube-proxy runs in mode ${mode}: ${purposeOf(entry)}`,
  }
}
