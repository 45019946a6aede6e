import { Lexer, Parser, parseDocument } from 'yaml'
import { canonicalCidr, commonBits, type Family, familyOf, parsePrefix } from '../ip-address.ts'
import { FieldReader, type InvalidField, InvalidFieldsError } from '../objects/field-reader.ts'
import type { ClusterObjects } from '../objects.ts'

/** The modes in which the kernel translates packets; in userspace mode kube-proxy itself does. */
export const KERNEL_MODES = ['iptables', 'ipvs', 'nftables'] as const
export const KUBE_PROXY_MODES = [...KERNEL_MODES, 'userspace'] as const
export type KubeProxyMode = (typeof KUBE_PROXY_MODES)[number]

const LOCAL_MODES = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'] as const

/** The fields of a KubeProxyConfiguration that affect the programmed state. */
export type KubeProxyConfig = Readonly<ReturnType<typeof defaultConfig>>

/** A fresh configuration with kube-proxy's defaults. */
export const defaultConfig = () => ({
  /** Undefined when the configuration leaves it empty: kube-proxy then runs iptables. */
  mode: undefined as KubeProxyMode | undefined,
  bindAddress: '0.0.0.0',
  /** One range, or one per family, separated by a comma; empty if there is none. */
  clusterCIDR: '',
  detectLocalMode: 'ClusterCIDR' as (typeof LOCAL_MODES)[number],
  bridgeInterface: '',
  interfaceNamePrefix: '',
  masqueradeAll: false,
  /** Bit of the fwmark that requests masquerading: 14 is 0x4000. */
  masqueradeBit: 14,
  localhostNodePorts: true,
  /** Ranges whose node addresses serve node ports; empty for all; `primary` from 1.31 on. */
  nodePortAddresses: [] as readonly string[],
  ipvs: { scheduler: 'rr', strictARP: false, excludeCIDRs: [] as readonly string[] },
  /** Mode nftables has its own values of these fields. */
  nftables: { masqueradeAll: false, masqueradeBit: 14 },
  /** The node's nf_conntrack_tcp_be_liberal is enabled. */
  conntrackTCPLiberal: false,
  /**
   * The kernel has nfacct counters, and rules use them (from 1.31 on only); see circumstances.ts.
   */
  nfacct: false,
  /** Feature gate IPv6DualStack of 1.20; later versions always serve both families. */
  dualStack: false,
  /**
   * ipvs: kube-proxy has synced again since it bound the addresses of Services to kube-ipvs0; see
   * observedOptions. Assumed of versions that sync every 30 s.
   */
  resynced: false,
  /** Userspace mode: `first-last`; empty lets the kernel choose. */
  portRange: '',
})

/** The KubeProxyConfiguration is invalid. */
export class ConfigError extends InvalidFieldsError {}

const OBJECT = 'KubeProxyConfiguration'

const YAML_DEPTH = 100

/**
 * Whether YAML of unknown origin is nested more than 100 levels deep. Its values are composed by
 * recursion, and V8 ends the process if it compiles a regular expression at the end of the stack;
 * its tokens are read without recursion.
 */
export function isNestedDeeply(yamlText: string): boolean {
  const parser = new Parser()
  for (const lexeme of new Lexer().lex(yamlText)) {
    Array.from(parser.next(lexeme))
    if (parser.stack.length > YAML_DEPTH) return true
  }
  return false
}

function readDocument(yamlText: string): unknown {
  const faultOf = (message: string): InvalidField => ({ object: OBJECT, field: 'YAML', message })
  if (isNestedDeeply(yamlText))
    throw new ConfigError([faultOf(`is nested more than ${YAML_DEPTH} levels deep`)])
  const document = parseDocument(yamlText, { prettyErrors: true })
  const faults = document.errors.map(({ message }) =>
    faultOf((message.split('\n')[0] ?? '').replace(/:$/, '')),
  )
  if (faults.length > 0) throw new ConfigError(faults)
  try {
    // maxAliasCount prevents a few hundred bytes of nested aliases from expanding to gigabytes.
    return document.toJS({ maxAliasCount: 20 })
  } catch {
    throw new ConfigError([faultOf('contains too many aliases')])
  }
}

/**
 * Reads a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1), the `config.conf` of
 * kube-proxy's ConfigMap. Fields that do not affect a node's state are ignored.
 * @throws ConfigError with all faults
 */
export function parseKubeProxyConfiguration(yamlText: string): KubeProxyConfig {
  const faults: InvalidField[] = []
  const document = { document: readDocument(yamlText) ?? {} }
  const raw = new FieldReader(document, OBJECT, faults).child('document').raw
  const read = new FieldReader(raw, OBJECT, faults)
  read.choice('kind', [OBJECT], undefined)
  const [iptables, ipvs, nftables] = [
    read.child('iptables'),
    read.child('ipvs'),
    read.child('nftables'),
  ]
  const detectLocal = read.child('detectLocal')

  /** A text of a pattern, or none. */
  const text = (section: FieldReader, field: string, pattern: RegExp, wanted: string): string => {
    const value = section.text(field) ?? ''
    if (value === '' || pattern.test(value)) return value
    section.fault(field, `"${value}" is not ${wanted}`)
    return ''
  }
  const masquerade = (section: FieldReader) => ({
    masqueradeAll: section.flag('masqueradeAll') ?? false,
    masqueradeBit: section.integer('masqueradeBit', 0, 31) ?? 14,
  })
  const clusterCIDR = (read.text('clusterCIDR') ?? '').split(',')
  if (clusterCIDR.length > 2)
    read.fault('clusterCIDR', `"${raw.clusterCIDR}" is more than one range per family`)
  const interfaceName = /^[A-Za-z0-9._-]{1,15}$/

  const defaults = defaultConfig()
  const config: KubeProxyConfig = {
    ...defaults,
    ...masquerade(iptables),
    mode: read.choice('mode', KUBE_PROXY_MODES, undefined),
    bindAddress: read.address('bindAddress') ?? defaults.bindAddress,
    clusterCIDR: clusterCIDR.map((range) => range && read.cidr(range, 'clusterCIDR')).join(','),
    detectLocalMode: read.choice('detectLocalMode', LOCAL_MODES, defaults.detectLocalMode),
    bridgeInterface: text(detectLocal, 'bridgeInterface', interfaceName, 'an interface name'),
    interfaceNamePrefix: text(
      detectLocal,
      'interfaceNamePrefix',
      interfaceName,
      'the beginning of an interface name',
    ),
    localhostNodePorts: iptables.flag('localhostNodePorts') ?? defaults.localhostNodePorts,
    nodePortAddresses: read.cidrs('nodePortAddresses', 'primary'),
    ipvs: {
      scheduler:
        text(ipvs, 'scheduler', /^[a-z]{2,8}$/, 'an IPVS scheduler such as "rr"') ||
        defaults.ipvs.scheduler,
      strictARP: ipvs.flag('strictARP') ?? false,
      excludeCIDRs: ipvs.cidrs('excludeCIDRs'),
    },
    nftables: masquerade(nftables),
    conntrackTCPLiberal: read.child('conntrack').flag('tcpBeLiberal') ?? false,
    dualStack: read.child('featureGates').flag('IPv6DualStack') ?? false,
    portRange: text(read, 'portRange', /^\d{1,5}-\d{1,5}$/, '"first-last"'),
  }
  if (faults.length > 0) throw new ConfigError(faults)
  return config
}

/**
 * The usual prefix length of a cluster's Pod range with a /24 (or /64) per node, as in the examples
 * of kubeadm and kind.
 */
const USUAL_LENGTH: Record<Family, number> = { ipv4: 16, ipv6: 56 }

function covering(ranges: readonly string[], family: Family): string | undefined {
  const own = ranges.filter((range) => familyOf(range) === family)
  const [first] = own
  if (first === undefined) return undefined
  const networkOf = (range: string) => range.split('/')[0] ?? ''
  const shared = own.map((range) =>
    Math.min(parsePrefix(range)?.length ?? 0, commonBits(networkOf(first), networkOf(range))),
  )
  return canonicalCidr(`${networkOf(first)}/${Math.min(USUAL_LENGTH[family], ...shared)}`)
}

/**
 * The Pod range of the cluster, inferred from the nodes' ranges, as kubeadm would write it; empty
 * if the nodes have none.
 */
export function likelyClusterCIDR(objects: ClusterObjects): string {
  const ranges = objects.nodes.flatMap((node) => node.podCIDRs)
  const found = (['ipv4', 'ipv6'] as const).map((family) => covering(ranges, family))
  return found.filter((range) => range !== undefined).join(',')
}

/**
 * kube-proxy's configuration: from the ConfigMap if the objects contain it, else the defaults with
 * the clusterCIDR inferred from the nodes.
 * @throws ConfigError if the ConfigMap contains an invalid configuration
 */
export function clusterConfig(objects: ClusterObjects): KubeProxyConfig {
  const text = objects.kubeProxyConfigMap?.['config.conf']
  return text === undefined
    ? { ...defaultConfig(), clusterCIDR: likelyClusterCIDR(objects) }
    : parseKubeProxyConfiguration(text)
}
