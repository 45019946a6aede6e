import { expect, test } from 'vitest'
import type { JsonObject } from '../../apiserver/json.ts'
import { type Author, trackUpdate } from '../../apiserver/managed-fields.ts'
import { loadSchema } from '../../apiserver/schema.ts'
import { serverSideApply } from '../../apiserver/server-side-apply.ts'

const schema = await loadSchema()
const by = (manager: string): Author => ({ manager, time: '2026-01-01T00:00:00Z' })

const service = (spec: JsonObject, metadata: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'web', ...metadata },
  spec,
})
const apply = (live: JsonObject | undefined, manager: string, config: JsonObject, force = false) =>
  serverSideApply({ schema, typeName: 'V1Service', live, config, author: by(manager), force })
/** An update by another client, such as `kubectl edit`. */
const update = (live: JsonObject, next: JsonObject) =>
  trackUpdate(schema, 'V1Service', live, { ...next, metadata: { ...(live.metadata as object) } }, by('editor'))
const contentOf = ({ metadata, spec }: JsonObject) => {
  const { managedFields: _owners, name: _name, ...own } = metadata as JsonObject
  return { ...own, ...(spec as object) }
}

test('a repeated configuration changes nothing, not even the owners', () => {
  const config = service({ ports: [{ port: 80, name: 'http' }] }, { labels: { a: '1' }, finalizers: ['x/y'] })
  const once = apply(undefined, 'kubectl', config)
  expect(apply(once, 'kubectl', config)).toEqual(once)
})

test('list items are merged by their keys, members of sets are added', () => {
  const live = apply(undefined, 'one', service({ ports: [{ port: 80 }] }, { finalizers: ['one/a'] }))
  const both = apply(live, 'two', service({ ports: [{ port: 443, name: 'tls' }] }, { finalizers: ['two/b'] }))
  expect(contentOf(both)).toEqual({
    finalizers: ['one/a', 'two/b'],
    ports: [{ port: 80 }, { port: 443, protocol: 'TCP', name: 'tls' }],
  })
})

test('what a manager no longer names goes, unless another one owns it too', () => {
  const config = service({ ports: [{ port: 80 }, { port: 443 }], type: 'NodePort' }, { labels: { a: '1', b: '2' } })
  const shared = apply(apply(undefined, 'one', config), 'two', service({ type: 'NodePort' }, { labels: { b: '2' } }))
  const less = apply(shared, 'one', service({ ports: [{ port: 443 }] }))
  expect(contentOf(less)).toEqual({ labels: { b: '2' }, ports: [{ port: 443 }], type: 'NodePort' })
})

test('an item that is dropped is removed with the fields that have no owner', () => {
  const live = apply(undefined, 'one', service({ ports: [{ port: 80 }, { port: 443 }] }))
  const [first, second] = (live.spec as JsonObject).ports as JsonObject[]
  const defaulted = {
    ...live,
    spec: {
      ports: [
        { ...first, targetPort: 80 },
        { ...second, targetPort: 443 },
      ],
    },
  }
  const less = apply(defaulted, 'one', service({ ports: [{ port: 443 }] }))
  expect(contentOf(less)).toEqual({ ports: [{ port: 443, targetPort: 443 }] })
})

test('another value of a field that another manager owns is a conflict, unless forced', () => {
  const live = apply(undefined, 'one', service({ type: 'ClusterIP', ports: [{ port: 80, targetPort: 1 }] }))
  const edited = update(live, service({ type: 'NodePort', ports: [{ port: 80, targetPort: 2 }] }))
  const config = service({ type: 'ClusterIP', ports: [{ port: 80, targetPort: 1 }] })
  expect(() => apply(edited, 'one', config)).toThrow(
    'Apply failed with 2 conflicts: conflict with "editor" using v1: .spec.type\n- conflict with "editor" using v1: .spec.ports[port=80,protocol="TCP"].targetPort',
  )
  const forced = apply(edited, 'one', config, true)
  expect(contentOf(forced)).toEqual(contentOf(live))
  expect((forced.metadata as JsonObject).managedFields).toMatchObject([{ manager: 'one', operation: 'Apply' }])
})
