import { sameJson } from '../apiserver/json.ts'
import type { Endpoint, EndpointSlice, SlicePort } from './resources.ts'

/** endpointslice-controller's --max-endpoints-per-slice. */
export const maxEndpointsPerSlice = 100

/** Endpoints that listen on the same ports. */
export interface SliceContent {
  ports: SlicePort[]
  endpoints: Endpoint[]
}

export interface SlicePlan {
  create: SliceContent[]
  update: { slice: EndpointSlice; content: SliceContent }[]
  remove: EndpointSlice[]
}

/** Equal for the same ports in any order. */
export function portsKey(ports: readonly SlicePort[]): string {
  return ports
    .map(({ name, port, protocol, appProtocol = '' }) => `${name} ${protocol} ${port} ${appProtocol}`)
    .sort()
    .join()
}

/** The identity of an endpoint: an address of one object. */
function endpointKey({ addresses, targetRef }: Endpoint): string {
  return `${targetRef?.uid ?? ''} ${addresses.join(' ')}`
}

/** Groups endpoints by the ports they listen on. */
export function groupByPorts(endpoints: readonly { ports: SlicePort[]; endpoint: Endpoint }[]): SliceContent[] {
  const groups = new Map<string, SliceContent>()
  for (const { ports, endpoint } of endpoints) {
    const key = portsKey(ports)
    const group = groups.get(key)
    if (group) group.endpoints.push(endpoint)
    else groups.set(key, { ports, endpoints: [endpoint] })
  }
  return [...groups.values()]
}

/**
 * The least change that makes `existing` slices (of one Service and address type) hold `wanted`, as the reconciler of
 * k8s.io/endpointslice finds it: endpoints stay in the slice they are in; slices that have to be written anyway are
 * filled first; the rest goes where it fits whole, else into new slices. A slice to remove is rather reused than
 * replaced, and a Service without endpoints keeps one empty slice.
 */
export function planSlices(existing: readonly EndpointSlice[], wanted: readonly SliceContent[]): SlicePlan {
  const plan: SlicePlan = { create: [], update: [], remove: [] }
  const keys = new Set(wanted.map(({ ports }) => portsKey(ports)))
  plan.remove.push(...existing.filter(({ ports }) => !keys.has(portsKey(ports ?? []))))
  for (const content of wanted) {
    const key = portsKey(content.ports)
    planGroup(
      plan,
      existing.filter(({ ports }) => portsKey(ports ?? []) === key),
      content,
    )
  }
  if (plan.create.length === 0 && plan.remove.length === existing.length) keepPlaceholder(plan)
  while (plan.create.length > 0 && plan.remove.length > 0) {
    const [content, slice] = [plan.create.shift(), plan.remove.shift()]
    if (content && slice) plan.update.push({ slice, content })
  }
  return plan
}

function keepPlaceholder(plan: SlicePlan) {
  const [only] = plan.remove
  const isPlaceholder = plan.remove.length === 1 && !only?.endpoints?.length && !only?.ports?.length
  if (isPlaceholder) plan.remove.pop()
  else plan.create.push({ ports: [], endpoints: [] })
}

function planGroup(plan: SlicePlan, existing: readonly EndpointSlice[], { ports, endpoints }: SliceContent) {
  const missing = new Map(endpoints.map((endpoint) => [endpointKey(endpoint), endpoint]))
  const kept = existing.map((slice) => {
    const stay: Endpoint[] = []
    for (const endpoint of slice.endpoints ?? []) {
      const now = missing.get(endpointKey(endpoint))
      if (now) stay.push(now)
      missing.delete(endpointKey(endpoint))
    }
    return { slice, endpoints: stay, changed: !sameJson(stay, slice.endpoints ?? []) }
  })
  const empty = kept.filter((entry) => entry.endpoints.length === 0)
  const filled = kept.filter((entry) => entry.endpoints.length > 0)
  const left = [...missing.values()]
  for (const entry of filled) {
    if (entry.changed) entry.endpoints.push(...left.splice(0, maxEndpointsPerSlice - entry.endpoints.length))
  }
  while (left.length >= maxEndpointsPerSlice)
    plan.create.push({ ports, endpoints: left.splice(0, maxEndpointsPerSlice) })
  if (left.length > 0) {
    const [fullest] = filled
      .filter((entry) => !entry.changed && entry.endpoints.length + left.length <= maxEndpointsPerSlice)
      .sort((one, other) => other.endpoints.length - one.endpoints.length)
    if (fullest) {
      fullest.endpoints.push(...left)
      fullest.changed = true
    } else plan.create.push({ ports, endpoints: left })
  }
  for (const entry of filled) {
    if (entry.changed) plan.update.push({ slice: entry.slice, content: { ports, endpoints: entry.endpoints } })
  }
  plan.remove.push(...empty.map(({ slice }) => slice))
}
