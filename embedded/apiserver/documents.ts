import type { IncomingMessage, ServerResponse } from 'node:http'
import { processor } from '../machine/kernel-package.ts'
import { sendBody, sendObject } from './http-messages.ts'
import { apiVersionOf, discovered, type Resource, resources } from './resource.ts'
import { absentKind, methodNotAllowed, unknownPath } from './status-error.ts'

/** The Kubernetes version whose API this server follows. */
export const gitVersion = 'v1.34.11'

/** `/api/v1` and `/apis/GROUP/VERSION`, core first: every group has one version. */
const groups = [...new Map(discovered.map(({ group, version }) => [group, version]))].map(
  ([group, version]) => {
    const groupVersion = apiVersionOf({ group, version })
    return { group, groupVersion, version, path: `${group ? 'apis' : 'api'}/${groupVersion}` }
  },
)

/** Discovery, version, health and OpenAPI. Throws 404 for other paths. */
export function serveDocument(
  { method, headers }: IncomingMessage,
  response: ServerResponse,
  path: string,
): void {
  if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed()
  const name = path.split('/').filter(Boolean).join('/')
  const document = documents.get(name)
  if (/^(healthz|livez|readyz)/.test(name))
    sendBody(response, 200, 'text/plain; charset=utf-8', 'ok')
  else if (name.startsWith('openapi/v3/') && headers['kubectl-command'] === 'kubectl explain')
    // Of an error at this path kubectl shows only plain text, and only with some codes.
    sendBody(response, 406, 'text/plain', noFieldDocumentation.message)
  else if (name === 'openapi/v2') sendBody(response, 200, emptyOpenApiV2.type, emptyOpenApiV2.bytes)
  else if (document) sendObject(response, 200, document)
  else throw unknownPath()
}

const [major, minor] = gitVersion.slice(1).split('.')
const build = {
  gitCommit: '',
  gitTreeState: 'clean',
  buildDate: '1970-01-01T00:00:00Z',
  goVersion: '',
  compiler: '',
}

const namedGroups = groups
  .filter(({ group }) => group !== '')
  .map(({ group: name, groupVersion, version }) => {
    const own = { groupVersion, version }
    return { name, versions: [own], preferredVersion: own }
  })

const verbs: Readonly<Record<Resource['served'], readonly string[]>> = {
  stored: ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'],
  measured: ['get', 'list'],
  reviewed: ['create'],
  refused: ['create', 'delete', 'get', 'list', 'patch'],
}

/** The subresources whose kinds `kubectl scale` and `kubectl drain` read. */
const subresourceKinds: Readonly<Record<string, { group: string; version: string; kind: string }>> =
  {
    scale: { group: 'autoscaling', version: 'v1', kind: 'Scale' },
    eviction: { group: 'policy', version: 'v1', kind: 'Eviction' },
  }

/**
 * The resources of one version. kubectl falls back to this form of discovery where it finds no
 * aggregated one.
 */
function resourceList(groupVersion: string): object {
  const own = discovered.filter((resource) => apiVersionOf(resource) === groupVersion)
  const list = own.flatMap(
    ({ name, namespaced, kind, shortNames, categories, subresources, served }) => [
      {
        name,
        singularName: kind.toLowerCase(),
        namespaced,
        kind,
        shortNames,
        verbs: verbs[served],
        categories,
      },
      ...subresources.flatMap((subresource) => {
        const type = subresourceKinds[subresource]
        return type
          ? [
              {
                name: `${name}/${subresource}`,
                singularName: '',
                namespaced,
                ...type,
                verbs: verbs.stored,
              },
            ]
          : []
      }),
    ],
  )
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: list }
}

// OpenAPI, sufficient for kubectl to detect which query parameters a kind has. It has no schemas,
// which `kubectl explain` reads.
const noFieldDocumentation = absentKind(
  'documentation of fields (kubernetes.io/docs/reference/kubernetes-api has it)',
)

/**
 * `/openapi/v2` for older kubectl, which then skips its checks: the field 1, the version, of an
 * empty Document message.
 */
const emptyOpenApiV2 = {
  type: 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf',
  bytes: Buffer.from([0x0a, 0x03, ...Buffer.from('2.0')]),
}

/**
 * Which query parameters the kinds take: kubectl searches the operations of this document for a
 * kind, and does not read their paths.
 */
const openApiV3 = {
  openapi: '3.0.0',
  info: { title: 'Kubernetes', version: 'v1' },
  paths: Object.fromEntries(
    resources.map(({ group, version, kind }) => {
      const names = ['dryRun', 'fieldManager', 'fieldValidation']
      const parameters = names.map((name) => ({ name, in: 'query', schema: { type: 'string' } }))
      const gvk = { group, version, kind }
      return [
        `/${kind}`,
        { patch: { 'x-kubernetes-group-version-kind': gvk, responses: {}, parameters } },
      ]
    }),
  ),
  components: {},
}

const documents: ReadonlyMap<string, object> = new Map([
  [
    'version',
    {
      major,
      minor,
      gitVersion,
      ...build,
      platform: `${process.platform}/${processor?.kubernetes}`,
    },
  ],
  ['api', { kind: 'APIVersions', versions: ['v1'] }],
  ['apis', { kind: 'APIGroupList', apiVersion: 'v1', groups: namedGroups }],
  [
    'openapi/v3',
    {
      paths: Object.fromEntries(
        groups.map(({ path }) => [path, { serverRelativeURL: '/openapi/v3/kinds' }]),
      ),
    },
  ],
  ['openapi/v3/kinds', openApiV3],
  ...groups.map(({ path, groupVersion }): [string, object] => [path, resourceList(groupVersion)]),
])
