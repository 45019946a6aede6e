// A room and learners' links in this process, over TLS on 127.0.0.1.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { selfSignedTls } from '../../embedded/index.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { timeoutScale } from '../../host/wait.ts'
import type { RoomMember } from '../../room/learner/member.ts'
import { Outbox } from '../../room/learner/outbox.ts'
import { type LinkEvents, RoomLink } from '../../room/learner/room-link.ts'
import { type LearnerFact, MESSAGE_BYTES, type RoomMessage } from '../../room/protocol.ts'
import { parseRoomWord } from '../../room/word.ts'
import { nameFact, RoomFixture, stepFact } from './room-fixture.ts'

let fixture: RoomFixture | undefined
const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0)) await end()
  await fixture?.end()
  fixture = undefined
})

const ID = (digit: number) => digit.toString(16).padStart(32, '0')

interface Learner {
  outbox: Outbox
  link: RoomLink
  messages: RoomMessage[]
  states: string[]
  tell(...facts: LearnerFact[]): void
}

function learn(word: string, digit = 1, folder = mkdtempSync(join(tmpdir(), 'seat-'))): Learner {
  const outbox = new Outbox(folder)
  const messages: RoomMessage[] = []
  const states: string[] = []
  const events: LinkEvents = {
    onMessage: (message) => messages.push(message),
    onState: (state, trouble) => states.push(trouble ?? state),
    onSent: () => undefined,
  }
  const member: RoomMember = { word, name: 'x', learner: ID(digit) }
  const link = new RoomLink(member, outbox, events)
  ends.push(() => {
    link.end()
    rmSync(folder, { recursive: true, force: true })
  })
  const tell = (...facts: LearnerFact[]) => {
    for (const fact of facts) outbox.put(fact)
    link.flush()
  }
  return { outbox, link, messages, states, tell }
}

/** Opens a plain WebSocket to a room without encryption. */
async function knock(word: string, hello = true, digit = 77): Promise<WebSocket> {
  const socket = new WebSocket(word.replace('http', 'ws'))
  socket.on('error', () => undefined)
  ends.push(() => socket.terminate())
  await new Promise((resolve) => socket.once('open', resolve))
  const message = { hello: { version: 1, learner: ID(digit), now: Date.now() } }
  if (hello) socket.send(JSON.stringify(message))
  return socket
}

const closed = (socket: WebSocket): Promise<string> =>
  new Promise((resolve) => socket.once('close', (_code, reason) => resolve(String(reason))))

test('a verdict reaches the tile, is confirmed, and is there again after a restart', async () => {
  fixture = await RoomFixture.open()
  const { word } = fixture.room
  const alice = learn(word)
  alice.tell(nameFact('alice'), {
    kind: 'place',
    lab: 2,
    step: 'flush',
    since: Date.now() - 60_000,
  })
  alice.tell(stepFact('web', 'passed'), stepFact('flush'))
  expect(await alice.link.stored(10_000, { connecting: true })).toBe(true)
  await expect
    .poll(() => fixture?.named('alice')?.steps.flush)
    .toEqual({
      verdict: 'failed',
      hints: 0,
      sign: '3 stale chains on worker2',
    })
  const before = fixture.named('alice')
  expect(before).toMatchObject({ lab: 2, step: 'flush', points: 5 })
  expect(before?.offlineSince).toBeUndefined()
  const { folder } = fixture
  await fixture.end({ keep: true })
  fixture = await RoomFixture.open({ folder })
  expect(fixture.room.word).toBe(word)
  await expect
    .poll(() => fixture?.named('alice'))
    .toMatchObject({
      steps: before?.steps,
      since: before?.since,
      tile: before?.tile,
    })
  // The learner comes back without being asked to.
  await expect.poll(() => fixture?.named('alice')?.offlineSince).toBeUndefined()
})

test('what is told while the room is away waits, also for another command, and the newest counts', async () => {
  fixture = await RoomFixture.open()
  const { word } = fixture.room
  const { folder } = fixture
  await fixture.end({ keep: true })
  const seat = mkdtempSync(join(tmpdir(), 'seat-'))
  const before = new Outbox(seat)
  before.put(nameFact('alice'))
  before.put(stepFact('flush'))
  before.put(stepFact('flush', 'passed'))
  expect(before.waiting()).toHaveLength(2)
  const alice = learn(word, 1, seat)
  expect(await alice.link.stored(50)).toBe(false)
  fixture = await RoomFixture.open({ folder })
  await expect.poll(() => fixture?.named('alice')?.steps.flush?.verdict).toBe('passed')
  await expect.poll(() => new Outbox(seat).waiting()).toEqual([])
})

test('an older fact that comes later changes nothing, nor does one that comes twice', async () => {
  fixture = await RoomFixture.open({ plain: true })
  const socket = await knock(fixture.room.word)
  const send = (stamp: number, fact: LearnerFact) =>
    socket.send(JSON.stringify({ facts: [{ stamp, at: Date.now(), fact }] }))
  send(3, nameFact('bob'))
  send(9, stepFact('flush', 'passed'))
  send(9, stepFact('flush', 'passed'))
  send(5, stepFact('flush'))
  send(10, { kind: 'hand', raised: true })
  await expect.poll(() => fixture?.named('bob')?.hand).toBeDefined()
  expect(fixture.named('bob')?.steps.flush?.verdict).toBe('passed')
  const lines = readFileSync(join(fixture.folder, 'journal.jsonl'), 'utf8').trim().split('\n')
  expect(lines.filter((line) => line.includes('"flush"'))).toHaveLength(1)
})

test('the room’s word names its certificate: another server is told nothing, not even the secret', async () => {
  fixture = await RoomFixture.open()
  const seen: string[] = []
  const other = createServer(await selfSignedTls(['127.0.0.1']), (request) => {
    seen.push(request.url ?? '')
  })
  other.on('upgrade', (request, socket) => {
    seen.push(request.url ?? '')
    socket.destroy()
  })
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  ends.push(() => other.close())
  const { port } = other.address() as AddressInfo
  const { port: right } = parseRoomWord(fixture.room.word)
  const alice = learn(fixture.room.word.replace(`:${right}/`, `:${port}/`))
  await expect.poll(() => alice.states.join()).toContain('Another server answers')
  expect(seen).toEqual([])
})

test.each<[what: string, message: string | Buffer, reason: string]>([
  ['not JSON', '{', 'not a message'],
  ['a binary message', Buffer.from('{}'), 'too much'],
  ['an unknown fact', '{"facts":[{"stamp":1,"at":1,"fact":{"kind":"shell"}}]}', 'not a message'],
  [
    'a fact with one field more',
    '{"facts":[{"stamp":1,"at":1,"fact":{"kind":"left","left":true,"x":1}}]}',
    'not a message',
  ],
  ['a second hello', `{"hello":{"version":1,"learner":"${ID(5)}","now":1}}`, 'a second hello'],
  ['a message that is too long', 'x'.repeat(MESSAGE_BYTES + 1), ''],
])('%s ends the connection, and is not stored', async (_what, message, reason) => {
  fixture = await RoomFixture.open({ plain: true })
  const socket = await knock(fixture.room.word)
  await expect.poll(() => fixture?.tiles.size).toBe(1)
  const before = readFileSync(join(fixture.folder, 'journal.jsonl'), 'utf8')
  const end = closed(socket)
  socket.send(message)
  expect(await end).toContain(reason)
  expect(readFileSync(join(fixture.folder, 'journal.jsonl'), 'utf8')).toBe(before)
})

test('facts about what does not exist are confirmed and not kept', async () => {
  fixture = await RoomFixture.open({ plain: true })
  const bob = learn(fixture.room.word)
  bob.tell(nameFact('bob'), { ...stepFact('flush'), lab: 98 } as LearnerFact, stepFact('no-step'))
  bob.tell({ kind: 'vote', poll: 'none', text: 'x' })
  expect(await bob.link.stored(10_000, { connecting: true })).toBe(true)
  await expect.poll(() => fixture?.named('bob')).toMatchObject({ steps: {} })
  expect(readFileSync(join(fixture.folder, 'journal.jsonl'), 'utf8')).not.toContain('no-step')
})

test('the learners’ port has nothing but its door: no page, no actions, no other secret', async () => {
  fixture = await RoomFixture.open({ plain: true })
  const { host, port, door } = parseRoomWord(fixture.room.word)
  const at = (path: string, method = 'GET') => fetch(`http://${host}:${port}${path}`, { method })
  const statuses = [
    await at('/'),
    await at('/main.js'),
    await at('/events'),
    await at(`/${door}x`),
    await at(new URL(fixture.room.url).pathname),
    await at('/api/export', 'POST'),
    await at(`/${door}`, 'POST'),
  ].map(({ status }) => status)
  expect(statuses).toEqual([404, 404, 404, 404, 404, 404, 404])
  expect(await (await at(`/${door}`)).text()).toContain('make lab-2 ROOM=')
  // The learners' secret does not open the instructor's page.
  const { origin } = new URL(fixture.room.url)
  expect((await fetch(`${origin}/open/${door}`)).status).toBe(403)
  expect((await fetch(`${origin}/${door}`)).status).toBe(403)
})

test('thirty hostile clients flood a room: they are let go, and a verdict still takes less than a second', async () => {
  fixture = await RoomFixture.open({ plain: true })
  const alice = learn(fixture.room.word)
  alice.tell(nameFact('alice'))
  await expect.poll(() => fixture?.named('alice')).toBeDefined()
  let isOver = false
  const flood = async (digit: number) => {
    while (!isOver) {
      const socket = await knock(fixture?.room.word ?? '', true, 1000 + digit)
      const end = closed(socket)
      for (let stamp = 1; stamp < 500 && socket.readyState === socket.OPEN; stamp++) {
        const fact = stepFact('flush', 'failed', `${stamp} ${'<b>'.repeat(190)}`)
        socket.send(JSON.stringify({ facts: [{ stamp, at: 1, fact }] }))
      }
      await end
    }
  }
  const floods = Promise.all(Array.from({ length: 30 }, (_one, digit) => flood(digit)))
  await expect.poll(() => fixture?.tiles.size).toBe(31)
  const times: number[] = []
  for (let round = 0; round < 10; round++) {
    const began = performance.now()
    const verdict = round % 2 === 0 ? 'passed' : 'failed'
    alice.tell(stepFact('flush', verdict))
    await expect
      .poll(() => fixture?.named('alice')?.steps.flush?.verdict, { interval: 10 })
      .toBe(verdict)
    times.push(performance.now() - began)
  }
  isOver = true
  await floods
  expect(times.toSorted((one, other) => one - other)[4]).toBeLessThan(1000 * timeoutScale())
})

test('broadcasts, polls and timers reach those who are there and those who come; votes are counted once', async () => {
  fixture = await RoomFixture.open({ plain: true })
  const alice = learn(fixture.room.word, 1)
  await fixture.perform('tell', { text: '', lab: 2, step: 'flush' })
  await fixture.perform('timer', { minutes: 5, label: 'break' })
  await fixture.perform('poll', { ask: 'How many?', choices: ['one', 'two'] })
  const bob = learn(fixture.room.word, 2)
  const kinds = (learner: Learner) => learner.messages.at(-1)?.notices?.map(({ kind }) => kind)
  for (const learner of [alice, bob])
    await expect.poll(() => kinds(learner)).toEqual(['text', 'timer', 'poll'])
  const number = readLab(2).steps.findIndex(({ id }) => id === 'flush') + 1
  const [text, timer, poll] = bob.messages.at(-1)?.notices ?? []
  expect(text).toMatchObject({ to: { lab: 2, step: 'flush', number } })
  expect(timer).toMatchObject({ label: 'break' })
  const id = poll?.id ?? ''
  alice.tell({ kind: 'vote', poll: id, text: 'one' })
  alice.tell({ kind: 'vote', poll: id, text: 'two' })
  bob.tell({ kind: 'vote', poll: id, text: 'two' })
  await expect
    .poll(() => fixture?.pushes.room?.polls[0]?.answers)
    .toEqual([
      { text: 'two', count: 2 },
      { text: 'one', count: 0 },
    ])
  bob.tell({ kind: 'vote', poll: id, text: 'three' })
  await expect.poll(() => fixture?.pushes.room?.polls[0]?.voters).toBe(1)
  await fixture.perform('end-notice', { id })
  await expect.poll(() => kinds(alice)).toEqual(['text', 'timer'])
})

test('a hand is raised and lowered by both sides; a learner who is removed does not come back', async () => {
  fixture = await RoomFixture.open({ plain: true })
  const alice = learn(fixture.room.word)
  alice.tell(nameFact('alice'), { kind: 'hand', raised: true })
  await expect.poll(() => fixture?.named('alice')?.hand).toBeDefined()
  const { tile } = fixture.named('alice') ?? {}
  await fixture.perform('lower-hand', { tile })
  await expect.poll(() => fixture?.named('alice')?.hand).toBeUndefined()
  await expect.poll(() => alice.messages.at(-1)).toEqual({ lowered: true })
  await fixture.perform('remove', { tile })
  await expect.poll(() => fixture?.named('alice')).toBeUndefined()
  await expect.poll(() => alice.states.at(-1)).toContain('closed the room')
  await fixture.perform('door', { open: false })
  const bob = learn(fixture.room.word, 2)
  await expect.poll(() => bob.states.at(-1)).toContain('closed the room')
})

test('a task comes at its time, once, and its answer is in the detail', async () => {
  fixture = await RoomFixture.open({ plain: true })
  const alice = learn(fixture.room.word)
  alice.tell(nameFact('alice'))
  await expect.poll(() => fixture?.named('alice')).toBeDefined()
  expect(await fixture.perform('task', { withinMinutes: 0 })).toMatchObject({ count: 1 })
  await expect.poll(() => alice.messages.at(-1)?.tasks?.length).toBe(1)
  const [task] = alice.messages.at(-1)?.tasks ?? []
  await expect.poll(() => fixture?.named('alice')?.tasks.open).toBe(1)
  alice.tell({ kind: 'task', task: task?.id ?? '', lab: 2, text: '7', right: true, found: '7' })
  await expect.poll(() => fixture?.named('alice')?.tasks).toEqual({ open: 0, right: 1, wrong: 0 })
  const { detail } = await fixture.perform('look', {
    tile: fixture.named('alice')?.tile,
    path: false,
  })
  expect(detail).toMatchObject({ tasks: [{ answer: '7', right: true }] })
})
