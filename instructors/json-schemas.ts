import { z } from 'zod'
import { reportJsonSchema } from '../grading/report-schema.ts'
import { check50Schema, classroom50Schema, gradescopeSchema } from './class/formats/course-platforms.ts'
import { classJsonSchema } from './class/result.ts'
import { manifestJsonSchema } from './submission/manifest.ts'

/** Every machine-readable result that the graders write: file in instructors/schema/ → its JSON Schema (draft 2020-12). */
export const JSON_SCHEMAS: Record<string, () => unknown> = {
  'report.v1.json': reportJsonSchema,
  'submission.v1.json': manifestJsonSchema,
  'class.v1.json': classJsonSchema,
  'gradescope.results.json': () => z.toJSONSchema(gradescopeSchema),
  'check50.report.json': () => z.toJSONSchema(check50Schema),
  'classroom50.result.v1.json': () => z.toJSONSchema(classroom50Schema),
}
