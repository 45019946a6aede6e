import { useEffect, useRef, useState } from 'preact/hooks'
import type { RoomView, SeatNotice } from '../../course/room-seat.ts'
import { performAction } from './connection.ts'
import { Button, CodeText, Form } from './controls.tsx'
import type { PageState } from './store.ts'

const STATES: Readonly<Record<RoomView['state'], string>> = {
  out: 'Not in a room',
  joining: 'Joining …',
  in: 'Connected',
  away: 'Not reachable: what is to be sent waits, and your lab goes on',
}

/** The room in the page's header: a button that opens what was sent, and the raised hand. */
export function RoomButtons({ state: { room } }: { state: PageState }) {
  const dialog = useRef<HTMLDialogElement>(null)
  if (!room) return null
  const isIn = room.state !== 'out'
  return (
    <>
      {isIn && (
        <Button
          aria-pressed={room.isHandRaised}
          onClick={() => void performAction('raise-hand', { raised: !room.isHandRaised })}
        >
          {room.isHandRaised ? 'Hand is raised' : 'Raise hand'}
        </Button>
      )}
      <Button onClick={() => dialog.current?.showModal()}>
        Room{isIn && room.state !== 'in' && ' …'}
      </Button>
      <dialog ref={dialog} aria-label="Room" class="room">
        <h2>Room {room.room}</h2>
        {isIn ? <Joined room={room} /> : <JoinForm />}
        <form method="dialog">
          <button type="submit">Close</button>
        </form>
      </dialog>
    </>
  )
}

function JoinForm() {
  const [word, setWord] = useState('')
  const [name, setName] = useState('')
  return (
    <>
      <p>
        In a class, your instructor can see where you are and help. Sent are your name or pseudonym,
        the step, its verdict and differences, and your answers; not what you type in terminals, no
        files, and no addresses of your machine. Nothing is sent until you join.
      </p>
      <Form class="answer" send={() => performAction('join-room', { word, name })}>
        <label>
          <span>The word that your instructor shows</span>
          <input
            name="word"
            required
            autocomplete="off"
            maxLength={300}
            value={word}
            placeholder="https://192.0.2.7:8443/spring-…"
            onInput={({ currentTarget }) => setWord(currentTarget.value)}
          />
        </label>
        <label>
          <span>Your name, or leave it empty for a pseudonym</span>
          <input
            name="name"
            autocomplete="off"
            maxLength={40}
            value={name}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        </label>
        <button type="submit" class="main">
          Join
        </button>
      </Form>
    </>
  )
}

function Joined({ room }: { room: RoomView }) {
  return (
    <>
      <p>
        You are in it as <strong>{room.name}</strong>. {STATES[room.state]}
        {room.waiting > 0 && `; ${room.waiting} messages wait`}.
        {!room.isEncrypted && ' This room is not encrypted: others in the network can read it.'}
      </p>
      {room.trouble && (
        <p class="trouble">
          ! <CodeText text={room.trouble} />
        </p>
      )}
      <details>
        <summary>What was sent, the latest first</summary>
        <ul class="sent">
          {room.sent.map((line, index) => (
            <li key={room.sent.length - index}>{line}</li>
          ))}
        </ul>
      </details>
      <Button onClick={() => void performAction('leave-room', {})}>Leave the room</Button>
    </>
  )
}

/** What the instructor tells and asks, above the lab. */
export function RoomBanners({ state }: { state: PageState }) {
  const { room, lab } = state
  const [closed, close] = useState<readonly string[]>([])
  const notices = room?.notices.filter(({ id }) => !closed.includes(id)) ?? []
  return (
    <div class="banners" role="status">
      {notices.map((notice) => (
        <div key={notice.id} class="banner">
          <RoomNoticeView notice={notice} lab={lab?.number} />
          <Button aria-label="Close this message" onClick={() => close([...closed, notice.id])}>
            Close
          </Button>
        </div>
      ))}
      {room?.tasks.map(({ id, ask }) => (
        <div key={id} class="banner">
          <RoomTaskForm id={id} ask={ask} />
        </div>
      ))}
    </div>
  )
}

function RoomNoticeView({ notice, lab }: { notice: SeatNotice; lab: number | undefined }) {
  if (notice.kind === 'timer') return <RoomTimer label={notice.label} until={notice.until} />
  if (notice.kind === 'poll') return <RoomPoll poll={notice} />
  const { text, to } = notice
  return (
    <p>
      <strong>{text}</strong>{' '}
      {to && to.lab === lab && (
        <Button class="main" onClick={() => void performAction('go', { to: to.step })}>
          Go to step {to.number}
        </Button>
      )}
    </p>
  )
}

function RoomTimer({ label, until }: { label: string; until: number }) {
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  const seconds = Math.max(0, Math.ceil((until - now) / 1000))
  return (
    <p role="timer">
      <strong>
        {Math.floor(seconds / 60)}:{String(seconds % 60).padStart(2, '0')}
      </strong>{' '}
      {label}
    </p>
  )
}

function RoomPoll({
  poll: { id, ask, choices, mine },
}: {
  poll: Extract<SeatNotice, { kind: 'poll' }>
}) {
  const [text, setText] = useState('')
  return (
    <div class="poll">
      <strong>{ask}</strong>
      {choices.map((choice) => (
        <Button
          key={choice}
          aria-pressed={mine === choice}
          onClick={() => void performAction('vote', { poll: id, text: choice })}
        >
          {choice}
        </Button>
      ))}
      {choices.length === 0 && (
        <Form class="poll" send={() => performAction('vote', { poll: id, text })}>
          <input
            aria-label="Your answer"
            required
            maxLength={200}
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
          <button type="submit" class="main">
            Answer
          </button>
          {mine !== undefined && <span class="soft">sent: {mine}</span>}
        </Form>
      )}
    </div>
  )
}

function RoomTaskForm({ id, ask }: { id: string; ask: string }) {
  const [text, setText] = useState('')
  return (
    <Form
      class="poll"
      send={async () => {
        await performAction('answer-task', { task: id, text })
      }}
    >
      <label>
        Task: <strong>{ask}</strong>{' '}
        <input
          required
          inputMode="numeric"
          autocomplete="off"
          maxLength={20}
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Answer
      </button>
    </Form>
  )
}
