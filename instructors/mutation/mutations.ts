import type { Capture } from '../../cluster/capture-folder.ts'
import { MEASUREMENT, type Measurement, measurement } from '../../course/scale/measurement.ts'
import { notesName } from '../../grading/lab-notes.ts'
import { iptablesEdits } from './iptables-edits.ts'
import { ipsetEdits, ipvsEdits, linkEdits } from './ipvs-edits.ts'
import type { FileEdit, Mutation } from './mutation.ts'

const EDITS: readonly [file: string, edits: (text: string) => Iterable<FileEdit>][] = [
  ['iptables-save', iptablesEdits],
  ['ipset-save', ipsetEdits],
  ['ipvsadm-save', ipvsEdits],
  ['ip-addr.json', linkEdits],
  ['proxyMode', proxyEdits],
]

/**
 * Every single mutation of these nodes, and of every API object that determines kube-proxy's rules
 * or is judged.
 */
export function* mutationsOf(capture: Capture, nodes: readonly string[]): Generator<Mutation> {
  for (const [at, node] of capture.nodes.entries())
    if (nodes.includes(node.name)) yield* nodeMutations(node, at)
  // Recordings of our own, so their objects have these fields.
  for (const [at, item] of (capture.objects.items as EditedObject[]).entries())
    yield* objectMutations(item, at)
}

/** Every mutation of a node; `at` is its index in the capture. */
function* nodeMutations(node: Capture['nodes'][number], at: number): Generator<Mutation> {
  for (const [file, edits] of EDITS) {
    const text = node.files.get(file)
    if (!text) continue
    for (const { edit, mentions = [], ...about } of edits(text)) {
      if (edit(text) === text) continue
      const apply = (original: Capture) => {
        const edited = { ...node, files: new Map(node.files).set(file, edit(text)) }
        return { ...original, nodes: original.nodes.with(at, edited) }
      }
      yield {
        ...about,
        mentions: [about.place.split(' ').at(-1) ?? '', ...mentions],
        node: node.name,
        apply,
      }
    }
  }
}

/** Every mutation of an API object; `at` is its index in the capture. */
function* objectMutations(item: EditedObject, at: number): Generator<Mutation> {
  const { name, namespace = '' } = item.metadata
  const place =
    item.kind === 'ConfigMap' ? `ConfigMap ${name}` : `${item.kind} ${namespace}/${name}`
  for (const { edit, ...about } of changesOf(item))
    yield {
      ...about,
      place,
      apply(original) {
        const copy = structuredClone(item)
        edit?.(copy)
        const items = original.objects.items.toSpliced(at, 1, ...(edit ? [copy] : []))
        return { ...original, objects: { ...original.objects, items } }
      },
    }
}

function* proxyEdits(text: string): Generator<FileEdit> {
  const other = text.trim() === 'ipvs' ? 'iptables' : 'ipvs'
  const mentions = ['proxier', 'mode']
  yield {
    operator: 'other proxier',
    place: 'kube-proxy proxyMode',
    detail: other,
    mentions,
    edit: () => other,
  }
}

/** The fields of API objects that are changed here. */
interface EditedObject {
  kind: string
  metadata: { name: string; namespace?: string; labels?: Record<string, string> }
  spec?: {
    clusterIP?: string
    clusterIPs?: string[]
    ports?: { port: number; nodePort?: number }[]
  }
  endpoints?: { addresses: string[]; conditions?: object }[] | null
  ports?: { port?: number }[] | null
  data?: Record<string, string>
}

/** A change of an object; without `edit` it is dropped. */
interface ItemChange extends Pick<Mutation, 'operator' | 'detail' | 'mentions'> {
  edit?: (item: EditedObject) => void
}

function changesOf(item: EditedObject): Iterable<ItemChange> {
  if (item.kind === 'Service') return serviceEdits(item)
  if (item.kind === 'EndpointSlice') return sliceChanges(item)
  if (item.kind !== 'ConfigMap') return []
  if (item.metadata.name === 'kube-proxy') return configChanges(item)
  return item.metadata.name === SCALE_NOTES ? measurementChanges(item) : []
}

const AFFINITY = {
  sessionAffinity: 'ClientIP',
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
}

function* serviceEdits({ metadata, spec }: EditedObject): Generator<ItemChange> {
  const { clusterIP = '', ports = [] } = spec ?? {}
  const [port] = ports
  if (clusterIP === '' || clusterIP === 'None' || !port) return
  const nodePorts = ports.flatMap(({ nodePort }) => (nodePort ? [String(nodePort)] : []))
  const mentions = [clusterIP, metadata.name, ...nodePorts]
  const detail = `${clusterIP}:${port.port}`
  const set = (place: object | undefined, values: object) => Object.assign(place ?? {}, values)
  yield { operator: 'drop Service', detail, mentions: [...mentions, 'no such Service'] }
  const moved = {
    clusterIP: '10.96.95.95',
    ...(spec?.clusterIPs && { clusterIPs: ['10.96.95.95'] }),
  }
  const edit = (copy: EditedObject) => set(copy.spec, moved)
  yield { operator: 'alter clusterIP', detail, mentions: [...mentions, '10.96.95.95'], edit }
  for (const [index, { port: number, nodePort }] of ports.entries()) {
    const change = (values: object) => (copy: EditedObject) =>
      set(copy.spec?.ports?.[index], values)
    yield {
      operator: 'alter port',
      detail: `${clusterIP}:${number}`,
      mentions,
      edit: change({ port: number + 1 }),
    }
    if (!nodePort) continue
    const edit = change({ nodePort: nodePort === 30_001 ? 30_002 : 30_001 })
    yield {
      operator: 'alter nodePort',
      detail: String(nodePort),
      mentions: [...mentions, '30001', '30002'],
      edit,
    }
  }
  yield { operator: 'alter affinity', detail, mentions, edit: (copy) => set(copy.spec, AFFINITY) }
}

const NOT_READY = { conditions: { ready: false, serving: false, terminating: false } }
const ELSEWHERE = { addresses: ['10.244.94.94'] }

function* sliceChanges({ metadata, endpoints, ports }: EditedObject): Generator<ItemChange> {
  if (!endpoints || !ports) return
  const addresses = endpoints.flatMap((endpoint) => endpoint.addresses)
  if (addresses.length === 0) return
  const mentions = [...addresses, metadata.labels?.['kubernetes.io/service-name'] ?? '']
  yield { operator: 'drop EndpointSlice', detail: addresses.join(), mentions }
  for (const [index, endpoint] of endpoints.entries()) {
    const [detail = ''] = endpoint.addresses
    const change = (values: object) => (copy: EditedObject) =>
      Object.assign(copy.endpoints?.[index] ?? {}, values)
    yield {
      operator: 'drop endpoint',
      detail,
      mentions,
      edit: (copy) => copy.endpoints?.splice(index, 1),
    }
    yield { operator: 'endpoint not ready', detail, mentions, edit: change(NOT_READY) }
    yield {
      operator: 'alter endpoint',
      detail,
      mentions: [...mentions, ...ELSEWHERE.addresses],
      edit: change(ELSEWHERE),
    }
  }
  for (const [index, { port }] of ports.entries()) {
    if (port === undefined) continue
    const edit = (copy: EditedObject) =>
      Object.assign(copy.ports?.[index] ?? {}, { port: port + 1 })
    yield { operator: 'alter targetPort', detail: String(port), mentions, edit }
  }
}

const SETTINGS: readonly [
  operator: string,
  pattern: RegExp,
  replacement: string,
  mentions: string[],
][] = [
  ['alter scheduler', /scheduler: (?:""|\S*)/, 'scheduler: mh', ['mh', 'scheduler']],
  ['alter masqueradeBit', /masqueradeBit: \S+/, 'masqueradeBit: 13', ['0x2000', 'mark', 'MASQ']],
  [
    'alter masqueradeAll',
    /masqueradeAll: \S+/,
    'masqueradeAll: true',
    ['KUBE-SERVICES', 'KUBE-CLUSTER-IP', 'KUBE-MARK-MASQ', 'masquerade'],
  ],
  [
    'alter clusterCIDR',
    /clusterCIDR: \S+/,
    'clusterCIDR: 10.200.0.0/16',
    ['10.200.0.0/16', 'KUBE-'],
  ],
  [
    'lose excludeCIDRs',
    /excludeCIDRs:\s*(?:-\s+\S+|\[[^\]]+\])/,
    'excludeCIDRs: []',
    ['excludeCIDRs'],
  ],
  [
    'alter mode',
    /mode: (?:""|"?(?:ipvs|iptables)"?)/,
    'mode: userspace',
    ['mode', 'userspace', 'iptables', 'ipvs'],
  ],
]

const withData = (key: string, text: string) => (copy: EditedObject) => {
  copy.data = { ...copy.data, [key]: text }
}

function* configChanges({ data = {} }: EditedObject): Generator<ItemChange> {
  const text = data['config.conf'] ?? ''
  for (const [operator, pattern, detail, mentions] of SETTINGS) {
    const changed = text.replace(pattern, detail)
    if (changed !== text)
      yield { operator, detail, mentions, edit: withData('config.conf', changed) }
  }
}

const SCALE_NOTES = notesName(6)
const MODES = ['iptables', 'ipvs'] as const
const COUNTS = ['rules', 'entries', 'members', 'virtualServers', 'realServers'] as const

/**
 * Lab 6 judges a run that its notes keep: every count off by one, both modes' columns exchanged,
 * and missing values.
 */
function* measurementChanges({ data = {} }: EditedObject): Generator<ItemChange> {
  const { data: run } = measurement.safeParse(JSON.parse(data[MEASUREMENT] ?? 'null'))
  if (!run) return
  const changed = (change: (copy: Measurement) => void) => {
    const copy = structuredClone(run)
    change(copy)
    return withData(MEASUREMENT, JSON.stringify(copy))
  }
  for (const mode of MODES)
    for (const [index, point] of run[mode].entries())
      for (const count of COUNTS) {
        const found = point[count] + 1
        const detail = `${count} of ${point.services} Services in ${mode} mode`
        const edit = changed((copy) => Object.assign(copy[mode][index] ?? {}, { [count]: found }))
        yield { operator: 'alter count', detail, mentions: [`${found}`], edit }
      }
  const exchanged = changed((copy) =>
    Object.assign(copy, { iptables: run.ipvs, ipvs: run.iptables }),
  )
  yield {
    operator: 'exchange modes',
    detail: 'iptables, ipvs',
    mentions: ['rules', 'mode'],
    edit: exchanged,
  }
  const short = changed((copy) => {
    for (const mode of MODES) copy[mode].splice(2)
  })
  yield { operator: 'drop sizes', detail: 'all but two', mentions: ['sizes'], edit: short }
  const hasty = changed((copy) => {
    for (const point of copy.iptables) point.newMoreMicros.splice(1)
  })
  yield {
    operator: 'drop values',
    detail: 'newMoreMicros',
    mentions: ['newMoreMicros'],
    edit: hasty,
  }
}
