// A bounded part of `make test-grader`, another one with each SEED: the grader is tried on good
// captures, broken ones, and good ones that look different.

import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { INCIDENT_STEP } from '../../../course/incident/incident-note.ts'
import type { LabSpec } from '../../../grading/check-context.ts'
import { judgeRound } from '../../../grading/judge.ts'
import { listLabs } from '../../../grading/lab-definition.ts'
import { modeOf, Snapshot } from '../../../grading/snapshot.ts'
import { isMisjudged, tryAnswers } from '../../../instructors/mutation/answer-trials.ts'
import { EquivalentMutants } from '../../../instructors/mutation/equivalent-mutants.ts'
import { type GoodCapture, goodCaptures } from '../../../instructors/mutation/good-captures.ts'
import {
  figuresOf,
  isOpen,
  seekFalseAlarms,
  tryMutations,
} from '../../../instructors/mutation/grader-test.ts'
import { mutationsOf } from '../../../instructors/mutation/mutations.ts'
import { noise } from '../../../instructors/mutation/noise.ts'
import { type Trial, tryMutation } from '../../../instructors/mutation/trial.ts'

const { SEED } = process.env
const seed = SEED
  ? Number.parseInt(createHash('sha256').update(SEED).digest('hex').slice(0, 6), 16)
  : 0
/** One mutation in EVERY is tried, and one harmless change in ALARMS_EVERY. */
const EVERY = 151
const ALARMS_EVERY = 13

/**
 * Steps that pass on no recorded capture, so that their answers cannot be tried: those of real
 * requests, of states that no capture holds, of mode nftables, which the recorded kernel lacks, of
 * labs 9 and 10, which were recorded before these steps asked, and of lab 10's incidents, whose
 * causes are in Deployments, which a capture has not.
 */
const NOT_IN_CAPTURES = [
  '1 families',
  '10 full',
  '10 incident',
  '10 invalid',
  '2 conntrack',
  '5 bound',
  '7 fails',
  '7 nft-maps',
  '7 nft-tables',
  '7 retried',
  '9 cleanup',
  '9 ended',
]

let goods: GoodCapture[]
let answerTrials: Awaited<ReturnType<typeof tryAnswers>>

beforeAll(async () => {
  goods = await goodCaptures()
  answerTrials = await tryAnswers(goods)
})

const named = ({ name, passing }: GoodCapture) => `${name}: ${passing.length}`

test('good captures of both drivers and both modes are there', () => {
  const names = goods.map(named).join('\n')
  for (const part of ['embedded, final', 'kind-v1.20.2', 'then flushed', 'iptables'])
    expect(names).toContain(part)
})

test('every lab that a capture can show has the recording of a solved cluster', () => {
  const ends = goods.filter(({ isEnd }) => isEnd).map(({ spec }) => spec.lab.number)
  expect([...new Set(ends)].sort((a, b) => a - b)).toEqual(listLabs().map(({ number }) => number))
})

test('single mutations are caught by a step that names the place, or no claim depends on them', async () => {
  const trials = await tryMutations(goods, { every: EVERY, first: seed })
  expect(
    trials
      .filter(isOpen)
      .map(({ good, mutation, steps }) => [
        good.name,
        mutation.operator,
        mutation.place,
        mutation.detail,
        steps,
      ]),
  ).toEqual([])
  expect(figuresOf(trials).tried).toBeGreaterThan(200)
  expect(figuresOf(trials).caught).toBeGreaterThan(80)
})

test('no good capture fails because of other counters, another order, another version or foreign rules', async () => {
  const { tried, alarms } = await seekFalseAlarms(goods, { every: ALARMS_EVERY, first: seed })
  expect(alarms.map(({ good, what, step, reported }) => [good.name, what, step, reported])).toEqual(
    [],
  )
  expect(tried).toBeGreaterThan(50)
})

test('a wrong answer never passes, a right one always; nor does a step without its prediction or proof', () => {
  expect(
    answerTrials
      .filter(isMisjudged)
      .map(({ good, step, what, outcome }) => [good.name, step, what, outcome?.failure?.actual]),
  ).toEqual([])
  expect(answerTrials.length).toBeGreaterThan(50)
})

test('predictions, questions and proofs of every lab are among the answers that were tried', () => {
  const tried = new Set(answerTrials.map(({ good, step }) => `${good.spec.lab.number} ${step}`))
  const missing = new Set(
    goods.flatMap(({ spec }) =>
      spec.steps
        .filter(({ asked }) => asked.predict || asked.question || asked.evidence)
        .map(({ id }) => `${spec.lab.number} ${id}`)
        .filter((name) => !tried.has(name)),
    ),
  )
  expect([...missing].sort()).toEqual(NOT_IN_CAPTURES)
})

test('a question that takes every answer is found', async () => {
  const good = goods.find(({ passing }) => passing.includes('chain-name'))
  if (!good) throw new Error('lab 1 is not recorded')
  const steps = good.spec.steps.map((step) => ({ ...step, check: () => undefined }))
  const blunt = { ...good, spec: { ...good.spec, steps } }
  expect((await tryAnswers([blunt])).filter(isMisjudged)).not.toEqual([])
})

test('links, addresses and virtual servers of others fail no step of a lab in IPVS mode', async () => {
  const good = goods.find(({ spec, isEnd }) => isEnd && spec.lab.number === 2)
  expect(good?.passing).toContain('node-port')
  if (!good) return
  const changes = noise(1).filter(({ what }) =>
    /^(?:links|virtual servers|sets) of others$/.test(what),
  )
  expect(changes).toHaveLength(3)
  for (const { what, apply } of changes) {
    const outcomes = await judgeRound(
      good.spec,
      new Snapshot(apply(good.capture)),
      undefined,
      good.passing,
      good.asks,
    )
    expect(
      outcomes.filter(({ verdict }) => verdict !== 'passed'),
      what,
    ).toEqual([])
  }
})

test('only labs 6 and 8 have captures whose steps pass on the notes alone', () => {
  const labs = goods
    .filter(({ judgesOnlyNotes }) => judgesOnlyNotes)
    .map(({ spec }) => spec.lab.number)
  expect([...new Set(labs)].sort()).toEqual([6, 8])
})

test('a change of an object is harmless in userspace mode only if kube-proxy programs the same, whatever its name', async () => {
  const good = goods.find(({ snapshot }) =>
    snapshot.nodes.every((node) => modeOf(node) === 'userspace'),
  )
  if (!good) throw new Error('there is no capture in userspace mode')
  const equivalent = new EquivalentMutants(goods)
  const onObjects = [...mutationsOf(good.capture, [])]
  const endOf = async (operator: string, name = operator) => {
    const mutation = onObjects.find(
      ({ place, ...one }) => one.operator === operator && !place.endsWith('/kubernetes'),
    )
    // No step looks at the change.
    return (
      mutation &&
      (await tryMutation({ ...good, passing: [] }, { ...mutation, operator: name }, equivalent)).end
    )
  }
  expect(await endOf('alter targetPort')).toBe('harmless')
  expect(await endOf('alter affinity')).toBe('harmless')
  expect(await endOf('alter port', 'alter targetPort')).toBe('missed')
  expect(await endOf('alter clusterIP', 'alter affinity')).toBe('missed')
})

describe('the test of the grader finds a check that is too lenient', () => {
  /** The lab with one check that lets everything pass. */
  const blunted = (spec: LabSpec, id: string): LabSpec => {
    if (!spec.steps.some((step) => step.id === id)) throw new Error(`no step ${id}`)
    return {
      ...spec,
      steps: spec.steps.map((step) =>
        step.id === id ? { ...step, check: () => undefined } : step,
      ),
    }
  }

  test.each([
    [1, 'whole', 'add stale chain'],
    [2, 'sets', 'drop member'],
    [2, 'virtual-servers', 'alter weight'],
    [2, 'kube-ipvs0', 'drop address'],
    [2, 'prerouting', 'insert rule'],
    [3, 'whole', 'add stale chain'],
    [4, 'counting', 'alter scheduler'],
    [5, 'whole', 'alter real server'],
    [6, 'entries', 'alter count'],
    [7, 'back', 'add stale chain'],
    [8, 'rules', 'alter weight'],
  ])(
    'lab %i: a check of %s that always passes is found by the mutation: %s',
    async (lab, step, operator) => {
      const end = goods.find(({ isEnd, spec }) => isEnd && spec.lab.number === lab)
      if (!end?.passing.includes(step)) throw new Error(`step ${step} passes on no good capture`)
      // After its incident, a lab's last step judges everything once more.
      const good = { ...end, passing: end.passing.filter((id) => id !== INCIDENT_STEP) }
      const ends = (trials: Trial[]) => trials.map(({ end }) => end)
      expect(ends(await tryMutations([good], { operator }, goods))).not.toContain('missed')
      const blunt = { ...good, spec: blunted(good.spec, step) }
      expect(ends(await tryMutations([blunt], { operator }, goods))).toContain('missed')
    },
  )
})
