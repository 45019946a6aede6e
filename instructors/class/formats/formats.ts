import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { z } from 'zod'
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

/** Formats with a whole class in one file, by name. */
export const CLASS_FORMATS = {
  csv: csvOf,
  html: htmlOf,
  json: pretty,
  junit: junitOf,
  tap: tapOf,
} as const satisfies Record<string, (result: ClassResult) => string>

/** Formats that need a separate file for every submission. */
export const LEARNER_FORMATS = {
  check50: (graded) => pretty(check50Of(graded)),
  classroom50: (graded) => pretty(classroom50Of(graded)),
  gradescope: (graded) => pretty(gradescopeOf(graded)),
} as const satisfies Record<string, (graded: Graded) => string>

/** Every machine-readable result that the graders write: file in instructors/schema/ → its JSON Schema (draft 2020-12). */
export const jsonSchemas = () => ({
  'report.v1.json': reportJsonSchema(),
  'submission.v1.json': z.toJSONSchema(manifestSchema),
  'class.v1.json': z.toJSONSchema(classSchema),
  'gradescope.results.json': z.toJSONSchema(gradescopeSchema),
  'check50.report.json': z.toJSONSchema(check50Schema),
  'classroom50.result.v1.json': z.toJSONSchema(classroom50Schema),
})

type ClassFormat = keyof typeof CLASS_FORMATS
export type Format = ClassFormat | keyof typeof LEARNER_FORMATS

export const FORMATS: readonly Format[] = [...keysOf(CLASS_FORMATS), ...keysOf(LEARNER_FORMATS)]

export const isClassFormat = (format: Format): format is ClassFormat => format in CLASS_FORMATS

/** Checks the name of a format. Throws with the known names. */
export function formatNamed(text: string): Format {
  const found = FORMATS.find((format) => format === text)
  if (found) return found
  throw new Error(`"${text}" is not a format: use one of ${FORMATS.join(', ')}.`)
}

/** Where to write each format: a file for a class, a folder for files of learners. */
type Places = Partial<Record<Format, string>>

/** Creates the folders of the results and verifies that they can be written, before the long grading. */
export function preparePlaces(places: Places): void {
  for (const format of FORMATS) {
    const place = places[format]
    if (place === undefined) continue
    mkdirSync(isClassFormat(format) ? dirname(place) : place, { recursive: true })
    requireWritable(isClassFormat(format) ? place : join(place, 'learner.json'))
  }
}

/** Writes the results of a class in every format that has a place. */
export function writeResults(places: Places, result: ClassResult): void {
  for (const format of FORMATS) {
    const place = places[format]
    if (place === undefined) continue
    if (isClassFormat(format)) writeFileSync(place, CLASS_FORMATS[format](result))
    else
      for (const graded of result.graded.filter(({ counts }) => counts))
        writeFileSync(join(place, `${graded.learner}-lab${graded.lab}.json`), LEARNER_FORMATS[format](graded))
  }
}

function keysOf<Key extends string>(record: Record<Key, unknown>): Key[] {
  return Object.keys(record) as Key[]
}
