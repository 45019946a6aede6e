import { isIP } from 'node:net'
import type { V1ConfigMap, V1EndpointSlice, V1Secret } from '@kubernetes/client-node'
import type { FieldErrors } from './field-errors.ts'
import { sameJson } from './json.ts'
import { portNumberFaults } from './name-rules.ts'
import { oneOf } from './validate-pod.ts'

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
