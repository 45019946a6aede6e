import { Button, CodeText, Select } from '../../guide/page/controls.tsx'
import { applyTheme, savedTheme, type Theme } from '../../guide/page/theme.ts'
import { paceOf } from '../day-plan.ts'
import { Detail } from './detail.tsx'
import { Dialogs } from './dialogs.tsx'
import { HeatMap } from './heat.tsx'
import { Notices } from './notices.tsx'
import { type RoomPageState, roomClock, updateRoom } from './room-store.ts'
import { Tiles } from './tiles.tsx'

/** The instructor's page. */
export function RoomApp({ state }: { state: RoomPageState }) {
  return (
    <>
      <Top state={state} />
      <RoomTroubles state={state} />
      <main>
        <Tiles state={state} />
        <aside>
          {state.looked !== undefined ? (
            <Detail state={state} />
          ) : (
            <>
              <Notices state={state} />
              <HeatMap state={state} />
            </>
          )}
        </aside>
      </main>
    </>
  )
}

const THEMES = [
  ['system', 'System colours'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const

function Top({ state }: { state: RoomPageState }) {
  const { room, tiles } = state
  const all = [...tiles.values()].filter(({ left }) => !left)
  const online = all.filter(({ offlineSince }) => offlineSince === undefined).length
  return (
    <header class="top">
      <h1>
        Room <strong>{room?.name}</strong>
      </h1>
      <p class="count">
        <strong>{all.length}</strong> {all.length === 1 ? 'learner' : 'learners'}
        {online < all.length && <span class="soft"> · {all.length - online} offline</span>}
        {room && !room.isOpen && <span class="soft"> · closed to new ones</span>}
      </p>
      <Pace state={state} />
      <Dialogs state={state} />
      <Select
        label={<span class="hidden">Colours</span>}
        value={savedTheme()}
        options={THEMES}
        choose={(chosen) => {
          applyTheme(chosen as Theme)
          updateRoom({})
        }}
      />
    </header>
  )
}

/** The class's pace against the plan of the day. */
function Pace({ state }: { state: RoomPageState }) {
  const { room, tiles } = state
  const pace = room && paceOf(room.plan, room.labs, [...tiles.values()], roomClock(state))
  if (!pace) return <p class="pace soft">{room?.plan.length ? 'The plan waits.' : ''}</p>
  const { lab, planned, median, behind } = pace
  const late = behind > 0 ? `${behind} min behind` : behind < 0 ? `${-behind} min ahead` : 'on time'
  return (
    <p
      class={`pace ${behind > 10 ? 'late' : ''}`}
      title="the class: the middle one of the learners at this lab"
    >
      Lab {lab}: plan at step {planned}, class at {median}, <strong>{late}</strong>
    </p>
  )
}

function RoomTroubles({ state: { connected, room, fault, done } }: { state: RoomPageState }) {
  return (
    <div class="troubles" role="status">
      {!connected && (
        <p class="trouble">
          ! No connection to the room: is <code>make room</code> still running? Learners keep what
          they have to send.
        </p>
      )}
      {room && !room.encrypted && (
        <p class="trouble">
          ! This room is not encrypted: others in the network can read and change it.
        </p>
      )}
      {fault && (
        <p class="trouble">
          ! <CodeText text={fault} /> <Close />
        </p>
      )}
      {done && (
        <p class="busy">
          ✓ {done} <Close />
        </p>
      )}
    </div>
  )
}

const Close = () => (
  <Button onClick={() => updateRoom({ fault: undefined as never, done: undefined as never })}>
    Close
  </Button>
)
