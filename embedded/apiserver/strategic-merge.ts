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
    const result = startingPoint(before, changes)
    if (result === undefined) return undefined
    for (const [key, value] of Object.entries(changes)) {
      if (key.startsWith('$') || value === undefined) continue
      const merged = mergeField(type, key, result[key], value)
      if (merged === undefined || merged === null) delete result[key]
      else result[key] = merged
    }
    applyListDirectives(type, before, result, changes)
    return result
  }

  function mergeField(
    type: string | undefined,
    key: string,
    before: Json | undefined,
    value: Json,
  ): Json | undefined {
    const fieldType = schema.get(type ?? '')?.get(key)
    const inner = fieldType && innermost(fieldType)
    const innerName = inner?.is === 'object' ? inner.name : undefined
    if (isJsonObject(value)) return mergeObject(innerName, objectOf(before), value)
    if (!Array.isArray(value)) return value
    return mergeList(`${type}.${key}`, innerName, listOf(before), value)
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
    const isReplacing = (item: Json) => isJsonObject(item) && item.$patch === 'replace'
    const hasKey = (item: Json) => isJsonObject(item) && item[key] !== undefined
    const directives = changes.filter((item) => isReplacing(item) && !hasKey(item))
    let result: Json[] = directives.length > 0 ? [] : [...items]
    for (const item of changes) {
      if (directives.includes(item)) continue
      if (!hasKey(item))
        throw badRequest(
          `map: ${JSON.stringify(item)} in ${field} does not contain declared merge key: ${key}`,
        )
      result = mergeItem(itemType, key, result, objectOf(item))
    }
    return result
  }

  /** A list with one of its items merged, appended or deleted. */
  function mergeItem(
    itemType: string | undefined,
    key: string,
    items: Json[],
    change: JsonObject,
  ): Json[] {
    const isSame = (own: Json) => isJsonObject(own) && sameJson(own[key], change[key])
    const index = items.findIndex(isSame)
    const merged = mergeObject(itemType, objectOf(items[index]), change)
    if (merged === undefined) return items.filter((own) => !isSame(own))
    return index >= 0 ? items.with(index, merged) : [...items, merged]
  }

  if (!isJsonObject(patch))
    throw badRequest('error decoding patch: json: cannot unmarshal the patch into an object')
  return mergeObject(typeName, target, patch) ?? {}
}

/** The fields that a patch is applied to: `$patch` and `$retainKeys` decide. Undefined if it deletes the object. */
function startingPoint(before: JsonObject, changes: JsonObject): JsonObject | undefined {
  const { $patch: directive = 'merge', $retainKeys: kept } = changes
  if (directive === 'delete') return undefined
  if (directive !== 'replace' && directive !== 'merge')
    throw badRequest(`Unknown patch type found: ${JSON.stringify(directive)}`)
  const fields = Object.entries(directive === 'replace' ? {} : before)
  // `$retainKeys: [a, b]` keeps only these existing fields, for example when a volume changes its source.
  const retained = Array.isArray(kept) ? fields.filter(([key]) => kept.includes(key)) : fields
  return Object.fromEntries(retained)
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
