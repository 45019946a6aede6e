import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import * as z from 'zod'
import { reportJsonSchema } from '../../../grading/report-schema.ts'
import { requireWritable } from '../../../host/plain-file.ts'
import { plainJson } from '../../../host/plain-text.ts'
import { manifestSchema } from '../../submission/manifest.ts'
import { type ClassResult, classSchema, type Graded } from '../result.ts'
import {
  check50Of,
  check50Schema,
  classroom50Of,
  classroom50Schema,
  gradescopeOf,
  gradescopeSchema,
} from './course-platforms.ts'
import { csvOf, htmlOf } from './tables.ts'
import { junitOf, tapOf } from './test-results.ts'

const pretty = (value: unknown) => `${plainJson(value)}\n`

/**
 * A result as text: of a whole class, or of one submission, if the other system reads one file for
 * each.
 */
type Writer = { ofClass(result: ClassResult): string } | { ofLearner(graded: Graded): string }

/** Every format by its name. */
export const FORMATS = {
  csv: { ofClass: csvOf },
  html: { ofClass: htmlOf },
  json: { ofClass: pretty },
  junit: { ofClass: junitOf },
  tap: { ofClass: tapOf },
  check50: { ofLearner: (graded) => pretty(check50Of(graded)) },
  classroom50: { ofLearner: (graded) => pretty(classroom50Of(graded)) },
  gradescope: { ofLearner: (graded) => pretty(gradescopeOf(graded)) },
} as const satisfies Record<string, Writer>

type Format = keyof typeof FORMATS

export const FORMAT_NAMES = Object.keys(FORMATS) as Format[]

/** The writer of a format. Throws with the known names. */
export function writerOf(name: string): Writer {
  if (Object.hasOwn(FORMATS, name)) return FORMATS[name as Format]
  throw new Error(`"${name}" is not a format: use one of ${FORMAT_NAMES.join(', ')}.`)
}

/**
 * Every machine-readable result that the graders write: file in instructors/schema/ → its JSON
 * Schema (draft 2020-12).
 */
export const jsonSchemas = () => ({
  'report.v1.json': reportJsonSchema(),
  'submission.v1.json': z.toJSONSchema(manifestSchema),
  'class.v1.json': z.toJSONSchema(classSchema),
  'gradescope.results.json': z.toJSONSchema(gradescopeSchema),
  'check50.report.json': z.toJSONSchema(check50Schema),
  'classroom50.result.v1.json': z.toJSONSchema(classroom50Schema),
})

/** Where to write each format: a file for a class, a folder for files of learners. */
type Places = Partial<Record<Format, string>>

const chosen = (places: Places): [place: string, writer: Writer][] =>
  FORMAT_NAMES.flatMap((name) =>
    places[name] === undefined ? [] : [[places[name], FORMATS[name]]],
  )

/**
 * Creates the folders of the results and verifies that they can be written, before the long
 * grading.
 */
export function preparePlaces(places: Places): void {
  for (const [place, writer] of chosen(places)) {
    const file = 'ofClass' in writer ? place : join(place, 'learner.json')
    mkdirSync(dirname(file), { recursive: true })
    requireWritable(file)
  }
}

/** Writes the results of a class in every format that has a place. */
export function writeResults(places: Places, result: ClassResult): void {
  for (const [place, writer] of chosen(places)) {
    if ('ofClass' in writer) writeFileSync(place, writer.ofClass(result))
    else
      for (const graded of result.graded.filter(({ counts }) => counts))
        writeFileSync(
          join(place, `${graded.learner}-lab${graded.lab}.json`),
          writer.ofLearner(graded),
        )
  }
}
