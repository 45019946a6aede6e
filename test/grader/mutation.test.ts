// A bounded part of `make test-grader`: the grader is tried on good captures, broken ones, and good ones that look different.

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { LabSpec } from '../../checks/check-context.ts'
import { type GoodCapture, goodCaptures } from '../../checks/mutation/good-captures.ts'
import { figuresOf, seekFalseAlarms, tryMutations } from '../../checks/mutation/grader-test.ts'
import { projectRoot } from '../../cluster/layout.ts'

let goods: GoodCapture[]

beforeAll(async () => {
  goods = await goodCaptures()
})

/** Labs whose solved cluster was recorded: every mutation of theirs is caught or has its reason. */
const provenLabs = () => {
  const folder = join(projectRoot, 'test/fixtures/solved')
  const names = existsSync(folder) ? readdirSync(folder) : []
  return new Set(names.map((name) => Number(/^lab-(\d+)/.exec(name)?.[1])))
}

const named = ({ name, passing }: GoodCapture) => `${name}: ${passing.length}`

test('good captures of both drivers and both modes are there', () => {
  const names = goods.map(named).join('\n')
  for (const part of ['embedded, final', 'kind-v1.20.2', 'then flushed', 'iptables']) expect(names).toContain(part)
})

test('single mutations are caught by a step that names the place, or no claim depends on them', async () => {
  const labs = provenLabs()
  const trials = await tryMutations(
    goods.filter(({ spec }) => labs.has(spec.lab.number)),
    17,
  )
  const open = trials.filter(({ end }) => end === 'missed' || end === 'elsewhere')
  expect(
    open.map(({ good, mutation, steps }) => [good.name, mutation.operator, mutation.place, mutation.detail, steps]),
  ).toEqual([])
  expect(figuresOf(trials).tried).toBeGreaterThan(400)
  expect(figuresOf(trials).caught).toBeGreaterThan(200)
}, 60_000)

test('no good capture fails, whatever counters, orders, versions and rules of others it has', async () => {
  const some = goods.filter(({ name }) => /final|iptables-list|3-flushed|nodeport/.test(name))
  const { tried, alarms } = await seekFalseAlarms(some, 42)
  expect(alarms.map(({ good, what, step, said }) => [good.name, what, step, said])).toEqual([])
  expect(tried).toBeGreaterThan(100)
}, 60_000)

describe('the trial itself has teeth', () => {
  /** The lab with one check that lets everything pass. */
  const blunted = (spec: LabSpec, step: string): LabSpec => {
    const entry = spec.checks.get(step)
    if (!entry) throw new Error(`no step ${step}`)
    return { ...spec, checks: new Map(spec.checks).set(step, { ...entry, check: () => undefined }) }
  }

  test.each([
    ['sets', 'drop member'],
    ['virtual-servers', 'alter weight'],
    ['kube-ipvs0', 'drop address'],
    ['prerouting', 'insert rule'],
  ])('a check of %s that sees nothing is found out by: %s', async (step, operator) => {
    const good = goods.find(({ name, passing }) => name.includes('embedded, final') && passing.includes(step))
    if (!good) throw new Error(`no good capture for ${step}`)
    const { tried } = figuresOf(await tryMutations([good], 5))
    const trials = await tryMutations([{ ...good, spec: blunted(good.spec, step) }], 5)
    expect(trials).toHaveLength(tried)
    expect(
      trials.filter(({ end, mutation }) => end !== 'caught' && mutation.operator === operator).length,
    ).toBeGreaterThan(0)
  })
})
