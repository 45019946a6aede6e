import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MOST_CHARACTERS, readAnswer, sameAnswer } from '../../grading/answer.ts'

describe('two answers are equal', () => {
  test.each([
    ['KUBE-SVC-LOLE4ISW44XBNF3G', 'KUBE-SVC-LOLE4ISW44XBNF3G'],
    ['kube-svc-lole4isw44xbnf3g', 'KUBE-SVC-LOLE4ISW44XBNF3G'],
    ['  "KUBE-SVC-LOLE4ISW44XBNF3G"', 'KUBE-SVC-LOLE4ISW44XBNF3G'],
    ["'10.244.1.7'", '10.244.1.7'],
    ['`POSTROUTING`', 'POSTROUTING'],
    ['0.5', '0.50000000000'],
    ['50%', '1/2'],
    ['0,5', '0.50000000000'],
    ['0,250', '1/4'],
    [',5', '1/2'],
    ['33,33 %', '1/3'],
    ['50 %', '0.5'],
    ['1/2', '0.5'],
    ['2 / 4', '0.5'],
    ['.5', '1/2'],
    ['+0.50', '0.5'],
    ['33%', '0.33333333349'],
    ['0.33', '1/3'],
    ['0.333', '1/3'],
    ['1/3', '0.33333333349'],
    ['33.33 %', '1/3'],
    ['0x4000', '16384'],
    ['20', '20'],
    ['20.0', '20'],
    ['-3', '-3'],
  ])('%s as %s', (input, accepted) => expect(sameAnswer(input, accepted)).toBe(true))

  test.each([
    ['KUBE-SVC-LOLE4ISW44XBNF3', 'KUBE-SVC-LOLE4ISW44XBNF3G'],
    ['KUBE-SVC', 'KUBE-SVC-LOLE4ISW44XBNF3G'],
    ['10.244.1.70', '10.244.1.7'],
    ['0.3', '1/3'],
    ['0.34', '1/3'],
    ['0.35', '1/3'],
    ['0', '1/3'],
    ['30%', '1/3'],
    ['0.5', '5'],
    ['50', '50%'],
    ['19', '20'],
    ['20.4', '20'],
    ['1/0', '1'],
    ['1/0', '1/0x'],
    ['1e1', '10'],
    ['1,234', '1.234'],
    ['0,24', '0.25'],
    ['', ''],
    ['""', "''"],
    ['NaN', '0'],
    ['Infinity', '1/0'],
    ['.', '0'],
    ['%', '0'],
  ])('%s not as %s', (source, accepted) => expect(sameAnswer(source, accepted)).toBe(false))

  test('fractions, percentages and decimals of one value are equal', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1000 }), fc.integer({ min: 1, max: 1000 }), (a, b) => {
        const value = a / b
        const decimal = value.toFixed(11)
        expect(sameAnswer(`${a}/${b}`, decimal)).toBe(true)
        expect(sameAnswer(decimal, `${a}/${b}`)).toBe(true)
        expect(sameAnswer(`${(value * 100).toFixed(9)}%`, `${a}/${b}`)).toBe(true)
        expect(sameAnswer(`${a + 1}/${b}`, `${a}/${b}`)).toBe(false)
      }),
    )
  })
})

describe('a typed answer', () => {
  test('is trimmed and otherwise unchanged', () =>
    expect(readAnswer('  KUBE-SEP-A "x"\n')).toBe('KUBE-SEP-A "x"'))

  test.each([
    ['nothing', ''],
    ['spaces', '  \n '],
    ['two lines', 'KUBE-SVC-A\nKUBE-SVC-B'],
    ['a control sequence of a terminal', '\u001b[2Jgone'],
    ['a null', 'a\u0000b'],
    ['a change of direction', 'a\u202eb'],
    ['a long answer', 'x'.repeat(MOST_CHARACTERS + 1)],
    ['a very long one', 'x'.repeat(50_000_000)],
    ['spaces without an end', `x${' '.repeat(5_000_000)}y`],
  ])('%s is refused as an answer with a short sentence', (_what, typed) => {
    const began = process.cpuUsage()
    expect(() => readAnswer(typed)).toThrow(
      /^An answer [^\u0000-\u001f\u007f-\u009f\u202a-\u202e]{10,120}$/,
    )
    // CPU time: others may keep the machine busy.
    expect(process.cpuUsage(began).user / 1000).toBeLessThan(500)
  })

  test('is compared without an error, whatever it contains', () => {
    const truths = ['0.5', 'KUBE-SVC-LOLE4ISW44XBNF3G', '10.96.0.1']
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (typed) => {
        for (const truth of truths) expect(typeof sameAnswer(typed, truth)).toBe('boolean')
      }),
    )
    for (const hostile of [
      '9'.repeat(100_000),
      `${'('.repeat(100_000)}`,
      '__proto__',
      '0.'.repeat(50_000),
    ])
      for (const truth of truths) expect(sameAnswer(hostile, truth)).toBe(false)
  })
})
