import { describe, expect, test } from 'vitest'
import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { paceOf, parsePlan } from '../../room/day-plan.ts'
import { heatLine, heatRows } from '../../room/heat-map.ts'
import { byNeed, needOfHelp } from '../../room/need-of-help.ts'
import type { LabPlanned, LearnerTile } from '../../room/protocol.ts'
import { labsPlanned } from '../../room/server/labs-planned.ts'
import { signOf } from '../../room/sign.ts'
import { isTaskRight, nodeOfTask, randomTask, taskNumber } from '../../room/tasks.ts'
import { base32, parseRoomWord, printRoomWord } from '../../room/word.ts'

const MINUTE = 60_000
const NOW = 1_000 * MINUTE
const lab: LabPlanned = {
  number: 2,
  title: 'IPVS',
  minutes: 60,
  steps: ['web', 'ipvs', 'flush'].map((id) => ({ id, title: id, points: 10, choices: [] })),
}

const tile = (name: string, own: Partial<LearnerTile> = {}): LearnerTile => ({
  tile: 1,
  name,
  lab: 2,
  step: 'flush',
  since: NOW - MINUTE,
  points: 0,
  hints: 0,
  steps: {},
  hand: undefined,
  offlineSince: undefined,
  left: false,
  tasks: { open: 0, right: 0, wrong: 0 },
  ...own,
})
const at = (minutes: number) => ({ since: NOW - minutes * MINUTE })
const failed = (sign: string) => ({ flush: { verdict: 'failed' as const, hints: 0, sign } })

describe('who needs help', () => {
  test('raised hands come first, the longest first; then those who are longest at a step', () => {
    const tiles = [
      tile('new'),
      tile('slow', at(25)),
      tile('stuck', at(45)),
      tile('hints', { ...at(45), steps: { flush: { verdict: 'failed', hints: 3 } } }),
      tile('hand', { hand: NOW - MINUTE }),
      tile('hand before', { hand: NOW - 2 * MINUTE }),
      tile('done', { ...at(90), step: 'end' }),
      tile('gone', { ...at(90), offlineSince: NOW - 20 * MINUTE }),
      tile('passed', { ...at(90), steps: { flush: { verdict: 'passed', hints: 0 } } }),
    ]
    expect(byNeed(tiles, [lab], NOW).map((one) => `${one.tile.name}: ${one.need}`)).toEqual([
      'hand before: hand',
      'hand: hand',
      'hints: stuck',
      'stuck: stuck',
      'slow: slow',
      'new: well',
      'passed: well',
      'done: done',
      'gone: away',
    ])
  })

  test('minutes do not go on for a learner who is offline for a moment', () => {
    const own = { ...at(45), offlineSince: NOW - 9 * MINUTE }
    expect(needOfHelp(tile('away', own), lab, NOW).need).toBe('slow')
  })
})

test('a heat map has the difference that most see', () => {
  const tiles = [
    ...Array.from({ length: 14 }, () =>
      tile('x', { ...at(50), steps: failed('3 stale chains on worker2') }),
    ),
    tile('y', { ...at(50), steps: failed('2 stale chains on worker') }),
    ...Array.from({ length: 7 }, () =>
      tile('z', { steps: { flush: { verdict: 'passed', hints: 0 } } }),
    ),
    tile('other lab', { lab: 3, ...at(50) }),
  ]
  const row = heatRows(lab, tiles, NOW)[2]
  expect(row && heatLine(row)).toBe('flush: 15 of 22 stuck, most see: 3 stale chains on worker2')
})

test.each([
  ['k8s-guide-worker2', '3 stale chains', '3 stale chains on worker2'],
  ['ada-worker2', 'KUBE-SVC-LOLE4ISW44XBNF3G on ada-worker2', 'KUBE-SVC-… on worker2'],
  [undefined, 'ClusterIP 10.96.17.4 is missing', 'ClusterIP 10.… is missing'],
])('learners who see the same have one sign: %s, %s', (node, found, sign) => {
  const finding = { command: '', expected: '', found, differences: [] }
  expect(signOf({ ...finding, ...(node !== undefined && { node }) })).toBe(sign)
})

describe('the plan of the day', () => {
  test('is read as it is written', () => {
    const noon = new Date(2026, 4, 4, 12).getTime()
    const plan = parsePlan('10:15 lab 2; 09:00 3 90 min', [lab, { ...lab, number: 3 }], noon)
    expect(plan.map((one) => [one.lab, new Date(one.at).getHours(), one.minutes])).toEqual([
      [3, 9, 90],
      [2, 10, 60],
    ])
    expect(() => parsePlan('soon', [lab], noon)).toThrow('"soon" is not a part of a plan')
    expect(() => parsePlan('09:00 lab 99', [lab], noon)).toThrow('lab 99')
  })

  test('tells how far the middle learner is behind', () => {
    const done = (...ids: string[]) => ({
      steps: Object.fromEntries(ids.map((id) => [id, { verdict: 'passed' as const, hints: 0 }])),
    })
    const plan = [{ lab: 2, at: NOW - 45 * MINUTE, minutes: 60 }]
    const tiles = [tile('a', done()), tile('b', done('web')), tile('c', done('web', 'ipvs'))]
    expect(paceOf(plan, [lab], tiles, NOW)).toEqual({
      lab: 2,
      planned: 3,
      median: 2,
      behind: 25,
      learners: 3,
    })
    expect(paceOf(plan, [lab], [], NOW)).toBeUndefined()
  })
})

describe('the word of a room', () => {
  const plain = 'http://192.0.2.7:8080/spring-k3f7m2qa'
  const whole = `https://192.0.2.7:8443/spring-k3f7m2qa.${'a2'.repeat(10)}`

  test.each([plain, whole, 'http://[2001:db8::7]:8080/spring-k3f7m2qa'])('%s is read', (word) => {
    expect(printRoomWord(parseRoomWord(word))).toBe(word)
  })

  test.each([
    '',
    'spring-k3f7m2qa',
    `${plain}.${'a2'.repeat(10)}`,
    whole.slice(0, -21),
    whole.slice(0, -1),
    'https://user:pass@192.0.2.7:8443/x',
    `${plain}?x`,
    'http://192.0.2.7:99999/spring-k3f7m2qa',
  ])('%s is refused', (word) => {
    expect(() => parseRoomWord(word)).toThrow('is not the word of a room')
  })

  test('its letters are base32', () => {
    expect(base32(Buffer.from('foobar'), 8)).toBe('mzxw6ytb')
  })
})

describe('tasks', () => {
  const text = `*nat\n:KUBE-MARK-MASQ - [0:0]\n[7:420] -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n`
  const iptables = parseIptablesSave(text)
  const state = { iptables, ipsets: new Map(), virtualServers: [], links: [] }
  const task = (kind: 'mark-masq-packets' | 'nat-rules' | 'filter-rules') => ({
    ...randomTask('x'),
    task: kind,
    worker: 1,
  })

  test('ask for what a node holds', () => {
    expect(taskNumber(task('mark-masq-packets'), state as never)).toBe(7)
    expect(taskNumber(task('nat-rules'), state as never)).toBe(1)
    expect(taskNumber(task('filter-rules'), state as never)).toBe(0)
    expect(nodeOfTask(task('nat-rules'), ['c-control-plane', 'c-worker', 'c-worker2'])).toBe(
      'c-worker2',
    )
  })

  test('are right between what the node held before and after', () => {
    expect(['6', '7', ' 9 ', '10', '', 'x', '-8'].map((text) => isTaskRight(text, 7, 9))).toEqual([
      false,
      true,
      true,
      false,
      false,
      false,
      false,
    ])
  })
})

test('every lab of the course can be planned', () => {
  expect(labsPlanned().length).toBeGreaterThan(7)
})
