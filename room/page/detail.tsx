import { Button, CodeText, Sure } from '../../guide/page/controls.tsx'
import { VERDICTS } from '../../guide/page/words.ts'
import { minutesAt } from '../need-of-help.ts'
import type { LabPlanned, LearnerDetail, LearnerTile, StepFact } from '../protocol.ts'
import { lookAt, performInRoom, type RoomPageState, roomClock } from './room-store.ts'
import { minutesText } from './tiles.tsx'

/**
 * One learner: the failing step as the learner sees it, the path of a packet, the other steps.
 * Nothing here changes the learner's cluster.
 */
export function Detail({ state }: { state: RoomPageState }) {
  const tile = state.tiles.get(state.looked ?? 0)
  if (!tile) return null
  const lab = state.room?.labs.find(({ number }) => number === tile.lab)
  const facts =
    state.detail?.steps.filter((one) => one.lab === tile.lab).map(({ fact }) => fact) ?? []
  const index = lab?.steps.findIndex(({ id }) => id === tile.step) ?? -1
  const here = lab?.steps[index]
  return (
    <section class="detail" aria-label={`Learner ${tile.name}`}>
      <div class="head">
        <h2>{tile.name}</h2>
        <Button onClick={() => void lookAt(undefined)}>Back to the class</Button>
      </div>
      <div class="buttons">
        {tile.hand !== undefined && (
          <Button
            class="main"
            onClick={() => void performInRoom('lower-hand', { tile: tile.tile })}
          >
            Lower the hand
          </Button>
        )}
        <Button
          onClick={() => void performInRoom('task', { tile: tile.tile, withinMinutes: 0 })}
          title="asks for what a node holds now"
        >
          Give a task now
        </Button>
        <Sure
          label="Remove …"
          sure="Yes, take this learner out of the room"
          onSure={() => {
            void performInRoom('remove', { tile: tile.tile })
            void lookAt(undefined)
          }}
        />
      </div>
      {here && (
        <>
          <h3>
            Step {index + 1}: {here.title}
          </h3>
          <StepNow
            fact={facts.find(({ step }) => step === here.id)}
            minutes={minutesAt(tile, roomClock(state))}
          />
        </>
      )}
      <LearnerPath state={state} />
      {state.detail && <Answers detail={state.detail} tile={tile} />}
      {lab && <AllSteps lab={lab} facts={facts} />}
    </section>
  )
}

function StepNow({ fact, minutes }: { fact: StepFact | undefined; minutes: number }) {
  const { sign, word, tone } = VERDICTS[fact?.verdict ?? 'looking']
  const finding = fact?.finding
  return (
    <div class={`step-now ${tone}`}>
      <p>
        <strong>
          {sign} {word}
        </strong>{' '}
        <span class="soft">
          {minutesText(minutes)} at this step, {fact?.hints ?? 0} hints
        </span>
      </p>
      {fact?.unanswered && (
        <p>The nodes are as they should be; what is missing is the {fact.unanswered}.</p>
      )}
      {finding && (
        <>
          <dl>
            {finding.node && (
              <>
                <dt>Node</dt>
                <dd>{finding.node}</dd>
              </>
            )}
            <dt>Expected</dt>
            <dd>{finding.expected}</dd>
            <dt>Found</dt>
            <dd>{finding.found}</dd>
            <dt>Command</dt>
            <dd>
              <code>{finding.command}</code>
            </dd>
          </dl>
          {finding.differences.length > 0 && (
            <pre class="differences">{finding.differences.join('\n')}</pre>
          )}
        </>
      )}
    </div>
  )
}

function LearnerPath({ state: { path, looked, tiles } }: { state: RoomPageState }) {
  const isAway = tiles.get(looked ?? 0)?.offlineSince !== undefined
  if (!path)
    return (
      <p class="soft">{isAway ? 'Offline: no path.' : 'The path of a packet is being read …'}</p>
    )
  if ('trouble' in path)
    return (
      <p class="soft">
        <CodeText text={path.trouble} />
      </p>
    )
  return (
    <figure class="path-drawing">
      <figcaption>
        <code>{path.packet}</code> <span class="soft">on {path.node}, as it is now</span>
        {path.stop && <strong class="stopped"> ✗ {path.stop}</strong>}
      </figcaption>
      {/* Drawn by the room from values that it has checked; all texts in it are escaped (slides/figures/canvas.ts). */}
      <div
        role="img"
        aria-label={path.drawing.label}
        dangerouslySetInnerHTML={{ __html: path.drawing.tall }}
      />
    </figure>
  )
}

function Answers({ detail, tile }: { detail: LearnerDetail; tile: LearnerTile }) {
  const answers = detail.answers.filter(({ lab }) => lab === tile.lab)
  return (
    <>
      {answers.length > 0 && (
        <details>
          <summary>{answers.length} predictions and answers</summary>
          <dl>
            {answers.map(({ step, what, text }) => (
              <div key={`${step} ${what}`}>
                <dt>
                  {step}, {what}
                </dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
      {detail.tasks.map(({ id, ask, askedAt, answer, right, found, seconds }) => (
        <p key={id} class="task">
          Task: {ask} <span class="soft">given at {new Date(askedAt).toLocaleTimeString()}</span>{' '}
          {answer === undefined ? (
            <strong>not answered</strong>
          ) : (
            <strong>
              {right ? '✓' : '✗'} “{answer}” after {seconds} s; the node held {found}
            </strong>
          )}
        </p>
      ))}
    </>
  )
}

function AllSteps({ lab, facts }: { lab: LabPlanned; facts: readonly StepFact[] }) {
  return (
    <ol class="all-steps">
      {lab.steps.map(({ id, title }, index) => {
        const fact = facts.find(({ step }) => step === id)
        const { sign, tone } = VERDICTS[fact?.verdict ?? 'looking']
        return (
          <li key={id} class={tone}>
            <span class="sign">{sign}</span> {index + 1} {title}
          </li>
        )
      })}
    </ol>
  )
}
