import { canonicalCidr, type Family, printEndpoint } from '../ip-address.ts'
import { virtualServerKey } from '../ipvsadm-save.ts'
import type { TrackedEndpoint } from '../kube-proxy/endpoints.ts'
import {
  DUMMY_LINK,
  isIpvsModeSet,
  isKubeProxyChain,
  isSharedChain,
  kubeProxyVirtualServers,
} from '../kube-proxy/mode-ownership.ts'
import { isBuiltIn } from '../kube-proxy/ruleset-builder.ts'
import type { ServicePort } from '../kube-proxy/service-ports.ts'
import { KUBE_PROXY_TABLE } from '../nft-table.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects, Endpoint, Service } from '../objects.ts'
import { type PredictOptions, proxiersOf, writeState } from '../predict.ts'
import { targetOf } from '../rule.ts'
import { type Entry, holdingsOf, idOf, type NodeHoldings, nameOf, outlineOf, placedEntries } from './holdings.ts'
import { purposeOf } from './purposes.ts'

/** Why an entry of a node exists: the field of the API object from which kube-proxy made it. */
export interface Cause {
  /** `kube-proxy` for what it makes without any Service, `left over` for what it no longer makes, `other` for what it never made. */
  kind: 'service' | 'kube-proxy' | 'left over' | 'other'
  /** `namespace/name` of the Service. */
  service?: string
  /** `10.244.1.6:80`, if the entry exists because of one endpoint. */
  endpoint?: string
  /** Such as `Service default/web` or `EndpointSlice default/web-x7k2p`; empty where no object asks for the entry. */
  object: string
  /** Such as `spec.ports[0].nodePort`. */
  field: string
  /** Words to follow "It exists", or a sentence of its own for what is left over or another program's. */
  reason: string
}

/** Causes by the id of the entry (holdings.ts): every entry has at least one. */
export type Causes = ReadonlyMap<string, readonly Cause[]>

/**
 * Why each entry of a node exists, told from predictions: what kube-proxy would write for one Service port alone, and what of
 * that it would not write without one of the port's fields, or with another endpoint in the place of one of its endpoints.
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
    const known = predicted.get(entry.id) ?? predicted.get(entry.id.replace(/ #\d+$/, ''))
    if (parents.length > 0) causes.set(entry.id, known ?? [isKubeProxys(entry, parents) ? LEFT_OVER : OTHER])
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

/** Beyond this many endpoints of a port its entries are told apart no further: each endpoint costs one more prediction. */
const MOST_ENDPOINTS = 100

function predictedCauses(objects: ClusterObjects, options: PredictOptions): Map<string, readonly Cause[]> {
  const proxiers = proxiersOf(objects, options)
  /** What kube-proxy would write for these ports of one family, in place of all its ports. */
  const write = (family?: Family, ports: ServicePort[] = []) => {
    const limited = [...proxiers].map(([of, one]) => [of, { ...one, ports: of === family ? ports : [] }] as const)
    return entriesById(writeState(new Map(limited), options))
  }
  const always = write()
  const causes = new Map<string, Cause[]>()
  const add = (id: string, cause: Cause) => {
    const known = causes.get(id) ?? []
    if (!known.some(({ object, field }) => object === cause.object && field === cause.field))
      causes.set(id, [...known, cause])
  }
  for (const [family, { ports }] of proxiers) {
    const known = ports.map((port) => {
      const own = [...write(family, [port]).values()].filter(({ id, text }) => always.get(id)?.text !== text)
      return { own, unexplained: new Set(own), ...aspectsOf(port, objects, options) }
    })
    const kinds = new Set(known.flatMap(({ aspects }) => [...aspects.keys()]))
    for (const kind of kinds) {
      // Ports without the aspect would write what several ports share.
      const having = known.filter(({ aspects }) => aspects.has(kind))
      const rest = write(
        family,
        having.map(({ aspects }) => (aspects.get(kind) as Aspect).without),
      )
      for (const { own, unexplained, aspects } of having) {
        const { causes: because } = aspects.get(kind) as Aspect
        for (const entry of own) {
          const left = rest.get(entry.id)
          if (left?.text === entry.text || causes.get(entry.id)?.some((cause) => because.includes(cause))) continue
          for (const cause of because) add(entry.id, cause)
          // An aspect of its text is not yet why it exists.
          if (!left) unexplained.delete(entry)
        }
      }
    }
    for (const { unexplained, main } of known) for (const { id } of unexplained) add(id, main)
  }
  for (const entry of [...always.values(), ...entriesById(writeState(proxiers, options)).values()])
    if (!causes.has(entry.id)) causes.set(entry.id, [ofKubeProxy(entry, options.mode)])
  return causes
}

const entriesById = (state: NodeState): Map<string, Entry> =>
  new Map([...placedEntries(outlineOf(state))].map(({ entry }) => [entry.id, entry]))

interface Aspect {
  causes: readonly Cause[]
  without: ServicePort
}

/**
 * What a Service port is made of: its aspects by kind, those of several fields of which one would be enough at the end, and the
 * cause of all that exists because of the port as a whole.
 */
function aspectsOf(port: ServicePort, objects: ClusterObjects, { node }: PredictOptions) {
  const [path = '', portName = ''] = port.name.split(':')
  const service = objects.services.find(({ namespace, name }) => `${namespace}/${name}` === path) as Service
  const index = service.ports.findIndex(
    ({ name, protocol }) => name === portName && protocol.toLowerCase() === port.protocol,
  )
  const object = `Service ${path}`
  const called = `port ${portName || port.port} of ${object}`
  const causeOf = (field: string, reason: string): Cause => {
    return { kind: 'service', service: path, object, field, reason: `because ${reason}` }
  }
  const aspects = new Map<string, Aspect>()
  const add = (kind: string, without: Partial<ServicePort>, ...causes: Cause[]): Cause[] => {
    aspects.set(kind, { causes, without: { ...port, ...without } })
    return causes
  }
  /** A field that the port has, and what it is without the field. */
  const addField = <Key extends keyof ServicePort>(key: Key, none: ServicePort[Key], field: string, reason: string) =>
    port[key] === none ? [] : add(key, { [key]: none }, causeOf(field, reason))
  /** Each value of a list by itself; `given` is the list of the Service, at `field`. */
  const addEach = (
    list: 'externalIPs' | 'loadBalancerIPs' | 'sourceRanges',
    given: readonly (string | undefined)[],
    [field, end = '']: [field: string, end?: string],
    reason: (value: string) => string,
  ) =>
    port[list].flatMap((value, at) => {
      const without = { [list]: port[list].filter((_, other) => other !== at) }
      return add(`${list} ${at}`, without, causeOf(`${field}[${given.indexOf(value)}]${end}`, reason(value)))
    })

  const { externalIPs, loadBalancerIngress, loadBalancerSourceRanges } = service
  const outside = [
    ...addField('nodePort', 0, `spec.ports[${index}].nodePort`, `${called} has nodePort ${port.nodePort}`),
    ...addEach(
      'externalIPs',
      externalIPs,
      ['spec.externalIPs'],
      (address) => `${object} has the external IP ${address}`,
    ),
    ...addEach(
      'loadBalancerIPs',
      loadBalancerIngress.map(({ ip }) => ip),
      ['status.loadBalancer.ingress', '.ip'],
      (address) => `the load balancer of ${object} has the address ${address}`,
    ),
  ]
  const ranges = addEach(
    'sourceRanges',
    loadBalancerSourceRanges.map(canonicalCidr),
    ['spec.loadBalancerSourceRanges'],
    (range) => `the load balancer of ${object} admits ${range}`,
  )
  const { affinity, healthCheckNodePort } = port
  const has = (field: string, value: string | number) => `${object} has ${field} ${value}`
  addField('affinity', undefined, 'spec.sessionAffinity', has('sessionAffinity', `ClientIP for ${affinity} seconds`))
  const local = `Local${port.endpoints.some(({ isLocal }) => isLocal) ? '' : `, and none of its endpoints is on ${node}`}`
  addField('internalLocal', false, 'spec.internalTrafficPolicy', has('internalTrafficPolicy', local))
  addField('externalLocal', false, 'spec.externalTrafficPolicy', has('externalTrafficPolicy', local))
  addField('healthCheckNodePort', 0, 'spec.healthCheckNodePort', has('healthCheckNodePort', healthCheckNodePort))
  for (const [at, [without, cause]] of endpointAspects(port, path, called, objects).entries())
    add(`endpoints ${at}`, { endpoints: without }, cause)
  if (outside.length > 1) add('outside', { nodePort: 0, externalIPs: [], loadBalancerIPs: [] }, ...outside)
  if (ranges.length > 1) add('ranges', { sourceRanges: [] }, ...ranges)
  const address = `${port.protocol.toUpperCase()} ${printEndpoint(port.clusterIP, port.port)}`
  return { aspects, main: causeOf(`spec.ports[${index}]`, `${called} is ${address}`) }
}

/** With it in the place of an endpoint, the entries of that endpoint are different ones, and no others; addresses are of RFC 5737 and RFC 3849. */
function standIn(port: ServicePort): Pick<TrackedEndpoint, 'text' | 'ip' | 'port'> {
  const ip = port.clusterIP.includes(':') ? '2001:db8::1' : '192.0.2.1'
  return { ip, port: 1, text: printEndpoint(ip, 1) }
}

function endpointAspects(
  port: ServicePort,
  path: string,
  called: string,
  objects: ClusterObjects,
): (readonly [TrackedEndpoint[], Cause])[] {
  const { endpoints } = port
  const slices = objects.endpointSlices.filter(({ namespace, serviceName }) => `${namespace}/${serviceName}` === path)
  const service = { kind: 'service', service: path } as const
  if (!endpoints.some(({ ready }) => ready)) {
    const ready = { ready: true, serving: true, terminating: false, isLocal: true, zoneHints: [], nodeHints: [] }
    const object = slices[0] ? `EndpointSlice ${slices[0].namespace}/${slices[0].name}` : `Service ${path}`
    const field = slices[0] ? 'endpoints' : 'spec.selector'
    const cause: Cause = { ...service, object, field, reason: `because ${called} has no ready endpoint` }
    return [[[...endpoints, { ...standIn(port), ...ready }], cause]]
  }
  if (endpoints.length > MOST_ENDPOINTS) return []
  return endpoints.map((endpoint, at) => {
    const isIt = ({ addresses }: Endpoint) => addresses[0] === endpoint.ip
    const slice = slices.find(
      (one) => one.endpoints.some(isIt) && one.ports.some(({ port: number }) => number === endpoint.port),
    )
    const object = `EndpointSlice ${slice?.namespace}/${slice?.name}`
    const without = endpoints.map((one, other) => (other === at ? { ...one, ...standIn(port) } : one))
    const reason = `because ${object} lists ${endpoint.text} as an endpoint of Service ${path}`
    const field = `endpoints[${slice?.endpoints.findIndex(isIt)}].addresses[0]`
    return [without, { ...service, endpoint: endpoint.text, object, field, reason }]
  })
}

/** Whether an entry that is not predicted is of a kind that only kube-proxy makes; by its place, as in compare/. */
function ownership(state: NodeState): (entry: Entry, parents: readonly Entry[]) => boolean {
  const servers = new Set(kubeProxyVirtualServers(state).map((server) => idOf.virtualServer(virtualServerKey(server))))
  return (entry, parents) => {
    const [group, first = entry, second = entry] = parents
    const name = nameOf(first.id)
    switch (group?.id) {
      case 'iptables': {
        const chain = nameOf(second.id)
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
  if (group === 'iptables' && (entry.kind === 'table' || (entry.kind === 'chain' && isBuiltIn(table, chain))))
    return { ...OTHER, reason: 'the kernel has it by itself' }
  return {
    kind: 'kube-proxy',
    object: 'ConfigMap kube-system/kube-proxy',
    field: 'mode',
    reason: `because kube-proxy runs in mode ${mode}: ${purposeOf(entry)}`,
  }
}
