import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { performAction } from './connection.ts'
import { Button, CodeText, Select } from './controls.tsx'
import { StepPacketPanel } from './step-packet.tsx'
import { type PageState, update } from './store.ts'
import {
  growLetters,
  isReadAloud,
  keepViews,
  openTerminal,
  readAloud,
  terminalView,
} from './terminal.ts'
import { ChangeView } from './timeline.tsx'

/**
 * The shells: a tab each, one of which is shown, and below what the last commands changed on the
 * nodes.
 */
export function TerminalTabs({ state }: { state: PageState }) {
  const { terminals, lab } = state
  const list = terminals?.terminals ?? []
  const shown = list.find(({ id }) => id === state.terminal) ?? list[0]
  const place = useRef<HTMLDivElement>(null)
  /** A terminal that gets the focus once it is shown. */
  const chosen = useRef<string | undefined>(undefined)
  const [aloud, setAloud] = useState(isReadAloud)
  useEffect(() => keepViews(list.map(({ id }) => id)), [terminals])
  useLayoutEffect(() => {
    if (shown && place.current) terminalView(shown.id).showIn(place.current)
    if (shown && chosen.current === shown.id) terminalView(shown.id).focus()
    chosen.current = undefined
  }, [shown?.id])
  if (terminals?.trouble)
    return (
      <p class="empty">
        <CodeText text={terminals.trouble} />
      </p>
    )
  return (
    <div class="terminals">
      <div class="bar">
        <fieldset class="chips" aria-label="Terminals">
          {list.map(({ id, title }) => (
            <span class="chip" key={id}>
              <Button
                aria-pressed={id === shown?.id}
                onClick={() => {
                  if (id === shown?.id) return terminalView(id).focus()
                  chosen.current = id
                  update({ terminal: id })
                }}
              >
                {title}
              </Button>
              {list.length > 1 && (
                <Button
                  class="close"
                  aria-label={`Close the terminal ${title}`}
                  onClick={() => void performAction('close-terminal', { id })}
                >
                  ×
                </Button>
              )}
            </span>
          ))}
        </fieldset>
        <Select
          label={<span class="hidden">Open a terminal</span>}
          value=""
          options={[['', '+ Terminal on …'], ...(lab?.places ?? [])]}
          choose={(one) => void openTerminal(one)}
        />
      </div>
      <div class="screen" ref={place} />
      {shown && terminalView(shown.id).isBehind && (
        <Button class="newer" onClick={() => terminalView(shown.id).toEnd()}>
          ↓ New output
        </Button>
      )}
      <div class="bar foot">
        <span>
          <kbd>Esc</kbd> then <kbd>Tab</kbd> leaves the terminal
        </span>
        <fieldset class="letters" aria-label="Size of the letters">
          <Button class="plain" aria-label="A− smaller letters" onClick={() => growLetters(-1)}>
            A−
          </Button>
          <Button class="plain" aria-label="A usual letters" onClick={() => growLetters()}>
            A
          </Button>
          <Button class="plain" aria-label="A+ larger letters" onClick={() => growLetters(1)}>
            A+
          </Button>
        </fieldset>
        <Button
          class="plain"
          aria-pressed={aloud}
          onClick={() => {
            readAloud(!aloud)
            setAloud(!aloud)
          }}
        >
          Screen reader mode
        </Button>
      </div>
      <StepPacketPanel state={state} />
      <LatestChanges state={state} />
    </div>
  )
}

const SHOWN = 4

function LatestChanges({ state: { dataplane } }: { state: PageState }) {
  const changes = dataplane?.changes ?? []
  return (
    <section class="latest" aria-label="Latest changes on the nodes">
      <h3>
        Latest changes on the nodes
        {dataplane?.by !== undefined && changes.length > 0 && (
          <>
            {' '}
            <code title={dataplane.by}>{dataplane.by}</code>
          </>
        )}{' '}
        {dataplane && changes.length > 0 && (
          <time>{new Date(dataplane.at).toLocaleTimeString()}</time>
        )}
      </h3>
      {changes.length === 0 ? (
        <p class="soft">Nothing has changed since the nodes were first read.</p>
      ) : (
        <ul class="changes">
          {changes.slice(0, SHOWN).map((change) => (
            <ChangeView
              key={`${change.node} ${change.id} ${change.change}`}
              change={change}
              withNode
            />
          ))}
        </ul>
      )}
      {changes.length > SHOWN && (
        <Button class="plain" onClick={() => update({ tab: 'timeline' })}>
          {changes.length - SHOWN} more in the timeline
        </Button>
      )}
    </section>
  )
}
