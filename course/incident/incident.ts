import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { ClusterActions } from './cluster-actions.ts'
import type { IncidentContext, Symptom } from './incident-context.ts'
import type { Scene } from './scene.ts'

/** What an incident can only be made with. */
export type Need =
  /** A kernel with IPVS and ipset, although iptables mode runs. */
  | 'ipvs'
  /** The machine outside the cluster. */
  | 'outside'
  /** Nodes whose kernel is nobody else's. */
  | 'embedded'

/** Somebody's try that must not count. */
export interface WrongFix {
  what: string
  play(actions: ClusterActions): Promise<unknown>
  /** Takes it back, where the right fix does not. */
  undo?(actions: ClusterActions): Promise<unknown>
}

/** Something that breaks, and all that there is to know about it. */
export interface Incident {
  /** Also the word that names the cause in a diagnosis. */
  id: string
  /** The cause in one sentence, as the list of plausible causes has it. */
  cause: string
  /** The mode in which it stands. */
  mode: SwitchedMode
  /** The mode in which it begins, where the way between is part of it. */
  from?: SwitchedMode
  needs?: readonly Need[]
  /** What a user would say. Never the cause. */
  report(scene: Scene): string
  /** From a nudge to nearly the command. */
  hints: readonly [string, string, ...string[]]
  /** Breaks it. What it has to remember goes into `scene.facts`. */
  break(actions: ClusterActions): Promise<unknown>
  /** Sends real requests; undefined when the user would be content. */
  symptom(look: IncidentContext): Promise<Symptom | undefined>
  /** What of the cause still stands; undefined when it is mended. */
  causeLeft(look: IncidentContext): Promise<string | undefined> | string | undefined
  wrongFixes: readonly [WrongFix, ...WrongFix[]]
  fix: { commands(scene: Scene): string[]; play(actions: ClusterActions): Promise<unknown> }
  /** Takes away what neither a kube-proxy nor a fresh stage would; harmless when nothing is there. */
  heal?(actions: ClusterActions): Promise<unknown>
  /** Told when it is over. */
  debrief: string
}

/** Every incident. They are content of lab 8, loaded when they are needed, as the labs' solutions are. */
export async function loadIncidents(folder = '08-incidents'): Promise<readonly Incident[]> {
  const module: { incidents: readonly Incident[] } = await import(`../../labs/${folder}/incidents/all.ts`)
  return module.incidents
}
