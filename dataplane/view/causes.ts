import { groupBy } from '../collections.ts'
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
import {
  type Entry,
  entryName,
  holdingsOf,
  idOf,
  type NodeHoldings,
  outlineOf,
  placedEntries,
} from './holdings.ts'
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

/** Beyond this many endpoints of a port its entries are told apart no further: each endpoint costs one more prediction. */
const MOST_ENDPOINTS = 100

function predictedCauses(
  objects: ClusterObjects,
  options: PredictOptions,
): Map<string, readonly Cause[]> {
  const proxiers = proxiersOf(objects, options)
  /** What kube-proxy would write for these ports of one family, in place of all its ports. */
  const write = (family?: Family, ports: ServicePort[] = []) => {
    const limited = [...proxiers].map(
      ([of, one]) => [of, { ...one, ports: of === family ? ports : [] }] as const,
    )
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
      const own = [...write(family, [port]).values()].filter(
        ({ id, text }) => always.get(id)?.text !== text,
      )
      return { own, unexplained: new Set(own), ...aspectsOf(port, objects, options) }
    })
    const byKind = groupBy(
      known.flatMap(({ aspects, ...port }) => aspects.map((aspect) => ({ ...port, aspect }))),
      ({ aspect }) => aspect.kind,
    )
    for (const having of byKind.values()) {
      // Ports without the aspect would write what several ports share.
      const without = having.map(({ aspect }) => aspect.without)
      const rest = write(family, without)
      for (const port of having) addCausesOfAspect(port, rest, causes, add)
    }
    for (const { unexplained, main } of known) for (const { id } of unexplained) add(id, main)
  }
  for (const entry of [...always.values(), ...entriesById(writeState(proxiers, options)).values()])
    if (!causes.has(entry.id)) causes.set(entry.id, [ofKubeProxy(entry, options.mode)])
  return causes
}

/** Adds the causes of an aspect to those entries of its port that are missing or different without it. */
function addCausesOfAspect(
  { own, unexplained, aspect }: { own: Entry[]; unexplained: Set<Entry>; aspect: Aspect },
  rest: ReadonlyMap<string, Entry>,
  causes: ReadonlyMap<string, readonly Cause[]>,
  add: (id: string, cause: Cause) => void,
): void {
  for (const entry of own) {
    const known = causes.get(entry.id) ?? []
    if (known.some((cause) => aspect.causes.includes(cause))) continue
    if (rest.get(entry.id)?.text === entry.text) continue
    for (const cause of aspect.causes) add(entry.id, cause)
    // An aspect of its text is not yet why it exists.
    if (!rest.has(entry.id)) unexplained.delete(entry)
  }
}

const entriesById = (state: NodeState): Map<string, Entry> =>
  new Map([...placedEntries(outlineOf(state))].map(({ entry }) => [entry.id, entry]))

/** What a Service port has because of some fields. */
interface Aspect {
  /** Aspects of several ports that are alike. */
  kind: string
  causes: readonly Cause[]
  without: ServicePort
}

/**
 * The aspects of a Service port, those of several fields of which one would be enough at the end, and the cause of all that exists
 * because of the port as a whole.
 */
function aspectsOf(port: ServicePort, objects: ClusterObjects, { node }: PredictOptions) {
  const [path = '', portName = ''] = port.name.split(':')
  const service = objects.services.find(
    ({ namespace, name }) => `${namespace}/${name}` === path,
  ) as Service
  const index = service.ports.findIndex(
    ({ name, protocol }) => name === portName && protocol.toLowerCase() === port.protocol,
  )
  const object = `Service ${path}`
  const called = `port ${portName || port.port} of ${object}`
  const causeOf = (field: string, reason: string): Cause => {
    return { kind: 'service', service: path, object, field, reason: `because ${reason}` }
  }
  const aspect = (kind: string, without: Partial<ServicePort>, ...causes: Cause[]): Aspect => {
    return { kind, causes, without: { ...port, ...without } }
  }
  /** Each value of a list by itself. */
  const each = (
    list: 'externalIPs' | 'loadBalancerIPs' | 'sourceRanges',
    causeOfOne: (value: string) => Cause,
  ) =>
    port[list].map((value, at) =>
      aspect(`${list} ${at}`, { [list]: port[list].toSpliced(at, 1) }, causeOfOne(value)),
    )

  const nodePort = causeOf(
    `spec.ports[${index}].nodePort`,
    `${called} has nodePort ${port.nodePort}`,
  )
  const outside = [
    ...(port.nodePort === 0 ? [] : [aspect('nodePort', { nodePort: 0 }, nodePort)]),
    ...each('externalIPs', (address) => {
      const field = `spec.externalIPs[${service.externalIPs.indexOf(address)}]`
      return causeOf(field, `${object} has the external IP ${address}`)
    }),
    ...each('loadBalancerIPs', (address) => {
      const at = service.loadBalancerIngress.findIndex(({ ip }) => ip === address)
      const field = `status.loadBalancer.ingress[${at}].ip`
      return causeOf(field, `the load balancer of ${object} has the address ${address}`)
    }),
  ]
  const ranges = each('sourceRanges', (range) => {
    const at = service.loadBalancerSourceRanges.map(canonicalCidr).indexOf(range)
    return causeOf(
      `spec.loadBalancerSourceRanges[${at}]`,
      `the load balancer of ${object} admits ${range}`,
    )
  })
  const local = `Local${port.endpoints.some(({ isLocal }) => isLocal) ? '' : `, and none of its endpoints is on ${node}`}`
  const settings = [
    ['affinity', undefined, 'sessionAffinity', `ClientIP for ${port.affinity} seconds`],
    ['internalLocal', false, 'internalTrafficPolicy', local],
    ['externalLocal', false, 'externalTrafficPolicy', local],
    ['healthCheckNodePort', 0, 'healthCheckNodePort', port.healthCheckNodePort],
  ] as const
  const alternatives = (kind: string, of: Aspect[], without: Partial<ServicePort>) =>
    of.length > 1 ? [aspect(kind, without, ...of.flatMap(({ causes }) => causes))] : []
  const aspects = [
    ...outside,
    ...ranges,
    ...settings.flatMap(([key, none, field, value]) =>
      port[key] === none
        ? []
        : aspect(key, { [key]: none }, causeOf(`spec.${field}`, `${object} has ${field} ${value}`)),
    ),
    ...endpointAspects(port, path, called, objects).map(([endpoints, cause], at) => {
      return aspect(`endpoints ${at}`, { endpoints }, cause)
    }),
    ...alternatives('outside', outside, { nodePort: 0, externalIPs: [], loadBalancerIPs: [] }),
    ...alternatives('ranges', ranges, { sourceRanges: [] }),
  ]
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
  const slices = objects.endpointSlices.filter(
    ({ namespace, serviceName }) => `${namespace}/${serviceName}` === path,
  )
  const service = { kind: 'service', service: path } as const
  if (!endpoints.some(({ ready }) => ready)) {
    const ready = {
      ready: true,
      serving: true,
      terminating: false,
      isLocal: true,
      zoneHints: [],
      nodeHints: [],
    }
    const object = slices[0]
      ? `EndpointSlice ${slices[0].namespace}/${slices[0].name}`
      : `Service ${path}`
    const field = slices[0] ? 'endpoints' : 'spec.selector'
    const cause: Cause = {
      ...service,
      object,
      field,
      reason: `because ${called} has no ready endpoint`,
    }
    return [[[...endpoints, { ...standIn(port), ...ready }], cause]]
  }
  if (endpoints.length > MOST_ENDPOINTS) return []
  return endpoints.map((endpoint, at) => {
    const isIt = ({ addresses }: Endpoint) => addresses[0] === endpoint.ip
    const slice = slices.find(
      (one) =>
        one.endpoints.some(isIt) && one.ports.some(({ port: number }) => number === endpoint.port),
    )
    const object = `EndpointSlice ${slice?.namespace}/${slice?.name}`
    const without = endpoints.map((one, other) =>
      other === at ? { ...one, ...standIn(port) } : one,
    )
    const reason = `because ${object} lists ${endpoint.text} as an endpoint of Service ${path}`
    const field = `endpoints[${slice?.endpoints.findIndex(isIt)}].addresses[0]`
    return [without, { ...service, endpoint: endpoint.text, object, field, reason }]
  })
}

/** Whether an entry that is not predicted is of a kind that only kube-proxy makes; by its place, as in compare/. */
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
