// Leaves the room of a class:  make leave-room

import { main } from '../host/main.ts'
import { LearnerSeat } from '../room/learner/seat.ts'

await main(async () => {
  delete process.env.ROOM
  const seat = LearnerSeat.open()
  if (seat.view.state === 'out') {
    console.log('You are in no room, and nothing is sent.')
    return
  }
  const isKnown = await seat.leaveAndWait()
  console.log(
    `You have left the room, and nothing more is sent.${isKnown ? '' : ' The room could not be reached: it shows you as offline.'}`,
  )
})
