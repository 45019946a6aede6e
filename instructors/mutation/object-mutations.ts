import { z } from 'zod'
import type { Capture } from '../../cluster/capture-folder.ts'
import { MEASUREMENT, type Measurement, measurement, type Point } from '../../course/scale/measurement.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { notesName } from '../../grading/lab-notes.ts'
import type { Mutation } from './mutation.ts'
import { notesPlace } from './noticed.ts'

/** A change of a run of `make measure` in the notes. */
interface RunChange extends Pick<Mutation, 'operator' | 'detail' | 'words'> {
  change: (run: Measurement) => Measurement
}

const MODES = ['iptables', 'ipvs'] as const
const COUNTS = ['rules', 'entries', 'members', 'virtualServers', 'realServers'] as const

/** Yields every count of a run off by one, both modes' columns exchanged, and missing values. */
function* runChanges(run: Measurement): Generator<RunChange> {
  for (const mode of MODES)
    for (const [index, point] of run[mode].entries())
      for (const count of COUNTS) {
        const found = point[count] + 1
        const detail = `${count} of ${point.services} Services in ${mode} mode`
        const change = (of: Measurement) => withPoint(of, mode, index, { [count]: found })
        yield { operator: 'alter count', detail, words: [`${found}`], change }
      }
  const exchanged = ({ iptables, ipvs, ...rest }: Measurement) => ({ ...rest, iptables: ipvs, ipvs: iptables })
  yield { operator: 'exchange modes', detail: 'iptables, ipvs', words: ['rules', 'mode'], change: exchanged }
  const short = (of: Measurement) => ({ ...of, iptables: of.iptables.slice(0, 2), ipvs: of.ipvs.slice(0, 2) })
  yield { operator: 'drop sizes', detail: 'all but two', words: ['sizes'], change: short }
  const once = (points: Point[]) =>
    points.map((point) => ({ ...point, newMoreMicros: point.newMoreMicros.slice(0, 1) }))
  const hasty = (of: Measurement) => ({ ...of, iptables: once(of.iptables) })
  yield { operator: 'drop values', detail: 'newMoreMicros', words: ['newMoreMicros'], change: hasty }
}

/** The run in a note; undefined if there is none. */
function readRun(text: string): Measurement | undefined {
  try {
    return measurement.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

function withPoint(run: Measurement, mode: SwitchedMode, index: number, change: Partial<Point>): Measurement {
  const points = run[mode].map((point, at) => (at === index ? { ...point, ...change } : point))
  return { ...run, [mode]: points }
}

const metadata = z.looseObject({
  name: z.string(),
  namespace: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
})
const serviceSchema = z.looseObject({
  kind: z.literal('Service'),
  metadata,
  spec: z.looseObject({
    clusterIP: z.string().optional(),
    clusterIPs: z.array(z.string()).optional(),
    type: z.string().optional(),
    ports: z.array(z.looseObject({ port: z.number(), nodePort: z.number().optional() })).default([]),
  }),
})
const sliceSchema = z.looseObject({
  kind: z.literal('EndpointSlice'),
  metadata,
  endpoints: z
    .array(z.looseObject({ addresses: z.array(z.string()), conditions: z.looseObject({}).optional() }))
    .default([]),
  ports: z.array(z.looseObject({ port: z.number().optional() })).default([]),
})
const configSchema = z.looseObject({ kind: z.literal('ConfigMap'), metadata, data: z.record(z.string(), z.string()) })

/** Yields every single change of an API object that determines kube-proxy's rules; the nodes are unchanged. */
export function* objectMutations({ objects }: Capture): Generator<Mutation> {
  for (const [at, item] of objects.items.entries()) {
    const service = serviceSchema.safeParse(item)
    if (service.success) yield* serviceMutations(at, service.data)
    const slice = sliceSchema.safeParse(item)
    if (slice.success) yield* sliceMutations(at, slice.data)
    const config = configSchema.safeParse(item)
    if (config.success && config.data.metadata.name === 'kube-proxy') yield* configMutations(at, config.data)
    if (config.success && config.data.metadata.name === SCALE_NOTES) yield* measurementMutations(at, config.data)
  }
}

function replaced(at: number, ...instead: unknown[]) {
  return (capture: Capture): Capture => ({
    ...capture,
    objects: { ...capture.objects, items: capture.objects.items.toSpliced(at, 1, ...instead) },
  })
}

const nameOf = ({ name, namespace }: z.infer<typeof metadata>) => `${namespace ?? ''}/${name}`

/** An edit of a copy of the object at this place. */
const edited =
  <Item>(at: number, item: Item) =>
  (edit: (copy: Item) => void) => {
    const copy = structuredClone(item)
    edit(copy)
    return replaced(at, copy)
  }

function* serviceMutations(at: number, service: z.infer<typeof serviceSchema>): Generator<Mutation> {
  const { clusterIP = '', ports } = service.spec
  const [port] = ports
  if (clusterIP === '' || clusterIP === 'None' || !port) return
  const nodePorts = ports.flatMap(({ nodePort }) => (nodePort ? [String(nodePort)] : []))
  const words = [clusterIP, service.metadata.name, ...nodePorts]
  const about = { place: `Service ${nameOf(service.metadata)}`, words, detail: `${clusterIP}:${port.port}` }
  const changed = edited(at, service)
  yield { ...about, words: [...words, 'no such Service'], operator: 'drop Service', apply: replaced(at) }
  const moved = changed(({ spec }) => {
    spec.clusterIP = '10.96.95.95'
    if (spec.clusterIPs) spec.clusterIPs = ['10.96.95.95']
  })
  yield { ...about, words: [...words, '10.96.95.95'], operator: 'alter clusterIP', apply: moved }
  for (const [index, { port: number, nodePort }] of ports.entries()) {
    const shifted = changed(({ spec }) => Object.assign(spec.ports[index] ?? {}, { port: number + 1 }))
    yield { ...about, operator: 'alter port', detail: `${clusterIP}:${number}`, apply: shifted }
    if (!nodePort) continue
    const other = { nodePort: nodePort === 30_001 ? 30_002 : 30_001 }
    const apply = changed(({ spec }) => Object.assign(spec.ports[index] ?? {}, other))
    const found = { words: [...words, '30001', '30002'], detail: String(nodePort) }
    yield { ...about, ...found, operator: 'alter nodePort', apply }
  }
  const affinity = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } }
  const sticky = changed(({ spec }) => Object.assign(spec, affinity))
  yield { ...about, operator: 'alter affinity', apply: sticky }
}

const NOT_READY = { ready: false, serving: false, terminating: false }

function* sliceMutations(at: number, slice: z.infer<typeof sliceSchema>): Generator<Mutation> {
  const service = slice.metadata.labels?.['kubernetes.io/service-name'] ?? ''
  const addresses = slice.endpoints.flatMap((endpoint) => endpoint.addresses)
  if (addresses.length === 0) return
  const about = { place: `EndpointSlice ${nameOf(slice.metadata)}`, words: [...addresses, service] }
  const changed = edited(at, slice)
  yield { ...about, operator: 'drop EndpointSlice', detail: addresses.join(), apply: replaced(at) }
  for (const [index, endpoint] of slice.endpoints.entries()) {
    const [detail = ''] = endpoint.addresses
    const unready = changed(({ endpoints }) => Object.assign(endpoints[index] ?? {}, { conditions: NOT_READY }))
    const moved = changed(({ endpoints }) => Object.assign(endpoints[index] ?? {}, { addresses: ['10.244.94.94'] }))
    const gone = changed(({ endpoints }) => endpoints.splice(index, 1))
    yield { ...about, operator: 'drop endpoint', detail, apply: gone }
    yield { ...about, operator: 'endpoint not ready', detail, apply: unready }
    yield { ...about, words: [...about.words, '10.244.94.94'], operator: 'alter endpoint', detail, apply: moved }
  }
  for (const [index, { port }] of slice.ports.entries()) {
    if (port === undefined) continue
    const shifted = changed(({ ports }) => Object.assign(ports[index] ?? {}, { port: port + 1 }))
    yield { ...about, operator: 'alter targetPort', detail: String(port), apply: shifted }
  }
}

const SETTINGS: readonly [operator: string, pattern: RegExp, replacement: string, words: string[]][] = [
  ['alter scheduler', /scheduler: (?:""|\S*)/, 'scheduler: mh', ['mh', 'scheduler']],
  ['alter masqueradeBit', /masqueradeBit: \S+/, 'masqueradeBit: 13', ['0x2000', 'mark', 'MASQ']],
  [
    'alter masqueradeAll',
    /masqueradeAll: \S+/,
    'masqueradeAll: true',
    ['KUBE-SERVICES', 'KUBE-CLUSTER-IP', 'KUBE-MARK-MASQ', 'masquerade'],
  ],
  ['alter clusterCIDR', /clusterCIDR: \S+/, 'clusterCIDR: 10.200.0.0/16', ['10.200.0.0/16', 'KUBE-']],
  ['lose excludeCIDRs', /excludeCIDRs:\s*(?:-\s+\S+|\[[^\]]+\])/, 'excludeCIDRs: []', ['excludeCIDRs']],
  ['alter mode', /mode: (?:""|"?(?:ipvs|iptables)"?)/, 'mode: userspace', ['mode', 'userspace', 'iptables', 'ipvs']],
]

function* configMutations(at: number, config: z.infer<typeof configSchema>): Generator<Mutation> {
  const text = config.data['config.conf'] ?? ''
  for (const [operator, pattern, replacement, words] of SETTINGS) {
    const changed = text.replace(pattern, replacement)
    if (changed === text) continue
    const apply = replaced(at, { ...config, data: { ...config.data, 'config.conf': changed } })
    yield { operator, place: 'ConfigMap kube-proxy', detail: replacement, words, apply }
  }
}

const SCALE = 6
const SCALE_NOTES = notesName(SCALE)

/** Lab 6 judges a run that its notes keep. */
function* measurementMutations(at: number, config: z.infer<typeof configSchema>): Generator<Mutation> {
  const text = config.data[MEASUREMENT] ?? ''
  const run = readRun(text)
  if (!run) return
  for (const { change, ...about } of runChanges(run)) {
    const data = { ...config.data, [MEASUREMENT]: JSON.stringify(change(run)) }
    yield { ...about, place: notesPlace(SCALE), apply: replaced(at, { ...config, data }) }
  }
}
