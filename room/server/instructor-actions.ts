// What the instructor does on the page, each as an entry of the journal.

import { randomBytes, randomInt } from 'node:crypto'
import { parsePlan } from '../day-plan.ts'
import type { LabPlanned, RoomAction, RoomArguments, RoomMessage, RoomReply } from '../protocol.ts'
import { randomTask } from '../tasks.ts'
import { exportRoom } from './export.ts'
import type { JournalEntry, LearnerState, NoticeEntry, RoomState } from './room-state.ts'
import { detailOf } from './tiles.ts'

/** What the actions use of a room. */
export interface RoomDesk {
  state: RoomState
  labs: readonly LabPlanned[]
  folder: string
  name: string
  /** Applies and stores an entry. */
  enter(entry: JournalEntry): Promise<void>
  /** Tells every learner the notices and tasks. */
  tellAll(): void
  tell(who: string, message: RoomMessage): void
  /** Takes a learner off the page and ends its connections. */
  remove(learner: LearnerState): void
}

type Actions = {
  [Name in RoomAction]: (input: RoomArguments<Name>) => Promise<RoomReply<Name> | undefined>
}

/** The actions of a room by name. Each throws Error with a sentence for the instructor. */
export function instructorActions(desk: RoomDesk): Actions {
  const { state, labs } = desk
  const announce = async (notice: NoticeEntry): Promise<undefined> => {
    await desk.enter({ entry: 'notice', at: Date.now(), notice })
    desk.tellAll()
    return undefined
  }
  return {
    tell: ({ text, lab, step }) => {
      const to = lab === undefined || step === undefined ? undefined : stepTo(labs, lab, step)
      if (text === '' && !to) throw new Error('Write what everybody is to read, or choose a step.')
      const sentence = text === '' && to ? `Everybody to step ${to.number}, please.` : text
      return announce({ kind: 'text', id: newId(), text: sentence, ...(to && { to }) })
    },
    poll: ({ ask, choices }) => announce({ kind: 'poll', id: newId(), ask, choices }),
    timer: ({ minutes, label }) =>
      announce({
        kind: 'timer',
        id: newId(),
        label,
        until: Date.now() + Math.round(minutes * 60_000),
      }),
    'end-notice': async ({ id }) => {
      await desk.enter({ entry: 'ended', at: Date.now(), id })
      desk.tellAll()
      return undefined
    },
    'lower-hand': async ({ tile }) => {
      const { who } = learnerAt(state, tile)
      await desk.enter({ entry: 'lowered', at: Date.now(), who })
      desk.tell(who, { lowered: true })
      return undefined
    },
    plan: async ({ text }) => {
      const plan = parsePlan(text, labs, Date.now())
      await desk.enter({ entry: 'plan', at: Date.now(), plan })
      return { plan }
    },
    look: async ({ tile, path }) => {
      const learner = learnerAt(state, tile)
      if (path) desk.tell(learner.who, { look: true })
      return { detail: detailOf(learner) }
    },
    remove: async ({ tile }) => {
      const learner = learnerAt(state, tile)
      await desk.enter({ entry: 'removed', at: Date.now(), who: learner.who })
      desk.remove(learner)
      return undefined
    },
    door: async ({ open }) => {
      await desk.enter({ entry: 'door', at: Date.now(), open })
      return undefined
    },
    task: async ({ tile, withinMinutes }) => {
      const all = tile === undefined ? [...state.learners.values()] : [learnerAt(state, tile)]
      const learners = all.filter(({ isRemoved }) => !isRemoved)
      const withinMs = Math.round(withinMinutes * 60_000)
      await Promise.all(
        learners.map(({ who }) => {
          const due = Date.now() + randomInt(withinMs + 1)
          return desk.enter({ entry: 'task', at: Date.now(), who, due, task: randomTask(newId()) })
        }),
      )
      return { count: learners.length }
    },
    export: async () => ({ files: exportRoom(desk) }),
  }
}

const newId = (): string => randomBytes(6).toString('hex')

function learnerAt({ learners }: RoomState, tile: number): LearnerState {
  const learner = [...learners.values()].find((one) => one.tile === tile && !one.isRemoved)
  if (learner) return learner
  throw new Error(`There is no learner ${tile} in this room.`)
}

function stepTo(labs: readonly LabPlanned[], lab: number, step: string) {
  const { steps } = labs.find(({ number }) => number === lab) ?? { steps: [] }
  const index = steps.findIndex(({ id }) => id === step)
  if (index >= 0) return { lab, step, number: index + 1 }
  throw new Error(`Lab ${lab} has no step "${step}".`)
}
