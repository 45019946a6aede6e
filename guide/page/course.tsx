import { useEffect, useRef, useState } from 'preact/hooks'
import type { ActionReplies, StepContent } from '../protocol.ts'
import { Blocks } from './blocks.tsx'
import { performAction } from './connection.ts'
import { CodeText, Form } from './controls.tsx'
import { isFocusLost } from './focus.ts'
import { INCIDENTS, StepState } from './step-state.tsx'
import { StepNavigation, Steps } from './steps.tsx'
import type { PageState } from './store.ts'

/** The lab's text with the state of the step that is shown. */
export function Course({ state: { lab, progress, incident } }: { state: PageState }) {
  const text = useRef<HTMLElement>(null)
  const shown = progress?.at
  const before = useRef(shown)
  useEffect(() => {
    if (shown !== undefined && before.current !== undefined && before.current !== shown) {
      text.current?.scrollTo(0, 0)
      // Another step can be shown while the learner is elsewhere: by another page, by an incident,
      // or when a lab was graded.
      if (isFocusLost() || document.activeElement?.closest('.course')) text.current?.focus()
    }
    before.current = shown
  }, [shown])
  if (!lab || !progress) return <section class="course empty">Reading the lab …</section>
  const index = lab.steps.findIndex(({ id }) => id === progress.at)
  const step = lab.steps[index]
  const done = progress.steps.find(({ id }) => id === progress.at)
  const isPassed = done?.verdict === 'passed' || (done?.kept ?? 0) > 0
  // The text of lab 8 shows the solution of another incident than the one that is open.
  const isOther = lab.number === INCIDENTS && incident && !incident.isWorked
  return (
    <section class="course" aria-label="Lab">
      <Steps lab={lab} progress={progress} />
      <article ref={text} class="text" tabIndex={-1} aria-label={step?.title ?? lab.title}>
        {progress.at === 'intro' && (
          <>
            <h2>
              Lab {lab.number}: {lab.title}
            </h2>
            <Blocks blocks={lab.intro} place={`${lab.number}/intro`} />
          </>
        )}
        {step && isOther && <IncidentStep step={step} report={incident.report} />}
        {step && !isOther && <StepText lab={lab.number} step={step} isPassed={isPassed} />}
        {progress.at === 'end' && (
          <>
            <Blocks blocks={progress.summary ?? []} place={`${lab.number}/end`} />
            <SubmissionForm />
          </>
        )}
      </article>
      {step && done ? (
        <StepState
          lab={lab}
          index={index}
          step={step}
          done={done}
          busy={progress.busy}
          asOf={progress.asOf}
          hasIncident={lab.number === INCIDENTS && incident !== null && incident !== undefined}
        />
      ) : (
        <div class="state calm" tabIndex={-1}>
          <StepNavigation lab={lab} at={progress.at} />
        </div>
      )}
    </section>
  )
}

/** The text of a step: its task, what it shows once it is passed, and what follows. */
function StepText({ lab, step, isPassed }: { lab: number; step: StepContent; isPassed: boolean }) {
  const part = (name: 'task' | 'seen' | 'onward') => (
    <Blocks key={`${step.id} ${name}`} blocks={step[name]} place={`${lab}/${step.id}/${name}`} />
  )
  return (
    <>
      {part('task')}
      {isPassed && step.seen.length > 0 && <div class="seen">{part('seen')}</div>}
      {step.onward.length > 0 && <div class="onward">{part('onward')}</div>}
    </>
  )
}

/** A step of lab 8 for the incident that is open. */
function IncidentStep({ step, report }: { step: StepContent; report: string }) {
  return (
    <div class="prose">
      <h2>{step.title}</h2>
      <p>{step.why}</p>
      <p>The report:</p>
      <blockquote>
        <CodeText text={report} />
      </blockquote>
      <p>
        In the tab Incident you name the cause, take hints, and have your repair checked. The text
        that was here goes through another incident.
      </p>
    </div>
  )
}

function SubmissionForm() {
  const [learner, setLearner] = useState('')
  const [saved, setSaved] = useState<ActionReplies['submit']>()
  return (
    <Form
      class="submission"
      send={async () => setSaved(await performAction('submit', { learner }))}
    >
      <h3>Save submission</h3>
      <p>The file contains what the nodes hold, so that your instructor can grade it again.</p>
      <label>
        Your name{' '}
        <input
          required
          maxLength={60}
          value={learner}
          onInput={(event) => setLearner(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Save submission
      </button>
      {saved && (
        <p role="status">
          ✓ {saved.score} Saved as <code>{saved.file}</code>.
        </p>
      )}
    </Form>
  )
}
