import { spawn } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { chalk } from 'zx/core'
import { kubectlPath } from '../cluster/kubectl.ts'
import type { LabSpec } from '../grading/check-context.ts'
import type { StepOutcome } from '../grading/failure.ts'
import { judge, judgeRound, type Source } from '../grading/judge.ts'
import type { StepDefinition } from '../grading/lab-definition.ts'
import { failureLines, measuredLines, outcomeLine } from '../grading/learner-report.ts'
import { personalise } from '../grading/variant.ts'
import { projectRoot } from '../host/layout.ts'
import type { LabBench, LabSolution } from './lab-bench.ts'
import { readLabText } from './lab-text.ts'
import { playSteps } from './play-lab.ts'
import { askLine, type Key, nextKey } from './terminal-keys.ts'

/** So often the open step is looked at while the learner works in another terminal. */
const LOOK_EVERY_MS = 3000
/** Where the part of a section begins that is told afterwards. */
const SEEN = '**What you saw.**'
const ANSWER_KEY = '[a]nswer  '
const KEYS = '[c]heck now  [h]int  [s]olve it  s[k]ip  [t]erminal  [r]ead again  [q]uit'

type Decision = 'passed' | 'next' | 'quit'

/** Leads a learner at a terminal through a lab. Progress is what the cluster holds; nothing is kept beside it. */
export class LabSession {
  readonly #spec: LabSpec
  readonly #solution: LabSolution
  readonly #bench: LabBench
  readonly #source: Source
  readonly #sections: ReadonlyMap<string, string>
  #hintsShown = 0

  constructor(spec: LabSpec, solution: LabSolution, bench: LabBench, source: Source) {
    this.#spec = spec
    this.#solution = solution
    this.#bench = bench
    this.#source = source
    this.#sections = readLabText(spec.lab.folder).sections
  }

  /** Runs until every step has passed (0) or the learner leaves (1). */
  async run(): Promise<number> {
    const { lab } = this.#spec
    const leave = () => {
      console.log(`\nSee you. \`make lab-${lab.number}\` goes on here.`)
      process.exit(130)
    }
    process.once('SIGINT', leave)
    console.log(chalk.bold(`\nLab ${lab.number}: ${lab.title}`) + chalk.dim(`  about ${lab.minutes} minutes`))
    console.log('Work in a second terminal, in this folder. Begin there with:  eval "$(make -s env)"')
    const skipped = new Set<string>()
    for (;;) {
      const step = await this.#firstOpenStep(skipped)
      if (!step) break
      this.#hintsShown = 0
      this.#show(step)
      const decision = await this.#workOn(step, skipped)
      if (decision === 'passed') this.#debrief(step)
      if (decision === 'quit') {
        console.log(`\nSee you. \`make lab-${lab.number}\` goes on here.`)
        return 1
      }
    }
    if (skipped.size === 0) console.log(chalk.green(`\nEvery step of lab ${lab.number} has passed. Well done!`))
    else console.log(`\nThat was the last step. Skipped: ${[...skipped].join(', ')}.`)
    return skipped.size === 0 ? 0 : 1
  }

  async #firstOpenStep(skipped: ReadonlySet<string>): Promise<StepDefinition | undefined> {
    const { outcomes } = await judge(this.#spec, this.#source)
    const done = new Set(outcomes.filter(isDone).map(({ id }) => id))
    const passed = this.#spec.lab.steps.filter(({ id }) => done.has(id)).length
    console.log(chalk.dim(`\n${passed} of ${this.#spec.lab.steps.length} steps have passed.`))
    return this.#spec.lab.steps.find(({ id }) => !done.has(id) && !skipped.has(id))
  }

  #show(step: StepDefinition): void {
    const [task = step.title] = this.#partsOf(step)
    console.log(`\n${paint(task)}\n`)
    console.log(`${chalk.bold('Done when:')} ${step.title}`)
    if (step.question !== undefined) console.log(`${chalk.bold('Question:')} ${step.question}`)
    console.log(
      chalk.dim(`${step.question === undefined ? '' : ANSWER_KEY}${KEYS}  (it is checked by itself every few seconds)`),
    )
  }

  /** What the step showed, and what is to be tidied up; told when it has passed. */
  #debrief(step: StepDefinition): void {
    const [, seen] = this.#partsOf(step)
    if (seen) console.log(`\n${paint(SEEN + seen)}`)
  }

  #partsOf({ id }: StepDefinition): string[] {
    const section = this.#sections.get(id)
    const at = section?.indexOf(SEEN) ?? -1
    if (section === undefined) return []
    const parts = at === -1 ? [section] : [section.slice(0, at).trim(), section.slice(at + SEEN.length)]
    return parts.map((part) => personalise(part, this.#bench.variant))
  }

  /** Waits for a key or for the step to pass, whichever comes first. */
  async #workOn(step: StepDefinition, skipped: Set<string>): Promise<Decision> {
    for (;;) {
      const event = await this.#nextEvent(step)
      if (event === 'passed') return 'passed'
      if (event === 'q') return 'quit'
      if (event === 'k') {
        skipped.add(step.id)
        return 'next'
      }
      if (event === 'a' && (await this.#answer(step))) return 'passed'
      if (event === 'c' && (await this.#check(step))) return 'passed'
      if (event === 'h') this.#hint(step)
      if (event === 'r') this.#show(step)
      if (event === 't') await this.#terminal()
      if (event === 's') {
        const played = await playSteps(this.#spec, this.#solution, this.#bench, this.#source, [step])
        return played.every(isDone) ? 'passed' : 'next'
      }
    }
  }

  async #nextEvent(step: StepDefinition): Promise<Key | 'passed'> {
    const stop = new AbortController()
    const key = nextKey(stop.signal)
    const passed = this.#watch(step, stop.signal)
    try {
      return await Promise.race([key, passed])
    } finally {
      stop.abort()
    }
  }

  /** Resolves when the step has passed; never on trouble, which `c` shows. */
  async #watch(step: StepDefinition, signal: AbortSignal): Promise<'passed'> {
    for (;;) {
      await pause(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return new Promise(() => undefined)
      const outcome = await this.#look(step).catch(() => undefined)
      if (signal.aborted || outcome?.verdict !== 'passed') continue
      console.log([outcomeLine(outcome, step), ...measuredLines(outcome)].join('\n'))
      return 'passed'
    }
  }

  async #look(step: StepDefinition): Promise<StepOutcome | undefined> {
    const snapshot = await this.#source.snapshot()
    return (await judgeRound(this.#spec, snapshot, this.#source.live, [step.id]))[0]
  }

  async #check(step: StepDefinition): Promise<boolean> {
    try {
      const { outcomes } = await judge(this.#spec, this.#source, { only: [step.id] })
      const outcome = outcomes[0]
      if (!outcome) return false
      console.log([outcomeLine(outcome, step), ...measuredLines(outcome)].join('\n'))
      for (const line of failureLines(this.#spec.lab.number, step, outcome)) console.log(line)
      return isDone(outcome)
    } catch (error) {
      console.log(`! could not check: ${error instanceof Error ? error.message : error}`)
      return false
    }
  }

  /** Asks for a line, keeps it and grades it. */
  async #answer(step: StepDefinition): Promise<boolean> {
    if (step.question === undefined) {
      console.log('This step asks nothing: [c] checks it.')
      return false
    }
    const text = await askLine(`${step.question}\n> `)
    if (text.trim() === '') return false
    try {
      await this.#bench.answer(this.#spec.lab.number, step.id, text)
    } catch (error) {
      console.log(error instanceof Error ? error.message : String(error))
      return false
    }
    return this.#check(step)
  }

  #hint({ hints }: StepDefinition): void {
    const tier = Math.min(this.#hintsShown, hints.length - 1)
    console.log(`Hint ${tier + 1} of ${hints.length}: ${personalise(hints[tier] ?? '', this.#bench.variant)}`)
    this.#hintsShown = tier + 1
  }

  /** The learner's own shell, with kubectl pointed at the lab's cluster. */
  async #terminal(): Promise<void> {
    const kubectl = await kubectlPath(this.#bench.progress)
    const env = {
      ...process.env,
      KUBECONFIG: this.#bench.cluster.kubeconfig,
      PATH: `${kubectl.folder}:${process.env.PATH}`,
    }
    console.log('A shell for you; exit brings you back here.')
    await new Promise<void>((resolve) => {
      const shell = spawn(process.env.SHELL || 'sh', [], { stdio: 'inherit', cwd: projectRoot, env })
      shell.on('error', () => resolve())
      shell.on('exit', () => resolve())
    })
  }
}

const isDone = ({ verdict }: StepOutcome) => verdict === 'passed' || verdict === 'not applicable'

function paint(text: string): string {
  return text.split('\n').map(paintLine).join('\n')
}

function paintLine(line: string): string {
  if (line.startsWith('## ')) return chalk.bold(line.slice(3))
  return line.startsWith('```') ? chalk.dim('  ──') : line
}
