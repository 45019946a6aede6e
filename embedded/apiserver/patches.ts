import { isObject, type Json, type JsonObject, sameJson, wireCopy } from './json.ts'
import { badRequest, StatusError } from './status-error.ts'

/**
 * Applies a JSON patch (RFC 6902) to a copy and returns it. Throws 400 for an invalid patch, 422 if an operation
 * can't be applied (a missing path, a failed test), as the API server does.
 */
export function jsonPatch(target: Json, patch: Json): Json {
  if (!Array.isArray(patch))
    throw badRequest('error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch')
  return patch.reduce<Json>(applyOne, wireCopy(target))
}

function applyOne(document: Json, operation: Json): Json {
  const { op, path, from, value } = isObject(operation) ? operation : {}
  if (typeof op !== 'string' || typeof path !== 'string') {
    throw badRequest(`error decoding patch: "${JSON.stringify(operation)}" is no operation with op and path`)
  }
  const required = <T>(operand: T | undefined, name: string): T => {
    if (operand === undefined) throw refused(`operation for "${path}" has no ${name}`)
    return operand
  }
  const source = () => required(typeof from === 'string' ? from : undefined, 'from')
  switch (op) {
    case 'add':
      return write(document, path, required(value, 'value'), 'insert')
    case 'replace':
      read(document, path)
      return write(document, path, required(value, 'value'), 'set')
    case 'remove':
      return remove(document, path)
    case 'test':
      if (!sameJson(read(document, path, true) ?? null, value ?? null))
        throw refused(`testing value ${path} failed: test failed`)
      return document
    case 'copy':
      return write(document, path, wireCopy(read(document, source()) ?? null), 'insert')
    case 'move': {
      const moved = read(document, source()) ?? null
      return write(remove(document, source()), path, moved, 'insert')
    }
    default:
      throw refused(`Unexpected kind: ${op}`)
  }
}

function refused(message: string): StatusError {
  return new StatusError(422, 'Invalid', `the server rejected our request due to an error in our request: ${message}`)
}

function segments(path: string): string[] {
  if (path === '') return []
  if (!path.startsWith('/')) throw refused(`path "${path}" must begin with "/"`)
  const parts = path.slice(1).split('/')
  return parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function read(document: Json, path: string, lenient = false): Json | undefined {
  let current: Json | undefined = document
  for (const segment of segments(path)) {
    const parent: Json | undefined = current
    if (Array.isArray(parent)) current = parent[indexOf(segment, parent.length - 1, path)]
    else if (isObject(parent) && Object.hasOwn(parent, segment)) current = parent[segment]
    else if (lenient) return undefined
    else throw refused(`the path "${path}" doesn't exist: missing value`)
  }
  return current
}

function write(document: Json, path: string, value: Json, mode: 'insert' | 'set'): Json {
  const [parentPath, last] = parentOf(path)
  if (last === undefined) return value
  const parent = read(document, parentPath)
  if (Array.isArray(parent)) {
    const index =
      last === '-' ? parent.length : indexOf(last, mode === 'insert' ? parent.length : parent.length - 1, path)
    parent.splice(index, mode === 'insert' ? 0 : 1, value)
  } else if (isObject(parent)) define(parent, last, value)
  else throw refused(`the path "${path}" doesn't exist: missing container`)
  return document
}

function remove(document: Json, path: string): Json {
  const [parentPath, last] = parentOf(path)
  if (last === undefined) return null
  const parent = read(document, parentPath)
  if (Array.isArray(parent)) parent.splice(indexOf(last, parent.length - 1, path), 1)
  else if (isObject(parent) && Object.hasOwn(parent, last)) delete parent[last]
  else throw refused(`Unable to remove nonexistent key: ${last}: missing value`)
  return document
}

/** Sets an own property even for names such as `__proto__`. */
function define(parent: object, key: string, value: Json): void {
  Object.defineProperty(parent, key, { value, writable: true, enumerable: true, configurable: true })
}

function parentOf(path: string): [string, string | undefined] {
  const parts = segments(path)
  const cut = path.lastIndexOf('/')
  return [cut < 0 ? '' : path.slice(0, cut), parts.at(-1)]
}

function indexOf(segment: string, limit: number, path: string): number {
  const index = Number(segment)
  if (!/^(0|[1-9]\d*)$/.test(segment) || index > limit)
    throw refused(`Unable to access invalid index: "${segment}" in "${path}"`)
  return index
}

/** Applies a JSON merge patch (RFC 7386) and returns the result; neither argument is changed. */
export function mergePatch(target: Json | undefined, patch: Json): Json {
  if (!isObject(patch)) return patch
  const result: JsonObject = isObject(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key]
    else if (value !== undefined) result[key] = mergePatch(result[key], value)
  }
  return result
}
