// Asks the instructor for help, in a room:  make raise-hand [DOWN=1]

import { main, Refusal } from '../host/main.ts'
import { isOn } from '../host/switches.ts'
import { LearnerSeat } from '../room/learner/seat.ts'

/** The longest wait for a room; without it, the next command in the room sends it. */
const GREETING_MS = 3000

await main(async () => {
  const seat = LearnerSeat.open()
  if (seat.view.state === 'out')
    throw new Refusal(
      'You are in no room: join with the word of your instructor, as in `make raise-hand ROOM=https://…`.',
    )
  const raised = !isOn('DOWN')
  const isThere = await seat.greeted(GREETING_MS)
  seat.raiseHand(raised)
  await seat.end()
  const what = raised
    ? 'Your hand is raised; `make raise-hand DOWN=1` lowers it.'
    : 'Your hand is lowered.'
  console.log(isThere ? what : `${what} The room can't be reached now: it is sent later.`)
})
