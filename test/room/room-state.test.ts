import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import type { LearnerFact } from '../../room/protocol.ts'
import { reportHtml, roomCsv } from '../../room/server/export.ts'
import { Journal } from '../../room/server/journal.ts'
import { RateLimit } from '../../room/server/rate-limit.ts'
import {
  applyEntry,
  emptyRoom,
  entriesOf,
  type JournalEntry,
  type RoomState,
} from '../../room/server/room-state.ts'
import { tileOf } from '../../room/server/tiles.ts'
import { nameFact, stepFact } from './room-fixture.ts'

const folder = mkdtempSync(join(tmpdir(), 'journal-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const WHO = 'a'.repeat(32)
const joined: JournalEntry = { entry: 'joined', at: 1, who: WHO, tile: 1 }
const entry = (stamp: number, fact: LearnerFact): JournalEntry => ({
  entry: 'fact',
  at: stamp,
  who: WHO,
  stamp,
  fact,
})
const folded = (entries: readonly JournalEntry[]): RoomState => {
  const state = emptyRoom()
  for (const one of entries) applyEntry(state, one)
  return state
}
const tileIn = (state: RoomState) => {
  const learner = state.learners.get(WHO)
  return learner && tileOf(learner, undefined)
}

const anyFact = fc.oneof(
  fc.constantFrom('alice', 'bob').map(nameFact),
  fc
    .record({ step: fc.constantFrom('web', 'flush'), verdict: fc.constantFrom('passed', 'failed') })
    .map(({ step, verdict }) => stepFact(step, verdict as 'passed' | 'failed')),
  fc.boolean().map((raised): LearnerFact => ({ kind: 'hand', raised })),
  fc
    .constantFrom('web', 'flush', 'end')
    .map((step): LearnerFact => ({ kind: 'place', lab: 2, step, since: 5 })),
)

test('facts in any order, some of them twice, lead to one state', () => {
  fc.assert(
    fc.property(
      fc.array(anyFact, { maxLength: 12 }),
      fc.infiniteStream(fc.nat()),
      (facts, random) => {
        const entries = facts.map((fact, index) => entry(index + 1, fact))
        const expected = tileIn(folded([joined, ...entries]))
        const order = [...entries, ...entries.slice(0, 3)]
          .map((one) => ({ one, at: random.next().value as number }))
          .sort((one, other) => one.at - other.at)
          .map(({ one }) => one)
        expect(tileIn(folded([joined, ...order]))).toEqual(expected)
      },
    ),
  )
})

test('the shortest journal leads to the same state', () => {
  const state = folded([
    joined,
    entry(1, nameFact('alice')),
    entry(2, stepFact('flush')),
    entry(3, stepFact('flush', 'passed')),
    { entry: 'notice', at: 4, notice: { kind: 'timer', id: 't', label: 'break', until: 99 } },
    { entry: 'ended', at: 5, id: 't' },
    { entry: 'plan', at: 6, plan: [{ lab: 2, at: 7, minutes: 60 }] },
    { entry: 'door', at: 6, open: false },
    {
      entry: 'task',
      at: 6,
      who: WHO,
      due: 8,
      task: { id: 'x', nonce: '0'.repeat(16), task: 'nat-rules', worker: 0 },
    },
    { entry: 'given', at: 9, who: WHO, id: 'x' },
    { entry: 'lowered', at: 10, who: WHO },
    { entry: 'removed', at: 1, who: WHO },
  ])
  const short = [...entriesOf(state)]
  expect(folded(short)).toEqual(state)
  expect(short.filter((one) => JSON.stringify(one).includes('flush'))).toHaveLength(1)
})

test('a journal that was cut in the middle of a line keeps every whole one, and those that come after', async () => {
  const path = join(folder, 'journal.jsonl')
  const first = await Journal.open(path)
  await Promise.all([first.journal.append({ n: 1 }), first.journal.append({ n: 2 })])
  await first.journal.close()
  appendFileSync(path, '{"n":3,"text":"cut he')
  const second = await Journal.open(path)
  expect(second.entries).toEqual([{ n: 1 }, { n: 2 }])
  await second.journal.append({ n: 4 })
  await second.journal.close()
  const third = await Journal.open(path)
  expect(third.entries).toEqual([{ n: 1 }, { n: 2 }, { n: 4 }])
  await third.journal.close()
  await Journal.rewrite(path, [{ n: 5 }])
  expect(readFileSync(path, 'utf8')).toBe('{"n":5}\n')
})

test('a rate lets through what it allows at once, and on average', () => {
  const limit = new RateLimit({ perSecond: 2, atOnce: 5 }, 0)
  expect([1, 2, 3, 4, 5, 6].map(() => limit.take(1, 0))).toEqual([...Array(5).fill(true), false])
  expect([limit.take(1, 400), limit.take(1, 500), limit.take(1, 600)]).toEqual([false, true, false])
  expect([limit.isFull(1000), limit.isFull(9000)]).toEqual([false, true])
})

test('names and findings are text in what is exported: no formula and no markup', () => {
  const state = folded([
    joined,
    entry(1, nameFact('=HYPERLINK("http://x")')),
    entry(2, stepFact('flush', 'failed', '<script>alert(1)</script>')),
  ])
  expect(roomCsv(state)).toContain(`"'=HYPERLINK(""http://x"")"`)
  expect(reportHtml(state)).not.toContain('<script>alert')
  expect(reportHtml(state)).toContain('what the learners’ own machines told the room')
})
