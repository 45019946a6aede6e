import { isJsonObject, type Json, type JsonObject, sameJson, wireCopy } from './json.ts'
import { badRequest, StatusError } from './status-error.ts'

/**
 * As in Kubernetes (maxJSONPatchOperations of k8s.io/apiserver, pkg/endpoints/handlers/patch.go).
 */
const mostOperations = 10_000

/**
 * As in Kubernetes (JSONPatchMaxCopyBytes, pkg/server/config.go): copies of copies double in size.
 */
const mostCopiedBytes = 3 * 1024 * 1024

/**
 * A copy with a JSON patch applied (RFC 6902). Throws 400 for an invalid patch, 413 for too many
 * operations, 422 for an operation that can't be applied and for more copied bytes than a genuine
 * API server allows.
 */
export function jsonPatch(target: Json, patch: Json): Json {
  if (!Array.isArray(patch))
    throw badRequest(
      'error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch',
    )
  if (patch.length > mostOperations)
    throw new StatusError(
      'RequestEntityTooLarge',
      `Request entity too large: The allowed maximum operations in a JSON patch is ${mostOperations}, got ${patch.length}`,
    )
  // An outer object gives the whole document a parent too: its path is the empty text.
  const root = { '': wireCopy(target) }
  const copies = new CopyLimit()
  for (const operation of patch) applyOperation(root, operation, copies)
  return root['']
}

/** Counts the bytes that the copies of one patch add, as JSON. */
class CopyLimit {
  #bytes = 0

  /** A copy of a value. Throws 422 when it is too much. */
  copy(value: Json): Json {
    const text = JSON.stringify(value)
    this.#bytes += Buffer.byteLength(text)
    if (this.#bytes > mostCopiedBytes)
      refusePatch(
        `Unable to complete the copy, the accumulated size increase of copy is ${this.#bytes}, exceeding the limit ${mostCopiedBytes}`,
      )
    return JSON.parse(text)
  }
}

function applyOperation(root: JsonObject, operation: Json, copies: CopyLimit): void {
  const { op, path, from, value } = isJsonObject(operation) ? operation : {}
  if (typeof op !== 'string' || typeof path !== 'string') {
    throw badRequest(
      `error decoding patch: "${JSON.stringify(operation)}" is no operation with op and path`,
    )
  }
  const source = () =>
    typeof from === 'string' ? from : refusePatch(`operation for "${path}" has no from`)
  const input = () =>
    value ?? (value === null ? null : refusePatch(`operation for "${path}" has no value`))
  if (op === 'add') add(root, path, input())
  else if (op === 'remove') take(root, path)
  else if (op === 'replace') {
    take(root, path)
    add(root, path, input())
  } else if (op === 'move') add(root, path, take(root, source()))
  else if (op === 'copy') add(root, path, copies.copy(read(root, source())))
  else if (op !== 'test') refusePatch(`Unexpected kind: ${op}`)
  else if (!sameJson(read(root, path), value ?? null))
    refusePatch(`testing value ${path} failed: test failed`)
}

function refusePatch(message: string): never {
  throw new StatusError(
    'Invalid',
    `the server rejected our request due to an error in our request: ${message}`,
  )
}

/** The container of a path's last part, and this part as its key. */
function placeOf(root: JsonObject, path: string): { container: Json[] | JsonObject; key: string } {
  if (path !== '' && !path.startsWith('/')) refusePatch(`path "${path}" must begin with "/"`)
  const parts = path.split('/').map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  const key = parts.pop() ?? ''
  let container: Json | undefined = root
  for (const part of parts) container = child(container, part, path)
  if (!Array.isArray(container) && !isJsonObject(container))
    refusePatch(`the path "${path}" doesn't exist: missing container`)
  return { container, key }
}

function child(container: Json | undefined, key: string, path: string): Json {
  if (Array.isArray(container)) return container[listIndex(key, container.length - 1, path)] ?? null
  if (isJsonObject(container) && Object.hasOwn(container, key)) return container[key] ?? null
  return refusePatch(`the path "${path}" doesn't exist: missing value`)
}

function listIndex(key: string, last: number, path: string): number {
  const isIndex = /^(0|[1-9]\d*)$/.test(key) && Number(key) <= last
  return isIndex
    ? Number(key)
    : refusePatch(`Unable to access invalid index: "${key}" in "${path}"`)
}

function read(root: JsonObject, path: string): Json {
  const { container, key } = placeOf(root, path)
  return child(container, key, path)
}

function take(root: JsonObject, path: string): Json {
  const { container, key } = placeOf(root, path)
  const value = child(container, key, path)
  if (Array.isArray(container)) container.splice(Number(key), 1)
  else delete container[key]
  return value
}

function add(root: JsonObject, path: string, value: Json): void {
  const { container, key } = placeOf(root, path)
  if (Array.isArray(container))
    container.splice(
      key === '-' ? container.length : listIndex(key, container.length, path),
      0,
      value,
    )
  // Creates an own property even for names such as `__proto__`.
  else
    Object.defineProperty(container, key, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    })
}

/** Applies a JSON merge patch (RFC 7386) and returns the result; neither argument is changed. */
export function mergePatch(target: Json | undefined, patch: Json): Json {
  if (!isJsonObject(patch)) return patch
  const result: JsonObject = isJsonObject(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key]
    else if (value !== undefined) result[key] = mergePatch(result[key], value)
  }
  return result
}
