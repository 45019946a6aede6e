import { expect, test } from 'vitest'
import { WORKSHOP_PLANS } from '../../course/workshop-plan.ts'
import { readLab } from '../../grading/lab-definition.ts'

test.each(WORKSHOP_PLANS)('$name: the minutes of each day add up', ({ days, minutesPerDay }) => {
  for (const blocks of days)
    expect(blocks.reduce((sum, { minutes }) => sum + minutes, 0)).toBe(minutesPerDay)
})

test.each(WORKSHOP_PLANS)(
  '$name: a whole lab has at least the minutes that it takes',
  ({ days }) => {
    const short = days.flat().filter(({ lab, part, minutes }) => {
      return lab !== undefined && part === undefined && minutes < readLab(lab).minutes
    })
    expect(short).toEqual([])
  },
)
