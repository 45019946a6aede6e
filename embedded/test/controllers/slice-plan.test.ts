import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Endpoint, EndpointSlice } from '../../controllers/resources.ts'
import { maxEndpointsPerSlice, type PlannedSlice, planSlices, type SliceContent } from '../../controllers/slice-plan.ts'

const ports = [80, 8080].map((port) => [{ name: '', port, protocol: 'TCP' }])

function endpoint(id: number, ready: boolean): Endpoint {
  const conditions = { ready, serving: ready, terminating: false }
  return {
    addresses: [`10.244.${id >> 8}.${id & 255}`],
    conditions,
    targetRef: { kind: 'Pod', name: `p${id}`, uid: `u${id}` },
  }
}

/** Carries a plan out, as the controller does. */
function apply(plan: readonly PlannedSlice[]): EndpointSlice[] {
  return plan.flatMap(({ slice, content }) => {
    if (!content) return []
    const name = `s${created++}`
    const metadata = { name, uid: name, resourceVersion: '1', creationTimestamp: '' }
    const fresh = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata, addressType: 'IPv4' as const }
    return [{ ...(slice ?? fresh), ...content }]
  })
}

let created = 0

const pods = fc.uniqueArray(
  fc.record({ id: fc.integer({ min: 0, max: 400 }), ready: fc.boolean(), port: fc.integer({ min: 0, max: 1 }) }),
  { selector: ({ id }) => id, maxLength: 350 },
)

test('any sequence of endpoints ends in slices with exactly these endpoints, and a second plan changes nothing', () => {
  fc.assert(
    fc.property(fc.array(pods, { minLength: 1, maxLength: 5 }), (wishes) => {
      let slices: EndpointSlice[] = []
      for (const wish of wishes) {
        const wanted = ports.flatMap((own, port): SliceContent[] => {
          const endpoints = wish.filter((item) => item.port === port).map(({ id, ready }) => endpoint(id, ready))
          return endpoints.length > 0 ? [{ ports: own, endpoints }] : []
        })
        slices = apply(planSlices(slices, wanted))
        const held = slices.flatMap((slice) =>
          (slice.endpoints ?? []).map(
            (item) => `${item.targetRef?.uid} ${item.conditions?.ready} ${slice.ports?.[0]?.port}`,
          ),
        )
        const wished = wish.map(({ id, ready, port }) => `u${id} ${ready} ${ports[port]?.[0]?.port}`)
        expect(held.sort()).toEqual(wished.sort())
        expect(slices.length).toBeGreaterThan(0)
        for (const slice of slices) expect(slice.endpoints?.length).toBeLessThanOrEqual(maxEndpointsPerSlice)
        expect(apply(planSlices(slices, wanted))).toEqual(slices)
      }
    }),
    { numRuns: 60 },
  )
})

test.each([
  [[5, 100, 100], [0], [206]],
  [[100, 5, 100], [], [206]],
  [[100, 100, 5], [3], []],
  [
    [100, 100, 5],
    [150, 151],
    [206, 207],
  ],
])(
  'slices of %j endpoints, without %j and with %j: one slice changes, whatever the order of their names',
  (sizes, gone, added) => {
    const all = Array.from({ length: 205 }, (_, id) => endpoint(id, true))
    let next = 0
    const slices = sizes.flatMap((size) => {
      const content = { ports: ports[0] ?? [], endpoints: all.slice(next, next + size) }
      next += size
      return apply([{ content }])
    })
    const left = all.filter((_, id) => !gone.includes(id))
    const wanted = [{ ports: ports[0] ?? [], endpoints: [...left, ...added.map((id) => endpoint(id, true))] }]
    const planned = apply(planSlices(slices, wanted))
    const changed = planned.filter(
      ({ metadata, endpoints }) =>
        JSON.stringify(slices.find((slice) => slice.metadata.uid === metadata.uid)?.endpoints) !==
        JSON.stringify(endpoints),
    )
    expect(changed).toHaveLength(1)
    expect(planned.flatMap((slice) => slice.endpoints ?? [])).toHaveLength(205 - gone.length + added.length)
  },
)
