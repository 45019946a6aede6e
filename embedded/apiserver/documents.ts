import type { IncomingMessage, ServerResponse } from 'node:http'
import { processor } from '../machine/kernel-package.ts'
import { send, sendObject } from './http-messages.ts'
import { emptyOpenApiV2, openApiIndex, openApiV3 } from './openapi.ts'
import { apiVersionOf, type Resource, resources, type Unstored, unstored } from './resource.ts'
import type { Schema } from './schema.ts'
import { methodNotAllowed, unknownPath } from './status-error.ts'

/** The Kubernetes version whose API this server follows. */
export const gitVersion = 'v1.34.11'

/** Discovery, version, health and OpenAPI. */
export async function serveDocument(call: {
  path: string
  request: IncomingMessage
  response: ServerResponse
  schema: Schema
}): Promise<void> {
  const { request, response, schema } = call
  if (request.method !== 'GET' && request.method !== 'HEAD') throw methodNotAllowed()
  const parts = call.path.split('/').filter((part) => part !== '')
  if (/^(healthz|livez|readyz)$/.test(parts[0] ?? '')) send(response, 200, 'text/plain; charset=utf-8', 'ok')
  else if (parts.join('/') === 'openapi/v2') send(response, 200, emptyOpenApiV2.type, emptyOpenApiV2.bytes)
  else {
    const document = await documentAt(parts, schema)
    if (!document) throw unknownPath()
    sendObject(response, 200, document)
  }
}

async function documentAt([root, ...rest]: string[], schema: Schema): Promise<object | undefined> {
  const [first, second] = rest
  switch (root) {
    case undefined:
      return { paths: ['/api', '/apis', '/healthz', '/livez', '/openapi/v2', '/openapi/v3', '/readyz', '/version'] }
    case 'version':
      return versionInfo()
    case 'api':
      return first === undefined ? { kind: 'APIVersions', versions: ['v1'] } : resourceList(first)
    case 'apis': {
      if (second !== undefined) return resourceList(`${first}/${second}`)
      const list = groups.filter(({ name }) => (first === undefined ? name !== '' : name === first))
      if (first === undefined) return { kind: 'APIGroupList', apiVersion: 'v1', groups: list }
      return list[0] && { kind: 'APIGroup', apiVersion: 'v1', ...list[0] }
    }
    case 'openapi':
      if (first !== 'v3') return undefined
      if (second === undefined) return openApiIndex(groups.map(({ preferredVersion }) => preferredVersion.groupVersion))
      return openApiV3(schema, rest.slice(2).join('/'))
    default:
      return undefined
  }
}

function versionInfo(): object {
  const [major, minor] = gitVersion.slice(1).split('.')
  const platform = `${process.platform}/${processor?.kubernetes}`
  const build = { gitCommit: '', gitTreeState: 'clean', buildDate: '1970-01-01T00:00:00Z', goVersion: '', compiler: '' }
  return { major, minor, gitVersion, ...build, platform }
}

/** Every group with its one version, core first. */
const groups = [...new Map([...resources, ...unstored].map(({ group, version }) => [group, version]))].map(
  ([group, version]) => {
    const own = { groupVersion: apiVersionOf({ group, version }), version }
    return { name: group, versions: [own], preferredVersion: own }
  },
)

const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']
const objectVerbs = ['get', 'patch', 'update']
const unstoredVerbs = {
  review: ['create'],
  metrics: ['get', 'list'],
  absent: ['create', 'delete', 'get', 'list', 'patch'],
}

/**
 * `/api/v1` and `/apis/GROUP/VERSION`: the resources of one version, or undefined when it isn't served. kubectl falls
 * back to this form of discovery where it finds no aggregated one.
 */
function resourceList(groupVersion: string): object | undefined {
  const own = <T extends Pick<Resource, 'group' | 'version'>>(list: readonly T[]) =>
    list.filter((resource) => apiVersionOf(resource) === groupVersion)
  const list = [
    ...own(resources).flatMap(({ subresources, categories, ...resource }) => [
      { ...described(resource), verbs, categories },
      ...subresources.map((subresource) => describedSubresource(resource, subresource)),
    ]),
    ...own(unstored).map((other) => ({ ...described(other), verbs: unstoredVerbs[other.is] })),
  ]
  return list.length > 0 ? { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: list } : undefined
}

function described({
  name,
  singular,
  namespaced,
  kind,
  shortNames,
}: Pick<Unstored, 'name' | 'singular' | 'namespaced' | 'kind' | 'shortNames'>) {
  return { name, singularName: singular, namespaced, kind, shortNames }
}

/** `kubectl scale` and `kubectl drain` read the kinds of these subresources. */
const subresourceKinds: Readonly<Record<string, { group: string; version: string; kind: string }>> = {
  scale: { group: 'autoscaling', version: 'v1', kind: 'Scale' },
  eviction: { group: 'policy', version: 'v1', kind: 'Eviction' },
}

function describedSubresource(resource: Pick<Resource, 'name' | 'namespaced' | 'kind'>, subresource: string): object {
  const { name, namespaced, kind } = resource
  const isPart = ['status', 'scale', 'ephemeralcontainers'].includes(subresource)
  const type = { namespaced, kind, ...subresourceKinds[subresource] }
  return { name: `${name}/${subresource}`, singularName: '', ...type, verbs: isPart ? objectVerbs : ['create', 'get'] }
}
