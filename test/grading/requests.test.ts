import { expect, test } from 'vitest'
import { rangesLetIn } from '../../checks/03-from-outside/exposed-service.ts'
import { openConnections } from '../../checks/07-before-and-after/connections.ts'
import { Failure, Trouble } from '../../grading/failure.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import {
  answersIn,
  fromNode,
  fromOutside,
  sendMarked,
  sendRequests,
} from '../../grading/requests.ts'
import { PLAIN } from '../cluster/made-cluster.ts'
import { emptySnapshot } from './fake-lab.ts'
import { type MadeAnswers, madeLiveCluster } from './made-live-cluster.ts'

const from = fromNode('worker')
const at = { address: '10.96.7.7', port: 80 }
const service = { backends: [{ pod: 'web-1', address: '10.244.1.6', node: 'worker' }] }
const reply = (index: number, status: number) => `#request\t${index}\t${status}\t40001\t1\t0\t\t\n`

test('a series of requests gets its own replies, and none if nothing was printed', async () => {
  const replies = [reply(1, 200), reply(0, 0), reply(1, 503)].join('')
  const statuses = async (stdout: string) =>
    (await sendRequests(madeLiveCluster({ node: () => stdout }), from, [at, at, at])).map((one) => [
      one.replies.map(({ status }) => status),
      answersIn(one).length,
    ])
  expect(await statuses(replies)).toEqual([
    [[0], 0],
    [[200, 503], 1],
    [[], 0],
  ])
  expect(await statuses('sh: perl: not found\n')).toEqual([
    [[], 0],
    [[], 0],
    [[], 0],
  ])
})

test('the logs of one series do not count for another, whose number begins with the same digit', async () => {
  let token = ''
  const live = madeLiveCluster({
    node: () => Array.from({ length: 11 }, (_, index) => reply(index, 200)).join(''),
    log: () =>
      Array.from(
        { length: 11 },
        (_, index) => `10.244.0.1 "GET /?${token}-${index} HTTP/1.1"\n`,
      ).join(''),
  })
  const { answered, logs } = await sendMarked(live, from, service, Array(11).fill(at))
  token = /probe-[^-]+-[^-]+/.exec(answered[0]?.request.path ?? '')?.[0] ?? ''
  expect((await logs()).map(({ logged }) => logged.length)).toEqual(Array(11).fill(1))
})

test('logs are not read if there was no answer', async () => {
  const live = madeLiveCluster({ node: () => reply(0, 0) })
  const { logs } = await sendMarked(live, from, service, [{ ...at, times: 3 }])
  expect((await logs()).map(({ logged }) => logged)).toEqual([[]])
})

test('an answer that is in no log is trouble', async () => {
  const { logs } = await sendMarked(madeLiveCluster({ node: () => reply(0, 200) }), from, service, [
    at,
  ])
  await expect(logs()).rejects.toThrow(Trouble)
})

test('a cluster without a machine outside: no request is sent from it', async () => {
  const live = madeLiveCluster({ capabilities: PLAIN, node: () => reply(0, 200) })
  await expect(sendRequests(live, fromOutside, [at])).rejects.toThrow('no machine outside')
})

test('ranges without the only address of the machine outside: the failure names that address alone', async () => {
  const service = {
    kind: 'Service',
    metadata: { name: 'web-lb', namespace: 'default' },
    spec: {
      type: 'LoadBalancer',
      selector: { app: 'web' },
      clusterIP: '10.96.0.9',
      clusterIPs: ['10.96.0.9'],
      ports: [{ port: 80, nodePort: 30080, protocol: 'TCP' }],
      loadBalancerSourceRanges: ['198.51.100.0/24'],
    },
    status: { loadBalancer: { ingress: [{ ip: '172.18.255.1' }] } },
  }
  const snapshot = emptySnapshot([service])
  const live = madeLiveCluster({ node: () => '2: eth0    inet 172.18.0.1/16 scope global eth0\n' })
  const context = {
    snapshot,
    nodes: [],
    notes: new LabNotes(3, snapshot),
    live,
    asks: false,
    show: () => undefined,
  }
  await expect(rangesLetIn(context)).rejects.toThrow(
    'expected ranges that hold 172.18.0.1, the address of the machine',
  )
})

const client = {
  kind: 'Pod',
  metadata: { name: 'client', namespace: 'default' },
  spec: { nodeName: 'worker' },
  status: {
    phase: 'Running',
    podIP: '10.244.1.9',
    conditions: [{ type: 'Ready', status: 'True' }],
  },
}

test.each<[string, object[], MadeAnswers, typeof Failure | typeof Trouble]>([
  ['no client Pod is the learner’s failure', [], { pod: () => reply(0, 200) }, Failure],
  ['a client Pod in which no command can be run is not', [client], {}, Trouble],
])('%s', async (_what, items, answers, error) => {
  const snapshot = emptySnapshot(items)
  const live = madeLiveCluster(answers)
  const context = {
    snapshot,
    nodes: [],
    notes: new LabNotes(7, snapshot),
    live,
    asks: false,
    show: () => undefined,
  }
  await expect(openConnections(context, live, { ...service, ...at }, 1)).rejects.toThrow(error)
})
