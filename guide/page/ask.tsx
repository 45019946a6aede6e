import { useEffect, useRef, useState } from 'preact/hooks'
import type { AskBlock, StepContent, StepProgress } from '../protocol.ts'
import { performAction } from './connection.ts'
import { CodeText, Form, Sure } from './controls.tsx'
import { now } from './store.ts'

/** What a reader does who looks elsewhere in the text. */
const MOVES = ['wheel', 'touchmove', 'pointerdown', 'keydown'] as const

const TITLES = { predict: 'Predict.', question: 'Question.', recall: 'Do you remember?' }

/**
 * Whether a step asks for a prediction that the learner has neither given nor given up, and whose
 * outcome the step does not tell yet.
 */
export const isPredictionOpen = (
  { task }: StepContent,
  { predicted, gaveUp, verdict }: StepProgress,
): boolean =>
  predicted === undefined &&
  !gaveUp &&
  verdict !== 'passed' &&
  task.some((block) => block.kind === 'ask' && block.what === 'predict')

/**
 * A field at the place where the text asks: a prediction, a question, or a question about an
 * earlier lab.
 */
export function Ask({ asked }: { asked: AskBlock }) {
  const { what, id, ask } = asked
  const [told, setTold] = useState<{ isGood: boolean; lines: string[] }>()
  const toldBox = useRef<HTMLDivElement>(null)
  // Below a long text the reply would be out of sight, and the verdict below takes room when it
  // comes.
  useEffect(() => {
    const [box, text] = [toldBox.current, toldBox.current?.closest('article')]
    if (!box || !text) return
    const observer = new ResizeObserver(() => box.scrollIntoView({ block: 'nearest' }))
    observer.observe(text)
    const stop = () => observer.disconnect()
    for (const move of MOVES) text.addEventListener(move, stop, { once: true, passive: true })
    return () => {
      stop()
      for (const move of MOVES) text.removeEventListener(move, stop)
    }
  }, [told])
  const done = what === 'recall' ? undefined : now().progress?.steps.find((step) => step.id === id)
  const isClosed =
    what === 'predict'
      ? done?.predicted !== undefined || done?.gaveUp
      : what === 'question' && done?.answered
  const send = async (text: string) => {
    if (what === 'recall') {
      const reply = await performAction('recall', { id, text })
      return setTold(reply && { isGood: reply.isRight, lines: reply.lines })
    }
    const reply = await performAction('answer', { step: id, text })
    if (!reply) return setTold(undefined)
    if (reply.kept === 'prediction')
      setTold({ isGood: true, lines: ['Your prediction is kept; a wrong one costs nothing.'] })
    else setTold({ isGood: reply.verdict === 'passed', lines: reply.lines })
  }
  return (
    <section class={`ask ${what}`} aria-label={`${TITLES[what]} ${ask}`}>
      <p>
        <strong>{TITLES[what]}</strong> <CodeText text={ask} />
      </p>
      {isClosed ? (
        what === 'predict' &&
        done?.predicted !== undefined && <p class="soft">You predicted “{done.predicted}”.</p>
      ) : (
        <AskForm asked={asked} send={send} />
      )}
      {told && (
        <div ref={toldBox} role="status" class={told.isGood ? 'told' : 'told wrong'}>
          {told.lines.map((line) => (
            <p key={line}>
              <CodeText text={line} />
            </p>
          ))}
        </div>
      )}
      {what === 'predict' && done?.verdict === 'passed' && (
        <div class="told">
          {done.learnt.map((line) => (
            <p key={line}>
              <CodeText text={line} />
            </p>
          ))}
        </div>
      )}
      {what === 'question' && !isClosed && (
        <Sure
          label="Show me …"
          sure="Yes, show the answer: it costs the points for understanding"
          onSure={async () => {
            const reply = await performAction('show-answer', { step: id })
            if (reply) setTold({ isGood: true, lines: reply.lines })
          }}
        />
      )}
    </section>
  )
}

function AskForm({ asked, send }: { asked: AskBlock; send(text: string): unknown }) {
  const { what, id, ask, choices, many } = asked
  const [text, setText] = useState('')
  const [chosen, choose] = useState<readonly string[]>([])
  const name = `${what}-${id}`
  const answer =
    choices.length === 0 ? text : chosen.length > 0 ? chosen.join(', ') : many ? 'none' : ''
  return (
    <Form class="answer" send={() => answer !== '' && send(answer)}>
      {choices.length === 0 ? (
        <label>
          <span class="hidden">{ask}</span>
          <input
            name={name}
            autocomplete="off"
            required
            maxLength={500}
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
        </label>
      ) : (
        <fieldset>
          <legend class="hidden">{ask}</legend>
          {choices.map((choice) => (
            <label key={choice} class="choice">
              <input
                type={many ? 'checkbox' : 'radio'}
                name={name}
                value={choice}
                checked={chosen.includes(choice)}
                onChange={({ currentTarget }) => {
                  const others = many ? chosen.filter((one) => one !== choice) : []
                  choose(currentTarget.checked ? [...others, choice] : others)
                }}
              />{' '}
              <code>{choice}</code>
            </label>
          ))}
        </fieldset>
      )}
      <button type="submit" class="main">
        {what === 'predict' ? 'Predict' : 'Answer'}
      </button>
    </Form>
  )
}
