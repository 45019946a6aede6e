import type { RoomNotice } from '../protocol.ts'
import type { NoticeEntry, RoomState } from './room-state.ts'

/** The number of notices that learners are shown at once: the latest ones. */
const MOST_OPEN = 5

/**
 * The notices that are open, in the order in which they were made; a timer without the time that it
 * has left.
 */
export function openNotices({ notices }: RoomState, now: number): RoomNotice[] {
  const open = [...notices.values()].filter(
    ({ notice, endedAt }) =>
      endedAt === undefined && !(notice.kind === 'timer' && notice.until <= now),
  )
  return open.slice(-MOST_OPEN).map(({ notice, at }) => shownNotice(notice, at, now))
}

function shownNotice(notice: NoticeEntry, at: number, now: number): RoomNotice {
  if (notice.kind !== 'timer') return { ...notice, at }
  const { kind, id, label, until } = notice
  return { kind, id, at, label, leftMs: until - now }
}
