// The page's state, in one value. Components get it from App, which is rendered again after each change.

import type { Change } from '../../dataplane/view/changes.ts'
import type { NodeHoldings } from '../../dataplane/view/holdings.ts'
import type {
  DataplanePush,
  IncidentPush,
  LabContent,
  MovedCounter,
  ProgressPush,
  TerminalsPush,
  TimelinePush,
} from '../protocol.ts'

export const TABS = ['terminals', 'dataplane', 'path', 'timeline', 'incident'] as const
export type TabId = (typeof TABS)[number]

/** A counter that moved. */
export interface Moved extends MovedCounter {
  /** When, in milliseconds since 1970. */
  at: number
}

/** An entry of a node that is shown. */
export interface EntryPlace {
  node: string
  id: string
}

export interface State {
  connected: boolean
  lab?: LabContent
  progress?: ProgressPush
  dataplane?: DataplanePush
  /** By node and entry id. */
  moved: Record<string, Record<string, Moved>>
  timeline: TimelinePush['moments']
  terminals?: TerminalsPush
  incident?: IncidentPush['incident']
  /** What went wrong with the last action, in a sentence. */
  fault?: string
  /** The text of the polite live region. */
  said: string
  tab: TabId
  terminal?: string
  /** The entry that is selected in the dataplane. */
  entry?: EntryPlace
  service: string
  /** A moment of the past that the dataplane shows. */
  past?: { moment: number; nodes: NodeHoldings[]; changes: Change[] }
}

let state: State = { connected: false, moved: {}, timeline: [], said: '', tab: 'terminals', service: '' }
let changed: () => void = () => undefined

export const now = (): State => state

/** Changes the state and renders the page again. */
export function update(change: Partial<State>): void {
  state = { ...state, ...change }
  changed()
}

/** Calls `draw` after each change. */
export function onChange(draw: () => void): void {
  changed = draw
}

/** Announces a text in the page's live region. */
export const say = (said: string): void => update({ said })

/** Shows an entry in the dataplane. */
export function showEntry(entry: EntryPlace): void {
  update({ tab: 'dataplane', entry })
}
