import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { projectRoot } from '../../../host/layout.ts'
import { classResult, classSummary, judgedLine } from '../../../instructors/class/class-result.ts'
import {
  check50Of,
  check50Schema,
  classroom50Of,
  classroom50Schema,
  gradescopeOf,
  gradescopeSchema,
} from '../../../instructors/class/formats/course-platforms.ts'
import { FORMATS, jsonSchemas, writerOf } from '../../../instructors/class/formats/formats.ts'
import { csvCell, csvOf, htmlOf } from '../../../instructors/class/formats/tables.ts'
import { junitOf, tapOf } from '../../../instructors/class/formats/test-results.ts'
import { type ClassResult, classSchema } from '../../../instructors/class/result.ts'
import { gradedEntry, judgedEntry } from './made-class.ts'

const HOSTILE = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onmouseover='alert(1)",
  '=HYPERLINK("http://x","y")',
  "+1+cmd|' /C calc'!A0",
  '@SUM(1)',
  '-2+3',
  '\t=1',
  '\u001b[2J\u001b]0;owned\u0007',
  '\u009b31m',
  '\u202eevil',
  'a\r\nb,c";d',
  '# SKIP all',
  ']]></testcase>',
  '\ud800 half',
  '\ufffe\u0000',
  '--- \n...\nok 1',
]

const everywhere = (text: string): ClassResult =>
  classResult([judgedEntry('alice', { text }), { file: text, refused: `It holds ${text}.` }], 1)

describe('a hostile string in every place that reaches a report', () => {
  test.each(HOSTILE)('%j', (text) => {
    const result = everywhere(text)
    classSchema.parse(result)
    const html = htmlOf(result)
    expect(html).not.toMatch(/<script|<img|<\/?testcase|on\w+='|on\w+="alert/)
    expect(tags(html)).toEqual(tags(htmlOf(everywhere('harmless'))))
    const xml = junitOf(result)
    expect(tags(xml)).toEqual(tags(junitOf(everywhere('harmless'))))
    expect(xml).not.toMatch(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/)
    const csv = csvOf(result)
    expect(
      cellsOf(csv)
        .flat()
        .filter((cell) => /^[\s]*[=+\-@|%]/.test(cell)),
    ).toEqual([])
    expect(cellsOf(csv).map((row) => row.length)).toEqual(
      cellsOf(csvOf(everywhere('harmless'))).map((row) => row.length),
    )
    const tap = tapOf(result)
    expect(tap.split('\n').filter((line) => /^(?:not )?ok /.test(line))).toHaveLength(4)
    expect(
      tap.split('\n').filter((line) => /^(?:not )?ok .*(?<!\\)# SKIP/.test(line)),
    ).toHaveLength(1)
    const terminal = classSummary(result) + judgedLine({ file: text, refused: text }, 1, 1)
    for (const shown of [html, xml, csv, tap, terminal, FORMATS.json.ofClass(result)])
      expect(shown).not.toMatch(
        /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e]/,
      )
  })
})

/** Names of the elements of markup, in order; text and attributes left out. */
const tags = (markup: string) =>
  [...markup.matchAll(/<(\/?[a-zA-Z?!][\w-]*)/g)].map(([, tag]) => tag)

/** RFC 4180, read strictly. */
function cellsOf(csv: string): string[][] {
  return csv
    .trimEnd()
    .split('\r\n')
    .map((row) =>
      [...row.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))(?=,|$)/g)].map(
        ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? '',
      ),
    )
}

test('no text becomes a formula in a spreadsheet or breaks a row', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const cell = csvCell(text)
      const [[read = ''] = []] = cellsOf(`${cell}\r\n`)
      expect(read).not.toMatch(/^[=+\-@]/)
      expect(cell).not.toMatch(/[\r\n\u0000-\u0008]/)
    }),
  )
})

describe("other systems' formats", () => {
  const graded = gradedEntry('alice')

  test('get results that match their schemas', () => {
    gradescopeSchema.parse(gradescopeOf(graded))
    check50Schema.parse(check50Of(graded))
    classroom50Schema.parse(classroom50Of(graded, { CLASSROOM: 'k8s', SUBMISSION_TAG: 'v1' }))
  })

  test('points agree in all of them', () => {
    const { score, tests } = gradescopeOf(graded)
    const classroom = classroom50Of(graded, {})
    expect(score).toBe(5)
    expect(tests.reduce((sum, step) => sum + (step.score ?? 0), 0)).toBe(5)
    expect([classroom.score, classroom['max-score']]).toEqual([5, 8])
    expect(classroom.tests.reduce((sum, step) => sum + step['max-score'], 0)).toBe(8)
  })

  test('what could not be judged is not a failure', () => {
    const result = classResult([judgedEntry('alice')], 1)
    expect(check50Of(graded).results.map(({ passed }) => passed)).toEqual([true, false, null])
    expect(gradescopeOf(graded).tests[2]).not.toHaveProperty('score')
    expect(tapOf(result)).toContain('ok 3 - alice lab 2 probe # SKIP')
    expect(junitOf(result)).toContain('<skipped message="it sends real requests"/>')
  })

  test('flags stay out of what a learner sees', () => {
    const flagged = { ...graded, flags: [{ kind: 'claims', text: 'Odd.' } as const] }
    const { extra_data, ...seen } = gradescopeOf(flagged)
    expect(JSON.stringify(extra_data)).toContain('Odd.')
    expect(JSON.stringify([seen, check50Of(flagged), classroom50Of(flagged, {})])).not.toContain(
      'Odd.',
    )
  })

  test('an unknown format is refused with the list of formats', () => {
    for (const name of ['xlsx', 'constructor'])
      expect(() => writerOf(name)).toThrow(`"${name}" is not a format`)
    expect(() => writerOf('xlsx')).toThrow(/"xlsx" is not a format: use one of csv, html/)
  })
})

test('the page reports the result of each step, and what grades cannot prove', () => {
  const html = htmlOf(
    classResult([judgedEntry('alice'), judgedEntry('bob'), judgedEntry('carol')], 1),
  )
  expect(html).toContain('step 2 failed for 3 of 3')
  expect(html).toContain('passed by all 3')
  expect(html).toContain('Who did the work')
  expect(html).toContain("default-src 'none'")
  expect(html).not.toMatch(/src=|href=|@import|url\(/)
})

test.each(Object.entries(jsonSchemas()))(
  'instructors/schema/%s is what the code says (vitest run test/instructors/class/formats.test.ts -u writes it)',
  async (name, schema) => {
    const file = join(projectRoot, 'instructors/schema', name)
    await expect(`${JSON.stringify(schema, null, 2)}\n`).toMatchFileSnapshot(file)
    expect(readFileSync(file, 'utf8')).toContain(
      '"$schema": "https://json-schema.org/draft/2020-12',
    )
  },
)
