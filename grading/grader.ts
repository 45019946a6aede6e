import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from '../host/layout.ts'
import { reasonOf } from '../host/main.ts'
import { plainText } from '../host/plain-text.ts'
import type { LabSpec } from './check-context.ts'
import { type JudgeOptions, judge } from './judge.ts'
import { findStep, type LabDefinition, mustRunHere, readLab } from './lab-definition.ts'
import { openSource, type SnapshotSource } from './live-cluster.ts'
import { type GradingRequest, reportOf } from './report.ts'
import type { Finding, Report, StepReport } from './report-schema.ts'

/**
 * Grades a lab once, and writes the evidence of failures. Throws only for an unknown lab or step;
 * other problems are in the report.
 */
export async function grade(asked: GradingRequest, options: JudgeOptions = {}): Promise<Report> {
  const spec = await loadSpec(readLab(asked.lab))
  const step = asked.step === undefined ? undefined : findStep(spec.lab, asked.step).id
  const request = { ...asked, step }
  return gradeWith(spec, request, () => openSource(request.source), options)
}

/** The checks of a lab. Throws if its spec and its lab.yaml differ. */
export async function loadSpec({ folder }: Pick<LabDefinition, 'folder'>): Promise<LabSpec> {
  const module: { default: LabSpec } = await import(`../checks/${folder}.check.ts`)
  return module.default
}

/** Like `grade`, with a source from the caller. */
export async function gradeWith(
  spec: LabSpec,
  request: GradingRequest,
  open: () => Promise<SnapshotSource> | SnapshotSource,
  options: JudgeOptions = {},
): Promise<Report> {
  const began = performance.now()
  const seconds = () => (performance.now() - began) / 1000
  try {
    const source = await open()
    if (source.live) await mustRunHere(source.live.cluster, spec.lab)
    const { outcomes, snapshot } = await judge(spec, source, {
      ...options,
      only: request.step === undefined ? options.only : [request.step],
    })
    return keepEvidence(reportOf(spec.lab, request, outcomes, { snapshot, seconds: seconds() }))
  } catch (error) {
    return reportOf(spec.lab, request, [], { seconds: seconds(), trouble: reasonOf(error) })
  }
}

/** The folder of a lab's evidence in the checkout, one per cluster: `.evidence/k8s-guide/lab-2`. */
export function evidenceFolder(lab: number, cluster?: string): string {
  return join('.evidence', ...(cluster === undefined ? [] : [cluster]), `lab-${lab}`)
}

/**
 * Writes a file per failing step (`.evidence/k8s-guide/lab-2/flush.txt`), removes those of passed
 * ones, and adds their names to the report.
 */
export function keepEvidence(report: Report, root = projectRoot): Report {
  const { lab, source } = report
  const folder = evidenceFolder(lab, source.kind === 'cluster' ? source.name : undefined)
  return {
    ...report,
    steps: report.steps.map((step) => keepStepEvidence(step, folder, root, report.gradedAt)),
  }
}

function keepStepEvidence(
  step: StepReport,
  folder: string,
  root: string,
  gradedAt: string,
): StepReport {
  const file = join(folder, `${step.id}.txt`)
  try {
    if (step.verdict === 'passed') rmSync(join(root, file), { force: true })
    if (!step.finding) return step
    mkdirSync(join(root, folder), { recursive: true })
    writeFileSync(join(root, file), evidenceText(step, step.finding, gradedAt))
    return { ...step, finding: { ...step.finding, evidence: file } }
  } catch {
    // If the disk is full or read-only, the report has no evidence, and keeps its verdicts.
    return step
  }
}

function evidenceText(step: StepReport, finding: Finding, gradedAt: string): string {
  const lines = [
    `${step.id}: ${step.title}`,
    `${step.verdict} at ${gradedAt}`,
    ...(finding.node === undefined ? [] : [`node:     ${finding.node}`]),
    `inspect:  ${finding.inspect}`,
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
