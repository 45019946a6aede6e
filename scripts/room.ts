// The room of a class, and the instructor's page: make room [ROOM=spring] [HOST=192.0.2.7]
// [PORT=8443] [PAGE_PORT=8600] [PLAIN=1]

import { requestedPort, untilTerminated } from '../host/loopback-server.ts'
import { main } from '../host/main.ts'
import { isOn } from '../host/switches.ts'
import { roomFolder, roomName } from '../room/server/room-files.ts'
import { ROOM_PAGE, serveRoom, whileRoomIsOpen } from '../room/server/serve-room.ts'
import { buildPage } from '../web/page-files.ts'

await main(async () => {
  const name = roomName(process.env.ROOM)
  const port = requestedPort('room')
  const pagePort = requestedPort('room', process.env.PAGE_PORT ?? '')
  const plain = isOn('PLAIN')
  await whileRoomIsOpen(name, async () => {
    const files = await buildPage(ROOM_PAGE)
    const terminated = untilTerminated()
    const room = await serveRoom({ name, port, pagePort, plain, files })
    console.log(`Your page, for this machine only: ${room.url}`)
    console.log(`Learners type, in their folder:   make lab-2 ROOM=${room.word}`)
    if (plain)
      console.log(
        'PLAIN=1: what learners send is not encrypted, and others in the network can read and change it.',
      )
    console.log(
      `Ctrl-C closes the room; \`make room ROOM=${name}\` opens it again with everything in it (${roomFolder(name)}).`,
    )
    await terminated
    await room.end()
  })
})
