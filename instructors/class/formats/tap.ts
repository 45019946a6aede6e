import { plainText } from '../../../host/plain-text.ts'
import type { ClassResult } from '../result.ts'

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
