// The curriculum is taught in full: every claim of it is proven by a step that exists.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listLabs, readClaims, readLab } from '../../grading/lab-definition.ts'
import { projectRoot } from '../../host/layout.ts'

/**
 * How many claims each part of the curriculum has at least: kube-proxy in IPVS mode, Netfilter and
 * LVS, the packet's path, the choice. Later claims continue a part or begin one, numbered without
 * gaps.
 */
const PARTS: Readonly<Record<string, number>> = { A: 29, B: 10, C: 11, D: 8 }

/** Claims that only these labs can prove; they are asked for where the lab is. */
const ONLY_IN: Readonly<Record<number, readonly string[]>> = {
  6: ['B7', 'B8', 'D5', 'D6', 'D7'],
  7: ['D1', 'D2', 'D8'],
}

const numbers = listLabs().map(({ number }) => number)
const ofPart = (part: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${part}${index + 1}`)
const curriculum = Object.entries(PARTS).flatMap(([part, count]) => ofPart(part, count))

test('every claim is proven, and nothing else is claimed', () => {
  const untaught = Object.entries(ONLY_IN).flatMap(([lab, claims]) =>
    numbers.includes(Number(lab)) ? [] : claims,
  )
  const claimed = Object.keys(readClaims())
  expect(
    curriculum.filter((claim) => !claimed.includes(claim) && !untaught.includes(claim)),
  ).toEqual([])
  const parts = claimed.map((claim) => claim.charAt(0))
  const withoutGaps = [...new Set(parts)].flatMap((part) =>
    ofPart(part, parts.filter((one) => one === part).length),
  )
  expect(claimed.filter((claim) => !withoutGaps.includes(claim))).toEqual([])
})

test('by steps that exist', () => {
  const steps = numbers.flatMap((number) =>
    readLab(number).steps.map(({ id }) => `${number}/${id}`),
  )
  const named = Object.values(readClaims()).flat()
  expect(named.filter((step) => !steps.includes(step))).toEqual([])
})

test('labs/CURRICULUM.md has a sentence and the same steps for each of them, in the same order', () => {
  const text = readFileSync(join(projectRoot, 'labs/CURRICULUM.md'), 'utf8')
  const rows = [...text.matchAll(/^\| ([A-Z]\d+) \| (.+) \| (.+) \|$/gm)]
  const proven = rows.map(([, id, , steps = '']) => [
    id,
    [...steps.matchAll(/`([^`]+)`/g)].map((match) => match[1]),
  ])
  expect(proven).toEqual(Object.entries(readClaims()))
  expect(rows.filter(([, , sentence = '']) => !/^[A-Za-z].*\.$/.test(sentence))).toEqual([])
})

test.each(Object.entries(ONLY_IN).filter(([lab]) => numbers.includes(Number(lab))))(
  'lab %s proves what no other lab can',
  (lab, claims) => {
    const proven = readLab(Number(lab)).steps.flatMap((step) => step.claims)
    expect(claims.filter((claim) => !proven.includes(claim))).toEqual([])
  },
)
