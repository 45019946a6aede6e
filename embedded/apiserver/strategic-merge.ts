import { isJsonObject, type Json, type JsonObject, sameJson } from './json.ts'
import { innermost, type Schema } from './schema.ts'
import { badRequest } from './status-error.ts'

/**
 * The keys by which strategic merge patches match items of a list, by `Type.field` (the `patchMergeKey` tags of the API types, of
 * specifications); other lists are replaced completely.
 */
const patchKeys: Readonly<Record<string, string>> = {
  'V1ObjectMeta.ownerReferences': 'uid',
  'V1PodSpec.containers': 'name',
  'V1PodSpec.initContainers': 'name',
  'V1PodSpec.ephemeralContainers': 'name',
  'V1PodSpec.volumes': 'name',
  'V1PodSpec.imagePullSecrets': 'name',
  'V1PodSpec.hostAliases': 'ip',
  'V1PodSpec.topologySpreadConstraints': 'topologyKey',
  'V1Container.ports': 'containerPort',
  'V1Container.env': 'name',
  'V1Container.volumeMounts': 'mountPath',
  'V1EphemeralContainer.env': 'name',
  'V1EphemeralContainer.volumeMounts': 'mountPath',
  'V1ServiceSpec.ports': 'port',
  'V1ServiceAccount.secrets': 'name',
}

/**
 * Applies a strategic merge patch: lists with a merge key merge item by item, and the directives `$patch` (replace,
 * delete, merge), `$retainKeys`, `$setElementOrder/…` and `$deleteFromPrimitiveList/…` are obeyed. Throws 400 for a
 * list item without its merge key or an unknown directive.
 */
export function strategicMerge(
  target: JsonObject,
  patch: Json,
  schema: Schema,
  typeName: string,
): JsonObject {
  /** The merged object, or undefined when the patch deletes it. */
  function mergeObject(
    type: string | undefined,
    before: JsonObject,
    changes: JsonObject,
  ): JsonObject | undefined {
    const { $patch: directive = 'merge', $retainKeys: kept } = changes
    if (directive === 'delete') return undefined
    if (directive !== 'replace' && directive !== 'merge')
      throw badRequest(`Unknown patch type found: ${JSON.stringify(directive)}`)
    const result: JsonObject = directive === 'replace' ? {} : { ...before }
    // `$retainKeys: [a, b]` keeps only these existing fields, for example when a volume changes its source.
    if (Array.isArray(kept))
      for (const key of Object.keys(result)) if (!kept.includes(key)) delete result[key]
    for (const [key, value] of Object.entries(changes)) {
      if (key.startsWith('$') || value === undefined) continue
      const fieldType = schema.get(type ?? '')?.get(key)
      const inner = fieldType && innermost(fieldType)
      const innerName = inner?.is === 'object' ? inner.name : undefined
      let merged: Json | undefined = value
      if (isJsonObject(value)) merged = mergeObject(innerName, objectOf(result[key]), value)
      else if (Array.isArray(value))
        merged = mergeList(`${type}.${key}`, innerName, listOf(result[key]), value)
      if (merged === undefined || merged === null) delete result[key]
      else result[key] = merged
    }
    applyListDirectives(type, before, result, changes)
    return result
  }

  function mergeList(
    field: string,
    itemType: string | undefined,
    items: Json[],
    changes: Json[],
  ): Json[] {
    // Finalizers merge as a set.
    if (field === 'V1ObjectMeta.finalizers')
      return [...items, ...changes.filter((item) => !items.some((own) => sameJson(own, item)))]
    const key = patchKeys[field]
    if (key === undefined) return changes
    const replaces = changes.some(
      (item) => isJsonObject(item) && item.$patch === 'replace' && item[key] === undefined,
    )
    let result: Json[] = replaces ? [] : [...items]
    for (const item of changes) {
      const value = isJsonObject(item) ? item[key] : undefined
      if (!isJsonObject(item) || value === undefined) {
        if (isJsonObject(item) && item.$patch === 'replace') continue
        throw badRequest(
          `map: ${JSON.stringify(item)} in ${field} does not contain declared merge key: ${key}`,
        )
      }
      const isSame = (own: Json) => isJsonObject(own) && sameJson(own[key], value)
      const index = result.findIndex(isSame)
      const merged = mergeObject(itemType, objectOf(result[index]), item)
      if (merged === undefined) result = result.filter((own) => !isSame(own))
      else if (index >= 0) result[index] = merged
      else result.push(merged)
    }
    return result
  }

  if (!isJsonObject(patch))
    throw badRequest('error decoding patch: json: cannot unmarshal the patch into an object')
  return mergeObject(typeName, target, patch) ?? {}
}

const objectOf = (value: Json | undefined) => (isJsonObject(value) ? value : {})
const listOf = (value: Json | undefined) => (Array.isArray(value) ? value : [])

function applyListDirectives(
  type: string | undefined,
  before: JsonObject,
  result: JsonObject,
  patch: JsonObject,
): void {
  for (const [directive, values] of Object.entries(patch)) {
    const [kind, field = ''] = directive.split('/', 2)
    const list = result[field]
    if (!Array.isArray(list) || !Array.isArray(values)) continue
    if (kind === '$deleteFromPrimitiveList')
      result[field] = list.filter((item) => !values.some((gone) => sameJson(gone, item)))
    else if (kind === '$setElementOrder')
      result[field] = reorder(list, values, listOf(before[field]), patchKeys[`${type}.${field}`])
  }
}

/** Items listed in `order` are in that order; others keep their position relative to their old neighbours. */
function reorder(list: Json[], order: Json[], before: Json[], key: string | undefined): Json[] {
  const same = (a: Json, b: Json): boolean =>
    key !== undefined && isJsonObject(a) && isJsonObject(b)
      ? sameJson(a[key], b[key])
      : sameJson(a, b)
  const rank = (items: Json[], item: Json): number => items.findIndex((other) => same(other, item))
  const ordered = list
    .filter((item) => rank(order, item) >= 0)
    .sort((a, b) => rank(order, a) - rank(order, b))
  const others = list.filter((item) => rank(order, item) < 0)
  const result: Json[] = []
  for (const item of others) {
    const place = rank(before, item)
    while (ordered[0] !== undefined && rank(before, ordered[0]) < place) {
      result.push(ordered[0])
      ordered.shift()
    }
    result.push(item)
  }
  return [...result, ...ordered]
}
