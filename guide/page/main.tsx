import '@xterm/xterm/css/xterm.css'
import './page.css'
import { render } from 'preact'
import { App } from './app.tsx'
import { keepConnected } from './connection.ts'
import { keepFocus } from './focus.ts'
import { applyWidth } from './layout.tsx'
import { now, onChange } from './store.ts'
import { installPalettes } from './theme.ts'

installPalettes()
applyWidth()
const page = document.getElementById('page')
if (page) {
  let isAsked = false
  const draw = () => {
    isAsked = false
    render(<App state={now()} />, page)
  }
  onChange(() => {
    if (!isAsked) requestAnimationFrame(draw)
    isAsked = true
  })
  draw()
  keepFocus(page)
  keepConnected()
}
