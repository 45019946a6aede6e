import { Fragment } from 'preact'
import { useRef, useState } from 'preact/hooks'
import type { LabRecord } from '../../course/lab-records.ts'
import { performAction } from './connection.ts'
import { Button, Select, Sure } from './controls.tsx'
import { RoomButtons } from './room.tsx'
import type { PageState } from './store.ts'
import { applyTheme, savedTheme, type Theme } from './theme.ts'
import { durationText } from './words.ts'

/**
 * A key on the list only chooses: a lab that was not begun resets the cluster, so it opens with a
 * button.
 */
function LabChoice({ state: { lab, progress, incident } }: { state: PageState }) {
  const [isOpening, setOpening] = useState(false)
  const shown = String(lab?.number)
  const [chosen, choose] = useState(shown)
  const recordOf = (number: number) => progress?.labs.find((one) => one.number === number)
  const labs = lab?.labs.map(
    ({ number, title, minutes }) =>
      [
        String(number),
        // The score beside it is that of the lab that is shown.
        number === lab.number
          ? `Lab ${number}: ${title}`
          : `Lab ${number}: ${title} (${recordText(recordOf(number), minutes)})`,
      ] as const,
  )
  const isBegun = recordOf(Number(chosen))?.isBegun
  // During other work, such as grading at the end of a lab, the server waits for its end.
  const open = async () => {
    if (isOpening) return
    setOpening(true)
    await performAction('lab', { number: Number(chosen) })
    setOpening(false)
  }
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
            aria-disabled={isOpening}
            onClick={() => void open()}
          >
            {isBegun ? 'Continue' : 'Start'} lab {chosen}
          </Button>
          {incident && !incident.debrief && (
            <small class="warning">This ends the incident that is open, without its points.</small>
          )}
          {!isBegun && (
            <small id="what-start-does">
              The cluster gets the starting state of lab {chosen}. What you made in lab {shown} can
              be lost, its points are kept.
            </small>
          )}
        </>
      )}
    </>
  )
}

/** `95/100 kept, 34 min`, or how long a lab takes that was not begun. */
function recordText(record: LabRecord | undefined, minutes: number): string {
  if (!record || (!record.isBegun && record.kept === 0)) return `about ${durationText(minutes)}`
  const worked = record.minutes > 0 ? `, ${durationText(record.minutes)}` : ''
  return `${record.kept}/${record.of} kept${worked}`
}

const THEMES = [
  ['system', 'System colours'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const

/** The lab with its score, and what is set for the whole page. */
export function Header({ state }: { state: PageState }) {
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
          <progress max={progress.of} value={progress.kept} aria-label="Points" />
          {/* Before the nodes are read for the first time, nothing is known, and 0 would be wrong. */}
          <span>
            <strong>
              {progress.labs.length === 0 && progress.kept === 0 ? '…' : progress.kept}
            </strong>{' '}
            / {progress.of} points
          </span>
          {progress.points < progress.kept && (
            <span
              class="soft"
              title="The best of each step is kept, also for a submission. Less holds now, because you have moved on."
            >
              kept · {progress.points} hold now
            </span>
          )}
          <span class="soft">{durationText(progress.minutes)}</span>
          <Button
            aria-pressed={progress.paused}
            title={
              progress.paused
                ? 'Count the minutes again'
                : 'Stop counting the minutes, for a break; everything else goes on'
            }
            onClick={() => void performAction('pause', { paused: !progress.paused })}
          >
            {progress.paused ? '▶ Resume' : '❙❙ Pause'}
          </Button>
          <Sure
            label="Reset …"
            sure="Start over: remove what I made and answered, keep my points"
            onSure={() => performAction('reset', {})}
          />
        </div>
      )}
      <Select
        label={<span class="hidden">Colours</span>}
        value={theme}
        options={THEMES}
        choose={(chosen) => setTheme(applyTheme(chosen as Theme))}
      />
      <RoomButtons state={state} />
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
