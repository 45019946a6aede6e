import { plainText } from '../../../host/plain-text.ts'
import type { ClassResult, Graded, GradedStep } from '../result.ts'
import { xmlText } from './tables.ts'

/** JUnit XML: a suite per submission, a case per step. A step that could not be judged is an error, never a failure. */
export function junitOf({ graded, refused, gradedAt }: ClassResult): string {
  const suites = graded.filter(({ counts }) => counts).map(suiteOf)
  const errors = refused.map(
    ({ file, reason }) =>
      `  <testsuite name="${xmlText(file)}" tests="1" failures="0" errors="1" skipped="0">\n    <testcase classname="submission" name="can be read"><error message="${xmlText(reason)}"/></testcase>\n  </testsuite>`,
  )
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="kube-service-labs" timestamp="${xmlText(gradedAt)}">\n${[...suites, ...errors].join('\n')}\n</testsuites>\n`
}

function suiteOf({ learner, lab, steps, submittedAt }: Graded): string {
  const count = (...verdicts: GradedStep['verdict'][]) =>
    steps.filter(({ verdict }) => verdicts.includes(verdict)).length
  const name = xmlText(`lab ${lab} of ${learner}`)
  const counts = `tests="${steps.length}" failures="${count('failed', 'not yet')}" errors="${count('could not check')}" skipped="${count('not applicable')}"`
  const cases = steps.map((step) => `    ${caseOf(step, `lab-${lab}.${learner}`)}`)
  return `  <testsuite name="${name}" timestamp="${xmlText(submittedAt)}" ${counts}>\n${cases.join('\n')}\n  </testsuite>`
}

function caseOf({ id, title, verdict, reason, finding }: GradedStep, classname: string): string {
  const head = `<testcase classname="${xmlText(classname)}" name="${xmlText(`${id}: ${title}`)}"`
  if (verdict === 'passed') return `${head}/>`
  const message = xmlText(finding ? `expected ${finding.expected}, found ${finding.actual}` : (reason ?? verdict))
  if (verdict === 'not applicable') return `${head}><skipped message="${message}"/></testcase>`
  const element = verdict === 'could not check' ? 'error' : 'failure'
  return `${head}><${element} type="${verdict}" message="${message}"/></testcase>`
}

/** Test Anything Protocol, version 14: one line per learner and step, in the order of the lab. */
export function tapOf({ graded, refused }: ClassResult): string {
  const lines: string[] = []
  const say = (ok: boolean, what: string, directive = '') =>
    lines.push(`${ok ? 'ok' : 'not ok'} ${lines.length + 1} - ${line(what)}${directive}`)
  const diagnostics: string[][] = []
  for (const { learner, lab, steps } of graded.filter(({ counts }) => counts))
    for (const { id, verdict, reason, finding } of steps) {
      const what = `${learner} lab ${lab} ${id}`
      if (verdict === 'not applicable') say(true, what, ` # SKIP ${line(reason ?? verdict)}`)
      else say(verdict === 'passed', what)
      if (verdict !== 'passed' && verdict !== 'not applicable')
        diagnostics[lines.length - 1] = [
          '  ---',
          `  verdict: ${JSON.stringify(verdict)}`,
          `  message: ${JSON.stringify(plainText(finding ? `expected ${finding.expected}, found ${finding.actual}` : (reason ?? verdict)))}`,
          '  ...',
        ]
    }
  for (const { file, reason } of refused) {
    say(false, `${file} can be read`)
    diagnostics[lines.length - 1] = ['  ---', `  message: ${JSON.stringify(plainText(reason))}`, '  ...']
  }
  const body = lines.flatMap((text, index) => [text, ...(diagnostics[index] ?? [])])
  return `TAP version 14\n1..${lines.length}\n${body.map((text) => `${text}\n`).join('')}`
}

/** A description may hold no `#` (it begins a directive) and no line end. */
const line = (text: string) => plainText(text).replaceAll('\n', ' ').replaceAll('\\', '\\\\').replaceAll('#', '\\#')
