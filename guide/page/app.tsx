import type { VNode } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { ProgressPush } from '../protocol.ts'
import { performAction } from './connection.ts'
import { Button, CodeText } from './controls.tsx'
import { Course } from './course.tsx'
import { Dataplane } from './dataplane.tsx'
import { isFocusLost } from './focus.ts'
import { Header } from './header.tsx'
import { IncidentPanel } from './incident.tsx'
import { Maximise, Splitter } from './layout.tsx'
import { PacketPathView } from './packet-path.tsx'
import { RoomBanners } from './room.tsx'
import { INCIDENTS } from './step-state.tsx'
import { stepPlaces } from './steps.tsx'
import { now, type PageState, type TabId, update } from './store.ts'
import { runOnHost } from './terminal.ts'
import { TerminalTabs } from './terminals.tsx'
import { TimelineView } from './timeline.tsx'

interface Tab {
  id: TabId
  title: string
  View(props: { state: PageState }): VNode
}

const TABS: readonly Tab[] = [
  { id: 'terminals', title: 'Terminals', View: TerminalTabs },
  { id: 'dataplane', title: 'Dataplane', View: Dataplane },
  { id: 'path', title: 'Packet path', View: PacketPathView },
  { id: 'timeline', title: 'Timeline', View: TimelineView },
  { id: 'incident', title: 'Incident', View: IncidentPanel },
]

/** Work that takes longer tells for how long it has been done. */
const TOLD_SECONDS = 2

const tabsOf = ({ lab }: PageState): Tab[] =>
  TABS.filter(({ id }) => id !== 'incident' || lab?.number === INCIDENTS)

/** The whole page. */
export function App({ state }: { state: PageState }) {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey && isShortcut(event))
        event.preventDefault()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
  const tabs = tabsOf(state)
  const shown = tabs.find(({ id }) => id === state.tab)?.id ?? 'terminals'
  const before = useRef(shown)
  useEffect(() => {
    if (before.current !== shown && isFocusLost())
      document.getElementById(`panel-${shown}`)?.focus()
    before.current = shown
  }, [shown])
  return (
    <>
      <Header state={state} />
      <Troubles state={state} />
      <RoomBanners state={state} />
      <main>
        <Course state={state} />
        <Splitter />
        <div class="tools">
          <div class="tool-head">
            <TabList tabs={tabs} shown={shown} />
            <Maximise />
          </div>
          {tabs.map(({ id, View }) => (
            <div
              key={id}
              role="tabpanel"
              id={`panel-${id}`}
              aria-labelledby={`tab-${id}`}
              tabIndex={id === 'terminals' ? -1 : 0}
              class="panel"
              hidden={id !== shown}
            >
              {(id === shown || id === 'terminals') && <View state={state} />}
            </div>
          ))}
        </div>
      </main>
      <p class="hidden" role="status" aria-live="polite">
        {state.announcement}
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
    if (tab) chooseTab(tab.id)
    return tab !== undefined
  }
  const { lab, progress } = state
  // In a terminal these belong to the shell.
  if (!lab || !progress || (target instanceof Element && target.closest('.terminal'))) return false
  const places = stepPlaces(lab)
  const at = places.indexOf(progress.at)
  const to = code === 'KeyN' ? places[at + 1] : code === 'KeyB' ? places[at - 1] : undefined
  if (to !== undefined) {
    document.querySelector<HTMLElement>('.text')?.focus()
    void performAction('go', { to })
  } else if (code === 'KeyC' && lab.steps[at - 1])
    void performAction('check', { step: progress.at })
  else return false
  return true
}

function chooseTab(tab: TabId): void {
  update({ tab })
  setTimeout(() => document.getElementById(`tab-${tab}`)?.focus())
}

function TabList({ tabs, shown }: { tabs: readonly Tab[]; shown: TabId }) {
  const onKeyDown = ({ key }: KeyboardEvent) => {
    const at = tabs.findIndex(({ id }) => id === shown)
    const moves: Record<string, number> = {
      ArrowRight: at + 1,
      ArrowLeft: at - 1,
      Home: 0,
      End: tabs.length - 1,
    }
    const to = moves[key] === undefined ? undefined : tabs.at(moves[key] % tabs.length)
    if (to) chooseTab(to.id)
  }
  return (
    <div role="tablist" aria-label="Tools" onKeyDown={onKeyDown}>
      {tabs.map(({ id, title }, index) => (
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
          {title}
        </button>
      ))}
    </div>
  )
}

function Troubles({ state: { connected, progress, fault } }: { state: PageState }) {
  return (
    <section class="troubles" aria-label="State of the guide">
      {!connected && (
        <p class="trouble" role="alert">
          ! No connection to the guide: is <code>make guide</code> still running? Your progress is
          stored in the cluster.
        </p>
      )}
      {progress?.trouble && (
        <p class="trouble" role="alert">
          ! <CodeText text={progress.trouble.text} /> <Remedy command={progress.trouble.next} />
        </p>
      )}
      {progress?.busy && <Busy key={progress.busy.since} busy={progress.busy} />}
      {fault && (
        <p class="trouble" role="alert">
          ! <CodeText text={fault} />{' '}
          <Button onClick={() => update({ fault: undefined })}>Close</Button>
        </p>
      )}
    </section>
  )
}

/** What is being done, and for how long, once that is worth telling. */
function Busy({ busy: { name, since } }: { busy: NonNullable<ProgressPush['busy']> }) {
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  const seconds = Math.floor((now - since) / 1000)
  return (
    <p class="busy">
      … {name}
      {seconds >= TOLD_SECONDS && <span class="soft"> ({seconds} s)</span>}
    </p>
  )
}

/** A button for the command that repairs a trouble. */
function Remedy({ command }: { command: string | undefined }) {
  if (command === undefined) return null
  return <Button onClick={() => void runOnHost(`remedy/${command}`, command)}>Run {command}</Button>
}
