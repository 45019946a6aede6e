import { useState } from 'preact/hooks'
import type { LabContent, ProgressPush } from '../protocol.ts'
import { performAction } from './connection.ts'
import { Button } from './controls.tsx'
import { shownAs, VERDICTS } from './words.ts'

/** The places of a lab in their order: before the first step, each step, and the end. */
export function stepPlaces(lab: LabContent): string[] {
  return ['intro', ...lab.steps.map(({ id }) => id), 'end']
}

/** Back and Next. */
export function StepNavigation({
  lab,
  at,
  ready = true,
}: {
  lab: LabContent
  at: string
  ready?: boolean
}) {
  const places = stepPlaces(lab)
  const index = places.indexOf(at)
  const [back, next] = [places[index - 1], places[index + 1]]
  return (
    <div class="walk">
      {back && (
        <Button
          aria-label="Back"
          title="Back"
          aria-keyshortcuts="Alt+B"
          onClick={() => void performAction('go', { to: back })}
        >
          ←
        </Button>
      )}
      {next && (
        <Button
          class={ready ? 'main' : ''}
          aria-keyshortcuts="Alt+N"
          onClick={() => void performAction('go', { to: next })}
        >
          {at === 'intro' ? 'Start' : next === 'end' ? 'Finish' : 'Next'} →
        </Button>
      )}
    </div>
  )
}

/** The list of steps: a row of numbers that opens to titles. */
export function Steps({ lab, progress }: { lab: LabContent; progress: ProgressPush }) {
  const [open, setOpen] = useState(false)
  const index = lab.steps.findIndex(({ id }) => id === progress.at)
  return (
    <nav class={open ? 'steps open' : 'steps'} aria-label="Steps">
      <Button
        class="plain"
        aria-expanded={open}
        title={open ? 'Numbers only' : 'Titles of the steps'}
        onClick={() => setOpen(!open)}
      >
        {open ? '▴' : '▾'}
        <span class="hidden">
          {index === -1 ? `${lab.steps.length} steps` : `Step ${index + 1} of ${lab.steps.length}`}
        </span>
      </Button>
      <ol>
        {lab.steps.map(({ id, title }, at) => {
          const done = progress.steps.find((step) => step.id === id)
          const { sign, word, tone } = VERDICTS[shownAs(done)]
          return (
            <li key={id}>
              <Button
                class={tone}
                aria-current={at === index ? 'step' : undefined}
                title={`${at + 1}. ${title} (${word})`}
                onClick={() => {
                  setOpen(false)
                  void performAction('go', { to: id })
                }}
              >
                <span class="number">{tone === 'good' || tone === 'kept' ? sign : at + 1}</span>
                <span class="title">
                  <span class="hidden">Step {at + 1}: </span>
                  {title}
                  <span class="hidden">, {word}</span>
                </span>
              </Button>
            </li>
          )
        })}
      </ol>
    </nav>
  )
}
