import type { Json, JsonObject } from './json.ts'
import { protobufFields } from './protobuf-fields.ts'
import { apiVersionOf, bodyKinds, resources } from './resource.ts'
import type { FieldType, Schema } from './schema.ts'
import { badRequest } from './status-error.ts'

// kubectl from 1.32 on and other Go clients send built-in kinds as protobuf. Requests are read
// here; answers are always JSON, which those clients accept.

const magic = Buffer.from('k8s\0')

interface ProtobufField {
  name: string
  /** The embedded message whose fields replace this one. */
  inline: boolean
  zeroIsAbsent: boolean
}

/** The fields of each message by their numbers. */
const numbered = new Map(
  Object.entries(protobufFields).map(([name, list]) => [name, fieldsIn(list)]),
)

function fieldsIn(list: string): Map<number, ProtobufField> {
  let number = 0
  const fields = list.split(' ').map((item): [number, ProtobufField] => {
    const [, numberText, inline, name = '', zero] = /^(?:(\d+)=)?(@?)(\w+)(!?)$/.exec(item) ?? []
    number = numberText ? Number(numberText) : number + 1
    return [number, { name, inline: inline === '@', zeroIsAbsent: zero === '!' }]
  })
  return new Map(fields)
}

/** Reads an object from Kubernetes' protobuf envelope. Throws 400 for other data. */
export function decodeProtobuf(schema: Schema, bytes: Buffer): JsonObject {
  if (!bytes.subarray(0, 4).equals(magic))
    throw badRequest('the body is not in the protobuf form of Kubernetes')
  const envelope = readMessage(bytes.subarray(4))
  const [typeMeta] = envelope.get(1) ?? []
  const [raw] = envelope.get(2) ?? []
  const type = readMessage(asBytes(typeMeta))
  const text = (number: number): string => String(asBytes(type.get(number)?.[0]))
  const [apiVersion, kind] = [text(1), text(2)]
  const resource = resources.find((own) => own.kind === kind && apiVersionOf(own) === apiVersion)
  const className = resource?.schema ?? (bodyKinds.includes(kind) ? `V1${kind}` : undefined)
  if (!className || !protobufFields[className])
    throw badRequest(
      `kind "${kind}" of version "${apiVersion}" is not read as protobuf, only as JSON`,
    )
  const object = decodeObject(schema, className, className, asBytes(raw))
  return { ...object, apiVersion, kind }
}

type Value = bigint | Buffer

/** The values of a message by field number. */
function readMessage(bytes: Buffer): Map<number, Value[]> {
  const fields = new Map<number, Value[]>()
  let at = 0
  const truncated = (): never => {
    throw badRequest('the protobuf body ends in the middle of a field')
  }
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes[at++] ?? truncated()
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return BigInt.asIntN(64, value)
    }
    return truncated()
  }
  const take = (length: number): Buffer => {
    if (length < 0 || at + length > bytes.length) truncated()
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const key = Number(varint())
    // Varint, 64 bits, length-delimited, 32 bits.
    const read = { 0: varint, 1: () => take(8), 2: () => take(Number(varint())), 5: () => take(4) }[
      key & 7
    ]
    const value = read?.() ?? truncated()
    const number = Math.floor(key / 8)
    const values = fields.get(number)
    if (values) values.push(value)
    else fields.set(number, [value])
  }
  return fields
}

/** A message as the JSON object of a class; `numbers` names the list of its field numbers. */
function decodeObject(
  schema: Schema,
  className: string,
  numbers: string,
  bytes: Buffer,
): JsonObject {
  const result: JsonObject = {}
  const fields = schema.get(className)
  for (const [number, values] of readMessage(bytes)) {
    const field = numbered.get(numbers)?.get(number)
    if (!field) continue
    if (field.inline) {
      Object.assign(result, decodeObject(schema, className, field.name, asBytes(values.at(-1))))
      continue
    }
    const type = fields?.get(field.name)
    if (!type) continue
    const value = readField(schema, type, values)
    const absent =
      value === undefined ||
      value === '' ||
      (field.zeroIsAbsent && (value === 0 || value === false))
    if (!absent) result[field.name] = value
  }
  return result
}

function readField(schema: Schema, type: FieldType, values: readonly Value[]): Json | undefined {
  if (type.is === 'array') {
    return values.flatMap((value) => {
      const item = readValue(schema, type.items, value)
      return item === undefined ? [] : [item]
    })
  }
  if (type.is !== 'map') return readValue(schema, type, values.at(-1) ?? Buffer.alloc(0))
  const result: JsonObject = {}
  for (const entry of values) {
    const pair = readMessage(asBytes(entry))
    const value = asBytes(pair.get(2)?.[0])
    const key = String(asBytes(pair.get(1)?.[0]))
    // Bytes that aren't text (a Secret's data) travel as base64 in JSON.
    result[key] = type.bytes
      ? value.toString('base64')
      : (readValue(schema, type.values, value) ?? '')
  }
  return result
}

function readValue(schema: Schema, type: FieldType, value: Value): Json | undefined {
  switch (type.is) {
    case 'string':
      return String(asBytes(value))
    case 'boolean':
      return value !== 0n
    case 'int32':
    case 'int64':
    case 'number':
      return typeof value === 'bigint' ? Number(value) : undefined
    case 'quantity':
      return String(asBytes(readMessage(asBytes(value)).get(1)?.[0]))
    case 'intOrString': {
      const message = readMessage(asBytes(value))
      const isText = message.get(1)?.[0] === 1n
      return isText ? String(asBytes(message.get(3)?.[0])) : Number(message.get(2)?.[0] ?? 0n)
    }
    case 'object':
      return decodeObject(schema, type.name, type.name, asBytes(value))
    // The server sets times, and values of any type, which are in metadata.managedFields.
    default:
      return undefined
  }
}

function asBytes(value: Value | undefined): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.alloc(0)
}
