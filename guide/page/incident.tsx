import { useEffect, useRef, useState } from 'preact/hooks'
import { Blocks } from './blocks.tsx'
import { act } from './connection.ts'
import { Button, Form, Sure } from './controls.tsx'
import type { State } from './store.ts'
import { Changes } from './timeline.tsx'

/** The step of lab 8 whose answer is the cause. */
const DIAGNOSIS = 'diagnosis'

/** An incident: the user's report, the possible causes, hints, and at the end what the nodes held before, broken and repaired. */
export function Incident({ state: { incident, progress } }: { state: State }) {
  const [seed, setSeed] = useState('')
  const report = useRef<HTMLElement>(null)
  const [isStarted, setStarted] = useState(false)
  useEffect(() => {
    if (!isStarted || !report.current) return
    report.current.focus()
    setStarted(false)
  }, [isStarted, incident])
  const start = async () => {
    const reply = await act('incident', { action: 'open', seed: seed || undefined })
    setStarted(reply !== undefined)
  }
  const opener = (
    <Form class="bar" send={start}>
      <label>
        Seed <input size={8} maxLength={40} value={seed} onInput={(event) => setSeed(event.currentTarget.value)} />
      </label>
      <button type="submit" class={incident ? '' : 'main'} aria-disabled={progress?.busy !== undefined}>
        {incident ? 'Start another incident' : 'Start an incident'}
      </button>
      <span class="soft">The same seed starts the same incident; without one it is random.</span>
    </Form>
  )
  if (!incident)
    return (
      <div class="incident">
        <p>
          Something breaks, and all you have is a user’s report: find the cause, name it, and repair it permanently.
        </p>
        {opener}
      </div>
    )
  const verdict = progress?.steps.find(({ id }) => id === DIAGNOSIS)?.verdict
  return (
    <div class="incident">
      <section aria-label="Report" ref={report} tabIndex={-1}>
        <h3>
          The report <span class="soft">seed {incident.seed}</span>
        </h3>
        <blockquote>{incident.report}</blockquote>
      </section>
      {incident.debrief ? (
        <section aria-label="Debrief" class="debrief">
          <h3>
            Debrief{' '}
            {progress && (
              <span class="soft">
                {progress.points} of {progress.of} points
              </span>
            )}
          </h3>
          <Blocks blocks={incident.debrief.text} />
          <div class="modes">
            <section aria-label="What the fault changed">
              <h4>What the fault changed</h4>
              <Changes changes={incident.debrief.before} canOpen={false} />
            </section>
            <section aria-label="What the repair changed">
              <h4>What the repair changed</h4>
              <Changes changes={incident.debrief.repaired} canOpen={false} />
            </section>
          </div>
        </section>
      ) : (
        <>
          {verdict === 'passed' ? (
            <p>✓ That is the cause. Repair it so that it stays repaired.</p>
          ) : (
            <Diagnosis choices={incident.choices} />
          )}
          <div class="buttons">
            {incident.hintsLeft > 0 && (
              <Button onClick={() => void act('incident', { action: 'hint' })}>
                Hint <small>costs 5 points, {incident.hintsLeft} left</small>
              </Button>
            )}
            <Sure
              words="Give up …"
              sure="Yes, solve the incident for me"
              act={() => act('incident', { action: 'give up' })}
            />
          </div>
        </>
      )}
      {incident.hints.length > 0 && (
        <ol class="hints" aria-label="Hints">
          {incident.hints.map((hint) => (
            <li key={hint}>{hint}</li>
          ))}
        </ol>
      )}
      {opener}
    </div>
  )
}

function Diagnosis({ choices }: { choices: readonly { id: string; cause: string }[] }) {
  const [cause, setCause] = useState('')
  const [wrong, setWrong] = useState('')
  return (
    <Form
      send={async () => {
        const reply = cause === '' ? undefined : await act('answer', { step: DIAGNOSIS, text: cause })
        setWrong(reply && reply.verdict !== 'passed' ? cause : '')
      }}
    >
      <fieldset>
        <legend>The cause: a wrong one costs 5 points</legend>
        {choices.map((choice) => (
          <label key={choice.id} class="choice">
            <input
              type="radio"
              name="cause"
              value={choice.id}
              checked={cause === choice.id}
              onChange={() => setCause(choice.id)}
            />{' '}
            <code>{choice.id}</code> {choice.cause}
          </label>
        ))}
      </fieldset>
      <button type="submit" class="main">
        This is the cause
      </button>
      <p role="status">{wrong !== '' && `✗ ${wrong} is not the cause.`}</p>
    </Form>
  )
}
