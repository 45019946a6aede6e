import fc from 'fast-check'
import { expect, test } from 'vitest'
import { linesFor, wrapLines } from '../../host/wrap-lines.ts'

test('a command stays whole, and so does inline code', () => {
  const text =
    "Hand in and go on: make exam NEXT=1, repaired or not; or make answer LAB=2 Q=mark A='0x4000/0x4000, twice'. See `ipset list KUBE-CLUSTER-IP`."
  for (const width of [30, 40, 60, 80]) {
    const lines = wrapLines(text, width)
    for (const command of [
      'make exam NEXT=1,',
      "make answer LAB=2 Q=mark A='0x4000/0x4000, twice'.",
      '`ipset list KUBE-CLUSTER-IP`.',
    ])
      expect(lines.some((line) => line.includes(command))).toBe(true)
    expect(lines.join(' ')).toBe(text)
  }
})

test('words are kept in their order, and lines fit unless one word does not', () => {
  const word = fc.stringMatching(/^[a-z]{1,12}$/)
  fc.assert(
    fc.property(
      fc.array(word, { minLength: 1 }),
      fc.integer({ min: 20, max: 100 }),
      (words, width) => {
        const lines = wrapLines(words.join(' '), width, '  1. ')
        expect(lines.join(' ').split(/\s+/).filter(Boolean)).toEqual(['1.', ...words])
        for (const line of lines)
          if (!/^(?:make|\s*make) /.test(line)) expect(line.length).toBeLessThanOrEqual(width)
      },
    ),
  )
})

test('a sentence is wrapped for a terminal, and one line elsewhere', () => {
  const sentence = 'kube-proxy runs in mode ipvs on 3 nodes.'
  expect(linesFor({ columns: 30 }, sentence, ' • ')).toEqual([
    ' • kube-proxy runs in mode',
    '   ipvs on 3 nodes.',
  ])
  expect(linesFor({}, sentence, ' • ')).toEqual([` • ${sentence}`])
})
