import { parseDocument } from 'yaml'
import { type Fault, FaultsError, FieldReader } from '../objects/field-reader.ts'

const MODES = ['iptables', 'ipvs', 'userspace', 'nftables'] as const
export type KubeProxyMode = (typeof MODES)[number]

const LOCAL_MODES = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'] as const

/** The fields of a KubeProxyConfiguration that affect the programmed state. */
export type KubeProxyConfig = ReturnType<typeof defaultConfig>

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
  nodePortAddresses: [] as string[],
  ipvs: { scheduler: 'rr', strictARP: false, excludeCIDRs: [] as string[] },
  /** Mode nftables has its own values of these fields. */
  nftables: { masqueradeAll: false, masqueradeBit: 14 },
  /** The node's nf_conntrack_tcp_be_liberal is enabled. */
  conntrackTCPLiberal: false,
  /** The kernel has nfacct counters, and rules use them (from 1.31 on only); see withCircumstances. */
  nfacct: false,
  /** Feature gate IPv6DualStack of 1.20; later versions always serve both families. */
  dualStack: false,
  hostnameOverride: '',
  /** Userspace mode: `first-last`; empty lets the kernel choose. */
  portRange: '',
})

/** The KubeProxyConfiguration is invalid. */
export class ConfigError extends FaultsError {}

const OBJECT = 'KubeProxyConfiguration'

/** The YAML document as an object. Throws ConfigError. */
function readDocument(yamlText: string): unknown {
  const document = parseDocument(yamlText, { prettyErrors: true })
  const faultOf = (message: string): Fault => ({ object: OBJECT, field: 'YAML', message })
  const faults = document.errors.map(({ message }) => faultOf((message.split('\n')[0] ?? '').replace(/:$/, '')))
  if (faults.length > 0) throw new ConfigError(faults)
  try {
    // maxAliasCount prevents a few hundred bytes of nested aliases from expanding to gigabytes.
    return document.toJS({ maxAliasCount: 20 })
  } catch {
    throw new ConfigError([faultOf('contains too many aliases')])
  }
}

/**
 * Reads a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1), the `config.conf` of kube-proxy's ConfigMap.
 * Fields that do not affect a node's state are ignored.
 * @throws ConfigError with all faults
 */
export function parseKubeProxyConfiguration(yamlText: string): KubeProxyConfig {
  const read = new FieldReader(OBJECT, [])
  const raw = read.child(readDocument(yamlText), 'document')
  read.choice(raw.kind, 'kind', [OBJECT], undefined)
  const names = ['iptables', 'ipvs', 'nftables', 'detectLocal', 'conntrack', 'featureGates']
  const sections = new Map(names.map((name) => [name, read.child(raw[name], name)]))

  /** The value of a field such as `mode` or `ipvs.scheduler`. */
  const at = (field: string): unknown => {
    const [name = '', inner] = field.split('.')
    return inner === undefined ? raw[name] : sections.get(name)?.[inner]
  }
  const flag = (field: string, fallback = false) => read.flag(at(field), field) ?? fallback
  const bit = (field: string) => read.integer(at(field), field, 0, 31) ?? 14
  /** A text of a pattern, or none. */
  const text = (field: string, pattern: RegExp, wanted: string): string => {
    const given = read.text(at(field), field) ?? ''
    if (given === '' || pattern.test(given)) return given
    read.fault(field, `"${given}" is not ${wanted}`)
    return ''
  }
  const ranges = (field: string, word?: string): string[] =>
    read.list(at(field), field).flatMap((item, index) => {
      return word !== undefined && item === word ? word : (read.cidr(item, `${field}[${index}]`) ?? [])
    })
  const clusterCIDR = (read.text(raw.clusterCIDR, 'clusterCIDR') ?? '').split(',')
  if (clusterCIDR.length > 2) read.fault('clusterCIDR', `"${raw.clusterCIDR}" is more than one range per family`)
  const interfaceName = /^[A-Za-z0-9._-]{1,15}$/

  const defaults = defaultConfig()
  const config: KubeProxyConfig = {
    ...defaults,
    mode: read.choice(raw.mode, 'mode', MODES, undefined),
    bindAddress: raw.bindAddress ? (read.address(raw.bindAddress, 'bindAddress') ?? '') : defaults.bindAddress,
    clusterCIDR: clusterCIDR.map((range) => range && read.cidr(range, 'clusterCIDR')).join(','),
    detectLocalMode: read.choice(raw.detectLocalMode, 'detectLocalMode', LOCAL_MODES, defaults.detectLocalMode),
    bridgeInterface: text('detectLocal.bridgeInterface', interfaceName, 'an interface name'),
    interfaceNamePrefix: text('detectLocal.interfaceNamePrefix', interfaceName, 'the beginning of an interface name'),
    masqueradeAll: flag('iptables.masqueradeAll'),
    masqueradeBit: bit('iptables.masqueradeBit'),
    localhostNodePorts: flag('iptables.localhostNodePorts', true),
    nodePortAddresses: ranges('nodePortAddresses', 'primary'),
    ipvs: {
      scheduler: text('ipvs.scheduler', /^[a-z]{2,8}$/, 'an IPVS scheduler such as "rr"') || defaults.ipvs.scheduler,
      strictARP: flag('ipvs.strictARP'),
      excludeCIDRs: ranges('ipvs.excludeCIDRs'),
    },
    nftables: { masqueradeAll: flag('nftables.masqueradeAll'), masqueradeBit: bit('nftables.masqueradeBit') },
    conntrackTCPLiberal: flag('conntrack.tcpBeLiberal'),
    dualStack: flag('featureGates.IPv6DualStack'),
    hostnameOverride: text('hostnameOverride', /^.{1,253}$/s, 'a name'),
    portRange: text('portRange', /^\d{1,5}-\d{1,5}$/, '"first-last"'),
  }
  if (read.faults.length > 0) throw new ConfigError(read.faults)
  return config
}
