import { expect, test } from 'vitest'
import { printItems, readItems } from '../../../instructors/submission/manifest.ts'
import { SubmissionRefusal } from '../../../instructors/submission/untrusted-text.ts'

const read = (text: string, known = new Map<string, unknown>()) =>
  readItems(text, 'objects.json', known)

test('objects with any characters are read as written; those that two lists share are read once', () => {
  const known = new Map<string, unknown>()
  const same = { kind: 'ConfigMap', data: { text: 'the server’s 鍵 🗝' } }
  const first = read(printItems([same, { kind: 'Pod', name: 'ü' }]), known)
  const second = read(printItems([same, { kind: 'Pod', name: 'é' }]), known)
  expect(first).toEqual([same, { kind: 'Pod', name: 'ü' }])
  expect(second).toEqual([same, { kind: 'Pod', name: 'é' }])
  expect(second[0]).toBe(first[0])
})

test('a list in another form is read as well; anything else is refused', () => {
  expect(read('{"items":[]}')).toEqual([])
  const items = [{ kind: 'Pod' }]
  expect(read(JSON.stringify({ apiVersion: 'v1', kind: 'List', items }, null, 1))).toEqual(items)
  for (const text of ['{"items":7}', '[', printItems(items).replace('"Pod"', 'Pod')])
    expect(() => read(text)).toThrow(SubmissionRefusal)
})

test('a list is written with one object per line', () => {
  const items = [{ kind: 'Pod', note: 'two\nlines,\n' }, { kind: 'Node' }]
  expect(JSON.parse(printItems(items))).toEqual({ apiVersion: 'v1', kind: 'List', items })
  expect(printItems(items).split('\n')).toHaveLength(5)
  expect(read(printItems(items))).toEqual(items)
  expect(read(printItems([]))).toEqual([])
})
