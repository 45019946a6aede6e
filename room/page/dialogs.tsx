import type { ComponentChildren } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { Button, Form, Select } from '../../guide/page/controls.tsx'
import { labOfMost } from '../heat-map.ts'
import type { LabPlanned, RoomPush } from '../protocol.ts'
import { PollBars } from './notices.tsx'
import { performInRoom, type RoomPageState, roomClock, updateRoom } from './room-store.ts'

/** What the instructor does for the whole class, each in a dialog. */
export function Dialogs({ state }: { state: RoomPageState }) {
  const { room } = state
  if (!room) return null
  const lab =
    room.labs.find(({ number }) => number === state.lab) ??
    labOfMost(room.labs, [...state.tiles.values()])
  return (
    <div class="bar">
      <Dialog name="Join">{() => <JoinHelp room={room} />}</Dialog>
      <Dialog name="Tell all">{(close) => <TellForm lab={lab} close={close} />}</Dialog>
      <Dialog name="Poll">
        {(close) => <PollForm lab={lab} room={room} state={state} close={close} />}
      </Dialog>
      <Dialog name="Timer">{(close) => <TimerForm close={close} />}</Dialog>
      <Dialog name="Tasks">{(close) => <TaskForm close={close} />}</Dialog>
      <Dialog name="Plan">
        {(close) => <PlanForm room={room} now={roomClock(state)} close={close} />}
      </Dialog>
      <Button onClick={() => void exportAll()}>Export</Button>
    </div>
  )
}

async function exportAll(): Promise<void> {
  const reply = await performInRoom('export', {})
  if (reply) updateRoom({ done: `Written: ${reply.files.join(', ')}` })
}

interface DialogProps {
  name: string
  children(close: () => void): ComponentChildren
}

function Dialog({ name, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [isOpen, setOpen] = useState(false)
  const close = () => dialog.current?.close()
  return (
    <>
      <Button
        onClick={() => {
          setOpen(true)
          dialog.current?.showModal()
        }}
      >
        {name}
      </Button>
      <dialog
        ref={dialog}
        aria-label={name}
        class={name === 'Join' ? 'wide' : ''}
        onClose={() => setOpen(false)}
      >
        <div class="head">
          <h2>{name}</h2>
          <Button onClick={close}>Close</Button>
        </div>
        {isOpen && children(close)}
      </dialog>
    </>
  )
}

function JoinHelp({ room }: { room: RoomPush }) {
  return (
    <div class="join">
      <div>
        <p>In the folder of the labs, type:</p>
        <pre class="word">make lab-2 ROOM={room.word}</pre>
        <p>
          It works as well with <code>make guide</code> and <code>make check-2</code>, is
          remembered, and <code>make leave-room</code> ends it. Your name is <code>LEARNER=…</code>,
          or a pseudonym.
        </p>
        <p class="soft">
          What is sent: the name, the step, its verdict and differences, answers. Not sent: what you
          type in shells, files, addresses of your machine.
        </p>
        <p class="soft">
          {room.encrypted
            ? 'The connection is encrypted; the end of the word is the fingerprint of this room’s certificate.'
            : 'This room is not encrypted: others in the network can read and change what is sent.'}
        </p>
        <Button onClick={() => void performInRoom('door', { open: !room.isOpen })}>
          {room.isOpen ? 'Close the room to new learners' : 'Open the room to new learners'}
        </Button>
      </div>
      {/* Made by this machine from the word. */}
      <div
        class="qr"
        role="img"
        aria-label="The word as a QR code"
        dangerouslySetInnerHTML={{ __html: room.qr }}
      />
    </div>
  )
}

function TellForm({ lab, close }: { lab: LabPlanned | undefined; close(): void }) {
  const [text, setText] = useState('')
  const [step, setStep] = useState('')
  const steps =
    lab?.steps.map(({ id, title }, index) => [id, `${index + 1} ${title}`] as const) ?? []
  return (
    <Form
      class="fields"
      send={async () => {
        const to = step === '' || !lab ? {} : { lab: lab.number, step }
        if (await performInRoom('tell', { text, ...to })) close()
      }}
    >
      <label>
        What everybody reads
        <input
          value={text}
          maxLength={300}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <Select
        label="Everybody to step"
        value={step}
        options={[['', '– no step –'], ...steps]}
        choose={setStep}
      />
      <button type="submit" class="main">
        Tell everybody
      </button>
    </Form>
  )
}

interface PollProps {
  lab: LabPlanned | undefined
  room: RoomPush
  state: RoomPageState
  close(): void
}

function PollForm({ lab, room, state, close }: PollProps) {
  const [ask, setAsk] = useState('')
  const [choices, setChoices] = useState('')
  const asked = lab?.steps.filter(({ question }) => question) ?? []
  const open = room.polls.filter((poll) => poll.open)
  const take = (id: string) => {
    const step = asked.find((one) => one.id === id)
    setAsk(step?.question ?? '')
    setChoices(step?.choices.join('\n') ?? '')
  }
  return (
    <>
      {open.map((poll) => (
        <div key={poll.id} class="large">
          <PollBars poll={poll} of={state.tiles.size} />
          <Button onClick={() => void performInRoom('end-notice', { id: poll.id })}>
            End this poll
          </Button>
        </div>
      ))}
      <Form
        class="fields"
        send={async () => {
          const lines = choices.split('\n').map((line) => line.trim())
          if (await performInRoom('poll', { ask, choices: lines.filter((line) => line !== '') }))
            close()
        }}
      >
        <Select
          label="A question of the lab"
          value=""
          options={[
            ['', '– or write one below –'],
            ...asked.map(({ id, question = '' }) => [id, question] as const),
          ]}
          choose={take}
        />
        <label>
          Question
          <input
            value={ask}
            required
            maxLength={500}
            onInput={({ currentTarget }) => setAsk(currentTarget.value)}
          />
        </label>
        <label>
          Answers to choose from, one per line; none for free answers
          <textarea
            rows={4}
            value={choices}
            onInput={({ currentTarget }) => setChoices(currentTarget.value)}
          />
        </label>
        <button type="submit" class="main">
          Ask everybody
        </button>
      </Form>
    </>
  )
}

function TimerForm({ close }: { close(): void }) {
  const [minutes, setMinutes] = useState('10')
  const [label, setLabel] = useState('break')
  return (
    <Form
      class="fields"
      send={async () => {
        if (await performInRoom('timer', { minutes: Number(minutes), label })) close()
      }}
    >
      <label>
        Minutes
        <input
          type="number"
          min={1}
          max={600}
          value={minutes}
          onInput={({ currentTarget }) => setMinutes(currentTarget.value)}
        />
      </label>
      <label>
        For
        <input
          value={label}
          maxLength={100}
          onInput={({ currentTarget }) => setLabel(currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Start the timer
      </button>
    </Form>
  )
}

function TaskForm({ close }: { close(): void }) {
  const [within, setWithin] = useState('20')
  return (
    <Form
      class="fields"
      send={async () => {
        const reply = await performInRoom('task', { withinMinutes: Number(within) })
        if (!reply) return
        updateRoom({ done: `${reply.count} learners get a task each within ${within} minutes.` })
        close()
      }}
    >
      <p>
        Each learner gets one random task at a random time, such as “Show the counters of
        KUBE-MARK-MASQ on worker2 now”. The answer is compared with the learner’s nodes, and every
        later capture has a note of the task, which a recording from before cannot have.
      </p>
      <label>
        Within minutes
        <input
          type="number"
          min={0}
          max={240}
          value={within}
          onInput={({ currentTarget }) => setWithin(currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Give everybody a task
      </button>
    </Form>
  )
}

function PlanForm({ room, now, close }: { room: RoomPush; now: number; close(): void }) {
  const written = room.plan.map(({ lab, at, minutes }) => `${hourOf(at)} lab ${lab} ${minutes} min`)
  const [text, setText] = useState(written.join('\n') || `${hourOf(now)} lab 2`)
  return (
    <Form
      class="fields"
      send={async () => {
        if (await performInRoom('plan', { text })) close()
      }}
    >
      <label>
        A line for each lab, such as “09:00 lab 1” or “10:15 lab 2 90 min”
        <textarea
          rows={6}
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Use this plan
      </button>
    </Form>
  )
}

const hourOf = (at: number): string => new Date(at).toTimeString().slice(0, 5)
