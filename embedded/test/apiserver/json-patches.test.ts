import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Json, wireCopy } from '../../apiserver/json.ts'
import { jsonPatch, mergePatch } from '../../apiserver/patches.ts'

const json = fc.jsonValue({ maxDepth: 3 }).map((value) => wireCopy(value) as Json)

describe('merge patch (RFC 7386)', () => {
  test.each<[Json, Json, Json]>([
    [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
    [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
    [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
    [
      ['a', 'b'],
      ['c', 'd'],
      ['c', 'd'],
    ],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ])('%j patched with %j', (target, patch, expected) => {
    expect(mergePatch(target, patch)).toEqual(expected)
  })

  test('is idempotent and leaves its arguments alone', () => {
    fc.assert(
      fc.property(json, json, (target, patch) => {
        const before = structuredClone(target)
        const once = mergePatch(target, patch)
        expect(mergePatch(once, patch)).toEqual(once)
        expect(target).toEqual(before)
      }),
    )
  })
})

describe('JSON patch (RFC 6902)', () => {
  test.each<[Json, Json, Json]>([
    [{ a: [1, 3] }, [{ op: 'add', path: '/a/1', value: 2 }], { a: [1, 2, 3] }],
    [{ a: [1] }, [{ op: 'add', path: '/a/-', value: 2 }], { a: [1, 2] }],
    [{ 'x/y': { '~': 1 } }, [{ op: 'replace', path: '/x~1y/~0', value: 2 }], { 'x/y': { '~': 2 } }],
    [{ a: 1, b: 2 }, [{ op: 'move', from: '/a', path: '/c' }], { b: 2, c: 1 }],
    [
      { a: { b: 1 } },
      [
        { op: 'copy', from: '/a', path: '/c' },
        { op: 'remove', path: '/a/b' },
      ],
      { a: {}, c: { b: 1 } },
    ],
    [
      { a: 1 },
      [
        { op: 'test', path: '/a', value: 1 },
        { op: 'replace', path: '', value: [] },
      ],
      [],
    ],
  ])('%j patched with %j', (target, patch, expected) => {
    expect(jsonPatch(target, patch)).toEqual(expected)
  })

  test.each<[Json]>([
    [[{ op: 'remove', path: '/missing' }]],
    [[{ op: 'replace', path: '/missing', value: 1 }]],
    [[{ op: 'add', path: '/missing/deeper', value: 1 }]],
    [[{ op: 'add', path: '/list/5', value: 1 }]],
    [[{ op: 'test', path: '/a', value: 2 }]],
    [[{ op: 'explode', path: '/a' }]],
    [[{ op: 'add', path: 'a', value: 1 }]],
    [{ a: 1 }],
  ])('%j is refused', (patch) => {
    const target = { a: 1, list: [1] }
    expect(() => jsonPatch(target, patch)).toThrow()
    expect(target).toEqual({ a: 1, list: [1] })
  })

  test('copies may add 3 MB, as in Kubernetes: copies of copies would double the document', () => {
    const copies = (count: number) =>
      Array.from({ length: count }, (_, index) => ({
        op: 'copy',
        from: '/a',
        path: `/a/c${index}`,
      }))
    const target = { a: { text: 'x'.repeat(1000) } }
    expect(JSON.stringify(jsonPatch(target, copies(10))).length).toBeGreaterThan(1_000_000)
    expect(() => jsonPatch(target, copies(40))).toThrow(
      expect.objectContaining({
        code: 422,
        message: expect.stringMatching(
          /^the server rejected our request due to an error in our request: Unable to complete the copy, the accumulated size increase of copy is \d+, exceeding the limit 3145728$/,
        ),
      }),
    )
  })

  test('a patch may have 10,000 operations', () => {
    const tests = (count: number) =>
      Array.from({ length: count }, () => ({ op: 'test', path: '', value: 1 }))
    expect(jsonPatch(1, tests(10_000))).toBe(1)
    expect(() => jsonPatch(1, tests(10_001))).toThrow(
      expect.objectContaining({
        code: 413,
        message:
          'Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001',
      }),
    )
  })

  test('what is added can be read back, and removing it restores the document', () => {
    const key = fc.string({ minLength: 1 }).filter((name) => name !== '__proto__')
    fc.assert(
      fc.property(fc.dictionary(key, json), key, json, (target, name, value) => {
        const { [name]: _dropped, ...document } = wireCopy(target)
        const path = `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
        const added = jsonPatch(document, [
          { op: 'add', path, value },
          { op: 'test', path, value },
        ])
        expect(jsonPatch(added, [{ op: 'remove', path }])).toEqual(document)
      }),
    )
  })
})
