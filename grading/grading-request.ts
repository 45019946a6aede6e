import type { Source } from './report-schema.ts'

/** What a grading run is asked; it crosses from the command line to vitest's worker, so it is plain data. */
export interface GradingRequest {
  lab: number
  /** One step alone. */
  step?: string
  source: Source
}

/** What the round learned about the cluster, for the report. */
export interface RoundFacts {
  kubeProxy?: string
  mode?: string
}
