import { isObject, type Json, type JsonObject, sameJson, wireCopy } from './json.ts'
import {
  type Author,
  elementsOf,
  entriesOf,
  isBy,
  itemKey,
  leavesOf,
  type ManagedFieldsEntry,
  pathsOf,
  withEntries,
  withPaths,
} from './managed-fields.ts'
import type { Schema } from './schema.ts'
import { StatusError } from './status-error.ts'

/**
 * Server-side apply: the configuration is merged into the live object, fields that this manager applied before and no
 * longer names are removed unless another manager owns them too. Throws 409 naming each field of another manager whose
 * value would change, unless forced.
 */
export function serverSideApply(request: {
  schema: Schema
  typeName: string
  live: JsonObject | undefined
  config: JsonObject
  author: Author
  force: boolean
}): JsonObject {
  const { schema, typeName, live, config, author, force } = request
  const [applied, current] = [leavesOf(schema, config, typeName), leavesOf(schema, live, typeName)]
  const identity = { ...author, operation: 'Apply' as const, apiVersion: String(config.apiVersion) }
  const entry = withPaths(identity, applied.keys())
  const before = entriesOf(live)
  const own = before.find((other) => isBy(other, 'Apply', author))
  const isDisputed = (path: string) => applied.has(path) && !sameJson(applied.get(path), current.get(path))
  const others = before.filter((other) => other !== own)
  if (!force) refuseConflicts(others.map((other) => ({ entry: other, paths: pathsOf(other).filter(isDisputed) })))
  const left = others.map((other) => {
    const paths = pathsOf(other).filter((path) => !isDisputed(path))
    return withPaths(other, paths)
  })
  const ofOthers = left.flatMap(pathsOf)
  const isShared = (path: string) =>
    ofOthers.some((other) => other === path || (path.endsWith('.') && other.startsWith(path.slice(0, -1))))
  const dropped = own ? pathsOf(own).filter((path) => !applied.has(path) && !isShared(path)) : []
  const result: JsonObject = wireCopy(live ?? config)
  for (const path of dropped) write(result, elementsOf(path), undefined)
  for (const [path, value] of applied) write(result, elementsOf(path), value)
  if (own && sameJson(own.fieldsV1, entry.fieldsV1)) entry.time = own.time
  return withEntries(result, left.toSpliced(own ? before.indexOf(own) : left.length, 0, entry))
}

function refuseConflicts(disputes: readonly { entry: ManagedFieldsEntry; paths: string[] }[]): void {
  const causes = disputes.flatMap(({ entry, paths }) => {
    const status = entry.subresource ? ` with subresource "${entry.subresource}"` : ''
    const message = `conflict with "${entry.manager}"${status} using ${entry.apiVersion}`
    return paths.map((path) => ({ reason: 'FieldManagerConflict', message, field: readable(path) }))
  })
  if (causes.length === 0) return
  const lines = causes.map(({ message, field }) => `${message}: ${field}`).join('\n- ')
  const message = `Apply failed with ${causes.length} conflict${causes.length === 1 ? '' : 's'}: ${lines}`
  throw new StatusError(409, 'Conflict', message, { causes })
}

/** A path in the format of conflict messages: `.spec.containers[name="nginx"].image`. */
function readable(path: string): string {
  const parts = elementsOf(path).map((element) => {
    if (element.startsWith('f:')) return `.${element.slice(2)}`
    const value: Json = JSON.parse(element.slice(2))
    if (!isObject(value)) return `[=${JSON.stringify(value)}]`
    return `[${Object.entries(value).map(([key, item]) => `${key}=${JSON.stringify(item)}`)}]`
  })
  return parts.join('')
}

/** Sets the value at a path of a container, or removes it (undefined) and the containers that become empty. */
function write(container: Json | undefined, [element = '', ...rest]: string[], value: Json | undefined): void {
  const key = element.slice(2)
  if (isObject(container)) {
    if (rest.length > 0) {
      if (value !== undefined) container[key] ??= rest[0]?.startsWith('f:') ? {} : []
      write(container[key], rest, value)
      if (isEmpty(container[key])) delete container[key]
    } else if (value === undefined) delete container[key]
    else container[key] = value
  } else if (Array.isArray(container)) {
    const identity: Json = JSON.parse(key)
    const isItem = (item: Json) =>
      isObject(identity) ? itemKey(item, Object.keys(identity)) === key : sameJson(item, identity)
    const index = container.findIndex(isItem)
    const isWhole = rest.length === 0 || rest[0] === '.'
    if (value === undefined && isWhole && index >= 0) container.splice(index, 1)
    else if (value !== undefined && index < 0) container.push(identity)
    if (!isWhole) write(container.find(isItem), rest, value)
  }
}

function isEmpty(value: Json | undefined): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}
