import { isIP } from 'node:net'
import type {
  V1ConfigMap,
  V1EndpointSlice,
  V1Secret,
  V1Service,
  V1ServicePort,
  V1ServiceSpec,
} from '@kubernetes/client-node'
import ipaddr from 'ipaddr.js'
import {
  type FieldErrors,
  labelFaults,
  portNameFaults,
  portNumberFaults,
  subdomainFaults,
  validateLabels,
} from './field-errors.ts'
import { sameJson } from './json.ts'
import { needsClusterIP, needsHealthCheckPort } from './service-allocator.ts'
import { oneOf } from './validate-pod.ts'

const ipFault = 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'
const cidrFault = 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'

/** Faults of a Service (core/v1 validation). */
export function validateService(service: V1Service, errors: FieldErrors): void {
  const spec = service.spec ?? {}
  const headless = spec.clusterIP === 'None'
  oneOf(spec.type, 'spec.type', ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'], errors)
  if (!spec.ports?.length && !headless && spec.type !== 'ExternalName') errors.required('spec.ports')
  if (headless && (spec.type === 'NodePort' || spec.type === 'LoadBalancer')) {
    errors.invalid('spec.clusterIPs[0]', 'None', `may not be set to 'None' for ${spec.type} services`)
  }
  if (spec.type === 'ExternalName') {
    if (!spec.externalName) errors.required('spec.externalName')
    else
      for (const fault of subdomainFaults(spec.externalName.replace(/\.$/, ''))) {
        errors.invalid('spec.externalName', spec.externalName, fault)
      }
    if (spec.clusterIP) errors.forbidden('spec.clusterIPs[0]', 'may not be set for ExternalName services')
  }
  validateLabels(spec.selector, 'spec.selector', errors)
  validatePorts(spec.ports ?? [], spec, errors)
  validateAffinity(spec, errors)
  validateAddresses(spec, errors)
  validatePolicies(service, spec, errors)
}

/** Reports changes of immutable fields of a Service. */
export function validateServiceUpdate(service: V1Service, old: V1Service, errors: FieldErrors): void {
  if (needsClusterIP(old) && needsClusterIP(service) && old.spec?.clusterIP) {
    if (service.spec?.clusterIP !== old.spec.clusterIP || !sameJson(service.spec?.clusterIPs, old.spec.clusterIPs)) {
      const asked = service.spec?.clusterIPs ?? [service.spec?.clusterIP]
      errors.invalid('spec.clusterIPs[0]', asked, 'may not change once set')
    }
  }
  if (needsHealthCheckPort(old) && needsHealthCheckPort(service) && old.spec?.healthCheckNodePort) {
    if (service.spec?.healthCheckNodePort !== old.spec.healthCheckNodePort) {
      errors.forbidden('spec.healthCheckNodePort', 'field is immutable')
    }
  }
}

function validatePorts(ports: V1ServicePort[], spec: V1ServiceSpec, errors: FieldErrors): void {
  const names = new Set<string>()
  const numbers = new Set<string>()
  const nodePorts = new Set<string>()
  for (const [index, port] of ports.entries()) {
    const path = `spec.ports[${index}]`
    if (!port.name) {
      if (ports.length > 1) errors.required(`${path}.name`)
    } else {
      for (const fault of labelFaults(port.name)) errors.invalid(`${path}.name`, port.name, fault)
      if (names.has(port.name)) errors.duplicate(`${path}.name`, port.name)
      names.add(port.name)
    }
    for (const fault of portNumberFaults(port.port ?? 0)) errors.invalid(`${path}.port`, port.port ?? 0, fault)
    oneOf(port.protocol, `${path}.protocol`, ['TCP', 'UDP', 'SCTP'], errors)
    if (port.targetPort !== undefined) {
      const faults =
        typeof port.targetPort === 'number' ? portNumberFaults(port.targetPort) : portNameFaults(port.targetPort)
      for (const fault of faults) errors.invalid(`${path}.targetPort`, port.targetPort, fault)
    }
    const number = `${port.protocol}/${port.port}`
    if (numbers.has(number)) errors.duplicate(path, port)
    numbers.add(number)
    if (!port.nodePort) continue
    if (spec.type !== 'NodePort' && spec.type !== 'LoadBalancer') {
      errors.forbidden(`${path}.nodePort`, `may not be used when \`type\` is '${spec.type}'`)
    }
    const nodePort = `${port.protocol}/${port.nodePort}`
    if (nodePorts.has(nodePort)) errors.duplicate(`${path}.nodePort`, port.nodePort)
    nodePorts.add(nodePort)
  }
}

function validateAffinity(spec: V1ServiceSpec, errors: FieldErrors): void {
  oneOf(spec.sessionAffinity, 'spec.sessionAffinity', ['ClientIP', 'None'], errors)
  const timeout = spec.sessionAffinityConfig?.clientIP?.timeoutSeconds
  if (spec.sessionAffinity === 'ClientIP' && timeout !== undefined && (timeout <= 0 || timeout > 86_400)) {
    const field = 'spec.sessionAffinityConfig.clientIP.timeoutSeconds'
    errors.invalid(field, timeout, 'must be greater than 0 and less than 86400')
  }
}

function validateAddresses(spec: V1ServiceSpec, errors: FieldErrors): void {
  for (const [index, address] of (spec.clusterIPs ?? []).entries()) {
    if (address !== 'None' && isIP(address) === 0) errors.invalid(`spec.clusterIPs[${index}]`, address, ipFault)
    else if (isIP(address) === 6) {
      errors.invalid(`spec.clusterIPs[${index}]`, address, 'IPv6 is not configured on this cluster')
    }
  }
  if (spec.clusterIPs?.length && spec.clusterIPs[0] !== spec.clusterIP) {
    errors.invalid('spec.clusterIPs', spec.clusterIPs, 'first value must match `clusterIP`')
  }
  if (spec.ipFamilyPolicy === 'RequireDualStack') {
    errors.invalid('spec.ipFamilyPolicy', spec.ipFamilyPolicy, 'this cluster is not configured for dual-stack services')
  } else
    oneOf(spec.ipFamilyPolicy, 'spec.ipFamilyPolicy', ['PreferDualStack', 'RequireDualStack', 'SingleStack'], errors)
  for (const [index, family] of (spec.ipFamilies ?? []).entries()) {
    if (family === 'IPv6') {
      errors.invalid(`spec.ipFamilies[${index}]`, family, 'not configured on this cluster')
    } else oneOf(family, `spec.ipFamilies[${index}]`, ['IPv4', 'IPv6'], errors)
  }
  for (const [index, address] of (spec.externalIPs ?? []).entries()) {
    const field = `spec.externalIPs[${index}]`
    if (isIP(address) === 0) errors.invalid(field, address, ipFault)
    else if (address === '0.0.0.0' || address === '::')
      errors.invalid(field, address, 'may not be unspecified (0.0.0.0 or ::)')
    else if (ipaddr.parse(address).range() === 'loopback') {
      errors.invalid(field, address, 'may not be in the loopback range (127.0.0.0/8, ::1/128)')
    }
  }
}

function validatePolicies(service: V1Service, spec: V1ServiceSpec, errors: FieldErrors): void {
  oneOf(spec.internalTrafficPolicy, 'spec.internalTrafficPolicy', ['Cluster', 'Local'], errors)
  if (spec.externalTrafficPolicy !== undefined) {
    const reachable =
      spec.type === 'NodePort' ||
      spec.type === 'LoadBalancer' ||
      (spec.type === 'ClusterIP' && (spec.externalIPs?.length ?? 0) > 0)
    const field = 'spec.externalTrafficPolicy'
    if (reachable) oneOf(spec.externalTrafficPolicy, field, ['Cluster', 'Local'], errors)
    else errors.invalid(field, spec.externalTrafficPolicy, 'may only be set for externally-accessible services')
  }
  if (spec.healthCheckNodePort && !needsHealthCheckPort(service)) {
    errors.invalid(
      'spec.healthCheckNodePort',
      spec.healthCheckNodePort,
      "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
    )
  }
  if (!spec.loadBalancerSourceRanges?.length) return
  if (spec.type !== 'LoadBalancer') {
    errors.forbidden('spec.LoadBalancerSourceRanges', "may only be used when `type` is 'LoadBalancer'")
  }
  for (const [index, cidr] of spec.loadBalancerSourceRanges.entries()) {
    if (!ipaddr.isValidCIDR(cidr.trim())) errors.invalid(`spec.loadBalancerSourceRanges[${index}]`, cidr, cidrFault)
  }
}

const dataKey = /^[-._a-zA-Z0-9]+$/

/** Faults in the keys of a ConfigMap or Secret. */
export function validateData(object: V1ConfigMap | V1Secret, errors: FieldErrors): void {
  for (const key of Object.keys(object.data ?? {})) {
    if (!dataKey.test(key) || key.length > 253 || key === '.' || key === '..') {
      errors.invalid(
        `data[${key}]`,
        key,
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
      )
    }
  }
}

/** An immutable ConfigMap or Secret keeps its data. */
export function validateDataUpdate(
  object: V1ConfigMap | V1Secret,
  old: V1ConfigMap | V1Secret,
  errors: FieldErrors,
): void {
  if (!old.immutable) return
  if (!object.immutable) errors.forbidden('immutable', 'field is immutable when `immutable` is set')
  if (!sameJson(object.data, old.data)) errors.forbidden('data', 'field is immutable when `immutable` is set')
}

/** Faults of an EndpointSlice (discovery.k8s.io/v1 validation). */
export function validateEndpointSlice(slice: V1EndpointSlice, errors: FieldErrors): void {
  if (!slice.addressType) errors.required('addressType')
  else oneOf(slice.addressType, 'addressType', ['IPv4', 'IPv6', 'FQDN'], errors)
  for (const [index, endpoint] of (slice.endpoints ?? []).entries()) {
    const path = `endpoints[${index}].addresses`
    if (!endpoint.addresses?.length) errors.required(path, 'must contain at least 1 address')
    for (const [item, address] of (endpoint.addresses ?? []).entries()) {
      const family = isIP(address)
      if (slice.addressType === 'IPv4' && family !== 4)
        errors.invalid(`${path}[${item}]`, address, 'must be an IPv4 address')
      if (slice.addressType === 'IPv6' && family !== 6)
        errors.invalid(`${path}[${item}]`, address, 'must be an IPv6 address')
    }
  }
  const names = new Set<string>()
  for (const [index, port] of (slice.ports ?? []).entries()) {
    const name = port.name ?? ''
    if (names.has(name)) errors.duplicate(`ports[${index}].name`, name)
    names.add(name)
    oneOf(port.protocol, `ports[${index}].protocol`, ['TCP', 'UDP', 'SCTP'], errors)
    if (port.port !== undefined) {
      for (const fault of portNumberFaults(port.port)) errors.invalid(`ports[${index}].port`, port.port, fault)
    }
  }
}

/** The address family of a slice is fixed. */
export function validateEndpointSliceUpdate(slice: V1EndpointSlice, old: V1EndpointSlice, errors: FieldErrors): void {
  if (slice.addressType !== old.addressType) errors.invalid('addressType', slice.addressType, 'field is immutable')
}
