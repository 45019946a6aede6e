import { bodyKinds, resources } from './resource.ts'

export type Scalar = 'string' | 'int32' | 'int64' | 'number' | 'boolean' | 'date' | 'intOrString' | 'quantity' | 'any'

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
const quantities = ['limits', 'requests', 'capacity', 'allocatable', 'overhead', 'sizeLimit', 'divisor', 'hard', 'used']

let loading: Promise<Schema> | undefined

/**
 * The schema of every served kind, read from the model classes of @kubernetes/client-node. Only the classes in use are
 * loaded: the whole package takes a second to start.
 */
export function loadSchema(): Promise<Schema> {
  loading ??= load([...bodyKinds.map((kind) => `V1${kind}`), ...resources.map((resource) => resource.schema)])
  return loading
}

async function load(roots: readonly string[]): Promise<Schema> {
  const schema = new Map<string, Map<string, FieldType>>()
  let open = [...new Set(roots)]
  while (open.length > 0) {
    const models = await Promise.all(open.map(loadModel))
    const found = new Set<string>()
    for (const [index, model] of models.entries()) {
      const fields = new Map<string, FieldType>()
      for (const { baseName, type, format } of model.getAttributeTypeMap()) {
        const fieldType = quantities.includes(baseName) ? quantityType(type) : readType(type, format)
        fields.set(baseName, fieldType)
        const inner = innermost(fieldType)
        if (inner.is === 'object') found.add(inner.name)
      }
      schema.set(open[index] ?? '', fields)
    }
    open = [...found].filter((name) => !schema.has(name))
  }
  return schema
}

async function loadModel(name: string): Promise<Model> {
  const module: Record<string, Model> = await import(`@kubernetes/client-node/dist/gen/models/${name}.js`)
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

function quantityType(type: string): FieldType {
  if (type.startsWith('{')) return { is: 'map', values: { is: 'quantity' } }
  return type === 'string' ? { is: 'quantity' } : readType(type, '')
}

function readType(type: string, format: string): FieldType {
  const array = /^(?:Array|Set)<(.*)>$/.exec(type)
  if (array?.[1]) return { is: 'array', items: readType(array[1], format) }
  const map = /^\{ \[key: string\]: (.*); \}$/.exec(type)
  if (map?.[1]) return { is: 'map', values: readType(map[1], format), ...(format === 'byte' && { bytes: true }) }
  switch (type) {
    case 'string':
      return { is: 'string' }
    case 'boolean':
      return { is: 'boolean' }
    case 'number':
      return { is: format === 'int32' || format === 'int64' ? format : 'number' }
    case 'Date':
    case 'V1MicroTime':
      return { is: 'date' }
    case 'IntOrString':
      return { is: 'intOrString' }
    case 'any':
      return { is: 'any' }
    default:
      return { is: 'object', name: type }
  }
}

// How lists and maps of the API merge, by `Type.field`: the patch keys of strategic merge patches and the list and map
// types of server-side apply (the `patchMergeKey` and `listMapKey` tags of the API types).

/** Keys by which strategic merge patches match items of a list; other lists are replaced completely. */
export const patchKeys: Readonly<Record<string, string>> = {
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

/** Lists of plain values that merge as sets, in patches as in server-side apply. */
export const sets: ReadonlySet<string> = new Set(['V1ObjectMeta.finalizers', 'V1NodeSpec.podCIDRs'])

/** Keys of list items in server-side apply that differ from the patch key. */
const applyKeysApart: Readonly<Record<string, readonly string[]>> = {
  'V1Container.ports': ['containerPort', 'protocol'],
  'V1ServiceSpec.ports': ['port', 'protocol'],
  'V1PodSpec.topologySpreadConstraints': ['topologyKey', 'whenUnsatisfiable'],
}

/** Keys of the items of a list in server-side apply; undefined for lists owned as a whole. */
export function applyKeys(field: string): readonly string[] | undefined {
  const key = patchKeys[field]
  return applyKeysApart[field] ?? (key === undefined ? undefined : [key])
}

/** Objects and maps that server-side apply owns as a whole. */
const atomicTypes = new Set([
  'V1LabelSelector',
  'V1ObjectReference',
  'V1LocalObjectReference',
  'V1SecretKeySelector',
  'V1ConfigMapKeySelector',
  'V1ObjectFieldSelector',
  'V1ResourceFieldSelector',
  'V1OwnerReference',
  'V1NodeSelector',
  'V1NodeSelectorTerm',
])
const atomicFields = new Set(['V1ServiceSpec.selector', 'V1PodSpec.nodeSelector'])

export function isAtomic(field: string, typeName: string | undefined): boolean {
  return atomicFields.has(field) || (typeName !== undefined && atomicTypes.has(typeName))
}
