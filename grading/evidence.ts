import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from '../host/layout.ts'
import { plainText } from '../host/plain-text.ts'
import type { Report, ReportedFinding, Source, StepReport } from './report-schema.ts'

/** The folder of a lab's evidence in the checkout, one per cluster: `.evidence/k8s-guide/lab-2`. */
export function evidenceFolder(lab: number, cluster?: string): string {
  return join('.evidence', ...(cluster === undefined ? [] : [cluster]), `lab-${lab}`)
}

const folderOf = ({ lab, source }: { lab: number; source: Source }) =>
  evidenceFolder(lab, source.kind === 'cluster' ? source.name : undefined)

/**
 * Writes one file per failing step (`.evidence/k8s-guide/lab-2/flush.txt`) with the complete finding, and removes the files
 * of steps that no longer fail. Returns the report with the names of the files.
 */
export function keepEvidence(report: Report, root = projectRoot): Report {
  const folder = folderOf(report)
  return { ...report, steps: report.steps.map((step) => keepStepEvidence(step, folder, root, report.gradedAt)) }
}

function keepStepEvidence(step: StepReport, folder: string, root: string, gradedAt: string): StepReport {
  const file = join(folder, `${step.id}.txt`)
  if (!step.finding) {
    if (step.verdict === 'passed') rmSync(join(root, file), { force: true })
    return step
  }
  mkdirSync(join(root, folder), { recursive: true })
  writeFileSync(join(root, file), evidenceText(step, step.finding, gradedAt))
  return { ...step, finding: { ...step.finding, evidence: file } }
}

function evidenceText(step: StepReport, finding: ReportedFinding, gradedAt: string): string {
  const lines = [
    `${step.id}: ${step.title}`,
    `${step.verdict} at ${gradedAt}`,
    ...(finding.node === undefined ? [] : [`node:     ${finding.node}`]),
    `look:     ${finding.look}`,
    `expected: ${finding.expected}`,
    `actual:   ${finding.actual}`,
    '',
    ...finding.differences.flatMap(({ kind, text, expected, actual }) => [
      `${kind.toUpperCase()}  ${text}`,
      ...indented('expected', expected),
      ...indented('actual', actual),
    ]),
    '',
    `why:  ${finding.why}`,
    `next: ${finding.hint}`,
  ]
  return `${lines.map(plainText).join('\n')}\n`
}

function indented(label: string, text: string | undefined): string[] {
  return text === undefined ? [] : text.split('\n').map((line) => `  ${label}: ${line}`)
}
