import { describe, expect, test } from 'vitest'
import { findStep, readClaims, readLab } from '../../grading/lab-definition.ts'

/** Claims that lab 2 is to prove, by the curriculum (A7 belongs to lab 5). */
const LAB_2_CLAIMS = Array.from({ length: 29 }, (_, index) => `A${index + 1}`).filter(
  (id) => id !== 'A7',
)

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
    const proven = Object.keys(claims).filter((id) =>
      claims[id]?.some((place) => place.startsWith('2/')),
    )
    expect(proven.sort()).toEqual(expect.arrayContaining(LAB_2_CLAIMS.sort()))
  })
})

test('a step is found by its id and by its number', () => {
  const lab = readLab(2)
  for (const [index, step] of lab.steps.entries()) {
    expect(findStep(lab, step.id)).toBe(step)
    expect(findStep(lab, `${index + 1}`)).toBe(step)
  }
})

test.each(['nope', '0', '99', '01', '1.0'])('the error for "%s" lists the steps', (requested) => {
  const lab = readLab(2)
  const [first] = lab.steps
  expect(() => findStep(lab, requested)).toThrow(
    `no step "${requested}": its steps are ${first?.id}, `,
  )
})
