import { VERDICTS } from '../../guide/page/words.ts'
import { labOfMost } from '../heat-map.ts'
import { byNeed, minutesAt, type NeedOfHelp } from '../need-of-help.ts'
import type { LabPlanned, LearnerTile } from '../protocol.ts'
import { lookAt, type RoomPageState, roomClock } from './room-store.ts'

/** More learners than these get smaller tiles. */
const FEW = 40

/** Names of needs, in the order in which tiles are sorted. */
const WORDS: Readonly<Record<NeedOfHelp, string>> = {
  hand: 'raised hand',
  stuck: 'stuck',
  slow: 'slower than planned',
  well: 'at work',
  waiting: 'not begun',
  done: 'done',
  away: 'away',
}

/** A tile per learner; those who need help come first. */
export function Tiles({ state }: { state: RoomPageState }) {
  const { room, tiles } = state
  const now = roomClock(state)
  const labs = room?.labs ?? []
  const most = labOfMost(labs, [...tiles.values()])
  const sorted = byNeed([...tiles.values()], labs, now)
  const counts = new Map<NeedOfHelp, number>()
  for (const { need } of sorted) counts.set(need, (counts.get(need) ?? 0) + 1)
  return (
    <section class="learners" aria-label="Learners">
      <p class="legend">
        {[...counts].map(([need, count]) => (
          <span key={need} class={`need ${need}`}>
            {count} {WORDS[need]}
          </span>
        ))}
      </p>
      {sorted.length === 0 && (
        <p class="soft empty">No one has joined yet: “Join” shows the word for the class.</p>
      )}
      <ol class={sorted.length > FEW ? 'tiles small' : 'tiles'}>
        {sorted.map(({ tile, need }) => (
          <Tile
            key={tile.tile}
            tile={tile}
            need={need}
            lab={labs.find(({ number }) => number === tile.lab)}
            now={now}
            isLooked={state.looked === tile.tile}
            isOther={tile.lab !== most?.number}
          />
        ))}
      </ol>
    </section>
  )
}

interface TileProps {
  tile: LearnerTile
  need: NeedOfHelp
  lab: LabPlanned | undefined
  now: number
  isLooked: boolean
  /** The learner is at another lab than most. */
  isOther: boolean
}

function Tile({ tile, need, lab, now, isLooked, isOther }: TileProps) {
  const { name, hints, hand, offlineSince, left, step, tasks } = tile
  const { verdict, sign: difference } = tile.steps[step ?? ''] ?? {}
  const { sign, word } = VERDICTS[verdict ?? 'looking']
  const isAtStep = lab?.steps.some(({ id }) => id === step)
  return (
    <li>
      <button
        type="button"
        class={`tile ${need} ${offlineSince === undefined ? '' : 'offline'}`}
        aria-pressed={isLooked}
        title={`${tile.points} points in this lab`}
        onClick={() => void lookAt(isLooked ? undefined : tile.tile)}
      >
        <span class="name">{name}</span>
        <span class="flags">
          {hand !== undefined && (
            <span class="hand" title="raised hand">
              hand · {minutesText((now - hand) / 60_000)}
            </span>
          )}
          {tasks.open > 0 && <span title="a task of the room is open">task</span>}
          {tasks.wrong > 0 && <span title="tasks that were answered wrong">✗ task</span>}
        </span>
        <span class="where">{placeText(tile, lab, isOther)}</span>
        <span class="minutes">{isAtStep && minutesText(minutesAt(tile, now))}</span>
        <span class="verdict">
          {left ? 'has left' : isAtStep && `${sign} ${difference ?? word}`}
          {offlineSince !== undefined && !left && (
            <span class="since">offline {minutesText((now - offlineSince) / 60_000)}</span>
          )}
        </span>
        <span class="hints">{hints > 0 && `${hints} ${hints === 1 ? 'hint' : 'hints'}`}</span>
        <StepMarks tile={tile} lab={lab} />
      </button>
    </li>
  )
}

/** `5 flush`, or where else the learner is; with the lab if most are at another one. */
function placeText({ step }: LearnerTile, lab: LabPlanned | undefined, isOther: boolean): string {
  if (!lab) return 'no lab yet'
  const index = lab.steps.findIndex(({ id }) => id === step)
  if (index >= 0) return `${isOther ? `Lab ${lab.number} · ` : ''}${index + 1} ${step}`
  return step === 'end' ? `Lab ${lab.number}, at the end` : `Lab ${lab.number}, introduction`
}

/** `12 min`, below one `30 s`. */
export const minutesText = (minutes: number): string =>
  minutes < 1 ? `${Math.max(0, Math.round(minutes * 60))} s` : `${Math.floor(minutes)} min`

/** A mark for each step of the lab. */
function StepMarks({ tile, lab }: { tile: LearnerTile; lab: LabPlanned | undefined }) {
  return (
    <span class="steps" aria-hidden="true">
      {lab?.steps.map(({ id }) => {
        const isPassed = tile.steps[id]?.verdict === 'passed'
        return <i key={id} class={isPassed ? 'passed' : id === tile.step ? 'here' : ''} />
      })}
    </span>
  )
}
