import { basename } from 'node:path'
import { seedOf } from '../../grading/class-key.ts'
import type { Report } from '../../grading/report-schema.ts'
import { classResult } from './class-result.ts'
import { printsOf } from './copies.ts'
import { writerOf } from './formats/formats.ts'
import { gradedReport } from './judge-file.ts'
import type { ClassResult } from './result.ts'

/**
 * The report of a capture folder or of a running cluster in a format of class results, as that of a
 * class of one learner (LEARNER). Throws with the known formats.
 */
export function formatReport(format: string, report: Report): string {
  const { source, seconds } = report
  const learner = process.env.LEARNER || 'learner'
  const file = source.kind === 'capture' ? basename(source.folder) : 'the cluster'
  const graded = gradedReport(report, { learner, file })
  const one = { file, graded, seed: seedOf(learner), prints: printsOf([]) }
  return formatResult(format, classResult([one], seconds))
}

/**
 * A result in one of the formats, all files of learners in sequence. Throws with the known formats.
 */
export function formatResult(format: string, result: ClassResult): string {
  const writer = writerOf(format)
  return 'ofClass' in writer ? writer.ofClass(result) : result.graded.map(writer.ofLearner).join('')
}
