import { Fragment } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Sure } from './blocks.tsx'
import { act } from './connection.ts'
import { Course } from './course.tsx'
import { Dataplane } from './dataplane.tsx'
import { isFocusLost } from './focus.ts'
import { Incident } from './incident.tsx'
import { PacketPathView } from './packet-path.tsx'
import { placesOf } from './steps.tsx'
import { now, type State, TABS, type TabId, update } from './store.ts'
import { runOnHost } from './terminal.ts'
import { Terminals } from './terminals.tsx'
import { applyTheme, savedTheme, type Theme } from './theme.ts'
import { TimelineView } from './timeline.tsx'
import { duration } from './words.ts'

const TITLES: Readonly<Record<TabId, string>> = {
  terminals: 'Terminals',
  dataplane: 'Dataplane',
  path: 'Packet path',
  timeline: 'Timeline',
  incident: 'Incident',
}

/** The incidents are a lab of their own. */
const INCIDENTS = 8

const tabsOf = ({ lab }: State): TabId[] => TABS.filter((id) => id !== 'incident' || lab?.number === INCIDENTS)

/** The whole page. */
export function App({ state }: { state: State }) {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey && isShortcut(event))
        event.preventDefault()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
  const tabs = tabsOf(state)
  const tab = tabs.includes(state.tab) ? state.tab : 'terminals'
  const before = useRef(tab)
  useEffect(() => {
    if (before.current !== tab && isFocusLost()) document.getElementById(`panel-${tab}`)?.focus()
    before.current = tab
  }, [tab])
  return (
    <>
      <Header state={state} />
      <Troubles state={state} />
      <main>
        <Course state={state} />
        <div class="tools">
          <TabList tabs={tabs} shown={tab} />
          {tabs.map((id) => (
            <div
              key={id}
              role="tabpanel"
              id={`panel-${id}`}
              aria-labelledby={`tab-${id}`}
              tabIndex={id === 'terminals' ? -1 : 0}
              class="panel"
              hidden={id !== tab}
            >
              {id === 'terminals' && <Terminals state={state} />}
              {id === 'dataplane' && id === tab && <Dataplane state={state} />}
              {id === 'path' && id === tab && <PacketPathView state={state} />}
              {id === 'timeline' && id === tab && <TimelineView state={state} />}
              {id === 'incident' && id === tab && <Incident state={state} />}
            </div>
          ))}
        </div>
      </main>
      <p class="hidden" role="status" aria-live="polite">
        {state.said}
      </p>
    </>
  )
}

/** Performs a shortcut; false if the keys are not one. */
function isShortcut({ code, target }: KeyboardEvent): boolean {
  const state = now()
  const digit = /^Digit([1-5])$/.exec(code)?.[1]
  if (digit !== undefined) {
    const tab = tabsOf(state)[Number(digit) - 1]
    if (!tab) return false
    update({ tab })
    setTimeout(() => document.getElementById(`tab-${tab}`)?.focus())
    return true
  }
  const { lab, progress } = state
  // In a terminal these belong to the shell.
  if (!lab || !progress || (target instanceof Element && target.closest('.terminal'))) return false
  const places = placesOf(lab)
  const at = places.indexOf(progress.at)
  const to = code === 'KeyN' ? places[at + 1] : code === 'KeyB' ? places[at - 1] : undefined
  if (to !== undefined) void act('go', { to })
  else if (code === 'KeyC' && lab.steps[at - 1]) void act('check', { step: progress.at })
  else return false
  return true
}

function TabList({ tabs, shown }: { tabs: readonly TabId[]; shown: TabId }) {
  const onKeyDown = ({ key }: KeyboardEvent) => {
    const at = tabs.indexOf(shown)
    const moves: Record<string, number> = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }
    const to = moves[key]
    const tab = to === undefined ? undefined : tabs[(to + tabs.length) % tabs.length]
    if (!tab) return
    update({ tab })
    document.getElementById(`tab-${tab}`)?.focus()
  }
  return (
    <div role="tablist" aria-label="Tools" onKeyDown={onKeyDown}>
      {tabs.map((id, index) => (
        <button
          key={id}
          type="button"
          role="tab"
          id={`tab-${id}`}
          aria-selected={id === shown}
          aria-controls={`panel-${id}`}
          aria-keyshortcuts={`Alt+${index + 1}`}
          tabIndex={id === shown ? 0 : -1}
          onClick={() => update({ tab: id })}
        >
          {TITLES[id]}
        </button>
      ))}
    </div>
  )
}

/** A key on the list only chooses: a lab that was not begun resets the cluster, so it opens with a button. */
function LabChoice({ lab }: Pick<State, 'lab'>) {
  const [chosen, choose] = useState<number>()
  return (
    <>
      <label>
        <span class="hidden">Lab</span>
        <select value={chosen ?? lab?.number} onChange={({ currentTarget }) => choose(Number(currentTarget.value))}>
          {lab?.labs.map(({ number, title }) => (
            <option key={number} value={number}>
              Lab {number}: {title}
            </option>
          ))}
        </select>
      </label>
      {chosen !== undefined && chosen !== lab?.number && (
        <button
          type="button"
          onClick={() => {
            choose(undefined)
            void act('lab', { number: chosen })
          }}
        >
          Open lab {chosen} (resets the cluster if not begun)
        </button>
      )}
    </>
  )
}

function Header({ state: { lab, progress } }: { state: State }) {
  const [theme, setTheme] = useState<Theme>(savedTheme)
  const help = useRef<HTMLDialogElement>(null)
  return (
    <header class="top">
      <h1>
        <span class="brand">kube-service-labs</span>
        <LabChoice key={lab?.number} lab={lab} />
      </h1>
      {progress && (
        <div class="score">
          <progress max={progress.of} value={progress.points} aria-label="Points" />
          <span>
            <strong>{progress.points}</strong> / {progress.of} points
          </span>
          <span class="soft">{duration(progress.workedMs)}</span>
          <button
            type="button"
            aria-pressed={progress.paused}
            onClick={() => void act('pause', { paused: !progress.paused })}
          >
            {progress.paused ? '▶ Resume' : '❙❙ Pause'}
          </button>
          <Sure words="Reset …" sure="Yes, delete my points and answers in this lab" act={() => act('reset', {})} />
        </div>
      )}
      <label class="theme">
        <span class="hidden">Colours</span>
        <select
          value={theme}
          onChange={({ currentTarget }) => {
            applyTheme(currentTarget.value as Theme)
            setTheme(currentTarget.value as Theme)
          }}
        >
          <option value="system">System colours</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      <button type="button" onClick={() => help.current?.showModal()}>
        Keys
      </button>
      <dialog ref={help} aria-label="Keys">
        <h2>Keys</h2>
        <dl class="keys">
          {KEYS.map(([keys, meaning]) => (
            <Fragment key={keys}>
              <dt>
                <kbd>{keys}</kbd>
              </dt>
              <dd>{meaning}</dd>
            </Fragment>
          ))}
        </dl>
        <form method="dialog">
          <button type="submit" class="main">
            Close
          </button>
        </form>
      </dialog>
    </header>
  )
}

const KEYS = [
  ['Alt+1 … Alt+5', 'show a tab: terminals, dataplane, packet path, timeline, incident'],
  ['Alt+N, Alt+B', 'next step, previous step'],
  ['Alt+C', 'check the step'],
  ['Esc, then Tab', 'leave a terminal (Tab alone belongs to the shell)'],
  ['↑ ↓ ← →', 'in the dataplane: move, close and open'],
  ['Enter', 'in the dataplane: show why an entry exists'],
  ['J', 'in the dataplane: follow a rule’s jump'],
] as const

function Troubles({ state: { connected, progress, fault } }: { state: State }) {
  return (
    <div class="troubles">
      {!connected && (
        <p class="trouble" role="alert">
          ! No connection to the guide: is <code>make guide</code> still running? Your progress is stored in the
          cluster.
        </p>
      )}
      {progress?.trouble && (
        <p class="trouble" role="alert">
          ! {progress.trouble} <Remedy sentence={progress.trouble} />
        </p>
      )}
      {progress?.busy && <p class="busy">… {progress.busy}</p>}
      {fault && (
        <p class="trouble" role="alert">
          ! {fault}{' '}
          <button type="button" onClick={() => update({ fault: undefined })}>
            Close
          </button>
        </p>
      )}
    </div>
  )
}

/** A button for the command that a sentence names. */
function Remedy({ sentence }: { sentence: string }) {
  const command = /`(make [^`]+)`/.exec(sentence)?.[1]
  if (command === undefined) return null
  return (
    <button type="button" onClick={() => void runOnHost(command)}>
      Run {command}
    </button>
  )
}
