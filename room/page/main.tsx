import './page.css'
import { render } from 'preact'
import { installPalettes } from '../../guide/page/theme.ts'
import { RoomApp } from './room-app.tsx'
import { connectRoom, roomNow, whenRoomChanges } from './room-store.ts'

/** Minutes on the tiles, timers and the order of the tiles change without a push. */
const CLOCK_MS = 1000

installPalettes()
const page = document.getElementById('page')
if (page) {
  let isAsked = false
  const draw = () => {
    isAsked = false
    render(<RoomApp state={roomNow()} />, page)
  }
  const ask = () => {
    if (!isAsked) requestAnimationFrame(draw)
    isAsked = true
  }
  whenRoomChanges(ask)
  setInterval(ask, CLOCK_MS)
  draw()
  connectRoom()
}
