// The page's state, in one value. Components get it from App, which is rendered again after each
// change.

import type { ActionReplies, DrawnPath, MovedCounter, Pushes } from '../protocol.ts'

export type TabId = 'terminals' | 'dataplane' | 'path' | 'timeline' | 'incident'

/** A counter that moved. */
export interface Moved extends MovedCounter {
  /** When, in milliseconds since 1970. */
  at: number
}

/** What the server pushed last, and what this page shows of it. */
export interface PageState extends Partial<Omit<Pushes, 'counters'>> {
  connected: boolean
  /** By `NODE ID` of their entry. */
  moved: Record<string, Moved>
  /** What went wrong with the last action, in a sentence. */
  fault?: string
  /** The text of the polite live region. */
  announcement: string
  tab: TabId
  terminal?: string
  /** The entry that is selected in the dataplane. */
  entry?: { node: string; id: string }
  service: string
  /** A moment of the past that the dataplane shows. */
  past?: ActionReplies['moment'] & { moment: number }
  /**
   * The question about a packet's path, its reply, and a path that was kept to be compared with
   * others.
   */
  path: {
    from?: string
    to?: string
    node?: string
    /** `asked` distinguishes it from an earlier reply. */
    found?: (ActionReplies['path'] & { asked: string }) | undefined
    kept?: DrawnPath
  }
}

let state: PageState = {
  connected: false,
  moved: {},
  announcement: '',
  tab: 'terminals',
  service: '',
  path: {},
}
let changed: () => void = () => undefined

export const now = (): PageState => state

/** Changes the state and renders the page again. */
export function update(change: Partial<PageState>): void {
  state = { ...state, ...change }
  changed()
}

/** Calls `draw` after each change. */
export function onChange(draw: () => void): void {
  changed = draw
}

/** Announces a text in the page's live region. */
export const say = (announcement: string): void => update({ announcement })

/** Shows an entry in the dataplane. */
export const showEntry = (entry: PageState['entry']): void => update({ tab: 'dataplane', entry })
