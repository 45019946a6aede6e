#!/usr/bin/env node
// Firefox 140 (Debian's) for a Playwright that asks for commands of Firefox 143: passes WebDriver BiDi on, and answers those that only
// collect the bodies of responses. FIREFOX: the program. Ends with it.

import { spawn } from 'node:child_process'
import { WebSocket, WebSocketServer } from 'ws'

const NEWER =
  /^(?:network\.(?:add|remove)DataCollector|browser\.setDownloadBehavior|emulation\.\w+)$/
const LISTENING = /WebDriver BiDi listening on (ws:\/\/\S+)/

const firefox = spawn(process.env.FIREFOX ?? 'firefox-esr', process.argv.slice(2), {
  stdio: ['ignore', 'inherit', 'pipe'],
})
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => firefox.kill(signal))
firefox.on('exit', (code) => process.exit(code ?? 1))

// Playwright connects to the first address that it reads.
let text = ''
firefox.stderr.on('data', (data) => {
  if (text === undefined) return process.stderr.write(data)
  text += data
  const [, url] = LISTENING.exec(text) ?? []
  if (url === undefined) return
  text = undefined
  passOn(url)
})

function passOn(url) {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  server.on('listening', () =>
    process.stderr.write(`WebDriver BiDi listening on ws://127.0.0.1:${server.address().port}\n`),
  )
  server.on('connection', (client, { url: path }) => {
    const browser = new WebSocket(new URL(path, url), { perMessageDeflate: false })
    const waiting = []
    const send = (message) =>
      browser.readyState === WebSocket.OPEN ? browser.send(message) : waiting.push(message)
    browser.on('open', () => {
      for (const message of waiting) browser.send(message)
    })
    browser.on('message', (data) => client.send(String(data)))
    browser.on('close', () => client.close())
    client.on('close', () => browser.close())
    client.on('message', (data) => {
      const { id, method } = JSON.parse(String(data))
      if (!NEWER.test(method)) return send(String(data))
      client.send(JSON.stringify({ type: 'success', id, result: { collector: 'none' } }))
    })
  })
}
