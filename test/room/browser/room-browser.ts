import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import type { Browser, Page } from 'playwright-core'
import { projectRoot, START } from '../../../host/layout.ts'
import { createProgress } from '../../../host/progress.ts'
import { timeoutScale, waitFor } from '../../../host/wait.ts'
import { roomFolder } from '../../../room/server/room-files.ts'
import { startChromium } from '../../../slides/build/chromium.ts'

/** `make room` on this machine, and a browser that looks at it. */
export class RoomBrowser {
  readonly name: string
  readonly browser: Browser
  #process: ChildProcess | undefined
  word = ''
  url = ''
  readonly complaints: string[] = []

  private constructor(name: string, browser: Browser) {
    this.name = name
    this.browser = browser
  }

  /** Opens a new room of this name. */
  static async open(name: string): Promise<RoomBrowser> {
    rmSync(roomFolder(name), { recursive: true, force: true })
    const opened = new RoomBrowser(name, await startChromium(createProgress()))
    await opened.start()
    return opened
  }

  /**
   * Starts the room, again after it was killed; its page has another address then, unless
   * `pagePort` is given.
   */
  async start(): Promise<void> {
    const env = { ...process.env, ROOM: this.name, HOST: '127.0.0.1', NO_COLOR: '1' }
    const room = spawn(process.execPath, [START, 'scripts/room.ts'], {
      cwd: projectRoot,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#process = room
    let printed = ''
    room.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
    this.url = await waitFor(
      'the address of the room’s page',
      60_000,
      async () => /http:\S+/.exec(printed)?.[0],
    )
    this.word = await waitFor('the word', 10_000, async () => /ROOM=(https:\S+)/.exec(printed)?.[1])
  }

  /** The process of the room. */
  get process(): ChildProcess {
    if (!this.#process) throw new Error('The room was not started.')
    return this.#process
  }

  /** Ends the room at once, without a message to anyone. */
  async kill(): Promise<void> {
    this.process.kill('SIGKILL')
    await once(this.process, 'exit')
  }

  /** A window with the instructor's page. */
  async page(options: Parameters<Browser['newContext']>[0] = {}): Promise<Page> {
    const viewport = { width: 1366, height: 768 }
    const context = await this.browser.newContext({ viewport, ...options })
    const page = await context.newPage()
    page.setDefaultTimeout(20_000 * timeoutScale())
    page.on('pageerror', (error) => this.complaints.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error') this.complaints.push(message.text())
    })
    await page.goto(this.url)
    return page
  }

  async end(): Promise<void> {
    await this.browser.close()
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill('SIGINT')
      await once(this.process, 'exit')
    }
    rmSync(roomFolder(this.name), { recursive: true, force: true })
  }
}
