import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { sameTemplate, templateHash } from '../../controllers/pod-control.ts'
import type { Deployment, PodTemplate, ReplicaSet } from '../../controllers/resources.ts'
import { desired, nextSizes, resolveCount, rolloutBounds } from '../../controllers/rollout.ts'

const metadata = (name: string) => ({
  name,
  uid: name,
  resourceVersion: '1',
  creationTimestamp: '2026-01-01T00:00:00Z',
})

function replicaSet(name: string, replicas: number, availableReplicas: number): ReplicaSet {
  const status = { replicas, availableReplicas }
  return {
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    metadata: metadata(name),
    spec: { replicas, selector: {} },
    status,
  }
}

function deploymentOf(
  replicas: number,
  maxSurge: number | string,
  maxUnavailable: number | string,
): Deployment {
  const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable } }
  const spec = { replicas, selector: {}, template: {}, strategy }
  return { apiVersion: 'apps/v1', kind: 'Deployment', metadata: metadata('web'), spec }
}

describe('bounds', () => {
  test.each([
    [4, '25%', '25%', 1, 1],
    [1, '25%', '25%', 1, 0],
    [10, '25%', '25%', 3, 2],
    [3, 0, '10%', 0, 1],
    [2, 0, 5, 0, 2],
    [0, '25%', '25%', 0, 0],
  ])(
    'of %i replicas with surge %s and unavailable %s are %i and %i',
    (replicas, surge, unavailable, up, down) => {
      expect(rolloutBounds(deploymentOf(replicas, surge, unavailable))).toEqual({
        surge: up,
        unavailable: down,
      })
    },
  )

  test('percentages round as asked, numbers are taken as they are', () => {
    expect(resolveCount('34%', 10, Math.ceil)).toBe(4)
    expect(resolveCount('34%', 10, Math.floor)).toBe(3)
    expect(resolveCount(7, 10, Math.floor)).toBe(7)
  })
})

const situation = fc.record({
  replicas: fc.integer({ min: 0, max: 12 }),
  surge: fc.integer({ min: 0, max: 5 }),
  unavailable: fc.integer({ min: 0, max: 5 }),
  sets: fc.array(
    fc.tuple(fc.integer({ min: 0, max: 8 }), fc.double({ min: 0, max: 1, noNaN: true })),
    {
      minLength: 1,
      maxLength: 4,
    },
  ),
})

test('a step never makes more Pods than the surge allows, nor takes more available ones than it may', () => {
  fc.assert(
    fc.property(situation, ({ replicas, surge, unavailable, sets }) => {
      const deployment = deploymentOf(replicas, surge, unavailable)
      const all = sets.map(([size, share], index) =>
        replicaSet(`web-${index}`, size, Math.floor(size * share)),
      )
      const [current, ...old] = all
      if (!current) return
      const sizes = nextSizes({ deployment, current, old })
      const sum = (count: (set: ReplicaSet) => number) =>
        all.reduce((total, set) => total + count(set), 0)
      const next = ({ metadata }: ReplicaSet) => sizes.get(metadata.name) ?? 0
      const bounds = rolloutBounds(deployment)
      expect(next(current)).toBeGreaterThanOrEqual(Math.min(replicas, desired(current)))
      expect(sum(next)).toBeLessThanOrEqual(Math.max(sum(desired), replicas + bounds.surge))
      // The worst case: each ReplicaSet gives up available Pods only after those that are not.
      const available = ({ status }: ReplicaSet) => status?.availableReplicas ?? 0
      const [before, after] = [sum(available), sum((set) => Math.min(available(set), next(set)))]
      expect(after).toBeGreaterThanOrEqual(Math.min(before, replicas - bounds.unavailable))
    }),
  )
})

describe('the template hash', () => {
  const template: PodTemplate = {
    metadata: { labels: { app: 'web' } },
    spec: { containers: [{ name: 'a', image: 'b' }] },
  }

  test('does not depend on the order of fields, but on every value', () => {
    const reordered: PodTemplate = {
      spec: { containers: [{ image: 'b', name: 'a' }] },
      metadata: { labels: { app: 'web' } },
    }
    const other: PodTemplate = { ...template, spec: { containers: [{ name: 'a', image: 'c' }] } }
    expect(templateHash(reordered)).toBe(templateHash(template))
    expect(templateHash(other)).not.toBe(templateHash(template))
  })

  test('label is no part of what makes templates the same', () => {
    const hashed = { ...template, metadata: { labels: { app: 'web', 'pod-template-hash': 'x' } } }
    expect(sameTemplate(template, hashed)).toBe(true)
    expect(sameTemplate(template, { ...template, metadata: { labels: { app: 'api' } } })).toBe(
      false,
    )
  })
})
