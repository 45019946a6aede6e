import { useState } from 'preact/hooks'
import type { Change } from '../../dataplane/view/changes.ts'
import { Blocks } from './blocks.tsx'
import { ChangeView } from './change-view.tsx'
import { act } from './connection.ts'
import type { State } from './store.ts'

/** The step of lab 8 whose answer is the cause. */
const DIAGNOSIS = 'diagnosis'

/** An incident: the user's report, the possible causes, hints, and at the end what the nodes held before, broken and repaired. */
export function Incident({ state: { incident, progress } }: { state: State }) {
  const [cause, setCause] = useState('')
  const [seed, setSeed] = useState('')
  const opener = (
    <form
      class="bar"
      onSubmit={(event) => {
        event.preventDefault()
        void act('incident', { action: 'open', ...(seed === '' ? {} : { seed }) })
      }}
    >
      <label>
        Seed <input size={8} maxLength={40} value={seed} onInput={(event) => setSeed(event.currentTarget.value)} />
      </label>
      <button type="submit" class={incident ? '' : 'main'} aria-disabled={progress?.busy !== undefined}>
        {incident ? 'Start another incident' : 'Start an incident'}
      </button>
      <span class="soft">The same seed starts the same incident; without one it is random.</span>
    </form>
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
      <section aria-label="Report">
        <h3>
          The report <span class="soft">seed {incident.seed}</span>
          {incident.points !== undefined && <strong class="points">{incident.points} points</strong>}
        </h3>
        <blockquote>{incident.report}</blockquote>
      </section>
      {incident.debrief ? (
        <section aria-label="Debrief" class="debrief">
          <h3>Debrief</h3>
          <Blocks blocks={incident.debrief.text} />
          <div class="modes">
            <ChangeList title="What the fault changed" changes={incident.debrief.before} />
            <ChangeList title="What the repair changed" changes={incident.debrief.repaired} />
          </div>
        </section>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault()
            if (cause !== '') void act('answer', { step: DIAGNOSIS, text: cause })
          }}
        >
          <fieldset>
            <legend>The cause: a wrong one costs 5 points</legend>
            {incident.choices.map((choice) => (
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
          <div class="buttons">
            <button type="submit" class="main">
              This is the cause
            </button>
            {incident.hintsLeft > 0 && (
              <button type="button" onClick={() => void act('incident', { action: 'hint' })}>
                Hint <small>costs 5 points, {incident.hintsLeft} left</small>
              </button>
            )}
            <button type="button" onClick={() => void act('incident', { action: 'give up' })}>
              Give up
            </button>
          </div>
          {verdict === 'passed' && <p class="good">✓ That is the cause. Repair it so that it stays repaired.</p>}
        </form>
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

function ChangeList({ title, changes }: { title: string; changes: readonly Change[] }) {
  return (
    <section aria-label={title}>
      <h4>{title}</h4>
      {changes.length === 0 && <p class="soft">Nothing that the nodes hold.</p>}
      <ul class="changes">
        {changes.map((change) => (
          <ChangeView key={`${change.node} ${change.id} ${change.change}`} change={change} withNode canOpen={false} />
        ))}
      </ul>
    </section>
  )
}
