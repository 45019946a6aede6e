import { useEffect, useRef, useState } from 'preact/hooks'
import type { IncidentPush, LabContent, ProgressPush } from '../protocol.ts'
import { Blocks } from './blocks.tsx'
import { performAction } from './connection.ts'
import { Button, CodeText, Form, Sure } from './controls.tsx'
import type { PageState } from './store.ts'
import { Changes } from './timeline.tsx'
import { shownAs, VERDICTS } from './words.ts'

/** The step of lab 8 whose answer is the cause. */
const DIAGNOSIS = 'diagnosis'

/**
 * An incident: the user's report, the possible causes, hints, and at the end what the nodes held
 * before, broken and repaired.
 */
export function IncidentPanel({ state: { incident, progress, lab } }: { state: PageState }) {
  const [seed, setSeed] = useState('')
  const [isHard, setHard] = useState(false)
  const report = useRef<HTMLElement>(null)
  const [isStarted, setStarted] = useState(false)
  useEffect(() => {
    if (!isStarted || !report.current) return
    report.current.focus()
    setStarted(false)
  }, [isStarted, incident])
  const start = async () => {
    const asked = { seed: seed || undefined, hard: isHard || undefined }
    const reply = await performAction('incident', { action: 'open', ...asked })
    setStarted(reply !== undefined)
  }
  return (
    <div class="incident">
      {incident ? (
        <>
          <section aria-label="Report" ref={report} tabIndex={-1}>
            <h3>
              The report <span class="soft">seed {incident.seed}</span>
            </h3>
            <blockquote>
              <CodeText text={incident.report} />
            </blockquote>
          </section>
          {incident.debrief ? (
            <Debrief debrief={incident.debrief} progress={progress} />
          ) : (
            <Repair incident={incident} progress={progress} />
          )}
          {/* Right below the button that was paid for, not below the verdicts, where it was out of view. */}
          {incident.hints.length > 0 && (
            <ol class="hints" aria-label="Hints">
              {incident.hints.map((hint) => (
                <li key={hint}>
                  <CodeText text={hint} />
                </li>
              ))}
            </ol>
          )}
          <IncidentVerdicts progress={progress} lab={lab} />
        </>
      ) : (
        <p>
          Something breaks, and all you have is a user’s report: find the cause, name it, and repair
          it permanently.
        </p>
      )}
      <Form class="bar" send={start}>
        <label>
          Seed{' '}
          <input
            size={8}
            maxLength={40}
            value={seed}
            onInput={(event) => setSeed(event.currentTarget.value)}
          />
        </label>
        <button
          type="submit"
          class={incident ? '' : 'main'}
          aria-disabled={progress?.busy !== undefined}
        >
          {incident ? 'Start another incident' : 'Start an incident'}
        </button>
        <label>
          <input
            type="checkbox"
            checked={isHard}
            onChange={({ currentTarget }) => setHard(currentTarget.checked)}
          />{' '}
          Hard: without a list of causes
        </label>
        <span class="soft">The same seed starts the same incident; without one it is random.</span>
      </Form>
    </div>
  )
}

/** Each step of the incident with what it gives, and a check of all of them. */
function IncidentVerdicts({
  progress,
  lab,
}: {
  progress: ProgressPush | undefined
  lab: LabContent | undefined
}) {
  if (!progress || !lab) return null
  return (
    <section class="verdicts" aria-label="Your repair">
      <h3>
        Your repair{' '}
        <span class="soft">
          {progress.points} of {progress.of} points
        </span>
      </h3>
      <ul>
        {lab.steps.map(({ id, title, points }) => {
          const done = progress.steps.find((step) => step.id === id)
          const { sign, word, tone } = VERDICTS[shownAs(done)]
          return (
            <li key={id} class={tone}>
              <span class="sign" aria-hidden="true">
                {sign}
              </span>{' '}
              {title}{' '}
              <span class="soft">
                {word}, {done?.points ?? 0}/{points}
              </span>
              {done?.finding && done.verdict !== 'passed' && (
                <p class="soft">
                  {done.finding.node && <strong>{done.finding.node}: </strong>}
                  expected {done.finding.expected.replace(/\.$/, '')}; found {done.finding.actual}
                </p>
              )}
            </li>
          )
        })}
      </ul>
      <Button
        class="main"
        aria-disabled={progress.busy !== undefined}
        onClick={() => void performAction('incident', { action: 'check' })}
      >
        {progress.busy ? 'Wait …' : 'Check my repair'}
      </Button>
    </section>
  )
}

interface DebriefProps {
  debrief: NonNullable<IncidentPush['debrief']>
  progress: ProgressPush | undefined
}

function Debrief({ debrief, progress }: DebriefProps) {
  const changed = [
    ['What the fault changed', debrief.before],
    ['What the repair changed', debrief.repaired],
  ] as const
  return (
    <section aria-label="Debrief" class="debrief">
      <h3>
        Debrief{' '}
        {progress && (
          <span class="soft">
            {progress.points} of {progress.of} points
          </span>
        )}
      </h3>
      <Blocks blocks={debrief.text} place="8/debrief" />
      <div class="modes">
        {changed.map(([title, changes]) => (
          <section key={title} aria-label={title}>
            <h4>{title}</h4>
            <Changes changes={changes} canOpen={false} />
          </section>
        ))}
      </div>
    </section>
  )
}

/** What is left to do: name the cause, then repair it. */
function Repair({
  incident,
  progress,
}: {
  incident: IncidentPush
  progress: ProgressPush | undefined
}) {
  const diagnosis = progress?.steps.find(({ id }) => id === DIAGNOSIS)
  return (
    <>
      {diagnosis?.verdict === 'passed' ? (
        <p>✓ That is the cause. Repair it so that it stays repaired.</p>
      ) : (
        <Diagnosis choices={incident.choices} />
      )}
      <div class="buttons">
        {incident.hintsLeft > 0 && (
          <Button onClick={() => void performAction('incident', { action: 'hint' })}>
            Hint <small>costs 5 points, {incident.hintsLeft} left</small>
          </Button>
        )}
        <Sure
          label="Give up …"
          sure="Yes, solve the incident for me"
          onSure={() => performAction('incident', { action: 'give up' })}
        />
      </div>
    </>
  )
}

function Diagnosis({ choices }: Pick<IncidentPush, 'choices'>) {
  const [cause, setCause] = useState('')
  const [wrong, setWrong] = useState('')
  const send = async () => {
    if (cause === '') return
    const reply = await performAction('answer', { step: DIAGNOSIS, text: cause })
    setWrong(reply && reply.verdict !== 'passed' ? cause : '')
  }
  const submit = (
    <button type="submit" class="main">
      This is the cause
    </button>
  )
  return (
    <Form send={send}>
      {choices.length === 0 ? (
        <>
          <label class="sentence">
            The cause, in a sentence: a wrong one costs 5 points
            <input
              maxLength={500}
              value={cause}
              onInput={({ currentTarget }) => setCause(currentTarget.value)}
            />
          </label>
          {submit}
        </>
      ) : (
        // Closed until the learner asks for it: the right cause is among them, and reading them
        // first replaces looking.
        <details class="causes">
          <summary>Name the cause: {choices.length} are possible</summary>
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
                <code>{choice.id}</code> <CodeText text={choice.cause} />
              </label>
            ))}
          </fieldset>
          {submit}
        </details>
      )}
      <p role="status">
        {wrong !== '' &&
          (choices.length > 0
            ? `✗ ${wrong} is not the cause.`
            : '✗ That names another cause, or not exactly one: the first line of your repair tells which.')}
      </p>
    </Form>
  )
}
