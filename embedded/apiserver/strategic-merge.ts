import { isObject, type Json, type JsonObject, sameJson } from './json.ts'
import { innermost, type Schema } from './schema.ts'
import { badRequest } from './status-error.ts'

/**
 * The keys by which strategic merge patches match items of a list, by `Type.field` (the `patchMergeKey` tags of the API types);
 * other lists are replaced completely.
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
  'V1PodSpec.schedulingGates': 'name',
  'V1PodSpec.resourceClaims': 'name',
  'V1Container.ports': 'containerPort',
  'V1Container.env': 'name',
  'V1Container.volumeMounts': 'mountPath',
  'V1Container.volumeDevices': 'devicePath',
  'V1EphemeralContainer.env': 'name',
  'V1EphemeralContainer.volumeMounts': 'mountPath',
  'V1PodStatus.conditions': 'type',
  'V1PodStatus.podIPs': 'ip',
  'V1PodStatus.hostIPs': 'ip',
  'V1NodeStatus.conditions': 'type',
  'V1NodeStatus.addresses': 'type',
  'V1NamespaceStatus.conditions': 'type',
  'V1ServiceSpec.ports': 'port',
  'V1ServiceStatus.conditions': 'type',
  'V1ServiceAccount.secrets': 'name',
  'V1DeploymentStatus.conditions': 'type',
  'V1ReplicaSetStatus.conditions': 'type',
  'V1DaemonSetStatus.conditions': 'type',
  'V1JobStatus.conditions': 'type',
}

/** Lists of plain values that merge as sets. */
const sets: ReadonlySet<string> = new Set(['V1ObjectMeta.finalizers', 'V1NodeSpec.podCIDRs'])

/**
 * Applies a strategic merge patch: lists with a merge key merge item by item, and the directives `$patch` (replace,
 * delete, merge), `$retainKeys`, `$setElementOrder/…` and `$deleteFromPrimitiveList/…` are obeyed. Throws 400 for a
 * list item without its merge key or an unknown directive.
 */
export function strategicMerge(schema: Schema, typeName: string, target: JsonObject, patch: JsonObject): JsonObject {
  return mergeObject(schema, typeName, target, patch) ?? {}
}

/** The merged object, or undefined when the patch deletes it. */
function mergeObject(
  schema: Schema,
  typeName: string | undefined,
  target: JsonObject,
  patch: JsonObject,
): JsonObject | undefined {
  const directive = patch.$patch
  if (directive === 'delete') return undefined
  if (directive !== undefined && directive !== 'replace' && directive !== 'merge') {
    throw badRequest(`Unknown patch type found: ${JSON.stringify(directive)}`)
  }
  const result: JsonObject = directive === 'replace' ? {} : { ...target }
  retainKeys(result, patch)
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith('$') || value === undefined) continue
    if (value === null) {
      delete result[key]
      continue
    }
    const field = `${typeName}.${key}`
    const type = typeName === undefined ? undefined : schema.get(typeName)?.get(key)
    const inner = type && innermost(type)
    const innerName = inner?.is === 'object' ? inner.name : undefined
    const current = result[key]
    if (isObject(value)) {
      const merged = mergeObject(schema, innerName, isObject(current) ? current : {}, value)
      if (merged === undefined) delete result[key]
      else result[key] = merged
    } else if (Array.isArray(value) && patchKeys[field]) {
      const items = Array.isArray(current) ? current : []
      result[key] = mergeList(schema, innerName, patchKeys[field], items, value, key)
    } else if (Array.isArray(value) && sets.has(field)) {
      const items = Array.isArray(current) ? current : []
      result[key] = [...items, ...value.filter((item) => !items.some((own) => sameJson(own, item)))]
    } else result[key] = value
  }
  applyListDirectives(typeName, target, result, patch)
  return result
}

/** `$retainKeys: [a, b]` keeps only these existing fields, for example when a volume changes its source. */
function retainKeys(result: JsonObject, patch: JsonObject): void {
  const kept = patch.$retainKeys
  if (!Array.isArray(kept)) return
  for (const key of Object.keys(result)) if (!kept.includes(key)) delete result[key]
}

function mergeList(
  schema: Schema,
  itemType: string | undefined,
  key: string,
  target: Json[],
  patch: Json[],
  field: string,
): Json[] {
  const replaces = patch.some((item) => isObject(item) && item.$patch === 'replace' && item[key] === undefined)
  let result: Json[] = replaces ? [] : [...target]
  for (const item of patch) {
    const value = isObject(item) ? item[key] : undefined
    if (!isObject(item) || value === undefined) {
      if (isObject(item) && item.$patch === 'replace') continue
      throw badRequest(`map: ${JSON.stringify(item)} in ${field} does not contain declared merge key: ${key}`)
    }
    const isSame = (own: Json) => isObject(own) && sameJson(own[key], value)
    const index = result.findIndex(isSame)
    const current = result[index]
    const merged = mergeObject(schema, itemType, isObject(current) ? current : {}, item)
    if (merged === undefined) result = result.filter((own) => !isSame(own))
    else if (index >= 0) result[index] = merged
    else result.push(merged)
  }
  return result
}

function applyListDirectives(
  typeName: string | undefined,
  target: JsonObject,
  result: JsonObject,
  patch: JsonObject,
): void {
  for (const [directive, values] of Object.entries(patch)) {
    const [kind, field] = directive.split('/', 2)
    if (!field || !Array.isArray(values)) continue
    const list = result[field]
    if (!Array.isArray(list)) continue
    if (kind === '$deleteFromPrimitiveList') {
      result[field] = list.filter((item) => !values.some((gone) => sameJson(gone, item)))
    } else if (kind === '$setElementOrder') {
      const key = patchKeys[`${typeName}.${field}`]
      const before = target[field]
      result[field] = reorder(list, values, Array.isArray(before) ? before : [], key)
    }
  }
}

/** Items listed in `order` are in that order; others keep their position relative to their old neighbours. */
function reorder(list: Json[], order: Json[], before: Json[], key: string | undefined): Json[] {
  const same = (a: Json, b: Json): boolean =>
    key !== undefined && isObject(a) && isObject(b) ? sameJson(a[key], b[key]) : sameJson(a, b)
  const rank = (items: Json[], item: Json): number => items.findIndex((other) => same(other, item))
  const ordered = list.filter((item) => rank(order, item) >= 0).sort((a, b) => rank(order, a) - rank(order, b))
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
