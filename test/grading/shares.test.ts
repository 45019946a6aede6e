import { expect, test } from 'vitest'
import { shareBars } from '../../grading/shares.ts'

test('bars are proportional, and behind the numbers, so that a narrow window cuts off no number', () => {
  const bars = [
    { labels: ['web-1', 'worker'], count: 60 },
    { labels: ['web-20', 'worker2'], count: 180 },
    { labels: ['none', ''], count: 0 },
  ]
  expect(shareBars(bars)).toEqual([
    `web-1   worker    25.0 %   (60)  ${'█'.repeat(7)}▌`,
    `web-20  worker2   75.0 %  (180)  ${'█'.repeat(22)}▌`,
    'none               0.0 %    (0)',
  ])
  expect(shareBars([])).toEqual([])
})
