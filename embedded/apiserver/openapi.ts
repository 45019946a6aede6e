import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { projectRoot } from '../../host/layout.ts'
import { shortName } from './decode.ts'
import { gitVersion } from './discovery.ts'
import { apiVersionOf } from './resource.ts'
import { applyKeys, type FieldType, innermost, patchKeys, type Schema, sets } from './schema.ts'
import { groups, inGroup, type Served, served } from './served.ts'

// OpenAPI of the served kinds: enough for `kubectl explain`, and for kubectl to detect query parameters and merge
// keys.

/** `/openapi/v3`: the URL of the document of each group and version. */
export function openApiIndex(): object {
  const paths = groups().map((own) => {
    const path = own.group ? `apis/${apiVersionOf(own)}` : `api/${own.version}`
    const hash = createHash('sha256')
      .update(gitVersion + path)
      .digest('hex')
    return [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hash}` }]
  })
  return { paths: Object.fromEntries(paths) }
}

/** `/openapi/v3/…` of one group and version; undefined when it isn't served. */
export async function openApiV3(schema: Schema, apiVersion: string): Promise<object | undefined> {
  const list = inGroup(served, apiVersion)
  if (!groups().some((own) => apiVersionOf(own) === apiVersion)) return undefined
  return {
    openapi: '3.0.0',
    info: { title: 'Kubernetes', version: gitVersion },
    paths: Object.assign({}, ...list.map((resource) => pathsOf(resource, '#/components/schemas/'))),
    components: { schemas: await definitions(schema, list, '#/components/schemas/') },
  }
}

/** `/openapi/v2`: the same kinds in the older form. */
export async function openApiV2(schema: Schema): Promise<object> {
  return {
    swagger: '2.0',
    info: { title: 'Kubernetes', version: gitVersion },
    paths: Object.assign({}, ...served.map((resource) => pathsOf(resource, '#/definitions/'))),
    definitions: await definitions(schema, served, '#/definitions/'),
  }
}

function pathsOf(resource: Served, refs: string): Record<string, object> {
  const { group, version, kind, name, namespaced } = resource
  const root = `${group ? `/apis/${group}` : '/api'}/${version}${namespaced ? '/namespaces/{namespace}' : ''}/${name}`
  const gvk = { group, version, kind }
  const parameters = ['dryRun', 'fieldManager', 'fieldValidation'].map((parameter) => ({
    name: parameter,
    in: 'query',
    ...(refs.includes('components') ? { schema: { type: 'string' } } : { type: 'string' }),
  }))
  const operation = (action: string, query: object[] = []) => ({
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': gvk,
    parameters: query,
    responses: { 200: { description: 'OK' } },
  })
  return {
    [root]: { get: operation('list'), post: operation('post', parameters), delete: operation('deletecollection') },
    [`${root}/{name}`]: {
      get: operation('get'),
      put: operation('put', parameters),
      patch: operation('patch', parameters),
      delete: operation('delete'),
    },
  }
}

async function definitions(schema: Schema, list: readonly Served[], refs: string): Promise<Record<string, object>> {
  const result: Record<string, object> = {}
  const open = list.map((resource) => resource.schema)
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (result[definitionName(name)]) continue
    const fields = schema.get(name)
    if (!fields) continue
    const described = await fieldDescriptions(name)
    const properties = [...fields].map(([field, type]) => [
      field,
      property(`${name}.${field}`, type, refs, described.get(field)),
    ])
    const gvks = list.filter((resource) => resource.schema === name)
    result[definitionName(name)] = {
      type: 'object',
      ...(described.get('') && { description: described.get('')?.text }),
      properties: Object.fromEntries(properties),
      required: [...described].filter(([field, own]) => field !== '' && own.required).map(([field]) => field),
      ...(gvks.length > 0 && {
        'x-kubernetes-group-version-kind': gvks.map(({ group, version, kind }) => ({ group, version, kind })),
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

function property(field: string, type: FieldType, refs: string, described: FieldDescription | undefined): object {
  const strategies = [
    ...(patchKeys[field] || sets.has(field) ? ['merge'] : []),
    ...(field === 'V1PodSpec.volumes' || field === 'V1DeploymentSpec.strategy' ? ['retainKeys'] : []),
  ]
  const keys = applyKeys(field)
  return {
    ...typeSchema(type, refs),
    ...(described && { description: described.text }),
    ...(patchKeys[field] && { 'x-kubernetes-patch-merge-key': patchKeys[field] }),
    ...(strategies.length > 0 && { 'x-kubernetes-patch-strategy': strategies.join(',') }),
    ...(keys && { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys }),
    ...(sets.has(field) && { 'x-kubernetes-list-type': 'set' }),
  }
}

function typeSchema(type: FieldType, refs: string): object {
  switch (type.is) {
    case 'object':
      return refs.includes('components')
        ? { default: {}, allOf: [{ $ref: refs + definitionName(type.name) }] }
        : { $ref: refs + definitionName(type.name) }
    case 'array':
      return { type: 'array', items: typeSchema(type.items, refs) }
    case 'map':
      return { type: 'object', additionalProperties: typeSchema(type.values, refs) }
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

export interface FieldDescription {
  text: string
  required: boolean
}

const resolve = createRequire(join(projectRoot, 'package.json')).resolve

/**
 * The descriptions of a kind's fields, read from the type declarations of @kubernetes/client-node (their comments are
 * the API's own reference). The kind itself is described under the empty name. Read at the first request for OpenAPI.
 */
async function fieldDescriptions(className: string): Promise<Map<string, FieldDescription>> {
  const folder = join(dirname(resolve('@kubernetes/client-node')), 'gen', 'models')
  const source = await readFile(join(folder, `${className}.d.ts`), 'utf8').catch(() => '')
  const found = new Map<string, FieldDescription>()
  const comment = /\/\*\*\s*\n\s*\* (.*)\n\s*\*\/\s*\n\s*(?:'([^']+)'(\??):|export declare class)/g
  for (const [, text = '', field, optional] of source.matchAll(comment)) {
    found.set(field ?? '', {
      text: text.replaceAll(/\\(.)/g, '$1').trim(),
      required: field !== undefined && optional === '',
    })
  }
  return found
}
