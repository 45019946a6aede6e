import { useEffect, useRef, useState } from 'preact/hooks'
import type {
  LabContent,
  ProgressPush,
  ShownFinding,
  StepContent,
  StepProgress,
} from '../protocol.ts'
import { FenceView } from './blocks.tsx'
import { performAction } from './connection.ts'
import { Button, CodeText, Form, Sure } from './controls.tsx'
import { StepNavigation } from './steps.tsx'
import { update } from './store.ts'
import { shownAs, VERDICTS } from './words.ts'

interface StepStateProps {
  lab: LabContent
  index: number
  step: StepContent
  done: StepProgress
  busy: ProgressPush['busy']
  asOf: number | undefined
  /** An incident is open, or was solved: its form, hints and check are in a tab of their own. */
  hasIncident: boolean
}

/** The lab whose steps are about an incident. */
export const INCIDENTS = 8

/** The state of the shown step, always visible: verdict, finding, hints, answer, Back and Next. */
export function StepState({ lab, index, step, done, busy, asOf, hasIncident }: StepStateProps) {
  const shown = shownAs(done)
  const { sign, word, tone } = VERDICTS[shown]
  const isPassed = done.verdict === 'passed'
  const isKept = shown === 'kept'
  return (
    <section class={`state ${tone}`} tabIndex={-1} aria-label="State of this step">
      <div class="verdict">
        <span class="sign" aria-hidden="true">
          {sign}
        </span>
        <strong>{word}</strong>
        <span class="soft">
          step {index + 1} · {done.kept}/{step.points} points
          {isKept && ', kept'}
        </span>
        <StepNavigation lab={lab} at={step.id} ready={isPassed || isKept} />
      </div>
      <p class="claim">
        {step.title}.{/* Not beside the buttons: they would move whenever a read takes long. */}
        {asOf !== undefined && (
          <span class="soft as-of" title="The nodes are read again">
            {' '}
            As of {new Date(asOf).toLocaleTimeString()}
          </span>
        )}
      </p>
      <div class="details">
        {done.alreadyPassed && isPassed && (
          <p class="soft">This step had already passed when you opened it.</p>
        )}
        {isKept && (
          <p class="soft">
            Its points are kept, also for a submission. What it asks for does not hold now, because
            you have moved on, or because something has changed.
          </p>
        )}
        {done.unsent && (
          <p>
            Everything that can be seen on the nodes is there. A check sends the requests that prove
            it. <CheckButton step={step} busy={busy} main />
          </p>
        )}
        {!isPassed && !done.unsent && (
          <>
            {done.waitsFor && <WaitsFor lab={lab} steps={done.waitsFor} />}
            {!done.waitsFor && done.reason !== undefined && (
              <p>
                <CodeText text={done.reason} />
              </p>
            )}
            {done.finding && <FindingView finding={done.finding} />}
          </>
        )}
        {done.measured && (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table is scrolled by keyboard
          <pre class="measured" tabIndex={0}>
            {done.measured.join('\n')}
          </pre>
        )}
        {done.unanswered && <p>{ASKS[done.unanswered]}</p>}
        {step.question && !isPassed && !asksInText(step) && !hasIncident && (
          <AnswerForm key={step.id} step={step} />
        )}
        {hasIncident ? (
          <Button onClick={() => update({ tab: 'incident' })}>
            Answer, hints and check are in the tab Incident
          </Button>
        ) : (
          <Help key={`${step.id} help`} step={step} done={done} busy={busy} />
        )}
      </div>
    </section>
  )
}

const ASKS = {
  prediction: 'The nodes are as they should be. What is missing is your prediction, in the text.',
  answer:
    'The nodes are as they should be. What is missing is the answer to the question in the text.',
}

/** Whether the text has the field for the question. */
const asksInText = ({ task, seen, onward }: StepContent): boolean =>
  [...task, ...seen, ...onward].some((block) => block.kind === 'ask' && block.what === 'question')

function WaitsFor({ lab, steps }: { lab: LabContent; steps: readonly string[] }) {
  return (
    <>
      <p>These steps must pass first:</p>
      <ul>
        {lab.steps.map(
          ({ id, title }, index) =>
            steps.includes(id) && (
              <li key={id}>
                Step {index + 1}: {title}.
              </li>
            ),
        )}
      </ul>
    </>
  )
}

function FindingView({ finding }: { finding: ShownFinding }) {
  const { node, expected, actual, differences, why, hint, next, inspect } = finding
  return (
    <div class="finding">
      <dl>
        {node && (
          <>
            <dt>Node</dt>
            <dd>{node}</dd>
          </>
        )}
        <dt>Expected</dt>
        <dd>
          <CodeText text={expected} />
        </dd>
        <dt>Found</dt>
        <dd>
          <CodeText text={actual} />
        </dd>
      </dl>
      {differences.length > 0 && <pre class="differences">{differences.join('\n')}</pre>}
      <details>
        <summary>Why, and what to do next</summary>
        <p>
          <CodeText text={why} />
        </p>
        <p>
          <CodeText text={hint} />
        </p>
        <p class="soft">Look:</p>
        <FenceView text={inspect} place={`finding/${inspect}`} />
        {next !== undefined && next !== inspect && (
          <>
            <p class="soft">Next:</p>
            <FenceView text={next} place={isCommand(next) ? `finding/${next}` : undefined} />
          </>
        )}
      </details>
    </div>
  )
}

/** A command that Run may type: one with a placeholder is to be completed by the learner. */
const isCommand = (text: string): boolean => !text.includes('…')

function CheckButton({
  step,
  busy,
  main = false,
}: {
  step: StepContent
  busy: ProgressPush['busy']
  main?: boolean
}) {
  return (
    <Button
      class={main ? 'main' : ''}
      aria-keyshortcuts="Alt+C"
      aria-disabled={busy !== undefined}
      onClick={() => void (busy === undefined && performAction('check', { step: step.id }))}
    >
      {busy === undefined ? 'Check' : 'Wait …'}
    </Button>
  )
}

function AnswerForm({ step }: { step: StepContent }) {
  const [text, setText] = useState('')
  const [wrong, setWrong] = useState(false)
  return (
    <Form
      class="answer"
      send={async () => {
        const reply = await performAction('answer', { step: step.id, text })
        setWrong(reply !== undefined && reply.verdict !== 'passed')
      }}
    >
      <label>
        <span>
          <CodeText text={step.question ?? ''} />
        </span>
        <input
          name="answer"
          autocomplete="off"
          maxLength={500}
          value={text}
          aria-invalid={wrong}
          onInput={({ currentTarget }) => {
            setText(currentTarget.value)
            setWrong(false)
          }}
        />
      </label>
      <button type="submit" class="main">
        Answer
      </button>
      {wrong && <p role="status">✗ That is not it.</p>}
    </Form>
  )
}

/** Hints in tiers, each with its price before it is taken, and at last the solution. */
function Help({ step, done, busy }: Pick<StepStateProps, 'step' | 'done' | 'busy'>) {
  const newest = useRef<HTMLLIElement>(null)
  const isAsked = useRef(false)
  const taken = done.hints.length
  const left = step.hints - taken
  useEffect(() => {
    if (isAsked.current) newest.current?.focus()
    isAsked.current = false
  }, [taken])
  return (
    <div class="help">
      {taken > 0 && (
        <ol class="hints" aria-label="Hints">
          {done.hints.map((hint, index) => (
            <li key={hint} ref={index === taken - 1 ? newest : undefined} tabIndex={-1}>
              <CodeText text={hint} />
            </li>
          ))}
        </ol>
      )}
      {done.verdict !== 'passed' && (
        <div class="buttons">
          {left > 0 && (
            <Button
              onClick={() => {
                isAsked.current = true
                void performAction('hint', { step: step.id })
              }}
            >
              Hint {taken + 1} of {step.hints}{' '}
              <small>
                {left === 1
                  ? 'the command; costs no points, is recorded'
                  : 'costs no points, is recorded'}
              </small>
            </Button>
          )}
          {left === 0 && (
            <Sure
              label="Solve this step …"
              sure="Yes, perform this step for me"
              onSure={() => performAction('solve', { step: step.id })}
            />
          )}
          {!done.unsent && <CheckButton step={step} busy={busy} />}
        </div>
      )}
    </div>
  )
}
