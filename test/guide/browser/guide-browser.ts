import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import axe from 'axe-core'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import type { Cluster } from '../../../cluster/driver.ts'
import { selectCluster } from '../../../cluster/select.ts'
import { LabBench } from '../../../course/lab-bench.ts'
import { learnerEnvironment } from '../../../course/lint/fence-shell.ts'
import { openCluster } from '../../../grading/live-cluster.ts'
import { projectRoot, START } from '../../../host/layout.ts'
import { createProgress, silent } from '../../../host/progress.ts'
import { timeoutScale, waitFor } from '../../../host/wait.ts'
import { startChromium } from '../../../slides/build/chromium.ts'
import { syncOnlyOnChange } from '../../labs/own-cluster.ts'
import { type Hand, mouse } from './hand.ts'

const WIDE = { width: 1440, height: 900 }

type ContextOptions = Parameters<Browser['newContext']>[0]
type Cookies = Awaited<ReturnType<BrowserContext['cookies']>>

/** `make guide` on a cluster of its own, and a browser that looks at it. */
export class GuideBrowser {
  readonly cluster: Cluster
  /** The process of `make guide`. */
  readonly process: ChildProcess
  readonly url: string
  readonly #browser: Browser
  readonly #cookies: Cookies
  /** What the pages complained about in the browser's console. */
  readonly complaints: string[] = []

  private constructor(
    cluster: Cluster,
    browser: Browser,
    guide: ChildProcess,
    url: string,
    cookies: Cookies,
  ) {
    this.cluster = cluster
    this.#browser = browser
    this.process = guide
    this.url = url
    this.#cookies = cookies
  }

  /** `more` is added to the environment of `make guide`. */
  static async open(
    name: string,
    lab: number,
    more: NodeJS.ProcessEnv = {},
    startBrowser = startChromium,
  ): Promise<GuideBrowser> {
    const browser = await startBrowser(createProgress())
    const cluster = await selectCluster('embedded', name)
    const env = { ...learnerEnvironment(name), LAB: String(lab), ...more }
    const guide = spawn(process.execPath, [START, 'scripts/guide.ts'], {
      cwd: projectRoot,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let printed = ''
    guide.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
    const url = await waitFor(
      'the address of the guide',
      120_000,
      async () => /http:\S+/.exec(printed)?.[0],
    )
    await syncOnlyOnChange(new LabBench(cluster, (await openCluster(cluster)).live.client, silent))
    // The printed address works once for each browser; other windows of it share its cookie.
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(url)
    const opened = new GuideBrowser(
      cluster,
      browser,
      guide,
      new URL(url).origin,
      await context.cookies(),
    )
    await context.close()
    return opened
  }

  /** A window with the page; `prepare` is called before it is loaded. */
  async page(
    options: ContextOptions = {},
    prepare = async (_page: Page): Promise<void> => {},
  ): Promise<Page> {
    const context = await this.#browser.newContext({
      viewport: WIDE,
      reducedMotion: 'reduce',
      ...options,
    })
    await context.addCookies(this.#cookies)
    const page = await context.newPage()
    page.setDefaultTimeout(20_000 * timeoutScale())
    page.on('pageerror', (error) => this.complaints.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error') this.complaints.push(message.text())
    })
    page.on('dialog', (dialog) => this.complaints.push(dialog.message()))
    await prepare(page)
    await page.goto(this.url)
    return page
  }

  /**
   * Runs a command on a node, as another terminal would. Throws Error with what it printed when it
   * fails.
   */
  async onNode(node: string, script: string): Promise<string> {
    const { exitCode, stdout, stderr } = await this.cluster.exec(node, ['bash', '-c', script])
    if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode}: ${stderr}`)
    return stdout
  }

  /** Ends the guide as Ctrl-C does. Returns its exit code. */
  async stop(): Promise<number | null> {
    if (this.process.exitCode === null) {
      this.process.kill('SIGINT')
      await once(this.process, 'exit')
    }
    return this.process.exitCode
  }

  async end(): Promise<void> {
    await this.#browser.close()
    await this.stop()
    await this.cluster.down(silent)
  }
}

/** Presses Run of every command in a part of the text, each when the one before is done. */
export async function runAll(page: Page, part: string, hand: Hand = mouse): Promise<void> {
  const buttons = page.locator(`${part} button.run`)
  const count = await buttons.count()
  for (let index = 0; index < count; index++) {
    await hand.press(buttons.nth(index))
    await buttons
      .nth(index)
      .filter({ hasText: 'Run again' })
      .waitFor({ timeout: 120_000 * timeoutScale() })
  }
}

/**
 * What axe-core finds in a part of a page, as it is now: a line each. `rules` are all if absent.
 */
export async function findViolations(
  page: Page,
  part = ':root',
  rules?: readonly string[],
): Promise<string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe.source)
  return page.evaluate<string[]>(
    `axe.run(${JSON.stringify(part)}, ${JSON.stringify(rules ? { runOnly: rules } : {})}).then((found) => found.violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ": " + html)))`,
  )
}
