import { isIP } from 'node:net'
import type * as k8s from '@kubernetes/client-node'
import ipaddr from 'ipaddr.js'
import { unmapped } from '../../dataplane/ip-address.ts'
import { type FieldErrors, syntaxFaults } from './field-errors.ts'
import { fill } from './json.ts'
import { hasNodePorts, needsClusterIP, needsHealthCheckPort } from './service-allocator.ts'
import { check, type FieldRules, fieldsAt, type Strategy } from './strategy.ts'
import { trafficDistributions } from './traffic-distribution.ts'

const protocol = check.oneOf('TCP', 'UDP', 'SCTP')
const ipFault = 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'
const cidrFault = 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'
const isIn = (range: string) => (address: string) =>
  isIP(address) !== 0 && ipaddr.parse(address).range() === range

const serviceRules: FieldRules = {
  'spec.type': check.oneOf('ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'),
  'spec.selector': check.labels,
  'spec.ports[].name': [check.syntax('label'), check.unique()],
  'spec.ports[].port': [check.required, check.port],
  'spec.ports[].protocol': protocol,
  'spec.ports[].targetPort': check.port,
  'spec.ports[]': [
    check.unique(({ port, protocol }: k8s.V1ServicePort) => `${port}/${protocol}`),
    check.unique(({ nodePort, protocol }: k8s.V1ServicePort) =>
      nodePort ? `${nodePort}/${protocol}` : undefined,
    ),
  ],
  'spec.sessionAffinity': check.oneOf('ClientIP', 'None'),
  'spec.sessionAffinityConfig.clientIP.timeoutSeconds': check.not<number>(
    (timeout) => timeout <= 0 || timeout > 86_400,
    'must be greater than 0 and less than 86400',
  ),
  'spec.clusterIPs[]': [
    check.not<string>((address) => address !== 'None' && isIP(address) === 0, ipFault),
    check.not<string>((address) => isIP(address) === 6, 'IPv6 is not configured on this cluster'),
  ],
  'spec.ipFamilyPolicy': [
    check.oneOf('PreferDualStack', 'RequireDualStack', 'SingleStack'),
    check.not(
      (policy) => policy === 'RequireDualStack',
      'this cluster is not configured for dual-stack services',
    ),
  ],
  'spec.ipFamilies[]': check.not((family) => family !== 'IPv4', 'not configured on this cluster'),
  'spec.externalIPs[]': [
    check.not<string>((address) => isIP(address) === 0, ipFault),
    check.not(isIn('unspecified'), 'may not be unspecified (0.0.0.0 or ::)'),
    check.not(isIn('loopback'), 'may not be in the loopback range (127.0.0.0/8, ::1/128)'),
  ],
  'spec.internalTrafficPolicy|externalTrafficPolicy': check.oneOf('Cluster', 'Local'),
  'spec.trafficDistribution': check.oneOf(...trafficDistributions()),
  'spec.loadBalancerSourceRanges[]': check.not<string>(
    (cidr) => !ipaddr.isValidCIDR(cidr.trim()),
    cidrFault,
  ),
  spec: check.each<k8s.V1ServiceSpec>((spec, _, errors) => validateType(spec, errors)),
}

/**
 * core/v1 and the registry of Services: an update keeps what the old state was allocated. This
 * cluster supports IPv4 only.
 */
export const serviceStrategy: Strategy<k8s.V1Service> = {
  defaults: {
    '': { spec: { type: 'ClusterIP', sessionAffinity: 'None' }, status: { loadBalancer: {} } },
    'spec.ports[]': { protocol: 'TCP' },
    'status.loadBalancer.ingress[]': ({ ip }: { ip?: string }) => (ip ? { ipMode: 'VIP' } : {}),
  },
  prepare({ spec }, old) {
    if (!spec) return
    if (spec.sessionAffinity !== 'ClientIP') delete spec.sessionAffinityConfig
    else fill(spec, { sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } })
    for (const port of spec.ports ?? []) port.targetPort ||= port.port
    if (hasNodePorts(spec)) fill(spec, { externalTrafficPolicy: 'Cluster' })
    if (spec.type === 'LoadBalancer') fill(spec, { allocateLoadBalancerNodePorts: true })
    if (old?.spec) carryAllocations(spec, old.spec)
    if (!needsClusterIP(spec)) return
    spec.clusterIP ||= spec.clusterIPs?.[0]
    if (spec.clusterIP) spec.clusterIPs = [spec.clusterIP]
    fill(spec, {
      internalTrafficPolicy: 'Cluster',
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
    })
  },
  rules: serviceRules,
  validateUpdate({ spec = {} }, { spec: old = {} }, errors) {
    if (
      needsClusterIP(old) &&
      needsClusterIP(spec) &&
      old.clusterIP &&
      spec.clusterIP !== old.clusterIP
    )
      errors.invalid(
        'spec.clusterIPs[0]',
        spec.clusterIPs ?? [spec.clusterIP],
        'may not change once set',
      )
    const before = old.healthCheckNodePort
    if (needsHealthCheckPort(spec) && before && spec.healthCheckNodePort !== before)
      errors.forbidden('spec.healthCheckNodePort', 'field is immutable')
  },
}

const isExternal = (spec: k8s.V1ServiceSpec) =>
  hasNodePorts(spec) || (spec.type === 'ClusterIP' && Boolean(spec.externalIPs?.length))

/**
 * Keeps allocated values that an update omits, and removes unchanged values that its type does not
 * use.
 */
function carryAllocations(spec: k8s.V1ServiceSpec, old: k8s.V1ServiceSpec): void {
  const portOf = ({ port, protocol }: k8s.V1ServicePort) =>
    old.ports?.find((other) => other.port === port && other.protocol === protocol)
  const drop = (fields: readonly (keyof k8s.V1ServiceSpec)[]) => {
    for (const field of fields) if (String(spec[field]) === String(old[field])) delete spec[field]
  }
  if (!needsClusterIP(spec))
    drop(['clusterIP', 'clusterIPs', 'internalTrafficPolicy', 'ipFamilies', 'ipFamilyPolicy'])
  else if (needsClusterIP(old)) spec.clusterIP ||= old.clusterIP
  for (const port of spec.ports ?? []) {
    if (hasNodePorts(spec)) port.nodePort ||= portOf(port)?.nodePort
    else if (old.ports?.some(({ nodePort }) => nodePort === port.nodePort)) delete port.nodePort
  }
  if (!isExternal(spec)) drop(['externalTrafficPolicy'])
  if (!needsHealthCheckPort(spec)) drop(['healthCheckNodePort'])
  else spec.healthCheckNodePort ||= old.healthCheckNodePort
  if (spec.type !== 'LoadBalancer') drop(['allocateLoadBalancerNodePorts', 'loadBalancerClass'])
}

/** Which fields a Service of its type needs, and which it can't have. */
function validateType(spec: k8s.V1ServiceSpec, errors: FieldErrors): void {
  const { type, clusterIP, ports = [] } = spec
  if (type === 'ExternalName') validateExternalName(spec, errors)
  else if (ports.length === 0 && clusterIP !== 'None') errors.required('spec.ports')
  if (clusterIP === 'None' && hasNodePorts(spec))
    errors.invalid('spec.clusterIPs[0]', clusterIP, `may not be set to 'None' for ${type} services`)
  validatePorts(spec, errors)
  validateExternalTraffic(spec, errors)
}

function validateExternalName(spec: k8s.V1ServiceSpec, errors: FieldErrors): void {
  const { clusterIP, externalName } = spec
  if (!externalName) errors.required('spec.externalName')
  else
    errors.invalid(
      'spec.externalName',
      externalName,
      ...syntaxFaults(externalName.replace(/\.$/, ''), 'subdomain'),
    )
  if (clusterIP) errors.forbidden('spec.clusterIPs[0]', 'may not be set for ExternalName services')
}

function validatePorts(spec: k8s.V1ServiceSpec, errors: FieldErrors): void {
  const { type, ports = [] } = spec
  for (const [index, { name, nodePort }] of ports.entries()) {
    if (!name && ports.length > 1) errors.required(`spec.ports[${index}].name`)
    if (nodePort && !hasNodePorts(spec))
      errors.forbidden(
        `spec.ports[${index}].nodePort`,
        `may not be used when \`type\` is '${type}'`,
      )
  }
}

/** Fields for traffic from outside the cluster, which only some types have. */
function validateExternalTraffic(spec: k8s.V1ServiceSpec, errors: FieldErrors): void {
  const { type, externalTrafficPolicy, healthCheckNodePort } = spec
  if (externalTrafficPolicy && !isExternal(spec)) {
    const detail = 'may only be set for externally-accessible services'
    errors.invalid('spec.externalTrafficPolicy', externalTrafficPolicy, detail)
  }
  if (healthCheckNodePort && !needsHealthCheckPort(spec)) {
    const detail =
      "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
    errors.invalid('spec.healthCheckNodePort', healthCheckNodePort, detail)
  }
  if (spec.loadBalancerSourceRanges?.length && type !== 'LoadBalancer')
    errors.forbidden(
      'spec.LoadBalancerSourceRanges',
      "may only be used when `type` is 'LoadBalancer'",
    )
}

/** discovery.k8s.io/v1 */
export const endpointSliceStrategy: Strategy<k8s.V1EndpointSlice> = {
  defaults: { '': { endpoints: [] }, 'ports[]': { name: '', protocol: 'TCP' } },
  rules: {
    addressType: [check.required, check.oneOf('IPv4', 'IPv6', 'FQDN')],
    'endpoints[].addresses': check.required,
    'ports[]': check.unique(({ name }: k8s.DiscoveryV1EndpointPort) => name),
    'ports[].protocol': protocol,
    'ports[].port': check.port,
    '': check.each<k8s.V1EndpointSlice>((slice, _, errors) => {
      const version = { IPv4: 4, IPv6: 6 }[slice.addressType]
      // An IPv4-mapped address is one of IPv4 (netutils.IsIPv4).
      for (const { field, value } of fieldsAt(slice, 'endpoints[].addresses[]'))
        if (version && isIP(unmapped(String(value))) !== version)
          errors.invalid(field, value, `must be an ${slice.addressType} address`)
    }),
  },
  fixed: ['addressType'],
}
