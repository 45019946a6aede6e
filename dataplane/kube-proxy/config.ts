import { parseDocument } from 'yaml'
import { acceptedFamily, canonicalAddress, isCidr } from '../ip-address.ts'
import { type Fault, isObject, type JsonObject } from '../objects/field-reader.ts'

export type DetectLocalMode = 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix'

export type KubeProxyMode = 'iptables' | 'ipvs' | 'userspace' | 'nftables'

/** The fields of a KubeProxyConfiguration that affect the programmed state. */
export interface KubeProxyConfig {
  /** Undefined when the configuration leaves it empty: kube-proxy then runs iptables. */
  mode?: KubeProxyMode
  bindAddress: string
  /** One range, or one per family, separated by a comma; empty if there is none. */
  clusterCIDR: string
  detectLocalMode: DetectLocalMode
  bridgeInterface: string
  interfaceNamePrefix: string
  masqueradeAll: boolean
  /** Bit of the fwmark that requests masquerading: 14 is 0x4000. */
  masqueradeBit: number
  localhostNodePorts: boolean
  /** Ranges whose node addresses serve node ports; empty for all; `primary` from 1.31 on. */
  nodePortAddresses: string[]
  ipvs: { scheduler: string; strictARP: boolean; excludeCIDRs: string[] }
  /** Mode nftables has its own values of these fields. */
  nftables: { masqueradeAll: boolean; masqueradeBit: number }
  /** The node's nf_conntrack_tcp_be_liberal is enabled. */
  conntrackTCPLiberal: boolean
  /** The kernel has nfacct counters, and rules use them (from 1.31 on only); see withCircumstances. */
  nfacct: boolean
  /** Feature gate IPv6DualStack of 1.20; later versions always serve both families. */
  dualStack: boolean
  hostnameOverride: string
  /** Userspace mode: `first-last`; empty lets the kernel choose. */
  portRange: string
}

/** A fresh configuration with kube-proxy's defaults. */
export const defaultConfig = (): KubeProxyConfig => ({
  bindAddress: '0.0.0.0',
  clusterCIDR: '',
  detectLocalMode: 'ClusterCIDR',
  bridgeInterface: '',
  interfaceNamePrefix: '',
  masqueradeAll: false,
  masqueradeBit: 14,
  localhostNodePorts: true,
  nodePortAddresses: [],
  ipvs: { scheduler: 'rr', strictARP: false, excludeCIDRs: [] },
  nftables: { masqueradeAll: false, masqueradeBit: 14 },
  conntrackTCPLiberal: false,
  nfacct: false,
  dualStack: false,
  hostnameOverride: '',
  portRange: '',
})

/** The KubeProxyConfiguration is invalid; `faults` contains every fault with its field. */
export class ConfigError extends Error {
  readonly faults: Fault[]

  constructor(faults: Fault[]) {
    super(faults.map((fault) => `${fault.object}: ${fault.field} ${fault.message}`).join('\n'))
    this.name = 'ConfigError'
    this.faults = faults
  }
}

const OBJECT = 'KubeProxyConfiguration'
const INTERFACE_NAME = /^[A-Za-z0-9._-]{1,15}$/

class ConfigReader {
  readonly faults: Fault[] = []

  fault(field: string, value: unknown, wanted: string): void {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    this.faults.push({ object: OBJECT, field, message: `"${text}" is not ${wanted}` })
  }

  section(value: unknown, field: string): JsonObject {
    if (value === undefined || value === null) return {}
    if (isObject(value)) return value
    this.fault(field, value, 'a mapping')
    return {}
  }

  text(value: unknown, field: string, fallback: string, valid: (text: string) => boolean, wanted: string): string {
    if (value === undefined || value === null || value === '') return fallback
    if (typeof value === 'string' && valid(value)) return value
    this.fault(field, value, wanted)
    return fallback
  }

  flag(value: unknown, field: string, fallback: boolean): boolean {
    if (value === undefined || value === null) return fallback
    if (typeof value === 'boolean') return value
    this.fault(field, value, 'true or false')
    return fallback
  }

  bit(value: unknown, field: string, fallback: number): number {
    if (value === undefined || value === null) return fallback
    if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 31) return value
    this.fault(field, value, 'a bit from 0 to 31')
    return fallback
  }

  cidrs(value: unknown, field: string, extra: string[] = []): string[] {
    if (value === undefined || value === null) return []
    if (!Array.isArray(value)) {
      this.fault(field, value, 'a list')
      return []
    }
    return value.flatMap((item, index) => {
      if (typeof item === 'string' && extra.includes(item)) return [item]
      if (typeof item === 'string' && isCidr(item)) return [withoutZeros(item)]
      this.fault(`${field}[${index}]`, item, 'an address range such as "10.0.0.0/8"')
      return []
    })
  }
}

/** Leading zeros of an address or range, which kube-proxy reads as decimal, removed. */
function withoutZeros(text: string): string {
  const [address = '', length] = text.trim().split('/')
  return length === undefined ? canonicalAddress(address) : `${canonicalAddress(address)}/${Number(length)}`
}

const isClusterCidr = (text: string): boolean => {
  const parts = text.split(',')
  return parts.length <= 2 && parts.every((part) => isCidr(part.trim()))
}

/**
 * Reads a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1), the `config.conf` of kube-proxy's ConfigMap.
 * Fields that do not affect a node's state are ignored.
 * @throws ConfigError with all faults
 */
export function parseKubeProxyConfiguration(yamlText: string): KubeProxyConfig {
  const read = new ConfigReader()
  const config = defaultConfig()
  const document = parseDocument(yamlText, { prettyErrors: true })
  for (const error of document.errors) {
    const message = error.message.split('\n')[0] ?? 'is not YAML'
    read.faults.push({ object: OBJECT, field: 'YAML', message: message.replace(/:$/, '') })
  }
  if (read.faults.length > 0) throw new ConfigError(read.faults)
  // maxAliasCount prevents a few hundred bytes of nested aliases from expanding to gigabytes.
  let raw: JsonObject
  try {
    raw = read.section(document.toJS({ maxAliasCount: 20 }), 'document')
  } catch {
    throw new ConfigError([{ object: OBJECT, field: 'YAML', message: 'contains too many aliases' }])
  }
  if (raw.kind !== undefined && raw.kind !== OBJECT) read.fault('kind', raw.kind, `"${OBJECT}"`)
  const iptables = read.section(raw.iptables, 'iptables')
  const ipvs = read.section(raw.ipvs, 'ipvs')
  const nftables = read.section(raw.nftables, 'nftables')
  const detectLocal = read.section(raw.detectLocal, 'detectLocal')
  const conntrack = read.section(raw.conntrack, 'conntrack')
  const gates = read.section(raw.featureGates, 'featureGates')

  const modes = ['iptables', 'ipvs', 'userspace', 'nftables'] as const
  const mode = read.text(raw.mode, 'mode', '', (text) => modes.some((m) => m === text), modes.join(', '))
  const known = modes.find((m) => m === mode)
  if (known) config.mode = known
  const isAddress = (text: string) => acceptedFamily(text) !== undefined
  config.bindAddress = withoutZeros(
    read.text(raw.bindAddress, 'bindAddress', config.bindAddress, isAddress, 'an IP address'),
  )
  config.clusterCIDR = read
    .text(
      raw.clusterCIDR,
      'clusterCIDR',
      '',
      isClusterCidr,
      'an address range such as "10.244.0.0/16", or one per family',
    )
    .split(',')
    .map((range) => (range === '' ? '' : withoutZeros(range)))
    .join(',')
  const localModes = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'] as const
  const local = read.text(
    raw.detectLocalMode,
    'detectLocalMode',
    '',
    (text) => localModes.some((m) => m === text),
    `one of ${localModes.join(', ')}`,
  )
  config.detectLocalMode = localModes.find((m) => m === local) ?? config.detectLocalMode
  const isInterface = (text: string) => INTERFACE_NAME.test(text)
  config.bridgeInterface = read.text(
    detectLocal.bridgeInterface,
    'detectLocal.bridgeInterface',
    '',
    isInterface,
    'an interface name',
  )
  config.interfaceNamePrefix = read.text(
    detectLocal.interfaceNamePrefix,
    'detectLocal.interfaceNamePrefix',
    '',
    isInterface,
    'the beginning of an interface name',
  )
  config.masqueradeAll = read.flag(iptables.masqueradeAll, 'iptables.masqueradeAll', false)
  config.masqueradeBit = read.bit(iptables.masqueradeBit, 'iptables.masqueradeBit', config.masqueradeBit)
  config.nftables = {
    masqueradeAll: read.flag(nftables.masqueradeAll, 'nftables.masqueradeAll', false),
    masqueradeBit: read.bit(nftables.masqueradeBit, 'nftables.masqueradeBit', config.nftables.masqueradeBit),
  }
  config.localhostNodePorts = read.flag(iptables.localhostNodePorts, 'iptables.localhostNodePorts', true)
  config.nodePortAddresses = read.cidrs(raw.nodePortAddresses, 'nodePortAddresses', ['primary'])
  config.ipvs.scheduler = read.text(
    ipvs.scheduler,
    'ipvs.scheduler',
    'rr',
    (text) => /^[a-z]{2,8}$/.test(text),
    'an IPVS scheduler such as "rr"',
  )
  config.ipvs.strictARP = read.flag(ipvs.strictARP, 'ipvs.strictARP', false)
  config.ipvs.excludeCIDRs = read.cidrs(ipvs.excludeCIDRs, 'ipvs.excludeCIDRs')
  config.conntrackTCPLiberal = read.flag(conntrack.tcpBeLiberal, 'conntrack.tcpBeLiberal', false)
  config.dualStack = read.flag(gates.IPv6DualStack, 'featureGates.IPv6DualStack', false)
  config.hostnameOverride = read.text(raw.hostnameOverride, 'hostnameOverride', '', (t) => t.length <= 253, 'a name')
  config.portRange = read.text(raw.portRange, 'portRange', '', (t) => /^\d{1,5}-\d{1,5}$/.test(t), '"first-last"')
  if (read.faults.length > 0) throw new ConfigError(read.faults)
  return config
}
