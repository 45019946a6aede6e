import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { timeoutScale } from '../../../host/wait.ts'
import type { JsonObject } from '../../apiserver/json.ts'
import { loadSchema, type Schema } from '../../apiserver/schema.ts'
import { strategicMerge } from '../../apiserver/strategic-merge.ts'

let schema: Schema
beforeAll(async () => {
  schema = await loadSchema()
})

const merge = (target: JsonObject, patch: JsonObject) =>
  strategicMerge(target, patch, schema, 'V1Pod')
const containers = (...list: JsonObject[]): JsonObject => ({ spec: { containers: list } })

describe('directives', () => {
  const pod = containers(
    { name: 'a', image: '1', env: [{ name: 'X', value: '1' }] },
    { name: 'b', image: '2' },
  )

  test('lists with a merge key merge item by item', () => {
    const patch = containers(
      { name: 'a', env: [{ name: 'Y', value: '2' }] },
      { name: 'c', image: '3' },
    )
    expect(merge(pod, patch)).toEqual(
      containers(
        {
          name: 'a',
          image: '1',
          env: [
            { name: 'X', value: '1' },
            { name: 'Y', value: '2' },
          ],
        },
        { name: 'b', image: '2' },
        { name: 'c', image: '3' },
      ),
    )
  })

  test('lists without one are replaced', () => {
    const target = {
      spec: { tolerations: [{ key: 'a' }], containers: [{ name: 'a', args: ['x', 'y'] }] },
    }
    const patch = {
      spec: { tolerations: [{ key: 'b' }], containers: [{ name: 'a', args: ['z'] }] },
    }
    expect(merge(target, patch)).toEqual(patch)
  })

  test('$patch deletes an item, and replaces a list or an object', () => {
    expect(merge(pod, containers({ name: 'a', $patch: 'delete' }))).toEqual(
      containers({ name: 'b', image: '2' }),
    )
    expect(merge(pod, containers({ $patch: 'replace' }, { name: 'z' }))).toEqual(
      containers({ name: 'z' }),
    )
    const labelled = { metadata: { labels: { a: '1', b: '2' } } }
    expect(merge(labelled, { metadata: { labels: { $patch: 'replace', c: '3' } } })).toEqual({
      metadata: { labels: { c: '3' } },
    })
  })

  test('$retainKeys drops what is not named', () => {
    const target = { spec: { volumes: [{ name: 'v', emptyDir: {} }] } }
    const patch = {
      spec: {
        volumes: [{ name: 'v', $retainKeys: ['name', 'hostPath'], hostPath: { path: '/x' } }],
      },
    }
    expect(merge(target, patch)).toEqual({
      spec: { volumes: [{ name: 'v', hostPath: { path: '/x' } }] },
    })
  })

  test('$setElementOrder orders, server-only items keep their place', () => {
    const target = containers({ name: 'injected' }, { name: 'a' }, { name: 'b' })
    const patch = { spec: { '$setElementOrder/containers': [{ name: 'b' }, { name: 'a' }] } }
    expect(merge(target, patch)).toEqual(
      containers({ name: 'injected' }, { name: 'b' }, { name: 'a' }),
    )
  })

  test('finalizers merge as a set, $deleteFromPrimitiveList takes some out', () => {
    const target = { metadata: { finalizers: ['a', 'b'] } }
    expect(merge(target, { metadata: { finalizers: ['b', 'c'] } })).toEqual({
      metadata: { finalizers: ['a', 'b', 'c'] },
    })
    expect(merge(target, { metadata: { '$deleteFromPrimitiveList/finalizers': ['a'] } })).toEqual({
      metadata: { finalizers: ['b'] },
    })
  })

  test('an item without its merge key is refused', () => {
    expect(() => merge(pod, containers({ image: 'x' }))).toThrow(
      'does not contain declared merge key: name',
    )
  })
})

const env = fc.uniqueArray(
  fc.record({ name: fc.constantFrom('A', 'B', 'C', 'D'), value: fc.string() }),
  {
    selector: ({ name }) => name,
  },
)
const container = fc.record({ name: fc.constantFrom('a', 'b', 'c', 'd'), image: fc.string(), env })
const podOf = fc
  .uniqueArray(container, { selector: ({ name }) => name })
  .map(
    (list): JsonObject =>
      containers(
        ...list.map((item): JsonObject => ({ ...item, env: item.env.map((one) => ({ ...one })) })),
      ),
  )

test('merging is idempotent, an empty patch changes nothing, and arguments stay as they are', () => {
  fc.assert(
    fc.property(podOf, podOf, (target, patch) => {
      const [targetBefore, patchBefore] = [structuredClone(target), structuredClone(patch)]
      const once = merge(target, patch)
      expect(merge(once, patch)).toEqual(once)
      expect(merge(target, {})).toEqual(target)
      expect([target, patch]).toEqual([targetBefore, patchBefore])
    }),
  )
})

test('every patched item is in the result, and nothing from before is lost', () => {
  fc.assert(
    fc.property(podOf, podOf, (target, patch) => {
      const names = (pod: JsonObject) => {
        const { containers: list } = pod.spec as { containers: { name: string; image: string }[] }
        return new Map(list.map((item) => [item.name, item.image]))
      }
      expect(names(merge(target, patch))).toEqual(new Map([...names(target), ...names(patch)]))
    }),
  )
})

test('lists of many items are merged and ordered in little time: no other client is served meanwhile', () => {
  const volumes = Array.from({ length: 20_000 }, (_, index): JsonObject => ({ name: `v${index}` }))
  const finalizers = volumes.map(({ name }) => name ?? '')
  const began = performance.now()
  const merged = merge({ spec: { volumes: volumes.slice(10_000) } }, { spec: { volumes } })
  const ordered = merge(merged, { spec: { '$setElementOrder/volumes': volumes } })
  const asSet = merge({ metadata: { finalizers } }, { metadata: { finalizers } })
  const took = performance.now() - began
  expect(ordered).toEqual({ spec: { volumes } })
  expect(asSet).toEqual({ metadata: { finalizers } })
  // With a search through the list for each item it was minutes.
  expect(took).toBeLessThan(5000 * timeoutScale())
})
