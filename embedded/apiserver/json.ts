/** A JSON value of the API. */
export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [field: string]: Json | undefined
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A copy through JSON: dates become text, undefined fields are removed. */
export function wireCopy<T>(value: T): T {
  return JSON.parse(JSON.stringify(value))
}

/** Deep equality of JSON values; a field that is undefined counts as absent. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (Array.isArray(a))
    return Array.isArray(b) && a.length === b.length && a.every((item, i) => sameJson(item, b[i]))
  if (!isJsonObject(a) || !isJsonObject(b)) return false
  for (const key of Object.keys(a)) if (!sameJson(a[key], b[key])) return false
  for (const key of Object.keys(b)) if (b[key] !== undefined && a[key] === undefined) return false
  return true
}

/**
 * Freezes a value that the store and all its readers share, so that an accidental write fails
 * immediately.
 */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const child of Object.values(value)) deepFreeze(child)
  return Object.freeze(value)
}

/** The value at a dotted path (`metadata.name`), or undefined. */
export function jsonAt(value: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce((current, field) => (isJsonObject(current) ? current[field] : undefined), value)
}

/** Whether a field has no value. As in Go, an empty text is none. */
export function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || value === ''
}

/** Sets the fields of `defaults` that `target` leaves open, at every level. */
export function fill(target: object, defaults: object): void {
  const fields = target as Record<string, unknown>
  for (const [name, value] of Object.entries(defaults)) {
    if (value === undefined) continue
    if (isAbsent(fields[name])) fields[name] = isJsonObject(value) ? {} : structuredClone(value)
    if (isJsonObject(value)) fill(fields[name] as object, value)
  }
}
