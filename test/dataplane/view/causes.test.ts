import { expect, test } from 'vitest'
import { canonicalAddress } from '../../../dataplane/ip-address.ts'
import type { ServicePort } from '../../../dataplane/kube-proxy/service-ports.ts'
import { readObjects } from '../../../dataplane/objects.ts'
import { predict, proxiersOf, writeState } from '../../../dataplane/predict.ts'
import { type Cause, type Causes, causesOf } from '../../../dataplane/view/causes.ts'
import { holdingEntries, holdingsOf } from '../../../dataplane/view/holdings.ts'
import { recordedConfig } from '../recordings.ts'
import { byMode, type RecordedNode, recordedNodes, threeVersions, wholeNodes } from './nodes.ts'

/** The value of `spec.ports[0].nodePort` in an object. */
const valueAt = (object: unknown, field: string): unknown =>
  field.split(/[.[\]]+/).reduce((value: unknown, key) => {
    if (key === '') return value
    return typeof value === 'object' && value !== null
      ? (value as Record<string, unknown>)[key]
      : undefined
  }, object)

test.each(byMode)(
  'every entry of the recorded nodes of $mode has a cause in the objects',
  ({ nodes }) => {
    expect(nodes.flatMap((node) => faultsOf(node.read()))).toEqual([])
  },
)

function faultsOf({ path, state, objects, options, items }: RecordedNode): string[] {
  const holdings = holdingsOf(options.node, state)
  const causes = causesOf(state, objects, options, holdings)
  const faults: string[] = []
  const find = (label: string) =>
    items.find(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}` === label)
  for (const { id, text, kind } of holdingEntries(holdings)) {
    const because = causes.get(id) ?? []
    if (kind === 'group') continue
    faults.push(
      ...otherKinds(id, kind, because),
      ...because
        .filter((one) => one.kind === 'service')
        .flatMap((cause) => otherValue(cause, find(cause.object)).map((why) => `${id}: ${why}`)),
      ...otherNames(text, because),
    )
  }
  return faults.map((fault) => `${path}: ${fault}`)
}

/**
 * An entry has one kind of cause: of the kernel itself for built-in chains and other links, else of
 * Kubernetes.
 */
function otherKinds(id: string, kind: string, because: readonly Cause[]): string[] {
  const isKernels =
    (kind !== 'rule' && /^iptables\/\w+(\/[A-Z]+)?$/.test(id)) || /^links\/(?!kube-ipvs0)/.test(id)
  const kinds = new Set(because.map((cause) => cause.kind))
  const isRight = kinds.size === 1 && !kinds.has('left over') && kinds.has('other') === isKernels
  return isRight ? [] : [`${id}: ${[...kinds]}`]
}

/** The object of a cause has its field, and the reason tells the value. */
function otherValue(cause: Cause, object: unknown): string[] {
  const value = valueAt(object, cause.field)
  if (value === undefined) return [`${cause.object} has no ${cause.field}`]
  const isTold = typeof value === 'object' || cause.reason.includes(canonicalAddress(String(value)))
  return isTold ? [] : [`${cause.reason} does not tell ${value}`]
}

/** The names and addresses in a text are those of its cause. */
function otherNames(text: string, because: readonly Cause[]): string[] {
  const service = /--comment "([a-z0-9-]+\/[a-z0-9-]+)/.exec(text)?.[1]
  const endpoint = /(?:--to-destination|->|dnat to) (10\.244[\d.]+:\d+)/.exec(text)?.[1]
  return [
    ...(service && !because.some((cause) => cause.service === service) ? [service] : []),
    ...(endpoint && !because.some((cause) => cause.endpoint === endpoint) ? [endpoint] : []),
  ].map((name) => `${text}: not ${name}`)
}

const servicesOf = (causes: readonly Cause[] = []) => [
  ...new Set(causes.map(({ service }) => service)),
]

test('without one Service, a node lacks exactly the entries that exist only because of it', () => {
  for (const { path, read } of threeVersions) {
    const { objects, options } = read()
    const whole = holdingsOf(options.node, predict(objects, options))
    const causes = causesOf(predict(objects, options), objects, options, whole)
    for (const { namespace, name } of objects.services) {
      const services = objects.services.filter(
        (service) => service.namespace !== namespace || service.name !== name,
      )
      const without = holdingsOf(options.node, predict({ ...objects, services }, options))
      const left = new Set([...holdingEntries(without)].map(({ id }) => id))
      const gone = [...holdingEntries(whole)].map(({ id }) => id).filter((id) => !left.has(id))
      const alone = [...causes]
        .filter(([, of]) => servicesOf(of).join() === `${namespace}/${name}`)
        .map(([id]) => id)
      expect(gone.sort(), path).toEqual(alone.sort())
    }
  }
})

/** Service ports without one thing, and the causes that name it. */
interface Change {
  change: (port: ServicePort) => ServicePort
  isNamed: (cause: Cause) => boolean
}

const withoutSetting = (name: string, setting: Partial<ServicePort>): Change => ({
  change: (port) => ({ ...port, ...setting }),
  isNamed: ({ field }) => field === `spec.${name}`,
})

/** Another endpoint in the place of each port's first one. */
function withoutFirstEndpoints(): Change {
  const replaced = new Set<string>()
  return {
    change: (port) => {
      const [first, ...others] = port.endpoints
      if (!first || !port.endpoints.some(({ ready }) => ready)) return port
      replaced.add(first.text)
      const isSix = first.ip.includes(':')
      const other = isSix
        ? { ip: '2001:db8::1', text: '[2001:db8::1]:1' }
        : { ip: '192.0.2.1', text: '192.0.2.1:1' }
      return { ...port, endpoints: [{ ...first, ...other, port: 1 }, ...others] }
    },
    isNamed: ({ endpoint }) => replaced.has(endpoint ?? ''),
  }
}

/** The entries that kube-proxy writes for Service ports that are changed, with their texts. */
function textsWith({ objects, options }: RecordedNode, change: Change['change']) {
  const proxiers = [...proxiersOf(objects, options)].map(
    ([family, proxier]) => [family, { ...proxier, ports: proxier.ports.map(change) }] as const,
  )
  const holdings = holdingsOf(options.node, writeState(new Map(proxiers), options))
  return new Map([...holdingEntries(holdings)].map(({ id, text }) => [id, text]))
}

test('an entry names a setting or an endpoint exactly if kube-proxy would not write it, or with another text, without', () => {
  const counts = new Map<string, number>()
  const newest = recordedNodes.filter(({ path }) => path.startsWith('v1.36'))
  for (const { path, read } of [...threeVersions, ...newest]) {
    const node = read()
    const { objects, options } = node
    const whole = textsWith(node, (port) => port)
    const causes = causesOf(predict(objects, options), objects, options)
    const compare = ({ change, isNamed }: Change) => {
      const rest = textsWith(node, change)
      const ids = [...whole.keys()]
      return {
        different: ids.filter((id) => rest.get(id) !== whole.get(id)),
        named: ids.filter((id) => causes.get(id)?.some(isNamed)),
      }
    }
    for (const [what, one] of Object.entries({
      affinity: withoutSetting('sessionAffinity', { affinity: undefined }),
      internal: withoutSetting('internalTrafficPolicy', { internalLocal: false }),
      external: withoutSetting('externalTrafficPolicy', { externalLocal: false }),
      health: withoutSetting('healthCheckNodePort', { healthCheckNodePort: 0 }),
      endpoints: withoutFirstEndpoints(),
    })) {
      const { different, named } = compare(one)
      expect(named, `${path} ${what}`).toEqual(different)
      counts.set(what, (counts.get(what) ?? 0) + named.length)
    }
    // What an external IP needs too remains without the node port.
    const { different, named } = compare({
      change: (port) => ({ ...port, nodePort: 0 }),
      isNamed: ({ field }) => field.endsWith('.nodePort'),
    })
    expect(named, path).toEqual(expect.arrayContaining(different))
  }
  expect(Object.fromEntries(counts)).toEqual({
    affinity: 225,
    internal: 85,
    external: 257,
    health: 19,
    endpoints: 3518,
  })
})

const reasons = (causes: Causes, id: string) => causes.get(id)?.map(({ reason }) => reason)

test('entries of other programs and leftovers have their own reasons', () => {
  const at = (path: string) =>
    wholeNodes.find((one) => one.path === path) as (typeof wholeNodes)[number]
  const { state, objects } = at(
    'kind-v1.20.2/ipvs-kernel-2-switched-not-flushed/nodes/k8s-guide-worker',
  )
  if (!objects) throw new Error('objects are recorded')
  const causes = causesOf(state, objects, {
    node: 'k8s-guide-worker',
    mode: 'ipvs',
    version: 'v1.20.2',
  })
  for (const { id, kind } of holdingEntries(holdingsOf('k8s-guide-worker', state))) {
    const kinds = new Set(causes.get(id)?.map((cause) => cause.kind))
    if (/KIND-MASQ-AGENT|KUBE-KUBELET-CANARY|links\/eth0/.test(id))
      expect([...kinds], id).toEqual(['other'])
    if (/\/KUBE-(SVC|SEP)-/.test(id)) expect([...kinds], id).toEqual(['left over'])
    if (kind !== 'group') expect(kinds.size, id).toBeGreaterThan(0)
  }
  expect(reasons(causes, 'iptables/filter/KUBE-EXTERNAL-SERVICES')).toEqual([
    'left over: nothing in the API asks for it',
  ])
  expect(reasons(causes, 'iptables/nat/POSTROUTING')).toEqual(['the kernel has it by itself'])
  expect(causes.get('ipvs/TCP 10.96.0.10:53')?.map(({ service }) => service)).toEqual([
    'kube-system/kube-dns',
  ])
})

test('a reason names the field of the object', () => {
  const service = (name: string, spec: object, status: object = {}) => [
    { kind: 'Service', metadata: { namespace: 'default', name }, spec, status },
    {
      kind: 'EndpointSlice',
      metadata: {
        namespace: 'default',
        name: `${name}-x`,
        labels: { 'kubernetes.io/service-name': name },
      },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080 }],
      endpoints:
        spec === none
          ? []
          : [{ addresses: ['10.244.2.4'], nodeName: 'other', conditions: { ready: true } }],
    },
  ]
  const ports = [{ name: 'http', port: 80, nodePort: 30080 }]
  const none = { clusterIP: '10.96.0.3', ports }
  const items = [
    {
      kind: 'Node',
      metadata: { name: 'worker' },
      status: { addresses: [{ type: 'InternalIP', address: '172.18.0.3' }] },
    },
    ...service('web', {
      clusterIP: '10.96.0.2',
      type: 'NodePort',
      ports,
      sessionAffinity: 'ClientIP',
      externalTrafficPolicy: 'Local',
    }),
    ...service('none', none),
  ]
  const { objects } = readObjects({ kind: 'List', items })
  const options = {
    node: 'worker',
    mode: 'iptables',
    version: '1.30',
    config: recordedConfig(),
  } as const
  const state = predict(objects, options)
  const causes = causesOf(state, objects, options)
  const reasonsOf = (pattern: RegExp) =>
    [...holdingEntries(holdingsOf('worker', state))]
      .filter(({ text }) => pattern.test(text))
      .map(({ id }) => reasons(causes, id))
  const web = 'of Service default/web'
  expect(reasonsOf(/^-A KUBE-NODEPORTS .*30080/)[0]).toEqual([
    `because port http ${web} has nodePort 30080`,
  ])
  expect(reasonsOf(/^-A KUBE-SERVICES .*10\.96\.0\.2/)).toEqual([
    [`because port http ${web} is TCP 10.96.0.2:80`],
  ])
  expect(reasonsOf(/--to-destination/)).toEqual([
    [
      'because Service default/web has sessionAffinity ClientIP for 10800 seconds',
      `because EndpointSlice default/web-x lists 10.244.2.4:8080 as an endpoint ${web}`,
    ],
  ])
  expect(reasonsOf(/default\/web:http has no local endpoints/)).toEqual([
    [
      `because port http ${web} has nodePort 30080`,
      'because Service default/web has externalTrafficPolicy Local, and none of its endpoints is on worker',
    ],
  ])
  expect(reasonsOf(/10\.96\.0\.3.* REJECT/)).toEqual([
    ['because port http of Service default/none has no ready endpoint'],
  ])
  expect(reasonsOf(/-A PREROUTING/)).toEqual([
    [
      'because kube-proxy runs in mode iptables: it leads to KUBE-SERVICES, which finds packets to Services by their destination',
    ],
  ])
})
