import { beforeEach, expect, test } from 'vitest'
import type { Api } from '../../apiserver/api.ts'
import { createClusterApi } from '../../apiserver/api.ts'
import { EventRecorder } from '../../controllers/events.ts'
import type { Event } from '../../controllers/resources.ts'
import { createNode } from './cluster.ts'
import { pod } from './manifests.ts'

let api: Api
beforeEach(() => {
  api = createClusterApi()
})

const list = () => api.list<Event>('events')

test('an Event has the fields that kubectl get events and describe read', () => {
  const web = api.create('pods', 'default', pod('web'))
  const fieldPath = 'spec.containers{web}'
  new EventRecorder(api, 'kubelet', 'k8s-guide-worker').event(
    web,
    'Normal',
    'Pulled',
    'There it is',
    fieldPath,
  )
  const { uid, resourceVersion } = web.metadata
  const involved = { apiVersion: 'v1', kind: 'Pod', namespace: 'default', name: 'web' }
  expect(list()).toMatchObject([
    {
      metadata: { namespace: 'default' },
      involvedObject: { ...involved, uid, resourceVersion, fieldPath },
      type: 'Normal',
      reason: 'Pulled',
      message: 'There it is',
      source: { component: 'kubelet', host: 'k8s-guide-worker' },
      reportingComponent: 'kubelet',
      reportingInstance: 'k8s-guide-worker',
      count: 1,
    },
  ])
  expect(list()[0]?.metadata.name).toMatch(/^web\.[0-9a-f]+$/)
  expect(list()[0]?.firstTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
})

test('a repeated message is counted, another message is another Event', () => {
  const web = api.create('pods', 'default', pod('web'))
  const recorder = new EventRecorder(api, 'kubelet')
  for (let time = 0; time < 3; time++) recorder.event(web, 'Warning', 'BackOff', 'again')
  recorder.event(web, 'Warning', 'BackOff', 'once')
  expect(list().map(({ message, count }) => [message, count])).toEqual([
    ['again', 3],
    ['once', 1],
  ])
})

test('an Event that was deleted is recorded again', () => {
  const web = api.create('pods', 'default', pod('web'))
  const recorder = new EventRecorder(api, 'kubelet')
  recorder.event(web, 'Normal', 'Started', 'x')
  api.delete('events', 'default', list()[0]?.metadata.name ?? '')
  recorder.event(web, 'Normal', 'Started', 'x')
  expect(list().map(({ count }) => count)).toEqual([1])
})

test('Events about a node are in the default namespace; where none can be, nothing is thrown', () => {
  createNode(api, 'n')
  const node = api.get('nodes', undefined, 'n')
  if (!node) throw new Error('no node')
  const recorder = new EventRecorder(api, 'kubelet')
  recorder.event(node, 'Normal', 'NodeReady', 'x')
  expect(list()).toMatchObject([
    { metadata: { namespace: 'default' }, involvedObject: { kind: 'Node', name: 'n' } },
  ])
  const lost = { ...node, metadata: { ...node.metadata, namespace: 'gone' } }
  expect(() => recorder.event(lost, 'Normal', 'NodeReady', 'x')).not.toThrow()
})
