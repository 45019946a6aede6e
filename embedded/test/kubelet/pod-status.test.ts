import { expect, test } from 'vitest'
import type { ContainerState, ContainerStatus, Pod } from '../../kubelet/objects.ts'
import { podPhase, podStatus } from '../../kubelet/pod-status.ts'

const pod = (restartPolicy: string, more: object = {}): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: 'p',
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: '2026-01-01T00:00:00Z',
  },
  spec: { restartPolicy, containers: [{ name: 'a' }, { name: 'b' }] },
  ...more,
})

const running: ContainerState = { running: { startedAt: '2026-01-01T00:00:00Z' } }
const ended = (exitCode: number): ContainerState => ({ terminated: { exitCode } })
const waiting: ContainerState = { waiting: { reason: 'CrashLoopBackOff' } }

const status = (
  name: string,
  state: ContainerState,
  more: Partial<ContainerStatus> = {},
): ContainerStatus => ({
  name,
  image: 'i',
  imageID: '',
  ready: false,
  restartCount: 0,
  state,
  ...more,
})

const view = (containers: ContainerStatus[], init: ContainerStatus[] = []) => ({
  init,
  containers,
  ephemeral: [],
  podIP: '10.244.1.2',
  hostIP: '172.18.0.3',
  startTime: 's',
  sandbox: true,
})

test.each([
  ['Always', [running, waiting], {}, 'Pending'],
  ['Always', [running, waiting], { lastState: ended(1) }, 'Running'],
  ['Always', [ended(0), ended(0)], {}, 'Running'],
  ['OnFailure', [ended(0), ended(1)], {}, 'Running'],
  ['OnFailure', [ended(0), ended(0)], {}, 'Succeeded'],
  ['Never', [ended(0), ended(1)], {}, 'Failed'],
  ['Never', [ended(0), running], {}, 'Running'],
])('policy %s with %j %j is %s', (policy, [a, b], last, phase) => {
  const containers = [
    status('a', a as ContainerState),
    status('b', b as ContainerState, last as Partial<ContainerStatus>),
  ]
  expect(podPhase(pod(policy), view(containers))).toBe(phase)
})

test('a Pod is Pending until its init containers have succeeded, and Failed if one of them may not restart', () => {
  const containers = [status('a', waiting), status('b', waiting)]
  expect(podPhase(pod('Always'), view(containers, [status('i', running)]))).toBe('Pending')
  expect(podPhase(pod('Never'), view(containers, [status('i', ended(1))]))).toBe('Failed')
})

test('conditions name the containers that are not ready; unchanged ones and those of other owners are kept', () => {
  const old = '2026-01-01T00:00:00Z'
  const conditions = [
    { type: 'PodScheduled', status: 'True', lastTransitionTime: old },
    { type: 'Ready', status: 'True', lastTransitionTime: old },
    { type: 'example.com/gate', status: 'True', lastTransitionTime: old },
  ]
  const containers = [status('a', running, { ready: true }), status('b', running)]
  const next = podStatus(pod('Always', { status: { conditions } }), view(containers))
  const condition = (type: string) => next.conditions?.find((one) => one.type === type)
  expect(condition('Ready')).toEqual({
    type: 'Ready',
    status: 'False',
    lastTransitionTime: expect.not.stringMatching(old),
    reason: 'ContainersNotReady',
    message: 'containers with unready status: [b]',
  })
  expect(condition('PodScheduled')?.lastTransitionTime).toBe(old)
  expect(condition('example.com/gate')?.status).toBe('True')
})
