import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { loadSpec } from '../../checks/grader.ts'
import { findStep, listLabs, readClaims, readLab } from '../../checks/lab-definition.ts'
import { projectRoot } from '../../cluster/layout.ts'
import { loadSolution } from '../../scripts/lab-bench.ts'
import { readLabText } from '../../scripts/lab-text.ts'

const labs = listLabs().map(({ number }) => readLab(number))

/** Claims that lab 2 is to prove, by the curriculum (A7 belongs to lab 5). */
const LAB_2_CLAIMS = Array.from({ length: 29 }, (_, index) => `A${index + 1}`).filter((id) => id !== 'A7')

describe.each(labs)('lab $number', (lab) => {
  test('every step has a check, text, a solution and two hints that end in a command', async () => {
    const { checks } = await loadSpec(lab)
    const { sections } = readLabText(lab.folder)
    const { steps } = await loadSolution(lab.folder)
    const ids = lab.steps.map(({ id }) => id)
    expect([...checks.keys()].sort()).toEqual([...ids].sort())
    expect([...sections.keys()]).toEqual(ids)
    expect(Object.keys(steps)).toEqual(ids)
    for (const { hints, id } of lab.steps) {
      expect(hints.length, id).toBeGreaterThanOrEqual(2)
      expect(hints.at(-1), id).toMatch(/`(make|kubectl|ipt) /)
      expect(hints[0], id).not.toContain('`kubectl ')
    }
  })

  test('every step proves a claim, and its points are part of 100', () => {
    for (const { id, claims } of lab.steps) expect(claims, id).not.toEqual([])
    expect(lab.steps.reduce((total, { points }) => total + points, 0)).toBe(100)
  })

  test("what the solution types stands in the lab's text, in its own section", async () => {
    const { fences } = readLabText(lab.folder)
    const { steps } = await loadSolution(lab.folder)
    for (const [id, { commands, tidy }] of Object.entries(steps)) {
      const typed = fences.filter(({ step }) => step === id).flatMap((fence) => fence.commands.split('\n'))
      for (const command of [...commands, ...(tidy?.commands ?? [])]) expect(typed, id).toContain(command)
    }
  })

  test('make targets and files that the text names exist', () => {
    const makefile = readFileSync(join(projectRoot, 'Makefile'), 'utf8')
    const targets = new Set([...makefile.matchAll(/^([a-z-]+?)(?:-%)?:/gm)].map(([, name]) => name))
    const { fences } = readLabText(lab.folder)
    for (const { commands, line } of fences) {
      for (const [, name = ''] of commands.matchAll(/\bmake (?:-s )?([a-z-]+?)(?:-\d+)?(?=[ )\n]|$)/g))
        expect(targets, `README line ${line}`).toContain(name)
      for (const [, file = ''] of commands.matchAll(/kubectl [a-z]+ -f (\S+)/g))
        expect(existsSync(join(projectRoot, file)), file).toBe(true)
    }
  })
})

describe('claims.yaml', () => {
  const claims = readClaims()

  test('names only labs and steps that exist', () => {
    for (const places of Object.values(claims)) {
      for (const place of places) {
        const [number, step] = place.split('/')
        expect(findStep(readLab(Number(number)), step ?? '').id).toBe(step)
      }
    }
  })

  test('has a step for every claim that lab 2 is about', () => {
    const proven = Object.keys(claims).filter((id) => claims[id]?.some((place) => place.startsWith('2/')))
    expect(proven.sort()).toEqual(expect.arrayContaining(LAB_2_CLAIMS.sort()))
  })
})

test('an unknown step is answered with the list of steps', () => {
  expect(() => findStep(readLab(2), 'nope')).toThrow(/no step "nope".*web, iptables-list/)
})
