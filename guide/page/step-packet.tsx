// The packet of the step that is shown, below the terminal: where it is at this step, and what it
// is like there.

import { useState } from 'preact/hooks'
import type { DrawnPath, StepPacketPush } from '../protocol.ts'
import { isPredictionOpen } from './ask.tsx'
import { performAction } from './connection.ts'
import { Button, Select } from './controls.tsx'
import { Journey } from './journey.tsx'
import { type PageState, say, update } from './store.ts'

const DRAWING = 'guide-step-drawing'
/** The height of a window, in px, in which the drawing leaves enough of the terminal. */
const ROOMY_PX = 900

/**
 * The path of the step's packet with its own place lit, once the step's prediction is known, which
 * it would answer; nothing at a step that is about no packet.
 */
export function StepPacketPanel({ state: { lab, stepPacket, progress } }: { state: PageState }) {
  if (!stepPacket || stepPacket.step !== progress?.at) return null
  const step = lab?.steps.find(({ id }) => id === stepPacket.step)
  const done = progress.steps.find(({ id }) => id === stepPacket.step)
  if (!step || !done?.verdict) return null
  if (isPredictionOpen(step, done))
    return (
      <section class="step-packet" aria-label="The packet of this step">
        <p class="soft">
          The packet of this step is drawn here once you have predicted: the drawing could answer
          for you.
        </p>
      </section>
    )
  const { from, to, path, at } = stepPacket
  return (
    <section class="step-packet" aria-label="The packet of this step">
      <h3>
        The packet of this step: <code>{from}</code> → <code>{to}</code>
        <span class="soft"> at {at}</span>
      </h3>
      <DrawnPacket key={`${stepPacket.step} ${path.packet}`} packet={stepPacket} />
    </section>
  )
}

/** Whether the drawing was opened in this browser, else whether there is room for it. */
const isDrawn = (): boolean =>
  localStorage.getItem(DRAWING)
    ? localStorage.getItem(DRAWING) === 'open'
    : window.innerHeight >= ROOMY_PX

function DrawnPacket({ packet }: { packet: StepPacketPush }) {
  const { path, before, beside, at, from, to, node } = packet
  const [chosen, choose] = useState('')
  const [isSending, setSending] = useState(false)
  const [hasDrawing, setDrawing] = useState(isDrawn)
  const others: Record<string, { title: string; path: DrawnPath } | undefined> = {
    before: before && { title: 'when this step was opened', path: before },
    beside: beside && { title: `from ${beside.from}`, path: beside.path },
  }
  const other = others[chosen]
  const send = async () => {
    if (isSending) return
    setSending(true)
    const reply = await performAction('path', { from, to, node, send: true })
    setSending(false)
    if (!reply) return
    update({ tab: 'path', path: { from, to, node, found: { ...reply, asked: `${Date.now()}` } } })
    say('Sent: the journey of one of the packets is played')
  }
  const options = Object.entries(others).flatMap(([id, one]) =>
    one ? [[id, one.title] as const] : [],
  )
  return (
    <>
      <Journey
        path={path}
        title={`${path.packet}, ${path.mode} mode`}
        lit={at}
        other={other?.path}
        isBrief
        isHidden={!hasDrawing}
      >
        <Button
          aria-pressed={hasDrawing}
          onClick={() => {
            localStorage.setItem(DRAWING, hasDrawing ? 'closed' : 'open')
            setDrawing(!hasDrawing)
          }}
        >
          Drawing
        </Button>
        <Button aria-disabled={isSending} onClick={() => void send()}>
          {isSending ? 'Sending …' : 'Send a real one'}
        </Button>
        {options.length > 0 && (
          <Select
            label="Compare with"
            value={other ? chosen : ''}
            options={[['', 'nothing'], ...options]}
            choose={choose}
          />
        )}
      </Journey>
      {other && (
        <>
          <h4>The packet {other.title}</h4>
          <Journey
            path={other.path}
            title={other.title}
            lit={at}
            other={path}
            isBrief
            isHidden={!hasDrawing}
          />
        </>
      )}
    </>
  )
}
