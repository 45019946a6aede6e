import type { Link } from '../ip-addr.ts'
import { type Family, familyOf } from '../ip-address.ts'
import type { KubeProxyConfig, KubeProxyMode } from '../kube-proxy/config.ts'
import { DUMMY_LINK } from '../kube-proxy/mode-ownership.ts'
import { linkAddresses } from '../kube-proxy/node-addresses.ts'
import type { ProxierInput } from '../kube-proxy/proxier.ts'
import { userspaceListeners } from '../kube-proxy/userspace/ruleset.ts'
import { featuresOf } from '../kube-proxy/versions.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import { predict, proxiersOf } from '../predict.ts'
import { type CauseId, findCause } from './causes.ts'
import { compareAnswers, type MigrationEffect } from './compare-answers.ts'
import { imaginedLinks } from './imagined-links.ts'
import { type ProbeAnswer, probeAnswers, type UserspaceEndpoints } from './probe-answer.ts'
import { type MigrationProbe, migrationProbes } from './probes.ts'

/** A kube-proxy before or after the change. */
export interface MigrationSide {
  mode: KubeProxyMode
  /** `v1.34.2` */
  version: string
}

/** What is known about the cluster besides its objects. */
export interface MigrationSettings {
  config: KubeProxyConfig
  /** The names of the nodes to compare; default: all. */
  nodes?: readonly string[]
  /** The links of nodes that were read; those of others are imagined. */
  links?: ReadonlyMap<string, readonly Link[]>
}

/** A probe of one node that fares differently after the change. */
export interface ProbeChange {
  node: string
  probe: MigrationProbe
  effect: MigrationEffect
  cause: CauseId
  before: ProbeAnswer
  after: ProbeAnswer
}

/** What is compared on one node in one family. */
export interface ComparedNode {
  node: string
  family: Family
  before: { mode: KubeProxyMode; proxier: ProxierInput; state: NodeState }
  after: { mode: KubeProxyMode; proxier: ProxierInput; state: NodeState }
}

/** The families in which Services of the objects have addresses and both versions have rules. */
function familiesOf(objects: ClusterObjects, sides: readonly MigrationSide[]): Family[] {
  const used = new Set(
    objects.services.flatMap(({ clusterIPs }) => clusterIPs.map((address) => familyOf(address))),
  )
  const servesBoth = sides.every(({ version }) => featuresOf(version).dualStack === 'always')
  return servesBoth && used.has('ipv6') ? ['ipv4', 'ipv6'] : ['ipv4']
}

function sideOf(
  objects: ClusterObjects,
  node: string,
  family: Family,
  { mode, version }: MigrationSide,
  { config, links }: MigrationSettings,
) {
  const read = links?.get(node)?.filter(({ name }) => name !== DUMMY_LINK)
  const nodeAddresses = read && linkAddresses({ links: read })
  const options = { node, mode, version, config, family, ...(read && { nodeAddresses }) }
  const proxier = proxiersOf(objects, options).get(family) as ProxierInput
  const state = predict(objects, options)
  const own = read ?? imaginedLinks(objects, node)
  return { mode, proxier, state: { ...state, links: [...own, ...state.links] } }
}

/**
 * The predicted states of each node before and after the change, in each family.
 * @throws VersionError for a version that is not modelled, PredictError for a mode that a version
 * does not have
 */
export function comparedNodes(
  objects: ClusterObjects,
  from: MigrationSide,
  to: MigrationSide,
  settings: MigrationSettings,
): ComparedNode[] {
  const { nodes = objects.nodes.map(({ name }) => name) } = settings
  return familiesOf(objects, [from, to]).flatMap((family) =>
    nodes.map((node) => ({
      node,
      family,
      before: sideOf(objects, node, family, from, settings),
      after: sideOf(objects, node, family, to, settings),
    })),
  )
}

/** In userspace mode kube-proxy itself relays to the ready endpoints. */
function relayedEndpoints({ mode, proxier }: ComparedNode['before']): UserspaceEndpoints {
  if (mode !== 'userspace') return new Map()
  return new Map(
    userspaceListeners(proxier).map(({ port, proxyPort }) => [
      proxyPort,
      port.endpoints.filter(({ ready }) => ready).map(({ text }) => text),
    ]),
  )
}

/** The answers to a probe before and after. */
type BothAnswers = readonly [before: ProbeAnswer, after: ProbeAnswer]

/** Answers that hold for every node, by what is called, and by whom. */
export type SharedAnswers = Map<string, BothAnswers>

/**
 * The key of a probe whose answers are the same on every node: nothing in the Service, its
 * endpoints or kube-proxy's configuration depends on the node. Undefined for all others.
 */
function sharedKey(
  { family, before, after }: ComparedNode,
  { client, target, packet, port }: MigrationProbe,
): string | undefined {
  if (!port || port.internalLocal || port.externalLocal || before.mode === 'userspace') return
  if (client === 'endpoint' || after.mode === 'userspace') return
  if (port.endpoints.some(({ zoneHints, nodeHints }) => zoneHints.length + nodeHints.length > 0))
    return
  const isOnNode = target.startsWith('node port')
  if (isOnNode && before.proxier.config.nodePortAddresses.some((range) => range !== 'primary'))
    return
  const called = isOnNode ? before.proxier.nodeAddresses.length : packet.destination
  return [family, port.name, port.protocol, packet.port, target, client, called].join(' ')
}

/**
 * The probes of a node, and what changes for each. `shared` keeps what was found on one node for
 * the next.
 */
export function changesOnNode(
  objects: ClusterObjects,
  compared: ComparedNode,
  shared?: SharedAnswers,
): { probes: number; changes: ProbeChange[] } {
  const { node, before, after } = compared
  const answer = [before, after].map((side) =>
    probeAnswers(objects, node, side.state, relayedEndpoints(side)),
  )
  const probes = new Map(
    [before, after]
      .flatMap(({ proxier }) => migrationProbes(objects, proxier))
      .map((probe) => [JSON.stringify(probe.packet), probe]),
  )
  const answersTo = (probe: MigrationProbe): BothAnswers => {
    const key = shared && sharedKey(compared, probe)
    const known = key === undefined ? undefined : shared?.get(key)
    if (known) return known
    const found = answer.map((of) => of(probe.packet)) as [ProbeAnswer, ProbeAnswer]
    if (key !== undefined) shared?.set(key, found)
    return found
  }
  const changes = [...probes.values()].flatMap((probe) => {
    const [first, then] = answersTo(probe)
    return compareAnswers(first, then).map((effect): ProbeChange => {
      const cause = findCause(probe, compared)
      return { node, probe, effect, cause, before: first, after: then }
    })
  })
  return { probes: probes.size, changes }
}
