// A learner's place in the room of a class, as the guides use it. They work the same without one.

import type { LabProgress } from './lab-progress.ts'
import type { LabSession } from './lab-session.ts'

/** What the instructor tells or asks everybody. */
export type SeatNotice =
  | {
      kind: 'text'
      id: string
      text: string
      to?: { lab: number; step: string; number: number } | undefined
    }
  | { kind: 'poll'; id: string; ask: string; choices: string[]; mine?: string | undefined }
  | { kind: 'timer'; id: string; label: string; until: number }

/** What a learner is shown of the room. */
export interface RoomView {
  /** `away`: what is to be sent is kept until the room can be reached. */
  state: 'out' | 'joining' | 'in' | 'away'
  room: string
  /** What was typed after `ROOM=`; empty outside of a room. */
  word: string
  name: string
  isEncrypted: boolean
  isHandRaised: boolean
  /** Why the room does not take this learner. */
  trouble: string | undefined
  notices: SeatNotice[]
  /** Tasks that the room has given and that are not answered. */
  tasks: { id: string; ask: string }[]
  /** What was sent last, a line each, the latest first. */
  sent: string[]
  /** Facts that wait to be sent. */
  waiting: number
}

/** Nothing here waits for the room, and nothing throws because the room cannot be reached. */
export interface RoomSeat {
  readonly view: RoomView
  /** Calls `tell` now and whenever the view changes. */
  onView(tell: (view: RoomView) => void): void
  /** A lab was opened, whose nodes the room's tasks are about. */
  opened(session: LabSession): void
  progressed(progress: LabProgress): void
  /** Throws Refusal for a word or name that is not valid. */
  join(word: string, name: string): void
  leave(): void
  raiseHand(raised: boolean): void
  vote(poll: string, text: string): void
  /**
   * Answers a task of the room from what the node holds. Throws Error with a sentence if it is not
   * open, or the node can't be read.
   */
  answerTask(task: string, text: string): Promise<{ isRight: boolean; found: string }>
  /** Sends what waits, for a moment, and ends the connection. */
  end(): Promise<void>
}
