import type { ClassResult, Graded, GradedStep } from '../result.ts'
import { xmlText } from './xml-text.ts'

/** JUnit XML: a suite per submission, a case per step. What could not be judged is an error, never a failure. */
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
