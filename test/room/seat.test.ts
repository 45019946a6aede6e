// A learner's seat: what it keeps, and what it tells a room in this process.

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test } from 'vitest'
import { recordLab, SimulatedLearner } from '../../bench/simulated-class.ts'
import type { GuideLab, LabProgress } from '../../course/lab-progress.ts'
import { startProgress } from '../../course/lab-progress.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { projectRoot } from '../../host/layout.ts'
import { withoutAddresses } from '../../room/learner/learner-facts.ts'
import { joinRoom, readMember } from '../../room/learner/member.ts'
import { LearnerSeat } from '../../room/learner/seat.ts'
import { learnerFactSchema } from '../../room/protocol.ts'
import { RoomFixture } from './room-fixture.ts'

let fixture: RoomFixture | undefined
const folder = mkdtempSync(join(tmpdir(), 'seat-'))
const own = join(folder, 'own')
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const { ROOM, LEARNER } = process.env

afterEach(async () => {
  rmSync(own, { recursive: true, force: true })
  restore('ROOM', ROOM)
  restore('LEARNER', LEARNER)
  await fixture?.end()
  fixture = undefined
})

function restore(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name]
  else process.env[name] = value
}

const definition = readLab(2)
const lab: GuideLab = {
  definition,
  intro: '',
  outro: '',
  card: '',
  steps: definition.steps.map((step) => ({
    definition: step,
    task: '',
    seen: '',
    hints: [],
    solution: [],
  })),
}
const flush = (verdict: 'passed' | 'failed'): StepOutcome => ({
  id: 'flush',
  verdict,
  ...(verdict === 'failed' && {
    failure: {
      node: 'k8s-guide-worker',
      inspect: 'make exec',
      expected: 'none',
      actual: '3 chains',
    },
  }),
})
const progress = (verdict: 'passed' | 'failed'): LabProgress => {
  const note = { at: 'flush', workedMs: 0, shown: [], held: [], passed: [] }
  const start = startProgress(lab, note, new Map([['flush', 2]]))
  return { ...start, outcomes: new Map([['flush', flush(verdict)]]) }
}

test('without a word nothing is kept, sent or waited for', async () => {
  delete process.env.ROOM
  const seat = LearnerSeat.open(own)
  seat.progressed(progress('failed'))
  seat.raiseHand(true)
  await seat.end()
  expect(seat.view.state).toBe('out')
  expect(existsSync(own)).toBe(false)
})

test('a guide’s progress is told once per change, and the minutes at a step go on in the next command', async () => {
  fixture = await RoomFixture.open()
  process.env.ROOM = fixture.room.word
  process.env.LEARNER = 'alice'
  const seat = LearnerSeat.open(own)
  for (let times = 0; times < 3; times++) seat.progressed(progress('failed'))
  await expect.poll(() => fixture?.named('alice')?.steps.flush).toMatchObject({ hints: 2 })
  const since = fixture.named('alice')?.since
  await seat.end()
  const sent = () => readFileSync(join(own, 'sent.jsonl'), 'utf8').trim().split('\n')
  const kinds = sent().map((line) => JSON.parse(line).fact.kind)
  expect(kinds.toSorted()).toEqual(['left', 'name', 'place', 'step'])
  delete process.env.ROOM
  const next = LearnerSeat.open(own)
  next.progressed(progress('passed'))
  await expect.poll(() => fixture?.named('alice')?.steps.flush?.verdict).toBe('passed')
  expect(Math.abs((fixture.named('alice')?.since ?? 0) - (since ?? 0))).toBeLessThan(200)
  await next.end()
})

test('who leaves is shown so, sends nothing more, and nothing is kept', async () => {
  fixture = await RoomFixture.open()
  const { word } = fixture.room
  const seat = LearnerSeat.open(own)
  seat.join(word, 'alice')
  seat.progressed(progress('failed'))
  await expect.poll(() => fixture?.named('alice')?.steps.flush?.verdict).toBe('failed')
  expect(await seat.leaveAndWait()).toBe(true)
  await expect.poll(() => fixture?.named('alice')?.left).toBe(true)
  seat.progressed(progress('passed'))
  seat.raiseHand(true)
  expect(existsSync(own)).toBe(false)
  await seat.end()
  expect(fixture.named('alice')).toMatchObject({
    left: true,
    steps: { flush: { verdict: 'failed' } },
  })
})

test('a room that is away keeps no command: check and guide end at once, and the next one sends it', async () => {
  fixture = await RoomFixture.open()
  const { word } = fixture.room
  const { folder: kept } = fixture
  await fixture.end({ keep: true })
  const seat = LearnerSeat.open(own)
  seat.join(word, 'alice')
  seat.progressed(progress('failed'))
  const began = performance.now()
  await seat.end()
  expect(performance.now() - began).toBeLessThan(300)
  fixture = await RoomFixture.open({ folder: kept })
  process.env.ROOM = word
  const next = LearnerSeat.open(own)
  await expect.poll(() => fixture?.named('alice')?.steps.flush?.verdict).toBe('failed')
  await next.end()
})

test('a name has one line, and a word that is not whole is refused', () => {
  const word = 'http://192.0.2.7:8080/spring-k3f7m2qa'
  expect(() => joinRoom(own, word, 'a\nb')).toThrow('is not a name for a room')
  expect(() => joinRoom(own, 'spring', 'alice')).toThrow('is not the word of a room')
  expect(readMember(own)).toBeUndefined()
  expect(joinRoom(own, word, 'alice').learner).toBe(joinRoom(own, word, 'alice').learner)
})

test('of a cluster of a kubeconfig no addresses are sent', () => {
  const text = 'to 192.0.2.7:80 and [2001:db8::7]:80, fe80::1 at 10:15:30'
  expect(withoutAddresses(text)).toBe('to •:80 and [•]:80, • at 10:15:30')
})

test('recorded labs make facts that the protocol accepts, and a simulated learner gets to the end', async () => {
  const recorded = await recordLab(join(projectRoot, 'data/solved/lab-2-embedded.labgrade'))
  expect(recorded.rounds.length).toBeGreaterThan(5)
  for (const fact of recorded.rounds.flat()) expect(learnerFactSchema.parse(fact)).toEqual(fact)
  expect(recorded.rounds.flat().some(({ finding }) => finding)).toBe(true)
  fixture = await RoomFixture.open()
  const learner = new SimulatedLearner(fixture.room.word, 'sim', recorded)
  learner.go(2)
  await expect.poll(() => Object.keys(fixture?.named('sim')?.steps ?? {}).length).toBeGreaterThan(5)
  learner.end()
})
