import type { Api } from '../apiserver/api.ts'
import type { Service } from '../controllers/resources.ts'
import type { ContainerContext, PodSandbox } from './node-context.ts'
import type { ConfigMap, Secret } from './objects.ts'

/** A container can't be created from its specification; the message is the kubelet's. */
export class ContainerConfigError extends Error {}

/**
 * The value that a `fieldRef` of a Pod refers to. Throws ContainerConfigError for a path that the downward
 * API does not support.
 */
export function fieldValue(path: string, { pod, podIP, hostIP }: PodSandbox): string {
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

/** The decoded values of a ConfigMap or Secret by key; undefined if it does not exist. */
export function dataOf(
  api: Api,
  namespace: string | undefined,
  kind: 'configmap' | 'secret',
  name = '',
): Map<string, Buffer> | undefined {
  const found = api.get<ConfigMap & Secret & { binaryData?: Record<string, string> }>(`${kind}s`, namespace, name)
  if (!found) return undefined
  const decoded = (data: Record<string, string> = {}, encoding: BufferEncoding) =>
    Object.entries(data).map(([key, value]): [string, Buffer] => [key, Buffer.from(value, encoding)])
  return new Map([
    ...decoded(found.data, kind === 'secret' ? 'base64' : 'utf8'),
    ...decoded(found.binaryData, 'base64'),
  ])
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
export function containerEnvironment(api: Api, context: ContainerContext): Record<string, string> {
  const { pod, container } = context
  const { namespace } = pod.metadata
  const result: Record<string, string> = {}
  const need = (kind: 'configmap' | 'secret', ref: KeyRef): Map<string, Buffer> => {
    const data = dataOf(api, namespace, kind, ref.name)
    if (!data && !ref.optional) throw new ContainerConfigError(`${kind} "${ref.name}" not found`)
    return data ?? new Map()
  }
  for (const { prefix = '', configMapRef, secretRef } of container.envFrom ?? []) {
    const data = configMapRef ? need('configmap', configMapRef) : secretRef ? need('secret', secretRef) : []
    for (const [key, value] of data) result[prefix + key] = value.toString()
  }
  const keyed = (kind: 'configmap' | 'secret', label: string, ref: KeyRef): string | undefined => {
    const value = need(kind, ref).get(ref.key ?? '')
    if (value === undefined && !ref.optional)
      throw new ContainerConfigError(`couldn't find key ${ref.key} in ${label} ${namespace}/${ref.name}`)
    return value?.toString()
  }
  for (const { name, value, valueFrom } of container.env ?? []) {
    const found = valueFrom?.fieldRef
      ? fieldValue(valueFrom.fieldRef.fieldPath, context)
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
