import { isJsonObject, type Json, type JsonObject } from './json.ts'
import { bodyKinds, type Resource, resources } from './resource.ts'
import { badRequest, type StatusError } from './status-error.ts'

export type Scalar =
  | 'string'
  | 'int32'
  | 'int64'
  | 'number'
  | 'boolean'
  | 'date'
  | 'intOrString'
  | 'quantity'
  | 'any'

/** The type of a field, as far as JSON shows it. */
export type FieldType =
  | { is: Scalar }
  | { is: 'array'; items: FieldType }
  | { is: 'map'; values: FieldType; bytes?: boolean }
  | { is: 'object'; name: string }

/** The fields of each object type, by the name of client-node's class for it (`V1PodSpec`). */
export type Schema = ReadonlyMap<string, ReadonlyMap<string, FieldType>>

interface Model {
  getAttributeTypeMap(): { baseName: string; type: string; format: string }[]
}

// Amounts such as `500m`; a plain number is accepted too.
const quantities = [
  'limits',
  'requests',
  'capacity',
  'allocatable',
  'overhead',
  'sizeLimit',
  'divisor',
  'hard',
  'used',
]

/**
 * The schema of every served kind, from the model classes of client-node that it needs: the whole
 * package takes a second to load.
 */
export async function loadSchema(): Promise<Schema> {
  const schema = new Map<string, Map<string, FieldType>>()
  async function load(name: string): Promise<void> {
    if (schema.has(name)) return
    const fields = new Map<string, FieldType>()
    schema.set(name, fields)
    const model = await loadModel(name)
    for (const { baseName, type, format } of model.getAttributeTypeMap()) {
      const isQuantity = quantities.includes(baseName)
      fields.set(
        baseName,
        readType(isQuantity ? type.replace(/string(?=;|$)/, 'quantity') : type, format),
      )
    }
    const inner = [...fields.values()].map(innermost)
    await Promise.all(inner.flatMap((type) => (type.is === 'object' ? load(type.name) : [])))
  }
  await Promise.all(
    [...bodyKinds.map((kind) => `V1${kind}`), ...resources.map((resource) => resource.schema)].map(
      load,
    ),
  )
  return schema
}

async function loadModel(name: string): Promise<Model> {
  const module: Record<string, Model> = await import(
    `@kubernetes/client-node/dist/gen/models/${name}.js`
  )
  const model = module[name]
  if (!model) throw new Error(`@kubernetes/client-node has no model "${name}"`)
  return model
}

/** The innermost type of nested arrays and maps. */
export function innermost(type: FieldType): FieldType {
  if (type.is === 'array') return innermost(type.items)
  if (type.is === 'map') return innermost(type.values)
  return type
}

const scalarTypes: Readonly<Record<string, Scalar>> = {
  string: 'string',
  boolean: 'boolean',
  any: 'any',
  quantity: 'quantity',
  Date: 'date',
  V1MicroTime: 'date',
  IntOrString: 'intOrString',
}

function readType(type: string, format: string): FieldType {
  const array = /^(?:Array|Set)<(.*)>$/.exec(type)
  if (array?.[1]) return { is: 'array', items: readType(array[1], format) }
  const map = /^\{ \[key: string\]: (.*); \}$/.exec(type)
  if (map?.[1])
    return {
      is: 'map',
      values: readType(map[1], format),
      ...(format === 'byte' && { bytes: true }),
    }
  if (type === 'number') return { is: format === 'int32' || format === 'int64' ? format : 'number' }
  const scalar = scalarTypes[type]
  return scalar ? { is: scalar } : { is: 'object', name: type }
}

type KindSchema = Pick<Resource, 'kind' | 'version' | 'schema'>

/** 400 for an object that is not of a kind. */
export function notOfKind({ kind, version }: KindSchema, why: string): StatusError {
  return badRequest(`${kind} in version "${version}" cannot be handled as a ${kind}: ${why}`)
}

/**
 * Reads an object of a kind as Kubernetes' decoder does: nulls are absent fields, a value of the
 * wrong type throws 400 with Go's error message. `unknown` are the paths of fields that the kind
 * doesn't have (`spec.ports[0].prot`); they are left out of the value.
 */
export function decode(
  schema: Schema,
  kind: KindSchema,
  object: JsonObject,
): { value: JsonObject; unknown: string[] } {
  const unknown: string[] = []

  function fail(value: Json, goType: string, struct: string, path: string): never {
    const what = Array.isArray(value) ? 'array' : typeof value
    const field = `${struct}.${path.replaceAll(/\[[^\]]*\]/g, '')}`
    const described = what === 'boolean' ? 'bool' : what
    throw notOfKind(
      kind,
      `json: cannot unmarshal ${described} into Go struct field ${field} of type ${goType}`,
    )
  }

  function read(value: Json, type: FieldType, struct: string, path: string): Json {
    const wrong = (): never => fail(value, goName(type), struct, path)
    switch (type.is) {
      case 'array':
        if (!Array.isArray(value)) return wrong()
        return value.map((item, index) => read(item, type.items, struct, `${path}[${index}]`))
      case 'map':
        return isJsonObject(value) ? readMap(value, type.values, struct, path) : wrong()
      case 'object':
        return isJsonObject(value) ? readObject(value, type.name, path) : wrong()
      default: {
        const { accepts, asRead = unchanged } = scalars[type.is]
        return accepts(value) ? asRead(value) : wrong()
      }
    }
  }

  function readMap(map: JsonObject, values: FieldType, struct: string, path: string): JsonObject {
    const entries = Object.entries(map).filter(([, child]) => child !== null && child !== undefined)
    return Object.fromEntries(
      entries.map(([key, child]) => [key, read(child ?? null, values, struct, path)]),
    )
  }

  function readObject(value: JsonObject, name: string, path: string): JsonObject {
    const fields = schema.get(name)
    if (!fields) return value
    const result: JsonObject = {}
    for (const [key, child] of Object.entries(value)) {
      const field = path ? `${path}.${key}` : key
      const type = fields.get(key)
      if (!type) unknown.push(field)
      else if (child !== null && child !== undefined)
        result[key] = read(child, type, typeNameOf(name), field)
    }
    return result
  }

  return { value: readObject(object, kind.schema, ''), unknown }
}

/** `V1PodSpec` → `PodSpec`. */
function typeNameOf(className: string): string {
  return className.replace(/^[A-Za-z]*?V1/, '')
}

const isText = (value: Json) => typeof value === 'string'
const isNumber = (value: Json) => typeof value === 'number'
const isInteger = (value: Json) => Number.isInteger(value)
const isTextOrNumber = (value: Json) => isText(value) || isNumber(value)

interface ScalarRules {
  /** The name of the type in Go. */
  goName: string
  accepts: (value: Json) => boolean
  /** The decoded value of an accepted one; absent if they are the same. */
  asRead?: (value: Json) => Json
}

const unchanged = (value: Json) => value

const scalars: Readonly<Record<Scalar, ScalarRules>> = {
  any: { goName: 'any', accepts: () => true },
  string: { goName: 'string', accepts: isText },
  date: { goName: 'v1.Time', accepts: isText },
  boolean: { goName: 'bool', accepts: (value) => typeof value === 'boolean' },
  int32: { goName: 'int32', accepts: isInteger },
  int64: { goName: 'int64', accepts: isInteger },
  number: { goName: 'float64', accepts: isNumber },
  intOrString: { goName: 'intstr.IntOrString', accepts: isTextOrNumber },
  quantity: { goName: 'resource.Quantity', accepts: isTextOrNumber, asRead: String },
}

function goName(type: FieldType): string {
  if (type.is === 'array') return `[]${goName(type.items)}`
  if (type.is === 'map') return `map[string]${goName(type.values)}`
  return type.is === 'object' ? `v1.${typeNameOf(type.name)}` : scalars[type.is].goName
}
