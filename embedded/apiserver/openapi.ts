import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { projectRoot } from '../../host/layout.ts'
import { shortName } from './decode.ts'
import { apiVersionOf, type Resource, resources } from './resource.ts'
import { type FieldType, innermost, type Schema } from './schema.ts'

// OpenAPI of the served kinds: enough for `kubectl explain`, and for kubectl to detect which query parameters a kind has.

/** `/openapi/v2` for older kubectl, which then skips its checks: the field 1, the version, of an empty Document message. */
export const emptyOpenApiV2 = {
  type: 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf',
  bytes: Buffer.from([0x0a, 0x03, ...Buffer.from('2.0')]),
}

/** `/openapi/v3`: the URL of the document of each version. */
export function openApiIndex(apiVersions: readonly string[]): object {
  const paths = apiVersions.map((apiVersion) => {
    const path = pathOf(apiVersion)
    const hash = createHash('sha256').update(path).digest('hex')
    return [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hash}` }]
  })
  return { paths: Object.fromEntries(paths) }
}

function pathOf(apiVersion: string): string {
  return apiVersion.includes('/') ? `apis/${apiVersion}` : `api/${apiVersion}`
}

/** `/openapi/v3/…` of one version; without kinds when it isn't served. */
export async function openApiV3(schema: Schema, apiVersion: string): Promise<object> {
  const list = resources.filter((resource) => apiVersionOf(resource) === apiVersion)
  return {
    openapi: '3.0.0',
    info: { title: 'Kubernetes', version: 'v1' },
    paths: Object.assign({}, ...list.map(pathsOf)),
    components: { schemas: await definitions(schema, list) },
  }
}

/** The operations that kubectl looks for: reading for `explain`, patching for the query parameters. */
function pathsOf({ group, version, kind, name, namespaced }: Resource): Record<string, object> {
  const root = `/${pathOf(apiVersionOf({ group, version }))}${namespaced ? '/namespaces/{namespace}' : ''}/${name}`
  const operation = { 'x-kubernetes-group-version-kind': { group, version, kind }, responses: {} }
  const parameters = ['dryRun', 'fieldManager', 'fieldValidation'].map((parameter) => ({
    ...{ name: parameter, in: 'query', schema: { type: 'string' } },
  }))
  return { [root]: { get: operation }, [`${root}/{name}`]: { get: operation, patch: { ...operation, parameters } } }
}

async function definitions(schema: Schema, list: readonly Resource[]): Promise<Record<string, object>> {
  const result: Record<string, object> = {}
  const open = list.map((resource) => resource.schema)
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const fields = schema.get(name)
    if (result[definitionName(name)] || !fields) continue
    const described = await fieldDescriptions(name)
    const description = (field: string) => described.get(field)?.description
    const properties = [...fields].map(([field, type]) => [
      field,
      { ...typeSchema(type), description: description(field) },
    ])
    const kinds = list.filter((resource) => resource.schema === name)
    result[definitionName(name)] = {
      type: 'object',
      description: description(''),
      properties: Object.fromEntries(properties),
      required: [...described].filter(([, own]) => own.required).map(([field]) => field),
      ...(kinds.length > 0 && {
        'x-kubernetes-group-version-kind': kinds.map(({ group, version, kind }) => ({ group, version, kind })),
      }),
    }
    for (const type of fields.values()) {
      const inner = innermost(type)
      if (inner.is === 'object') open.push(inner.name)
    }
  }
  return result
}

/** `V1PodSpec` → `io.k8s.api.v1.PodSpec`; kubectl shows the last part. */
function definitionName(className: string): string {
  const group = /^([A-Za-z]+?)V1/.exec(className)?.[1]?.toLowerCase()
  return `io.k8s.api.${group ? `${group}.` : ''}v1.${shortName(className)}`
}

function typeSchema(type: FieldType): object {
  switch (type.is) {
    case 'object':
      return { default: {}, allOf: [{ $ref: `#/components/schemas/${definitionName(type.name)}` }] }
    case 'array':
      return { type: 'array', items: typeSchema(type.items) }
    case 'map':
      return { type: 'object', additionalProperties: typeSchema(type.values) }
    case 'int32':
    case 'int64':
      return { type: 'integer', format: type.is }
    case 'intOrString':
      return { type: 'string', format: 'int-or-string' }
    case 'date':
      return { type: 'string', format: 'date-time' }
    case 'quantity':
      return { type: 'string' }
    case 'any':
      return { type: 'object' }
    default:
      return { type: type.is }
  }
}

const resolve = createRequire(join(projectRoot, 'package.json')).resolve

/**
 * The descriptions of a kind's fields, read from the type declarations of @kubernetes/client-node (their comments are
 * the API's own reference). The kind itself is described under the empty name. Read at the first request for OpenAPI.
 */
async function fieldDescriptions(className: string): Promise<Map<string, { description: string; required: boolean }>> {
  const folder = join(dirname(resolve('@kubernetes/client-node')), 'gen', 'models')
  const source = await readFile(join(folder, `${className}.d.ts`), 'utf8').catch(() => '')
  const comment = /\/\*\*\s*\n\s*\* (.*)\n\s*\*\/\s*\n\s*(?:'([^']+)'(\??):|export declare class)/g
  const found = [...source.matchAll(comment)].map(([, text = '', field = '', optional]) => {
    const description = text.replaceAll(/\\(.)/g, '$1').trim()
    return [field, { description, required: field !== '' && optional === '' }] as const
  })
  return new Map(found)
}
