import { Fragment } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { act } from './connection.ts'
import { Button, Select, Sure } from './controls.tsx'
import type { State } from './store.ts'
import { applyTheme, savedTheme, type Theme } from './theme.ts'
import { duration } from './words.ts'

/** A key on the list only chooses: a lab that was not begun resets the cluster, so it opens with a button. */
function LabChoice({ state: { lab, progress } }: { state: State }) {
  const shown = String(lab?.number)
  const [chosen, choose] = useState(shown)
  const labs = lab?.labs.map(
    ({ number, title }) => [String(number), `Lab ${number}: ${title}`] as const,
  )
  const isBegun = progress?.begun.includes(Number(chosen))
  return (
    <>
      <Select
        label={<span class="hidden">Lab</span>}
        value={chosen}
        options={labs ?? []}
        choose={choose}
      />
      {chosen !== shown && (
        <>
          <Button
            aria-describedby="what-start-does"
            onClick={() => {
              choose(shown)
              void act('lab', { number: Number(chosen) })
            }}
          >
            {isBegun ? 'Continue' : 'Start'} lab {chosen}
          </Button>
          {!isBegun && (
            <small id="what-start-does">
              This resets the cluster: what you made in lab {shown} is removed.
            </small>
          )}
        </>
      )}
    </>
  )
}

const THEMES = [
  ['system', 'System colours'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const

/** The lab with its score, and what is set for the whole page. */
export function Header({ state }: { state: State }) {
  const { lab, progress } = state
  const [theme, setTheme] = useState<Theme>(savedTheme)
  const help = useRef<HTMLDialogElement>(null)
  return (
    <header class="top">
      <h1>
        <span class="brand">kube-service-labs</span>
        <LabChoice key={lab?.number} state={state} />
      </h1>
      {progress && (
        <div class="score">
          <progress max={progress.of} value={progress.points} aria-label="Points" />
          <span>
            <strong>{progress.points}</strong> / {progress.of} points
          </span>
          <span class="soft">{duration(progress.minutes)}</span>
          <Button
            aria-pressed={progress.paused}
            onClick={() => void act('pause', { paused: !progress.paused })}
          >
            {progress.paused ? '▶ Resume' : '❙❙ Pause'}
          </Button>
          <Sure
            words="Reset …"
            sure="Yes, start over: remove what I made and answered in this lab"
            act={() => act('reset', {})}
          />
        </div>
      )}
      <Select
        label={<span class="hidden">Colours</span>}
        value={theme}
        options={THEMES}
        choose={(chosen) => setTheme(applyTheme(chosen as Theme))}
      />
      <Button onClick={() => help.current?.showModal()}>Keys</Button>
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
