import type { JsonObject } from './json.ts'

const hostname = 'kubernetes.io/hostname'

/**
 * A discovery.k8s.io/v1 EndpointSlice as v1beta1 shows it, where an endpoint's node is part of its `topology`
 * (KEP-752). A genuine kube-proxy before 1.21 knows no other version.
 */
export function toSliceV1beta1(slice: JsonObject): JsonObject {
  const endpoints = Array.isArray(slice.endpoints) ? (slice.endpoints as JsonObject[]) : []
  return {
    ...slice,
    apiVersion: 'discovery.k8s.io/v1beta1',
    endpoints: endpoints.map((endpoint) =>
      typeof endpoint.nodeName === 'string' ? { ...endpoint, topology: { [hostname]: endpoint.nodeName } } : endpoint,
    ),
  }
}
