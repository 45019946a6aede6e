import { isIP } from 'node:net'
import type { V1EndpointSlice, V1Service, V1ServicePort, V1ServiceSpec } from '@kubernetes/client-node'
import ipaddr from 'ipaddr.js'
import { type FieldErrors, portNameFaults } from './field-errors.ts'
import { fill } from './json.ts'
import { hasNodePorts, needsClusterIP, needsHealthCheckPort } from './service-allocator.ts'

const protocols = ['TCP', 'UDP', 'SCTP']
const ipFault = 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'
const cidrFault = 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'

/**
 * Fills in what a Service leaves open (core/v1 defaults and the Service registry), with the allocated values of its old
 * state; this cluster supports IPv4 only.
 */
export function prepareService(service: V1Service, old?: V1Service): void {
  fill(service, { spec: { type: 'ClusterIP', sessionAffinity: 'None' }, status: { loadBalancer: {} } })
  const { spec, status } = service
  if (!spec) return
  if (spec.sessionAffinity === 'ClientIP')
    fill(spec, { sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } })
  else delete spec.sessionAffinityConfig
  for (const port of spec.ports ?? []) {
    port.protocol ??= 'TCP'
    port.targetPort ||= port.port
  }
  if (hasNodePorts(spec)) spec.externalTrafficPolicy ??= 'Cluster'
  if (spec.type === 'LoadBalancer') spec.allocateLoadBalancerNodePorts ??= true
  for (const ingress of status?.loadBalancer?.ingress ?? []) if (ingress.ip) ingress.ipMode ??= 'VIP'
  if (old?.spec) carryAllocations(spec, old.spec)
  if (needsClusterIP(spec)) {
    spec.clusterIP ||= spec.clusterIPs?.[0]
    if (spec.clusterIP) spec.clusterIPs = [spec.clusterIP]
    fill(spec, { internalTrafficPolicy: 'Cluster', ipFamilies: ['IPv4'], ipFamilyPolicy: 'SingleStack' })
  }
}

/** Keeps allocated values that an update omits, and removes unchanged values that its type does not use. */
function carryAllocations(spec: V1ServiceSpec, old: V1ServiceSpec): void {
  const portOf = ({ port, protocol }: V1ServicePort) =>
    old.ports?.find((other) => other.port === port && other.protocol === protocol)
  const drop = (fields: readonly (keyof V1ServiceSpec)[]) => {
    for (const field of fields) if (String(spec[field]) === String(old[field])) delete spec[field]
  }
  if (!needsClusterIP(spec)) drop(['clusterIP', 'clusterIPs', 'internalTrafficPolicy', 'ipFamilies', 'ipFamilyPolicy'])
  else if (needsClusterIP(old)) spec.clusterIP ||= old.clusterIP
  for (const port of spec.ports ?? []) {
    if (hasNodePorts(spec)) port.nodePort ||= portOf(port)?.nodePort
    else if (old.ports?.some(({ nodePort }) => nodePort === port.nodePort)) delete port.nodePort
  }
  const isExternal = hasNodePorts(spec) || (spec.type === 'ClusterIP' && spec.externalIPs?.length)
  if (!isExternal) drop(['externalTrafficPolicy'])
  if (!needsHealthCheckPort(spec)) drop(['healthCheckNodePort'])
  else spec.healthCheckNodePort ||= old.healthCheckNodePort
  if (spec.type !== 'LoadBalancer') drop(['allocateLoadBalancerNodePorts', 'loadBalancerClass'])
}

/** Faults of a Service (core/v1 validation) and of changes of its immutable fields. */
export function validateService({ spec = {} }: V1Service, errors: FieldErrors, old?: V1Service): void {
  errors.checkChoice('spec.type', spec.type, ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'])
  const isHeadless = spec.clusterIP === 'None'
  if (spec.type === 'ExternalName') {
    if (!spec.externalName) errors.required('spec.externalName')
    else errors.checkSyntax('spec.externalName', spec.externalName.replace(/\.$/, ''), 'subdomain')
    if (spec.clusterIP) errors.forbidden('spec.clusterIPs[0]', 'may not be set for ExternalName services')
  } else if (!spec.ports?.length && !isHeadless) errors.required('spec.ports')
  if (isHeadless && hasNodePorts(spec)) {
    errors.invalid('spec.clusterIPs[0]', 'None', `may not be set to 'None' for ${spec.type} services`)
  }
  errors.checkLabels('spec.selector', spec.selector)
  validatePorts(spec, errors)
  errors.checkChoice('spec.sessionAffinity', spec.sessionAffinity, ['ClientIP', 'None'])
  const timeout = spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? 1
  if (timeout <= 0 || timeout > 86_400) {
    const field = 'spec.sessionAffinityConfig.clientIP.timeoutSeconds'
    errors.invalid(field, timeout, 'must be greater than 0 and less than 86400')
  }
  validateAddresses(spec, errors)
  validatePolicies(spec, errors)
  const before = old?.spec
  if (!before) return
  if (needsClusterIP(before) && needsClusterIP(spec) && before.clusterIP && spec.clusterIP !== before.clusterIP) {
    errors.invalid('spec.clusterIPs[0]', spec.clusterIPs ?? [spec.clusterIP], 'may not change once set')
  }
  const [port, portBefore] = [spec.healthCheckNodePort, before.healthCheckNodePort]
  if (needsHealthCheckPort(spec) && portBefore && port !== portBefore) {
    errors.forbidden('spec.healthCheckNodePort', 'field is immutable')
  }
}

function validatePorts(spec: V1ServiceSpec, errors: FieldErrors): void {
  const [names, numbers, nodePorts] = [new Set<string>(), new Set<string>(), new Set<string>()]
  for (const [index, port] of (spec.ports ?? []).entries()) {
    const path = `spec.ports[${index}]`
    const { targetPort } = port
    if (port.name) {
      errors.checkSyntax(`${path}.name`, port.name, 'label')
      errors.checkUnique(`${path}.name`, port.name, names)
    } else if (index > 0 || spec.ports?.[1]) errors.required(`${path}.name`)
    errors.checkPort(`${path}.port`, port.port ?? 0)
    errors.checkChoice(`${path}.protocol`, port.protocol, protocols)
    if (typeof targetPort === 'number') errors.checkPort(`${path}.targetPort`, targetPort)
    else if (targetPort)
      for (const fault of portNameFaults(targetPort)) errors.invalid(`${path}.targetPort`, targetPort, fault)
    errors.checkUnique(path, `${port.port}/${port.protocol}`, numbers)
    if (!port.nodePort) continue
    if (!hasNodePorts(spec)) errors.forbidden(`${path}.nodePort`, `may not be used when \`type\` is '${spec.type}'`)
    errors.checkUnique(`${path}.nodePort`, `${port.nodePort}/${port.protocol}`, nodePorts)
  }
}

function validateAddresses(spec: V1ServiceSpec, errors: FieldErrors): void {
  for (const [index, address] of (spec.clusterIPs ?? []).entries()) {
    const field = `spec.clusterIPs[${index}]`
    if (address !== 'None' && isIP(address) === 0) errors.invalid(field, address, ipFault)
    else if (isIP(address) === 6) errors.invalid(field, address, 'IPv6 is not configured on this cluster')
  }
  if (spec.ipFamilyPolicy === 'RequireDualStack') {
    errors.invalid('spec.ipFamilyPolicy', spec.ipFamilyPolicy, 'this cluster is not configured for dual-stack services')
  } else errors.checkChoice('spec.ipFamilyPolicy', spec.ipFamilyPolicy, ['PreferDualStack', 'SingleStack'])
  for (const [index, family] of (spec.ipFamilies ?? []).entries())
    if (family !== 'IPv4') errors.invalid(`spec.ipFamilies[${index}]`, family, 'not configured on this cluster')
  for (const [index, address] of (spec.externalIPs ?? []).entries()) {
    const range = isIP(address) === 0 ? undefined : ipaddr.parse(address).range()
    const field = `spec.externalIPs[${index}]`
    if (range === undefined) errors.invalid(field, address, ipFault)
    else if (range === 'unspecified') errors.invalid(field, address, 'may not be unspecified (0.0.0.0 or ::)')
    else if (range === 'loopback')
      errors.invalid(field, address, 'may not be in the loopback range (127.0.0.0/8, ::1/128)')
  }
}

function validatePolicies(spec: V1ServiceSpec, errors: FieldErrors): void {
  const { type, internalTrafficPolicy, externalTrafficPolicy, externalIPs, healthCheckNodePort } = spec
  errors.checkChoice('spec.internalTrafficPolicy', internalTrafficPolicy, ['Cluster', 'Local'])
  errors.checkChoice('spec.externalTrafficPolicy', externalTrafficPolicy, ['Cluster', 'Local'])
  const isExternal = hasNodePorts(spec) || (type === 'ClusterIP' && externalIPs?.length)
  if (externalTrafficPolicy && !isExternal) {
    const detail = 'may only be set for externally-accessible services'
    errors.invalid('spec.externalTrafficPolicy', externalTrafficPolicy, detail)
  }
  if (healthCheckNodePort && !needsHealthCheckPort(spec)) {
    const detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
    errors.invalid('spec.healthCheckNodePort', healthCheckNodePort, detail)
  }
  const sources = spec.loadBalancerSourceRanges ?? []
  if (sources.length > 0 && type !== 'LoadBalancer') {
    errors.forbidden('spec.LoadBalancerSourceRanges', "may only be used when `type` is 'LoadBalancer'")
  }
  for (const [index, cidr] of sources.entries())
    if (!ipaddr.isValidCIDR(cidr.trim())) errors.invalid(`spec.loadBalancerSourceRanges[${index}]`, cidr, cidrFault)
}

/** discovery.k8s.io/v1 defaults of an EndpointSlice. */
export function defaultEndpointSlice(slice: V1EndpointSlice): void {
  slice.endpoints ??= []
  for (const port of slice.ports ?? []) fill(port, { name: '', protocol: 'TCP' })
}

/** Faults of an EndpointSlice (discovery.k8s.io/v1 validation); its address family is fixed. */
export function validateEndpointSlice(slice: V1EndpointSlice, errors: FieldErrors, old?: V1EndpointSlice): void {
  const { addressType, endpoints, ports = [] } = slice
  if (!addressType) errors.required('addressType')
  errors.checkChoice('addressType', addressType, ['IPv4', 'IPv6', 'FQDN'])
  if (old && addressType !== old.addressType) errors.invalid('addressType', addressType, 'field is immutable')
  const version = { IPv4: 4, IPv6: 6 }[addressType]
  for (const [index, { addresses = [] }] of endpoints.entries()) {
    const path = `endpoints[${index}].addresses`
    if (addresses.length === 0) errors.required(path, 'must contain at least 1 address')
    for (const [item, address] of addresses.entries())
      if (version && isIP(address) !== version)
        errors.invalid(`${path}[${item}]`, address, `must be an ${addressType} address`)
  }
  const names = new Set<string>()
  for (const [index, { name = '', protocol, port }] of ports.entries()) {
    errors.checkUnique(`ports[${index}].name`, name, names)
    errors.checkChoice(`ports[${index}].protocol`, protocol, protocols)
    if (port !== undefined) errors.checkPort(`ports[${index}].port`, port)
  }
}
