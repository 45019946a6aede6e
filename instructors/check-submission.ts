import { basename } from 'node:path'
import { classWord, readClassKey } from '../grading/class-key.ts'
import { loadSpec } from '../grading/grader.ts'
import { labNumber, readLab } from '../grading/lab-definition.ts'
import { learnerReport } from '../grading/learner-report.ts'
import { UserError } from '../host/main.ts'
import { requireWritable } from '../host/plain-file.ts'
import { plainText } from '../host/plain-text.ts'
import { classResult } from './class/class-result.ts'
import { judgeFile } from './class/judge-file.ts'
import { type GradingOptions, publish } from './grading.ts'
import { type ReadOptions, readSubmission, type SignatureState, type Submission } from './submission/read-submission.ts'
import { reportSubmission } from './submission/rejudge.ts'
import { quoted, Refusal } from './submission/untrusted-text.ts'

type SubmissionOptions = Omit<GradingOptions, 'lab' | 'capture'> & {
  lab?: string | undefined
  key?: string | undefined
}

const SIGNED: Record<SignatureState, string> = {
  valid: 'signed by this learner under the key of the class',
  'not checked': 'signed; --key FILE checks the signature',
  none: 'not signed',
}

/** A refusal names the file, as in the result of a class. */
async function readNamed(file: string, options: ReadOptions): Promise<Submission> {
  try {
    return await readSubmission(file, options)
  } catch (error) {
    throw error instanceof Refusal ? new UserError(`${quoted(basename(file))} is refused. ${error.message}`) : error
  }
}

/** Judges one submission again from its raw captures and prints the result; the exit code is as for a cluster. */
export async function checkSubmission(file: string, wish: SubmissionOptions): Promise<number> {
  if (wish.output !== undefined) requireWritable(wish.output)
  const keyFile = wish.key ?? process.env.CLASS_KEY_FILE
  const word = process.env.CLASS ? classWord(process.env.CLASS) : undefined
  const options = { key: keyFile ? readClassKey(keyFile) : undefined, word }
  const submission = await readNamed(file, options)
  const { learner, lab, submittedAt } = submission.manifest
  if (wish.lab !== undefined && labNumber(wish.lab) !== lab)
    throw new UserError(`"${basename(file)}" is for lab ${lab}: leave --lab out.`)
  if (wish.step !== undefined || wish.junit !== undefined)
    throw new UserError('A submission is judged as a whole: leave --step and --junit out; --format junit writes JUnit.')
  const report = await reportSubmission(await loadSpec(readLab(lab)), submission, basename(file))
  const judged = await judgeFile(file, options)
  const flags = classResult([judged], 0).graded.flatMap((graded) => graded.flags)
  const head = `${learner}, lab ${lab}, handed in ${submittedAt}, ${SIGNED[submission.signature]}\n`
  const looks = flags.map(({ text }) => `A reason to look: ${plainText(text)}\n`).join('')
  return publish(report, wish, { text: () => `${head}${learnerReport(report)}${looks}`, judged })
}
