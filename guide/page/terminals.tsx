import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { act } from './connection.ts'
import type { State } from './store.ts'
import { update } from './store.ts'
import { isReadAloud, keepViews, openTerminal, readAloud, viewOf } from './terminal.ts'
import { ChangeView } from './timeline.tsx'

/** The shells: a tab each, one of which is shown, and below what the last commands changed on the nodes. */
export function Terminals({ state }: { state: State }) {
  const { terminals, lab } = state
  const list = terminals?.terminals ?? []
  const shown = list.find(({ id }) => id === state.terminal) ?? list[0]
  const place = useRef<HTMLDivElement>(null)
  const asked = useRef(false)
  /** A terminal that gets the focus once it is shown. */
  const chosen = useRef<string | undefined>(undefined)
  const [aloud, setAloud] = useState(isReadAloud)
  useEffect(() => {
    if (!terminals || terminals.trouble || list.length > 0 || asked.current) return
    asked.current = true
    void openTerminal('host')
  }, [terminals])
  useEffect(() => keepViews(list.map(({ id }) => id)), [terminals])
  useLayoutEffect(() => {
    if (shown && place.current) viewOf(shown.id).showIn(place.current)
    if (shown && chosen.current === shown.id) viewOf(shown.id).focus()
    chosen.current = undefined
  }, [shown?.id])
  if (terminals?.trouble) return <p class="empty">{terminals.trouble}</p>
  return (
    <div class="terminals">
      <div class="bar">
        <fieldset class="chips" aria-label="Terminals">
          {list.map(({ id, title }) => (
            <span class="chip" key={id}>
              <button
                type="button"
                aria-pressed={id === shown?.id}
                onClick={() => {
                  if (id === shown?.id) return viewOf(id).focus()
                  chosen.current = id
                  update({ terminal: id })
                }}
              >
                {title}
              </button>
              {list.length > 1 && (
                <button
                  type="button"
                  class="close"
                  aria-label={`Close the terminal ${title}`}
                  onClick={() => void act('close-terminal', { id })}
                >
                  ×
                </button>
              )}
            </span>
          ))}
        </fieldset>
        <label class="opener">
          <span class="hidden">Open a terminal</span>
          <select
            value=""
            onChange={({ currentTarget }) => {
              if (currentTarget.value !== '') void openTerminal(currentTarget.value)
              currentTarget.value = ''
            }}
          >
            <option value="">+ Terminal on …</option>
            {lab?.places.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
      </div>
      <div class="screen" ref={place} />
      <div class="bar foot">
        <span>
          <kbd>Esc</kbd> then <kbd>Tab</kbd> leaves the terminal
        </span>
        <button
          type="button"
          class="plain"
          aria-pressed={aloud}
          onClick={() => {
            readAloud(!aloud)
            setAloud(!aloud)
          }}
        >
          Screen reader mode
        </button>
      </div>
      <LatestChanges state={state} />
    </div>
  )
}

const SHOWN = 4

function LatestChanges({ state: { dataplane } }: { state: State }) {
  const changes = dataplane?.changes ?? []
  return (
    <section class="latest" aria-label="Latest changes on the nodes">
      <h3>
        Latest changes on the nodes{' '}
        {dataplane && changes.length > 0 && <time>{new Date(dataplane.at).toLocaleTimeString()}</time>}
      </h3>
      {changes.length === 0 ? (
        <p class="soft">Nothing has changed since the nodes were first read.</p>
      ) : (
        <ul class="changes">
          {changes.slice(0, SHOWN).map((change) => (
            <ChangeView key={`${change.node} ${change.id} ${change.change}`} change={change} withNode />
          ))}
        </ul>
      )}
      {changes.length > SHOWN && (
        <button type="button" class="plain" onClick={() => update({ tab: 'timeline' })}>
          {changes.length - SHOWN} more in the timeline
        </button>
      )}
    </section>
  )
}
