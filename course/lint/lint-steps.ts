import type { WrittenLab } from '../../grading/lab-definition.ts'
import type { Complaint } from './complaint.ts'
import type { LabFiles } from './course-files.ts'

const POINTS = 100
const COMMAND = /`[^`]*(?:make|kubectl|ipt|ipv|ips|iptables|ipvsadm|ipset) [^`]+`/

/** Points make a hundred, hints go from a nudge to the command, titles are sentences that differ. */
export function lintSteps({ folder }: LabFiles, { steps }: WrittenLab): Complaint[] {
  const file = `labs/${folder}/lab.yaml`
  const complain = (text: string): Complaint => ({ file, text })
  const points = steps.reduce((sum, step) => sum + step.points, 0)
  const titles = steps.map(({ title }) => title)
  return [
    ...(points === POINTS ? [] : [complain(`the points of its steps are ${points}, they must be ${POINTS}.`)]),
    ...steps.flatMap(({ id, title, hints }, index) => [
      ...(titles.indexOf(title) === index ? [] : [complain(`step "${id}" has the title of another step.`)]),
      ...(COMMAND.test(hints.at(-1) ?? '') ? [] : [complain(`the last hint of step "${id}" must show a command.`)]),
      ...(COMMAND.test(hints[0] ?? '') ? [complain(`the first hint of step "${id}" is a nudge, not a command.`)] : []),
      ...(new Set(hints).size === hints.length ? [] : [complain(`step "${id}" has the same hint twice.`)]),
    ]),
  ]
}
