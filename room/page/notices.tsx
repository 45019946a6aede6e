import { Button } from '../../guide/page/controls.tsx'
import type { PollResult } from '../protocol.ts'
import { performInRoom, type RoomPageState, roomClock } from './room-store.ts'

/** What everybody was told or asked, with the answers. */
export function Notices({ state }: { state: RoomPageState }) {
  const { room } = state
  if (!room) return null
  const polls = room.polls.filter(({ open }) => open)
  const others = room.notices.filter(({ kind }) => kind !== 'poll')
  if (polls.length + others.length === 0) return null
  const end = (id: string) => (
    <Button class="plain" onClick={() => void performInRoom('end-notice', { id })}>
      End
    </Button>
  )
  return (
    <section class="notices" aria-label="Told and asked">
      {others.map((notice) => (
        <p key={notice.id} class="notice">
          <span>
            {notice.kind === 'text' && `“${notice.text}”`}
            {notice.kind === 'timer' && (
              <>
                <Countdown until={room.timers[notice.id] ?? 0} now={roomClock(state)} />{' '}
                {notice.label}
              </>
            )}
          </span>
          {end(notice.id)}
        </p>
      ))}
      {polls.map((poll) => (
        <div key={poll.id} class="notice poll">
          <PollBars poll={poll} of={state.tiles.size} />
          {end(poll.id)}
        </div>
      ))}
    </section>
  )
}

/** `4:59`, counted down. */
function Countdown({ until, now }: { until: number; now: number }) {
  const seconds = Math.max(0, Math.ceil((until - now) / 1000))
  return (
    <strong class="countdown">
      {Math.floor(seconds / 60)}:{String(seconds % 60).padStart(2, '0')}
    </strong>
  )
}

/** The answers to a poll as bars. */
export function PollBars({ poll, of }: { poll: PollResult; of: number }) {
  const { ask, answers, voters } = poll
  return (
    <figure class="poll-bars">
      <figcaption>
        {ask}{' '}
        <span class="soft">
          {voters} of {of} answered
        </span>
      </figcaption>
      <ul>
        {answers.slice(0, 12).map(({ text, count }) => (
          <li key={text}>
            <span class="answer">{text}</span>
            <span class="bar" style={{ '--share': voters === 0 ? 0 : count / voters }} />
            <strong>{count}</strong>
          </li>
        ))}
      </ul>
    </figure>
  )
}
