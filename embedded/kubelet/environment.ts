import type { ContainerContext, PodSandbox } from './objects.ts'

/** The value that a `fieldRef` of a container's environment refers to; undefined for a path that is not supported. */
function fieldValue(path: string, { pod: { metadata, spec }, podIP, hostIP }: PodSandbox): string | undefined {
  const values: Record<string, string | undefined> = {
    'metadata.name': metadata.name,
    'metadata.namespace': metadata.namespace,
    'metadata.uid': metadata.uid,
    'spec.nodeName': spec.nodeName,
    'status.podIP': podIP,
    'status.hostIP': hostIP,
  }
  return values[path]
}

/** Replaces `$(NAME)` by known variables; `$$(NAME)` is a literal `$(NAME)` (Kubernetes' third_party/forked/golang/expansion). */
export function expand(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replace(/\$(\$|\(([^)]*)\))/g, (whole, token: string, name: string | undefined) =>
    token === '$' ? '$' : (variables[name ?? ''] ?? whole),
  )
}

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The host name of a Pod's containers. */
export const hostnameOf = ({ pod: { metadata, spec }, node }: PodSandbox): string =>
  spec.hostNetwork ? node : (spec.hostname ?? metadata.name)

/** A container's environment: that of every image, then the values and fields of its `env`, with references resolved. */
export function containerEnvironment(context: ContainerContext): Record<string, string> {
  const result: Record<string, string> = { PATH: searchPath, HOSTNAME: hostnameOf(context), HOME: '/root' }
  for (const { name, value = '', valueFrom } of context.container.env ?? []) {
    const path = valueFrom?.fieldRef?.fieldPath
    const found = path === undefined ? expand(value, result) : fieldValue(path, context)
    if (found !== undefined) result[name] = found
  }
  return result
}
