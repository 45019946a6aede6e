import { resolve } from 'node:path'
import type { LabSpec } from './check-context.ts'
import { keepEvidence } from './evidence.ts'
import { type JudgeOptions, judge, type Source } from './judge.ts'
import { findStep, type LabDefinition, mustRunHere, readLab } from './lab-definition.ts'
import { reportOf } from './report.ts'
import type { Report } from './report-schema.ts'
import { type GradingRequest, openSource, roundFacts, roundNotes } from './source.ts'

/**
 * Grades a lab once, and writes the evidence of failures. Problems of the cluster, the capture or the grader are in the
 * report; it throws only when the lab or the step does not exist.
 */
export async function grade(request: GradingRequest, options: JudgeOptions = {}): Promise<Report> {
  const spec = await loadSpec(readLab(request.lab))
  if (request.step !== undefined) findStep(spec.lab, request.step)
  return gradeWith(spec, request, () => openSource(absolute(request).source), options)
}

/** The checks of a lab. Throws if its spec and its lab.yaml differ. */
export async function loadSpec({ folder }: LabDefinition): Promise<LabSpec> {
  const module: { default: LabSpec } = await import(`../checks/${folder}.check.ts`)
  return module.default
}

/** Like `grade`, with a source from the caller. */
export async function gradeWith(
  spec: LabSpec,
  request: GradingRequest,
  open: () => Promise<Source> | Source,
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
    const circumstances = { facts: roundFacts(snapshot), notes: roundNotes(snapshot), seconds: seconds() }
    return keepEvidence(reportOf(spec.lab, request, outcomes, circumstances))
  } catch (error) {
    const trouble = (error instanceof Error ? error.message : String(error)).split('\n')[0]
    return reportOf(spec.lab, request, [], { facts: {}, seconds: seconds(), trouble })
  }
}

/** The request with an absolute path of the capture folder. */
export function absolute(request: GradingRequest): GradingRequest {
  if (request.source.kind !== 'capture') return request
  return { ...request, source: { kind: 'capture', folder: resolve(request.source.folder) } }
}
