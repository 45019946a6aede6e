import type { Api } from '../apiserver/api.ts'
import type { Service } from '../controllers/resources.ts'
import type { ConfigMap, Container, Pod, Secret } from './objects.ts'

/** A container can't be created from its specification; the message is the kubelet's. */
export class ContainerConfigError extends Error {}

type FieldRefs = { pod: Pod; podIP: string; hostIP: string }

/**
 * The value that a `fieldRef` of a Pod refers to. Throws ContainerConfigError for a path that the downward
 * API does not support.
 */
export function fieldValue(path: string, { pod, podIP, hostIP }: FieldRefs): string {
  const entry = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path)
  if (entry) return pod.metadata[entry[1] as 'labels' | 'annotations']?.[entry[2] ?? ''] ?? ''
  const pairs = (map: Record<string, string> = {}) =>
    Object.entries(map)
      .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
      .join('\n')
  const values: Record<string, string | undefined> = {
    'metadata.name': pod.metadata.name,
    'metadata.namespace': pod.metadata.namespace,
    'metadata.uid': pod.metadata.uid,
    'metadata.labels': pairs(pod.metadata.labels),
    'metadata.annotations': pairs(pod.metadata.annotations),
    'spec.nodeName': pod.spec.nodeName,
    'spec.serviceAccountName': pod.spec.serviceAccountName,
    'status.podIP': podIP,
    'status.podIPs': podIP,
    'status.hostIP': hostIP,
    'status.hostIPs': hostIP,
  }
  const value = values[path]
  if (value === undefined) throw new ContainerConfigError(`unsupported fieldPath: ${path}`)
  return value
}

/** Replaces `$(NAME)` by known variables; `$$(NAME)` is a literal `$(NAME)` (Kubernetes' third_party/forked/golang/expansion). */
export function expand(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replace(/\$(\$|\(([^)]*)\))/g, (whole, token: string, name: string | undefined) =>
    token === '$' ? '$' : (variables[name ?? ''] ?? whole),
  )
}

function dataOf(api: Api, pod: Pod, kind: 'configmap' | 'secret', name: string): Record<string, string> | undefined {
  const { namespace } = pod.metadata
  if (kind === 'configmap') {
    const map = api.get<ConfigMap>('configmaps', namespace, name)
    return map && (map.data ?? {})
  }
  const secret = api.get<Secret>('secrets', namespace, name)
  const decoded = Object.entries(secret?.data ?? {}).map(([key, value]) => [
    key,
    Buffer.from(value, 'base64').toString(),
  ])
  return secret && Object.fromEntries(decoded)
}

interface KeyRef {
  name?: string
  key?: string
  optional?: boolean
}

/**
 * A container's environment from `envFrom` and `env`, in that order, with references resolved.
 * @throws ContainerConfigError when a ConfigMap, a Secret or a key that is not optional is missing
 */
export function containerEnvironment(api: Api, container: Container, refs: FieldRefs): Record<string, string> {
  const { pod } = refs
  const result: Record<string, string> = {}
  const need = (kind: 'configmap' | 'secret', ref: KeyRef): Record<string, string> => {
    const data = dataOf(api, pod, kind, ref.name ?? '')
    if (!data && !ref.optional) throw new ContainerConfigError(`${kind} "${ref.name}" not found`)
    return data ?? {}
  }
  for (const { prefix = '', configMapRef, secretRef } of container.envFrom ?? []) {
    const data = configMapRef ? need('configmap', configMapRef) : secretRef ? need('secret', secretRef) : {}
    for (const [key, value] of Object.entries(data)) result[prefix + key] = value
  }
  const keyed = (kind: 'configmap' | 'secret', label: string, ref: KeyRef): string | undefined => {
    const value = need(kind, ref)[ref.key ?? '']
    if (value === undefined && !ref.optional) {
      throw new ContainerConfigError(`couldn't find key ${ref.key} in ${label} ${pod.metadata.namespace}/${ref.name}`)
    }
    return value
  }
  for (const { name, value, valueFrom } of container.env ?? []) {
    const found = valueFrom?.fieldRef
      ? fieldValue(valueFrom.fieldRef.fieldPath, refs)
      : valueFrom?.configMapKeyRef
        ? keyed('configmap', 'ConfigMap', valueFrom.configMapKeyRef)
        : valueFrom?.secretKeyRef
          ? keyed('secret', 'Secret', valueFrom.secretKeyRef)
          : expand(value ?? '', result)
    if (found !== undefined) result[name] = found
  }
  return result
}

/** The variables with the Services of a Pod's namespace (docs: "Environment variables" of Services). */
export function serviceEnvironment(api: Api, namespace: string | undefined, links: boolean): Record<string, string> {
  const result: Record<string, string> = {}
  const own = links ? api.list<Service>('services', namespace === undefined ? {} : { namespace }) : []
  const kubernetes = api.get<Service>('services', 'default', 'kubernetes')
  const all = kubernetes ? [kubernetes, ...own] : own
  for (const { metadata, spec } of all) {
    const { clusterIP, ports = [] } = spec
    const [first] = ports
    if (!clusterIP || clusterIP === 'None' || !first) continue
    const prefix = metadata.name.toUpperCase().replaceAll('-', '_')
    result[`${prefix}_SERVICE_HOST`] = clusterIP
    result[`${prefix}_SERVICE_PORT`] = String(first.port)
    result[`${prefix}_PORT`] = `${(first.protocol ?? 'TCP').toLowerCase()}://${clusterIP}:${first.port}`
    for (const { name, port } of ports)
      if (name) result[`${prefix}_SERVICE_PORT_${name.toUpperCase().replaceAll('-', '_')}`] = String(port)
  }
  return result
}
