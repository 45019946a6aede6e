import { isJsonObject, type Json, type JsonObject } from './json.ts'
import { innermost, type Schema } from './schema.ts'
import { badRequest } from './status-error.ts'

/**
 * The keys by which strategic merge patches match items of a list, by `Type.field` (the
 * `patchMergeKey` tags of the API types, of specifications); other lists are replaced completely.
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
 * Applies a strategic merge patch: lists with a merge key merge item by item, and the directives
 * `$patch` (replace, delete, merge), `$retainKeys`, `$setElementOrder/…` and
 * `$deleteFromPrimitiveList/…` are obeyed. Throws 400 for a list item without its merge key or an
 * unknown directive.
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
    if (field === 'V1ObjectMeta.finalizers') {
      const own = new Set(items.map(comparable))
      return [...items, ...changes.filter((item) => !own.has(comparable(item)))]
    }
    const key = patchKeys[field]
    if (key === undefined) return changes
    const isReplacing = (item: Json) => isJsonObject(item) && item.$patch === 'replace'
    const hasKey = (item: Json) => isJsonObject(item) && item[key] !== undefined
    const isDirective = (item: Json) => isReplacing(item) && !hasKey(item)
    const list = new KeyedList(changes.some(isDirective) ? [] : items, key)
    for (const item of changes) {
      if (isDirective(item)) continue
      if (!hasKey(item))
        throw badRequest(
          `map: ${JSON.stringify(item)} in ${field} does not contain declared merge key: ${key}`,
        )
      const change = objectOf(item)
      list.set(change, mergeObject(itemType, objectOf(list.find(change)), change))
    }
    return list.items()
  }

  if (!isJsonObject(patch))
    throw badRequest('error decoding patch: json: cannot unmarshal the patch into an object')
  return mergeObject(typeName, target, patch) ?? {}
}

const byName = ([one]: [string, unknown], [other]: [string, unknown]): number =>
  one < other ? -1 : 1

/** A value as text, which is the same for equal values. */
function comparable(value: Json | undefined): string {
  if (typeof value !== 'object' || value === null) return `${JSON.stringify(value)}`
  return JSON.stringify(value, (_, part: Json) =>
    isJsonObject(part) ? Object.fromEntries(Object.entries(part).sort(byName)) : part,
  )
}

/**
 * A list whose items are found by their merge key. By a map: a search through the list for each
 * item of a patch of 350 kB took 37 s, in which the API server served no client.
 */
class KeyedList {
  readonly #items: (Json | undefined)[]
  readonly #key: string
  readonly #places = new Map<string, number[]>()

  constructor(items: readonly Json[], key: string) {
    this.#items = [...items]
    this.#key = key
    for (const [place, item] of items.entries()) if (isJsonObject(item)) this.#note(item, place)
  }

  #note(item: JsonObject, place: number): void {
    const value = comparable(item[this.#key])
    const places = this.#places.get(value)
    if (places) places.push(place)
    else this.#places.set(value, [place])
  }

  /** The first item with the key of another one. */
  find(like: JsonObject): Json | undefined {
    const [place] = this.#places.get(comparable(like[this.#key])) ?? []
    return place === undefined ? undefined : this.#items[place]
  }

  /**
   * Replaces the first item with the key of another one, or appends it; undefined deletes all of
   * that key.
   */
  set(like: JsonObject, item: JsonObject | undefined): void {
    const value = comparable(like[this.#key])
    const places = this.#places.get(value) ?? []
    const [place] = places
    if (item === undefined) {
      for (const deleted of places) this.#items[deleted] = undefined
      this.#places.delete(value)
    } else if (place === undefined) this.#note(like, this.#items.push(item) - 1)
    else this.#items[place] = item
  }

  items(): Json[] {
    return this.#items.filter((item) => item !== undefined)
  }
}

/**
 * The fields that a patch is applied to: `$patch` and `$retainKeys` decide. Undefined if it deletes
 * the object.
 */
function startingPoint(before: JsonObject, changes: JsonObject): JsonObject | undefined {
  const { $patch: directive = 'merge', $retainKeys: kept } = changes
  if (directive === 'delete') return undefined
  if (directive !== 'replace' && directive !== 'merge')
    throw badRequest(`Unknown patch type found: ${JSON.stringify(directive)}`)
  const fields = Object.entries(directive === 'replace' ? {} : before)
  // `$retainKeys: [a, b]` keeps only these existing fields, for example when a volume changes its
  // source.
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
    if (kind === '$deleteFromPrimitiveList') {
      const gone = new Set(values.map(comparable))
      result[field] = list.filter((item) => !gone.has(comparable(item)))
    } else if (kind === '$setElementOrder')
      result[field] = reorder(list, values, listOf(before[field]), patchKeys[`${type}.${field}`])
  }
}

/**
 * Items listed in `order` are in that order; others keep their position relative to their old
 * neighbours.
 */
function reorder(list: Json[], order: Json[], before: Json[], key: string | undefined): Json[] {
  const identity = (item: Json): string =>
    key !== undefined && isJsonObject(item) ? `key ${comparable(item[key])}` : comparable(item)
  const ranks = (items: readonly Json[]): ReadonlyMap<string, number> =>
    new Map(items.map((item, place): [string, number] => [identity(item), place]).reverse())
  const [orderRanks, beforeRanks] = [ranks(order), ranks(before)]
  const orderRank = (item: Json): number => orderRanks.get(identity(item)) ?? -1
  const beforeRank = (item: Json): number => beforeRanks.get(identity(item)) ?? -1
  const ordered = list
    .filter((item) => orderRank(item) >= 0)
    .map((item) => ({ item, rank: orderRank(item), place: beforeRank(item) }))
    .sort((a, b) => a.rank - b.rank)
  const result: Json[] = []
  let taken = 0
  for (const item of list) {
    if (orderRank(item) >= 0) continue
    const place = beforeRank(item)
    for (let next = ordered[taken]; next && next.place < place; next = ordered[++taken])
      result.push(next.item)
    result.push(item)
  }
  return [...result, ...ordered.slice(taken).map(({ item }) => item)]
}
