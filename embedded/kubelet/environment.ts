import type { Api } from '../apiserver/api.ts'
import type { ServiceObject } from '../controllers/resources.ts'
import type { ConfigMap, Container, ContainerContext, PodSandbox, Secret } from './objects.ts'

type EnvironmentSource = NonNullable<Container['envFrom']>[number]
type EnvironmentVariable = NonNullable<Container['env']>[number]
type DataKind = 'configmap' | 'secret'

/** A reference to a ConfigMap or Secret, or to one key of it. */
interface DataReference {
  name?: string
  key?: string
  optional?: boolean
}

/**
 * The value that a `fieldRef` of a container's environment refers to. Throws the kubelet's Error
 * for an unknown path.
 */
function fieldValue(path: string, { pod, podIP, hostIP }: PodSandbox): string {
  const { metadata, spec } = pod
  const [, map, key = ''] = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path) ?? []
  if (map) return metadata[map as 'labels' | 'annotations']?.[key] ?? ''
  const values: Record<string, string | undefined> = {
    'metadata.name': metadata.name,
    'metadata.namespace': metadata.namespace,
    'metadata.uid': metadata.uid,
    'spec.nodeName': spec.nodeName,
    'spec.serviceAccountName': spec.serviceAccountName,
    'status.podIP': podIP,
    'status.podIPs': podIP,
    'status.hostIP': hostIP,
    'status.hostIPs': hostIP,
  }
  const value = values[path]
  if (value === undefined) throw new Error(`unsupported fieldPath: ${path}`)
  return value
}

/**
 * Replaces `$(NAME)` by known variables; `$$(NAME)` is a literal `$(NAME)` (Kubernetes'
 * third_party/forked/golang/expansion).
 */
export function expand(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replace(/\$(\$|\(([^)]*)\))/g, (whole, token: string, name: string | undefined) =>
    token === '$' ? '$' : (variables[name ?? ''] ?? whole),
  )
}

/** The decoded values of a ConfigMap or Secret by key; undefined if it does not exist. */
export function dataOf(
  api: Api,
  namespace: string | undefined,
  kind: DataKind,
  name = '',
): Map<string, Buffer> | undefined {
  const found = api.get<ConfigMap & Secret & { binaryData?: Record<string, string> }>(
    `${kind}s`,
    namespace,
    name,
  )
  if (!found) return undefined
  const decoded = (data: Record<string, string> = {}, encoding: BufferEncoding) =>
    Object.entries(data).map(([key, value]): [string, Buffer] => [
      key,
      Buffer.from(value, encoding),
    ])
  return new Map([
    ...decoded(found.data, kind === 'secret' ? 'base64' : 'utf8'),
    ...decoded(found.binaryData, 'base64'),
  ])
}

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The host name of a Pod's containers. */
export const hostnameOf = ({ pod: { metadata, spec }, node }: PodSandbox): string =>
  spec.hostNetwork ? node : (spec.hostname ?? metadata.name)

/**
 * A container's environment: that of every image, the Services', `envFrom` and `env`, in that
 * order, with references resolved.
 * @throws Error with the kubelet's message when a ConfigMap, a Secret or a key that is not optional
 * is missing
 */
export function containerEnvironment(api: Api, context: ContainerContext): Record<string, string> {
  const { pod, container } = context
  const { namespace } = pod.metadata
  const result: Record<string, string> = {
    PATH: searchPath,
    HOSTNAME: hostnameOf(context),
    HOME: '/root',
    ...serviceEnvironment(api, namespace),
  }
  for (const source of container.envFrom ?? []) {
    const prefix = source.prefix ?? ''
    for (const [key, value] of sourceData(api, namespace, source))
      result[prefix + key] = value.toString()
  }
  for (const variable of container.env ?? []) {
    const value = variableValue(api, context, variable, result)
    if (value !== undefined) result[variable.name] = value
  }
  return result
}

/** The data of the ConfigMap or Secret of one `envFrom`. */
function sourceData(
  api: Api,
  namespace: string | undefined,
  { configMapRef, secretRef }: EnvironmentSource,
): Map<string, Buffer> {
  if (configMapRef) return referencedData(api, namespace, 'configmap', configMapRef)
  if (secretRef) return referencedData(api, namespace, 'secret', secretRef)
  return new Map()
}

/**
 * The value of one `env`, with the `known` variables that it refers to; undefined if it is that
 * of an optional key that is missing.
 */
function variableValue(
  api: Api,
  context: ContainerContext,
  { value, valueFrom: from }: EnvironmentVariable,
  known: Readonly<Record<string, string>>,
): string | undefined {
  const { namespace } = context.pod.metadata
  if (from?.fieldRef) return fieldValue(from.fieldRef.fieldPath, context)
  if (from?.configMapKeyRef)
    return referencedValue(api, namespace, 'configmap', from.configMapKeyRef)
  if (from?.secretKeyRef) return referencedValue(api, namespace, 'secret', from.secretKeyRef)
  if (from?.resourceFieldRef)
    throw new Error('the embedded cluster does not support resourceFieldRef: write the value')
  return expand(value ?? '', known)
}

/** The data of a ConfigMap or Secret; empty if it is missing and optional. */
function referencedData(
  api: Api,
  namespace: string | undefined,
  kind: DataKind,
  { name, optional }: DataReference,
): Map<string, Buffer> {
  const data = dataOf(api, namespace, kind, name)
  if (!data && !optional) throw new Error(`${kind} "${name}" not found`)
  return data ?? new Map()
}

/** The value of one key of a ConfigMap or Secret; undefined if it is missing and optional. */
function referencedValue(
  api: Api,
  namespace: string | undefined,
  kind: DataKind,
  reference: DataReference,
): string | undefined {
  const { key = '', optional } = reference
  const value = referencedData(api, namespace, kind, reference).get(key)
  if (value === undefined && !optional)
    throw new Error(`couldn't find key ${key} in ${kind} ${namespace}/${reference.name}`)
  return value?.toString()
}

/**
 * The variables with the Services of a Pod's namespace (docs: "Environment variables" of Services).
 */
function serviceEnvironment(api: Api, namespace = ''): Record<string, string> {
  const result: Record<string, string> = {}
  const kubernetes = api.get<ServiceObject>('services', 'default', 'kubernetes')
  for (const { metadata, spec } of [
    ...(kubernetes ? [kubernetes] : []),
    ...api.list<ServiceObject>('services', { namespace }),
  ]) {
    const { clusterIP, ports = [] } = spec
    const [first] = ports
    if (!clusterIP || clusterIP === 'None' || !first) continue
    const prefix = metadata.name.toUpperCase().replaceAll('-', '_')
    result[`${prefix}_SERVICE_HOST`] = clusterIP
    result[`${prefix}_SERVICE_PORT`] = String(first.port)
    result[`${prefix}_PORT`] =
      `${(first.protocol ?? 'TCP').toLowerCase()}://${clusterIP}:${first.port}`
    for (const { name, port } of ports)
      if (name)
        result[`${prefix}_SERVICE_PORT_${name.toUpperCase().replaceAll('-', '_')}`] = String(port)
  }
  return result
}
