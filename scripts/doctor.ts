import { chalk } from 'zx/core'
import { chooseKernel } from '../cluster/doctor/choose-kernel.ts'
import { gatherFacts } from '../cluster/doctor/gather.ts'
import { type DoctorResult, diagnose, type LabVerdict, type Severity } from '../cluster/doctor/judge.ts'
import { needsOf, readLab } from '../grading/lab-definition.ts'
import { listLabs } from '../grading/lab-folders.ts'
import { clusterName } from '../host/layout.ts'
import { ExitCode, main } from '../host/main.ts'

const marks: Record<Severity, string> = {
  fine: chalk.green('✓'),
  note: '•',
  warning: chalk.yellow('!'),
  fault: chalk.red('✗'),
}

const column = 14

function lines({ what, severity, detail, fix }: DoctorResult): string {
  const arrow = fix === undefined ? '' : `\n   ${' '.repeat(column)} → ${fix}`
  return ` ${marks[severity]} ${what.padEnd(column)} ${detail}${arrow}`
}

function labLines({ number, title, on, notOn, partly }: LabVerdict, kernel: string): string {
  const reasons = [...notOn.map(({ cluster, reason }) => `not on ${cluster}: ${reason}`), ...partly].map(
    (reason) => `\n   ${' '.repeat(column)} ${reason}`,
  )
  const clusters = on.map((cluster) => (cluster === 'embedded' ? `embedded (KERNEL=${kernel})` : cluster))
  const where = on.length > 0 ? `on ${clusters.join(' and ')}` : 'nowhere yet'
  return ` ${on.length > 0 ? marks.fine : marks.fault} ${`lab ${number}`.padEnd(column)} ${where} · ${title}${reasons.join('')}`
}

await main(async () => {
  const labs = listLabs().map(({ number }) => readLab(number))
  const facts = await gatherFacts(clusterName(), labs.map(needsOf))
  const { machine, embedded, kind, labs: verdicts } = diagnose(facts)
  const kernels = facts.labs.map((lab) => chooseKernel(process.env.KERNEL, facts.embedded, lab))
  const labLine = (verdict: LabVerdict, at: number) => {
    const choice = kernels[at]
    return labLines(verdict, choice && 'kernel' in choice ? choice.kernel : 'uml')
  }
  const sections: [string, string[]][] = [
    ['This machine', machine.map(lines)],
    ['The embedded cluster', embedded.map(lines)],
    ['The kind cluster', kind.map(lines)],
    ['Labs', verdicts.map(labLine)],
  ]
  for (const [title, body] of sections) console.log(`${chalk.bold(title)}\n${body.join('\n')}\n`)
  const first = verdicts.find(({ on }) => on.length > 0)
  if (!first) {
    console.log('No lab can run here yet: fix the lines marked with ✗ above.')
    return ExitCode.trouble
  }
  const everywhere = verdicts.every(({ on }) => on.length > 0)
  console.log(`${everywhere ? 'Every lab' : 'Not every lab'} can run here. Next: make lab-${first.number}`)
  return ExitCode.passed
})
