import { Select } from '../../guide/page/controls.tsx'
import { heatRows, labOfMost } from '../heat-map.ts'
import { type RoomPageState, roomClock, updateRoom } from './room-store.ts'

/** The steps of a lab, with the learners who passed, are at, or are stuck at each. */
export function HeatMap({ state }: { state: RoomPageState }) {
  const { room } = state
  const tiles = [...state.tiles.values()]
  const labs = room?.labs ?? []
  const lab = labs.find(({ number }) => number === state.lab) ?? labOfMost(labs, tiles)
  if (!lab) return null
  const rows = heatRows(lab, tiles, roomClock(state))
  const most = Math.max(1, ...rows.map(({ reached }) => reached))
  return (
    <section class="heat" aria-label="Where the class is">
      <div class="head">
        <h2>Steps</h2>
        <Select
          label={<span class="hidden">Lab</span>}
          value={String(lab.number)}
          options={labs.map(
            ({ number, title }) => [String(number), `Lab ${number}: ${title}`] as const,
          )}
          choose={(chosen) => updateRoom({ lab: Number(chosen) })}
        />
      </div>
      <ol>
        {rows.map(({ id, number, title, passed, working, stuck, reached, sign }) => (
          <li key={id} class={stuck > 0 ? 'hot' : ''}>
            <span class="step" title={title}>
              {number} {id}
            </span>
            <span class="bars" style={{ '--most': most }} aria-hidden="true">
              <i class="passed" style={{ '--n': passed }} />
              <i class="working" style={{ '--n': working }} />
              <i class="stuck" style={{ '--n': stuck }} />
            </span>
            <span class="numbers">
              {stuck > 0 ? (
                <strong>
                  {stuck} of {reached} stuck
                </strong>
              ) : (
                <span class="soft">
                  {passed} passed{working > 0 && `, ${working} at it`}
                </span>
              )}
            </span>
            {sign && (stuck > 0 || sign.count > 1) && (
              <span class="sign-line">
                most see: {sign.text} <span class="soft">({sign.count})</span>
              </span>
            )}
          </li>
        ))}
      </ol>
      <p class="key soft">
        <i class="passed" /> passed <i class="working" /> at it <i class="stuck" /> longer than
        planned
      </p>
    </section>
  )
}
