import { expect, test } from 'vitest'
import { ItemTexts, printItems } from '../../../instructors/submission/item-texts.ts'
import { Refusal } from '../../../instructors/submission/untrusted-text.ts'

const written = (items: readonly object[]) => Buffer.from(printItems(items))

const read = (texts: ItemTexts, content: Buffer) => texts.items(content, 'objects.json', 'objects.json')

test('objects with any characters are read as written; those that two lists share are read once', () => {
  const texts = new ItemTexts()
  const [same, other] = [
    { kind: 'ConfigMap', data: { text: 'the server’s 鍵 🗝' } },
    { kind: 'Pod', name: 'ü' },
  ]
  const first = read(texts, written([same, other]))
  const second = read(texts, written([same, { kind: 'Pod', name: 'é' }]))
  expect(first).toEqual([same, other])
  expect(second).toEqual([same, { kind: 'Pod', name: 'é' }])
  expect(second?.[0]).toBe(first?.[0])
})

test('bytes that are not UTF-8 are refused', () => {
  const content = written([{ kind: 'Pod', name: 'x' }])
  content[content.indexOf('x"')] = 0xe9
  expect(() => read(new ItemTexts(), content)).toThrow(Refusal)
})

test('a list that is not one object per line is left to the JSON parser', () => {
  expect(read(new ItemTexts(), Buffer.from('{"items":[]}'))).toBeUndefined()
  const indented = `${JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [{ kind: 'Pod' }] }, null, 1)}\n`
  expect(read(new ItemTexts(), Buffer.from(indented))).toBeUndefined()
})

test('a list is written with one object per line', () => {
  const items = [{ kind: 'Pod', note: 'two\nlines,\n' }, { kind: 'Node' }]
  expect(JSON.parse(printItems(items))).toEqual({ apiVersion: 'v1', kind: 'List', items })
  expect(printItems(items).split('\n')).toHaveLength(5)
  expect(read(new ItemTexts(), written(items))).toEqual(items)
  expect(JSON.parse(printItems([])).items).toEqual([])
})
