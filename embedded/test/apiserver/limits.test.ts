// What a client may store, and what the server keeps of it: the limits of Kubernetes, one byte on
// either side of them.
import { beforeEach, describe, expect, test } from 'vitest'
import { type Api, createClusterApi } from '../../apiserver/api.ts'
import type { Stored } from '../../apiserver/store.ts'

let api: Api
beforeEach(() => {
  api = createClusterApi()
})

/** Annotations of this size: the bytes of all keys and values. */
const annotationsOf = (bytes: number) => ({ 'example.com/a': 'x'.repeat(bytes - 20), b: '123456' })
const most = 262_144
const tooLong = (field: string, bytes: number) =>
  `${field}: Too long: may not be more than ${bytes} bytes`

describe('annotations have 262,144 bytes at most, with their keys,', () => {
  const map = { metadata: { name: 'map' } }
  const template = (bytes: number) => ({
    metadata: { annotations: annotationsOf(bytes), labels: { app: 'a' } },
    spec: { containers: [{ name: 'a', image: 'b' }] },
  })
  const deployment = (bytes: number) => ({
    metadata: { name: 'big' },
    spec: { selector: { matchLabels: { app: 'a' } }, template: template(bytes) },
  })

  test.each([
    {
      how: 'of a new object',
      field: 'metadata.annotations',
      write: (bytes: number) =>
        api.create('configmaps', 'default', {
          metadata: { name: 'new', annotations: annotationsOf(bytes) },
        }),
    },
    {
      how: 'after a patch that adds to them',
      field: 'metadata.annotations',
      write: (bytes: number) => {
        const annotations = { 'example.com/a': 'x'.repeat(131_072 - 13) }
        api.create('configmaps', 'default', { metadata: { ...map.metadata, annotations } })
        const more = { b: 'x'.repeat(bytes - 131_072 - 1) }
        api.patch('configmaps', 'default', 'map', { metadata: { annotations: more } })
      },
    },
    {
      how: 'of a node whose status is written',
      field: 'metadata.annotations',
      write: (bytes: number) => {
        api.create('nodes', undefined, { metadata: { name: 'node' } })
        const metadata = { annotations: annotationsOf(bytes) }
        api.patch('nodes', undefined, 'node', { metadata }, 'status')
      },
    },
    {
      how: 'in the template of Pods',
      field: 'spec.template.metadata.annotations',
      write: (bytes: number) => api.create('deployments', 'default', deployment(bytes)),
    },
  ])('$how', ({ field, write }) => {
    expect(() => write(most + 1)).toThrow(tooLong(field, most))
    api = createClusterApi()
    write(most)
  })

  test('which are counted in UTF-8', () => {
    const write = (text: string) =>
      api.create('configmaps', 'default', { metadata: { name: 'new', annotations: { a: text } } })
    expect(() => write('é'.repeat(most / 2))).toThrow(tooLong('metadata.annotations', most))
    write('é'.repeat(most / 2 - 1))
  })
})

describe('values have 1,048,576 bytes at most', () => {
  const limit = 1024 * 1024
  const text = (bytes: number) => 'x'.repeat(bytes)
  const base64 = (bytes: number) => Buffer.alloc(bytes).toString('base64')

  test.each([
    ['configmaps', '[]', (bytes: number) => ({ data: { a: text(bytes - 5), b: 'xxxxx' } })],
    [
      'configmaps',
      '[]',
      (bytes: number) => ({ data: { a: text(5) }, binaryData: { b: base64(bytes - 5) } }),
    ],
    ['secrets', 'data', (bytes: number) => ({ data: { a: base64(bytes - 5), b: base64(5) } })],
    ['secrets', 'data', (bytes: number) => ({ stringData: { a: text(bytes) } })],
  ] as const)('in %s: %s', (resource, field, content) => {
    const create = (bytes: number) =>
      api.create(resource, 'default', { metadata: { name: 'new' }, ...content(bytes) })
    expect(() => create(limit + 1)).toThrow(tooLong(field, limit))
    create(limit)
  })
})

describe('the history for resumed watches', () => {
  const write = (name: string, text: string) => {
    const map = api.get<Stored>('configmaps', 'default', name)
    const object = map ?? api.create('configmaps', 'default', { metadata: { name } })
    api.store.put('configmaps', { ...object, data: { text } })
  }
  const changesSince = (count: number) => () =>
    api.store.since('configmaps', api.store.revision - count).length

  test('has at most 128 MiB of objects: earlier changes are 410 Expired', () => {
    const text = 'x'.repeat(1_000_000)
    for (let index = 0; index < 300; index++) write('big', text)
    expect(changesSince(60)()).toBe(60)
    expect(changesSince(140)).toThrow('too old resource version')
    // What follows has room again.
    for (let index = 0; index < 1000; index++) write('small', `${index}`)
    expect(changesSince(1000)()).toBe(1000)
  })

  test('has at least 20,000 changes of usual size', () => {
    for (let index = 0; index < 41_000; index++) write('small', `${index}`)
    expect(changesSince(20_000)()).toBe(20_000)
    expect(changesSince(40_500)).toThrow('too old resource version')
  })
})
