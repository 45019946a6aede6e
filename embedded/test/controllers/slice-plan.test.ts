import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { EndpointSliceObject, SliceEndpoint } from '../../controllers/resources.ts'
import { planSlices, type SliceContent, type SlicePlan } from '../../controllers/slice-plan.ts'

const ports = [80, 8080].map((port) => [{ name: '', port, protocol: 'TCP' }])

function endpoint(id: number, ready: boolean): SliceEndpoint {
  const conditions = { ready, serving: ready, terminating: false }
  return {
    addresses: [`10.244.${id >> 8}.${id & 255}`],
    conditions,
    targetRef: { kind: 'Pod', name: `p${id}`, uid: `u${id}` },
  }
}

/** Carries a plan out, as the controller does. */
function apply({ wanted }: SlicePlan): EndpointSliceObject[] {
  return wanted.map(({ slice, content }) => {
    const name = `s${created++}`
    const metadata = { name, uid: name, resourceVersion: '1', creationTimestamp: '' }
    const fresh = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata,
      addressType: 'IPv4' as const,
    }
    return { ...(slice ?? fresh), ...content }
  })
}

let created = 0

const pods = fc.uniqueArray(
  fc.record({
    id: fc.integer({ min: 0, max: 40 }),
    ready: fc.boolean(),
    port: fc.integer({ min: 0, max: 1 }),
  }),
  { selector: ({ id }) => id, maxLength: 35 },
)

test('any sequence of endpoints ends in slices with exactly these endpoints, and a second plan changes nothing', () => {
  fc.assert(
    fc.property(fc.array(pods, { minLength: 1, maxLength: 5 }), (requests) => {
      let slices: EndpointSliceObject[] = []
      for (const requested of requests) {
        const wanted = ports.flatMap((own, port): SliceContent[] => {
          const endpoints = requested
            .filter((item) => item.port === port)
            .map(({ id, ready }) => endpoint(id, ready))
          return endpoints.length > 0 ? [{ ports: own, endpoints }] : []
        })
        slices = apply(planSlices(slices, wanted))
        const current = slices.flatMap((slice) =>
          (slice.endpoints ?? []).map(
            (item) => `${item.targetRef?.uid} ${item.conditions?.ready} ${slice.ports?.[0]?.port}`,
          ),
        )
        const wished = requested.map(
          ({ id, ready, port }) => `u${id} ${ready} ${ports[port]?.[0]?.port}`,
        )
        expect(current.sort()).toEqual(wished.sort())
        expect(slices.length).toBeGreaterThan(0)
        expect(apply(planSlices(slices, wanted))).toEqual(slices)
      }
    }),
    { numRuns: 60 },
  )
})
