import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { runOnNode } from '../../cluster/node-script.ts'
import { selectCluster } from '../../cluster/select.ts'
import { takeCapture } from '../../cluster/snapshot.ts'
import { LabBench } from '../../course/lab-bench.ts'
import { type LabSolution, loadSolution, resetLab } from '../../course/lab-solution.ts'
import { playSteps } from '../../course/play-lab.ts'
import type { LabSpec } from '../../grading/check-context.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { type LabDefinition, readLab } from '../../grading/lab-definition.ts'
import { openCluster } from '../../grading/live-cluster.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { silent } from '../../host/progress.ts'
import { alteredCluster } from '../altered-cluster.ts'

/**
 * What the tests of one lab have for themselves: its parts and, from the first test on, an embedded
 * cluster of their own.
 */
export class LabTest {
  readonly lab: LabDefinition
  readonly spec: LabSpec
  readonly solution: LabSolution
  /** The steps that ask a question. */
  readonly questions: string[]
  /** Those of them that any text can answer. */
  readonly openQuestions: string[]
  cluster!: Cluster
  bench!: LabBench
  source!: Awaited<ReturnType<typeof openCluster>>

  private constructor(lab: LabDefinition, spec: LabSpec, solution: LabSolution) {
    this.lab = lab
    this.spec = spec
    this.solution = solution
    this.questions = lab.steps.filter(({ question }) => question !== undefined).map(({ id }) => id)
    this.openQuestions = lab.steps
      .filter(({ question }) => question?.choices.length === 0)
      .map(({ id }) => id)
  }

  /**
   * Registers that an embedded cluster is booted before the tests of this file, brought to the
   * lab's starting state unless `asBooted`, and gone after them.
   */
  static async of(number: number, { asBooted = false } = {}): Promise<LabTest> {
    const lab = readLab(number)
    const own = new LabTest(lab, await loadSpec(lab), await loadSolution(lab.folder))
    beforeAll(async () => {
      own.cluster = await selectCluster('embedded', `lab-${number}-test`, { lab })
      await own.cluster.up(silent)
      own.bench = await LabBench.open(own.cluster, silent)
      own.source = await openCluster(own.cluster)
      if (!asBooted) await resetLab(lab, own.bench)
      await syncOnlyOnChange(own.bench)
    })
    afterAll(async () => {
      await own.cluster?.down(silent)
    })
    return own
  }

  snapshot(): Promise<Snapshot> {
    return this.source.snapshot()
  }

  /** A snapshot of these nodes alone, which is taken faster. */
  async snapshotOf(nodes: readonly string[]): Promise<Snapshot> {
    const seen = alteredCluster(this.cluster, { nodes: async () => [...nodes] })
    return new Snapshot(await takeCapture(seen, this.bench.client))
  }

  /** Judges a step alone, once: a step must not pass, or fail, because of the others. */
  async judged(id: string, snapshot?: Snapshot): Promise<StepOutcome | undefined> {
    return (
      await judgeRound(this.spec, snapshot ?? (await this.snapshot()), this.source.live, [id])
    )[0]
  }

  /** Expects that no step passes, all together and each alone. */
  async expectUnsolved(verdictOf: (id: string) => string = () => 'failed'): Promise<void> {
    const snapshot = await this.snapshot()
    const outcomes = await judgeRound(this.spec, snapshot, this.source.live)
    expect(
      outcomes.filter(({ verdict }) => verdict === 'passed' || verdict === 'could not check'),
    ).toEqual([])
    for (const { id } of this.lab.steps)
      expect((await this.judged(id, snapshot))?.verdict, id).toBe(verdictOf(id))
  }

  /**
   * Plays the reference solution and expects that every step passes, one by one and all together.
   * Returns the snapshot of the end.
   */
  async expectSolved(): Promise<Snapshot> {
    const { lab, spec, source } = this
    expect(verdictsOf(await playSteps(this, lab.steps))).toEqual(passed(lab.steps))
    const { outcomes, snapshot } = await judge(spec, source)
    expect(verdictsOf(outcomes)).toEqual(passed(lab.steps))
    return snapshot
  }

  /**
   * Breaks something on a node, does some work, and puts back what was broken: by default the
   * tables of iptables.
   */
  async whileBroken<Result>(
    node: string,
    script: string,
    work: () => Promise<Result>,
    { save = 'iptables-save -c', repair = RESTORE }: { save?: string; repair?: string } = {},
  ): Promise<Result> {
    await this.#onNode(node, `${save} >/run/tables; ${script}`)
    try {
      return await work()
    } finally {
      await this.#onNode(node, repair)
    }
  }

  /**
   * Runs a script on a node in a shell that waits there, which takes a tenth of the time of
   * `make exec`.
   */
  async #onNode(node: string, script: string): Promise<void> {
    const { exitCode, stderr } = await runOnNode(this.cluster, node, script)
    if (exitCode !== 0)
      throw new Error(`"${script}" ended with ${exitCode} on ${node}: ${stderr.trim()}`)
  }
}

/** Shell text: puts back the tables of iptables that `whileBroken` has saved. */
export const RESTORE = 'iptables-restore -c </run/tables'

/**
 * Registers the test that a lab's steps fail before they are solved, questions with a wrong answer.
 */
export const testUnsolved = (own: LabTest, wrongAnswer?: string): void =>
  test('unsolved: no step passes, alone or with the others, nor does a question with a wrong answer', async () => {
    if (wrongAnswer !== undefined)
      for (const id of own.openQuestions) await own.bench.answer(own.lab.number, id, wrongAnswer)
    await own.expectUnsolved()
  })

/**
 * Has each kube-proxy that starts from now on sync only when an object changes (`syncPeriod`, 30 s
 * by default): a periodic sync repairs what a test has just broken.
 */
export const syncOnlyOnChange = (bench: LabBench): Promise<void> =>
  bench.editKubeProxyConfig((text) => text.replaceAll(/syncPeriod: 0s/g, 'syncPeriod: 1h'))

/** Verdict and reason by step, to be compared. */
export const verdictsOf = (outcomes: readonly StepOutcome[]) =>
  Object.fromEntries(
    outcomes.map(({ id, verdict, reason, failure }) => [
      id,
      [verdict, reason ?? failure?.actual ?? ''],
    ]),
  )

/** The verdicts of these steps when all of them pass. */
export const passed = (steps: readonly { id: string }[]) =>
  Object.fromEntries(steps.map(({ id }) => [id, ['passed', '']]))
