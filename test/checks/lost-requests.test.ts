// What clients have lost since they are counted, by their logs.

import { afterEach, expect, test, vi } from 'vitest'
import {
  type ClientLog,
  lostSince,
  readClientLog,
} from '../../checks/09-leaving-ipvs/client-log.ts'
import { readToldClients } from '../../checks/09-leaving-ipvs/clients.ts'

const failure = (at: string, why = 'Connection timed out') =>
  `FAILED ${at} new 10.96.0.7:80: ${why}`
const counts = (made: number) => `new=${made} kept=${made} failed=0`
const lost = (before: readonly string[], after: readonly string[]) => {
  const then = readClientLog(before.join('\n'))
  const now = readClientLog([...before, ...after].join('\n'))
  return lostSince(now.failed, then.failed.length, then.counts).map(({ at }) => at)
}

test('failures before it do not count, those after the next counts do', () => {
  const before = ['targets 10.96.0.7:80', counts(3), failure('10:00:01'), counts(5)]
  expect(lost(before, [counts(7)])).toEqual([])
  expect(lost(before, [counts(7), failure('10:00:09'), failure('10:00:10')])).toEqual([
    '10:00:09',
    '10:00:10',
  ])
})

test('the one that a client was waiting for was sent before, the next one was not', () => {
  const before = ['targets 10.96.0.7:80', counts(3)]
  expect(lost(before, [failure('10:00:05'), failure('10:00:06'), counts(4)])).toEqual(['10:00:06'])
})

test('a refusal takes no time, so its request was sent since', () => {
  expect(lost([counts(3)], [failure('10:00:05', 'Connection refused')])).toEqual(['10:00:05'])
})

test('without counts of that moment, which earlier notes lack, every failure counts', () => {
  const { failed } = readClientLog([counts(3), failure('10:00:05')].join('\n'))
  expect(lostSince(failed, 0, undefined)).toHaveLength(1)
})

afterEach(() => vi.unstubAllEnvs())

/** The logs of a client as they are read one after the other; the last one stays. */
const reading = (...logs: string[][]) => {
  let reads = 0
  return async (): Promise<ClientLog[]> => {
    const lines = logs[Math.min(reads++, logs.length - 1)] ?? []
    const place = { pod: 'traffic-1', uid: 'u', node: 'worker', place: 'pod' } as const
    return [{ ...place, ...readClientLog(lines.join('\n')) }]
  }
}

test('a request that a client still waits for is counted: its log is read after its next counts', async () => {
  const waiting = ['targets 10.96.0.7:80', counts(3)]
  const told = [...waiting, failure('10:00:05')]
  const read = reading(waiting, waiting, told, [...told, counts(4)])
  const [client] = await readToldClients(read)
  expect(client?.failed.map(({ at }) => at)).toEqual(['10:00:05'])
})

test('a client that no longer prints counts, as one that was stopped, proves nothing', async () => {
  vi.stubEnv('LAB_TIMEOUT_SCALE', '0.02')
  await expect(readToldClients(reading([counts(3)]))).rejects.toMatchObject({
    detail: { actual: 'traffic-1 on worker has printed none for 0.3 s' },
  })
})
