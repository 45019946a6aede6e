import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { LabBench } from '../lab-bench.ts'
import type { SolutionStep } from '../lab-solution.ts'
import type { IncidentContext, Symptom } from './incident-context.ts'
import type { IncidentEnvironment } from './shop.ts'

/** A requirement of an incident on the cluster. */
export type Need =
  /** A kernel with IPVS and ipset, although iptables mode runs. */
  | 'ipvs'
  /** The machine outside the cluster. */
  | 'outside'
  /** Nodes with a kernel of their own, whose modules can be unloaded. */
  | 'embedded'

/** One incident: its fault, its detection and its repair. */
export interface Incident {
  /** Also the cause id in a diagnosis. */
  id: string
  /** The cause in one sentence, as shown in the list of plausible causes. */
  cause: string
  /** The mode that the incident ends in. */
  mode: SwitchedMode
  /** The mode in which it begins, if a switch of the mode is part of it. */
  from?: SwitchedMode
  needs?: readonly Need[]
  /** The user's report. Never names the cause. */
  report(environment: IncidentEnvironment): string
  /** Hints, from general to nearly the command. */
  hints: readonly [string, string, ...string[]]
  /** Breaks the cluster. Stores facts that later steps need in `environment.facts`. */
  break(bench: LabBench, environment: IncidentEnvironment): Promise<unknown>
  /** Sends real requests; undefined if there is no symptom. */
  symptom(context: IncidentContext): Promise<Symptom | undefined>
  /** Returns the remaining part of the cause; undefined if it is repaired. */
  causeLeft(context: IncidentContext): Promise<string | undefined> | string | undefined
  fix(environment: IncidentEnvironment): SolutionStep
  /** Removes changes that neither kube-proxy nor a new deployShop would remove; can be called at any time. */
  revert?(bench: LabBench, environment: IncidentEnvironment): Promise<unknown>
  /** Explanation, shown when the incident is solved. */
  debrief: string
}

/** Loads every incident. They are content of lab 8, loaded on demand like the labs' solutions. */
export async function loadIncidents(folder = '08-incidents'): Promise<readonly Incident[]> {
  const module: { incidents: readonly Incident[] } = await import(`../../labs/${folder}/incidents/all.ts`)
  return module.incidents
}
