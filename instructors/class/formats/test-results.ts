import { plainText } from '../../../host/plain-text.ts'
import { type ClassResult, foundText, type Graded, type GradedStep } from '../result.ts'
import { xmlText } from './tables.ts'

/**
 * JUnit XML: a suite per submission, a case per step. A step that could not be judged is an error,
 * never a failure.
 */
export function junitOf({ graded, refused, gradedAt }: ClassResult): string {
  const suites = graded.filter(({ counts }) => counts).map(suiteOf)
  const errors = refused.map(({ file, reason }) => {
    const unread = `<testcase classname="submission" name="can be read"><error message="${xmlText(reason)}"/></testcase>`
    return `  <testsuite name="${xmlText(file)}" tests="1" failures="0" errors="1" skipped="0">\n    ${unread}\n  </testsuite>`
  })
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

function caseOf(step: GradedStep, classname: string): string {
  const { id, title, verdict } = step
  const head = `<testcase classname="${xmlText(classname)}" name="${xmlText(`${id}: ${title}`)}"`
  if (verdict === 'passed') return `${head}/>`
  const message = xmlText(foundText(step))
  if (verdict === 'not applicable') return `${head}><skipped message="${message}"/></testcase>`
  const element = verdict === 'could not check' ? 'error' : 'failure'
  return `${head}><${element} type="${verdict}" message="${message}"/></testcase>`
}

/** Test Anything Protocol, version 14: one line per learner and step, in the order of the lab. */
export function tapOf({ graded, refused }: ClassResult): string {
  let count = 0
  const point = (ok: boolean, what: string, more = '') =>
    `${ok ? 'ok' : 'not ok'} ${++count} - ${line(what)}${more}`
  const diagnosis = (fields: Record<string, string>) => {
    const lines = Object.entries(fields).map(
      ([name, text]) => `  ${name}: ${JSON.stringify(plainText(text))}`,
    )
    return ['', '  ---', ...lines, '  ...'].join('\n')
  }
  const points = graded
    .filter(({ counts }) => counts)
    .flatMap(({ learner, lab, steps }) =>
      steps.map((step) => {
        const { id, verdict, reason } = step
        const what = `${learner} lab ${lab} ${id}`
        if (verdict === 'passed') return point(true, what)
        if (verdict === 'not applicable')
          return point(true, what, ` # SKIP ${line(reason ?? verdict)}`)
        return point(false, what, diagnosis({ verdict, message: foundText(step) }))
      }),
    )
  for (const { file, reason } of refused)
    points.push(point(false, `${file} can be read`, diagnosis({ message: reason })))
  return `TAP version 14\n1..${points.length}\n${points.map((text) => `${text}\n`).join('')}`
}

/** A description may hold no `#` (it begins a directive) and no line end. */
const line = (text: string) =>
  plainText(text).replaceAll('\n', ' ').replaceAll('\\', '\\\\').replaceAll('#', '\\#')
