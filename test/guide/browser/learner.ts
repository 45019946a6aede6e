// What a learner does on the guide's page: goes to a step, answers what it asks, runs its commands,
// has it checked.

import type { Locator, Page } from 'playwright-core'
import { expect } from 'vitest'
import { loadSolution } from '../../../course/lab-solution.ts'
import { readLab } from '../../../grading/lab-definition.ts'
import { timeoutScale } from '../../../host/wait.ts'
import { runAll } from './guide-browser.ts'
import { type Hand, hasFocus, mouse } from './hand.ts'

type Asked = 'predict' | 'question'

/** A learner on one page, in one lab. */
export class PageLearner {
  readonly page: Page
  readonly lab: ReturnType<typeof readLab>
  readonly #hand: Hand
  #typed = 0

  constructor(page: Page, lab: number, hand = mouse) {
    this.page = page
    this.lab = readLab(lab)
    this.#hand = hand
  }

  step(id: string) {
    return this.lab.steps.find((one) => one.id === id)
  }

  /** The state of a step, once the page shows that step. */
  state(id: string): Locator {
    const claim = this.page.locator('.claim', { hasText: `${this.step(id)?.title}.` })
    return this.page.locator('.state', { has: claim })
  }

  passed(id: string): Locator {
    return this.page.locator('.state.good').and(this.state(id))
  }

  /** Chooses a step in the list of steps. */
  async goTo(id: string): Promise<void> {
    const steps = this.page.getByRole('navigation', { name: 'Steps' })
    await this.#hand.press(steps.getByRole('button', { name: this.step(id)?.title }))
    await this.state(id).waitFor()
  }

  /** Shows a terminal, which is opened if there is none, and waits until it has the focus. */
  async showTerminal(name: string): Promise<void> {
    const { page } = this
    await this.#hand.show(page.getByRole('tab', { name: 'Terminals' }))
    const chip = page.getByRole('button', { name, exact: true })
    // The server opens the first one itself.
    await page.locator('.chips button').first().waitFor()
    if ((await chip.count()) === 0) await page.getByLabel('Open a terminal').selectOption(name)
    await this.#hand.press(chip)
    await page.getByRole('button', { name, exact: true, pressed: true }).waitFor()
    await expect.poll(() => hasFocus(page, page.locator('.xterm-helper-textarea'))).toBe(true)
  }

  /**
   * Types a command at the prompt of the first terminal and waits for its end: its exit status, and
   * what is on the screen then.
   */
  async type(command: string): Promise<{ status: number; text: string }> {
    const { page } = this
    await this.showTerminal('host')
    const mark = ++this.#typed
    await page.keyboard.type(`clear; ${command}; echo "<${mark}:$?>"\n`)
    const rows = page.locator('.xterm-rows')
    const ended = new RegExp(`<${mark}:(\\d+)>`)
    await expect.poll(() => rows.textContent(), { timeout: 90_000 * timeoutScale() }).toMatch(ended)
    const text = (await rows.locator('div').allTextContents())
      .map((row) => row.trimEnd())
      .join('\n')
    return { status: Number(ended.exec(text)?.[1]), text }
  }

  /** Has a step checked if it asks for that, and waits until it has passed. */
  async check(id: string): Promise<void> {
    // Its points may have been kept from before, which is shown instead.
    const ready = this.state(id).getByText(/^Ready to be checked|A check sends the requests/)
    const wait = { timeout: 60_000 * timeoutScale() }
    await this.passed(id).or(ready).first().waitFor(wait)
    const passed = this.passed(id).waitFor(wait)
    if (await ready.first().isVisible()) {
      const press = this.#hand.press(this.state(id).getByRole('button', { name: 'Check' }))
      // The step may pass meanwhile, and has no button then.
      press.catch(() => {})
      await Promise.race([press, passed])
    }
    await passed
  }

  /**
   * Runs the commands of the step that is shown, answers what it asks, and runs those that come
   * after.
   */
  async workThrough(id: string, run = () => this.runTask()): Promise<void> {
    await this.state(id).waitFor()
    if (id === 'incident') return this.solve(id)
    await this.answer(id, 'predict')
    await run()
    await this.answer(id, 'question')
    await this.check(id)
    await runAll(this.page, '.seen', this.#hand)
    await runAll(this.page, '.onward', this.#hand)
  }

  runTask(): Promise<void> {
    return runAll(this.page, '.text > :not(.seen, .onward)', this.#hand)
  }

  /**
   * Solves a step whose task is another one for each learner: the reference solution reads which.
   */
  async solve(id: string): Promise<void> {
    await perform(this.page, 'solve', { step: id })
    await this.passed(id).waitFor({ timeout: 120_000 * timeoutScale() })
  }

  /**
   * Answers what the text asks as the reference solution does: a plain answer in the field, one
   * that is read from the nodes by the solution's command in the terminal.
   */
  async answer(id: string, what: Asked): Promise<void> {
    const ask = this.page.locator(`.ask.${what}`)
    if ((await ask.count()) === 0) return
    const { steps } = await loadSolution(this.lab.folder)
    const commands = (steps[id]?.commands ?? []).filter((line) => line.startsWith('make answer '))
    const command = what === 'predict' ? commands[0] : commands.at(-1)
    if (command === undefined) throw new Error(`the solution does not answer step "${id}"`)
    const plain = /\bA='?([^'"$]+)'?$/.exec(command)?.[1]
    if (plain === undefined) {
      await this.showTerminal('host')
      await this.page.keyboard.type(`${command}\n`)
    } else {
      if ((await ask.locator('input[type=radio], input[type=checkbox]').count()) === 0)
        await this.#hand.write(ask.getByRole('textbox'), plain)
      else
        for (const one of plain.split(/, */))
          await this.#hand.choose(ask.getByLabel(one, { exact: true }))
      await this.#hand.press(
        ask.getByRole('button', { name: what === 'predict' ? 'Predict' : 'Answer' }),
      )
    }
    const closed =
      what === 'predict'
        ? ask.getByText('You predicted').first()
        : ask.locator(':scope:not(:has(form))')
    await closed.waitFor({ timeout: 60_000 * timeoutScale() })
  }
}

/** Performs an action of the page as a click would. Resolves to its reply. */
export async function perform(page: Page, name: string, input: object): Promise<unknown> {
  const request = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(input),
  }
  const reply: { error?: string } = await page.evaluate(
    `fetch('/api/${name}', ${JSON.stringify(request)}).then((reply) => reply.json())`,
  )
  if (reply.error !== undefined) throw new Error(`${name}: ${reply.error}`)
  return reply
}
