import { useState } from 'preact/hooks'
import type { LabContent, ProgressPush, StepContent, StepProgress } from '../protocol.ts'
import { act } from './connection.ts'
import { Button } from './controls.tsx'
import { VERDICTS } from './words.ts'

/** The places of a lab in their order: before the first step, each step, and the end. */
export function placesOf(lab: LabContent): string[] {
  return ['intro', ...lab.steps.map(({ id }) => id), 'end']
}

/** Back and Next. */
export function Walk({ lab, at, ready = true }: { lab: LabContent; at: string; ready?: boolean }) {
  const places = placesOf(lab)
  const index = places.indexOf(at)
  const [back, next] = [places[index - 1], places[index + 1]]
  return (
    <div class="walk">
      {back && (
        <Button aria-keyshortcuts="Alt+B" onClick={() => void act('go', { to: back })}>
          ← Back
        </Button>
      )}
      {next && (
        <Button class={ready ? 'main' : ''} aria-keyshortcuts="Alt+N" onClick={() => void act('go', { to: next })}>
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
      <Button class="plain" aria-expanded={open} onClick={() => setOpen(!open)}>
        {index === -1 ? `${lab.steps.length} steps` : `Step ${index + 1} of ${lab.steps.length}`} {open ? '▴' : '▾'}
      </Button>
      <ol>
        {lab.steps.map((step, at) => (
          <StepLink
            key={step.id}
            step={step}
            number={at + 1}
            current={step.id === progress.at}
            done={progress.steps.find(({ id }) => id === step.id)}
            leave={() => setOpen(false)}
          />
        ))}
      </ol>
    </nav>
  )
}

interface StepLinkProps {
  step: StepContent
  number: number
  current: boolean
  done: StepProgress | undefined
  leave: () => void
}

function StepLink({ step, number, current, done, leave }: StepLinkProps) {
  const { sign, word, tone } = VERDICTS[done?.verdict ?? 'looking']
  return (
    <li>
      <Button
        class={tone}
        aria-current={current ? 'step' : undefined}
        title={`${number}. ${step.title} (${word})`}
        onClick={() => {
          leave()
          void act('go', { to: step.id })
        }}
      >
        <span class="number">{tone === 'good' ? sign : number}</span>
        <span class="title">
          <span class="hidden">Step {number}: </span>
          {step.title}
          <span class="hidden">, {word}</span>
        </span>
      </Button>
    </li>
  )
}
