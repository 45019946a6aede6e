import { isObject, type Json, type JsonObject } from './json.ts'
import type { FieldType, Scalar, Schema } from './schema.ts'
import { badRequest } from './status-error.ts'

export interface Decoded {
  value: JsonObject
  /** Paths of fields that the kind doesn't have, as `spec.ports[0].prot`. They are left out of the value. */
  unknown: string[]
}

/**
 * Reads an object of a kind as Kubernetes' decoder does: nulls are absent fields, unknown fields are dropped and named,
 * a value of the wrong type throws 400 with Go's error message.
 */
export function decode(
  schema: Schema,
  typeName: string,
  object: JsonObject,
  gvk: { kind: string; version: string },
): Decoded {
  const unknown: string[] = []

  function fail(value: Json, goType: string, struct: string, path: string): never {
    const what = Array.isArray(value) ? 'array' : typeof value
    const message = `json: cannot unmarshal ${what === 'boolean' ? 'bool' : what} into Go struct field ${struct}.${path.replaceAll(/\[[^\]]*\]/g, '')} of type ${goType}`
    throw badRequest(`${gvk.kind} in version "${gvk.version}" cannot be handled as a ${gvk.kind}: ${message}`)
  }

  function read(value: Json, type: FieldType, struct: string, path: string): Json {
    const wrong = (): never => fail(value, goName(type), struct, path)
    switch (type.is) {
      case 'array':
        if (!Array.isArray(value)) return wrong()
        return value.map((item, index) => read(item, type.items, struct, `${path}[${index}]`))
      case 'map': {
        if (!isObject(value)) return wrong()
        const entries = Object.entries(value).filter(([, child]) => child !== null && child !== undefined)
        return Object.fromEntries(entries.map(([key, child]) => [key, read(child ?? null, type.values, struct, path)]))
      }
      case 'quantity':
        return scalars.quantity.accepts(value) ? String(value) : wrong()
      case 'object':
        return isObject(value) ? readObject(value, type.name, path) : wrong()
      default:
        return scalars[type.is].accepts(value) ? value : wrong()
    }
  }

  function readObject(value: JsonObject, name: string, path: string): JsonObject {
    const fields = schema.get(name)
    if (!fields) return value
    const result: JsonObject = {}
    for (const [key, child] of Object.entries(value)) {
      const field = path ? `${path}.${key}` : key
      const type = fields.get(key)
      if (!type) unknown.push(field)
      else if (child !== null && child !== undefined) result[key] = read(child, type, shortName(name), field)
    }
    return result
  }

  return { value: readObject(object, typeName, ''), unknown }
}

/** `V1PodSpec` → `PodSpec`. */
export function shortName(className: string): string {
  return className.replace(/^[A-Za-z]*?V1/, '')
}

const isText = (value: Json) => typeof value === 'string'
const isNumber = (value: Json) => typeof value === 'number'
const isInteger = (value: Json) => Number.isInteger(value)
const isTextOrNumber = (value: Json) => isText(value) || isNumber(value)

/** The values that a type accepts, and its name in Go. */
const scalars: Readonly<Record<Scalar, { goName: string; accepts: (value: Json) => boolean }>> = {
  any: { goName: 'any', accepts: () => true },
  string: { goName: 'string', accepts: isText },
  date: { goName: 'v1.Time', accepts: isText },
  boolean: { goName: 'bool', accepts: (value) => typeof value === 'boolean' },
  int32: { goName: 'int32', accepts: isInteger },
  int64: { goName: 'int64', accepts: isInteger },
  number: { goName: 'float64', accepts: isNumber },
  intOrString: { goName: 'intstr.IntOrString', accepts: isTextOrNumber },
  quantity: { goName: 'resource.Quantity', accepts: isTextOrNumber },
}

function goName(type: FieldType): string {
  if (type.is === 'array') return `[]${goName(type.items)}`
  if (type.is === 'map') return `map[string]${goName(type.values)}`
  return type.is === 'object' ? `v1.${shortName(type.name)}` : scalars[type.is].goName
}
