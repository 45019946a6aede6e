import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { V1ServiceSpec } from '@kubernetes/client-node'
import type { KubeProxyConfig } from '../../dataplane/kube-proxy/config.ts'
import { targetOf } from '../../dataplane/rule.ts'
import { configOf } from '../../grading/evaluate.ts'
import { ruleInShell } from '../../grading/failure.ts'
import { type NodeView, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { SHOP_OBJECTS } from './shop.ts'

/** The state before the incident, which a repair must restore. */
export interface Baseline {
  /** Node → rules that are not kube-proxy's, and virtual servers of a firewall mark. */
  foreign: Record<string, string[]>
  config: KubeProxyConfig
  configText: string
  /** Service → its fields that a repair must not change. */
  services: Record<string, unknown>
}

export function baselineOf(snapshot: Snapshot): Baseline {
  return {
    foreign: Object.fromEntries(snapshot.nodes.map((node) => [node.name, foreignRules(node)])),
    config: configOf(snapshot),
    configText:
      snapshot.find('ConfigMap', 'kube-system', 'kube-proxy')?.data?.['config.conf'] ?? '',
    services: Object.fromEntries(
      [SHOP_OBJECTS.shop, SHOP_OBJECTS.nodePortService].map((name) => [
        name,
        serviceFacts(snapshot, name),
      ]),
    ),
  }
}

/**
 * The settings in which two configurations differ, such as `ipvs.scheduler`, without the mode,
 * which is read from the running kube-proxies.
 */
export function differingSettings(one: KubeProxyConfig, other: KubeProxyConfig): string[] {
  return differing(withoutMode(one), withoutMode(other), '')
}

function differing(one: unknown, other: unknown, path: string): string[] {
  if (isDeepStrictEqual(one, other)) return []
  if (!isRecord(one) || !isRecord(other)) return [path]
  // A baseline that another version recorded may have other settings than this one.
  const keys = Object.keys(one).filter((key) => key in other)
  return keys.flatMap((key) =>
    differing(one[key], other[key], path === '' ? key : `${path}.${key}`),
  )
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** As plain JSON, like the stored baseline. */
const withoutMode = (config: KubeProxyConfig): unknown =>
  JSON.parse(JSON.stringify({ ...config, mode: undefined }))

const hasKubePrefix = (name: string) => name.startsWith('KUBE-')

/** Rules that belong neither to kube-proxy nor to the kubelet, as `table chain rule`. */
export function foreignRules(node: NodeView): string[] {
  const state = stateOf(node)
  const rules = [...state.iptables].flatMap(([table, chains]) =>
    [...chains.values()]
      .filter(({ name }) => !hasKubePrefix(name))
      .flatMap((chain) => [
        ...(chain.policy === 'DROP' ? [`${table} ${chain.name} policy DROP`] : []),
        ...chain.rules
          .filter(({ spec }) => !hasKubePrefix(targetOf(spec) ?? ''))
          .map(({ spec }) => `${table} ${chain.name} ${spec}`),
      ]),
  )
  const marked = state.virtualServers
    .filter(({ protocol }) => protocol === 'FWM')
    .map(({ address }) => `virtual server of the firewall mark ${address}`)
  return [...rules, ...marked].sort()
}

/** The command that restores the state before, for a rule of foreignRules that is new or gone. */
export function commandToRestore(rule: string, is: 'new' | 'gone'): string {
  const mark = /^virtual server of the firewall mark (\S+)$/.exec(rule)?.[1]
  if (mark !== undefined) return `ipvsadm -${is === 'new' ? 'D' : 'A'} -f ${mark}`
  const [table, chain, ...rest] = rule.split(' ')
  const spec = rest.join(' ')
  if (spec === 'policy DROP')
    return `iptables -t ${table} -P ${chain} ${is === 'new' ? 'ACCEPT' : 'DROP'}`
  return `iptables -t ${table} -${is === 'new' ? 'D' : 'A'} ${chain} ${ruleInShell(spec)}`
}

/** The fields of a Service of the shop that a repair must not change. */
export function serviceFacts(snapshot: Snapshot, name: string): unknown {
  const object = snapshot.find('Service', SHOP_OBJECTS.namespace, name)
  const spec = object?.spec as V1ServiceSpec | undefined
  if (!spec) return undefined
  const { type, selector, sessionAffinity, trafficDistribution } = spec
  const ports = spec.ports?.map(({ port, protocol, nodePort, targetPort }) => ({
    port,
    protocol,
    nodePort,
    // The Pods have a name for their port 80.
    targetPort: targetPort === 80 ? 'web' : targetPort,
  }))
  const policies = [
    spec.externalTrafficPolicy ?? 'Cluster',
    spec.internalTrafficPolicy ?? 'Cluster',
  ]
  const unready = spec.publishNotReadyAddresses ?? false
  const proxy = object?.metadata.labels?.['service.kubernetes.io/service-proxy-name']
  return JSON.parse(
    JSON.stringify({
      type,
      selector,
      sessionAffinity,
      trafficDistribution,
      ports,
      policies,
      unready,
      proxy,
    }),
  )
}

/** Lab notes change whenever a lab is graded; EndpointSlices change with Pods. */
const isNotes = (kind: string, name: string) => kind === 'ConfigMap' && /^lab-\d+$/.test(name)

/**
 * A digest of everything that a repair changes: the specs of objects, the running Pods, and the
 * time of the last command on the embedded cluster's nodes (embedded/apiserver/streaming.ts). While
 * the digest is unchanged, nothing has been repaired. Status is ignored: it changes by itself.
 */
export function baselineFingerprint({ items }: Snapshot): string {
  const facts = items
    .filter(({ kind, metadata }) => kind !== 'EndpointSlice' && !isNotes(kind, metadata.name))
    .map(({ kind, metadata, spec, data }) => {
      const { namespace = '', name, uid, labels, annotations, deletionTimestamp } = metadata
      return JSON.stringify([
        kind,
        namespace,
        name,
        uid,
        labels,
        annotations,
        deletionTimestamp,
        spec,
        data,
      ])
    })
  return createHash('sha256').update(facts.sort().join('\n')).digest('hex')
}
