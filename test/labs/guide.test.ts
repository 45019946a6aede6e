import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { selectCluster } from '../../cluster/select.ts'
import { LabBench } from '../../course/lab-bench.ts'
import type { GuideNote } from '../../course/lab-progress.ts'
import { loadSolution, resetLab } from '../../course/lab-solution.ts'
import { type Fence, parseLabText, readLabText, SEEN } from '../../course/lab-text.ts'
import { FenceShell, learnerEnvironment } from '../../course/lint/fence-shell.ts'
import { typedParts } from '../../course/lint/run-lab.ts'
import { openLab, playSteps } from '../../course/play-lab.ts'
import { type LabDefinition, readLab } from '../../grading/lab-definition.ts'
import { writeNotes } from '../../grading/lab-notes.ts'
import { projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale } from '../../host/wait.ts'
import { GuidePty } from './guide-pty.ts'

const NAME = 'guide-test'

let cluster: Cluster
let shell: FenceShell
let guide: GuidePty

function openGuide(lab: number): GuidePty {
  const { NO_COLOR: _none, CI: _ci, ...env } = learnerEnvironment(NAME)
  return new GuidePty(`make lab-${lab}`, { ...env, TERM: 'xterm', FORCE_COLOR: '1' })
}

/** Runs the commands of a part of a text, and returns their output. */
const type = (markdown: string): Promise<string> => typeAll(parseLabText(markdown, 'text').fences)

async function typeAll(fences: readonly Fence[]): Promise<string> {
  const outputs: string[] = []
  for (const fence of fences) {
    const { exitCode, output } = await shell.type({
      ...fence,
      timeout: fence.timeout * timeoutScale(),
    })
    expect(exitCode, `${fence.commands}\n${output}`).toBe(0)
    outputs.push(output)
  }
  return outputs.join('\n')
}

/** What a learner types at a step, with answers, before its explanation and from there on. */
async function typedAt(lab: LabDefinition, id: string): Promise<{ task: Fence[]; seen: Fence[] }> {
  const lines = readFileSync(join(projectRoot, 'labs', lab.folder, 'README.md'), 'utf8').split('\n')
  const start = lines.indexOf(`<!-- step: ${id} -->`)
  const seenAt = lines.findIndex((line, index) => index > start && line.startsWith(SEEN))
  const next = lines.findIndex((line, index) => index > start && line.startsWith('<!-- step: '))
  const isHere = ({ line }: Fence) => line > start && (next === -1 || line < next)
  // Answers are at the lines of their blockquotes, without a step.
  const typed = typedParts(lab, await loadSolution(lab.folder)).filter(isHere)
  return {
    task: typed.filter(({ line }) => line <= seenAt),
    seen: typed.filter(({ line }) => line > seenAt),
  }
}

/**
 * Works through the text of a step while the guide runs, and returns the output of the task's
 * commands.
 */
async function workOn(number: number, id: string): Promise<string> {
  const lab = readLab(number)
  const { task, seen } = await typedAt(lab, id)
  const at = lab.steps.findIndex((step) => step.id === id)
  await guide.shows(`step ${at + 1} of ${lab.steps.length}`)
  const output = await typeAll(task)
  await guide.showsStatus(
    /already passed|Press Enter to continue|press Enter to send the requests|could not check/,
  )
  guide.type()
  await guide.shows('What you saw.')
  await typeAll(seen)
  guide.type()
  return output
}

beforeAll(async () => {
  cluster = await selectCluster('embedded', NAME)
  await cluster.up(silent)
  shell = new FenceShell(projectRoot, learnerEnvironment(NAME))
})

afterAll(async () => {
  shell?.end()
  guide?.end()
  await cluster?.down(silent)
})

const lines = (text: string, pattern: RegExp) =>
  text.split('\n').filter((line) => pattern.test(line))

/** The counts of the rule that marks packets from outside the Pod network, in the order printed. */
const markedPackets = (output: string): number[] =>
  lines(output, /KUBE-MARK-MASQ.*KUBE-CLUSTER-IP/).map((line) => Number.parseInt(line.trim(), 10))

/**
 * Solves the steps of a lab before one, as a learner who has left the guide there, and sets the
 * variables of their text.
 */
async function solveUntil(number: number, id: string): Promise<void> {
  const lab = readLab(number)
  const before = lab.steps.slice(
    0,
    lab.steps.findIndex((step) => step.id === id),
  )
  const bench = await LabBench.open(cluster, silent)
  await resetLab(lab, bench)
  const outcomes = await playSteps(await openLab(lab, bench), before)
  expect(outcomes.filter(({ verdict }) => verdict !== 'passed')).toEqual([])
  const ids = before.map((step) => step.id)
  const note: GuideNote = { at: id, workedMs: 0, shown: ids, held: [], passed: ids }
  await writeNotes(bench.client, number, { guide: JSON.stringify(note) })
  const fences = readLabText(lab.folder).fences.filter(
    ({ step }) => step === undefined || ids.includes(step),
  )
  await typeAll(fences.filter(({ commands }) => /^(\w+=|eval )/.test(commands)))
}

describe('lab 2 with the guide open, continued at pod-to-service', () => {
  const { steps } = readLab(2)
  const first = steps.findIndex(({ id }) => id === 'pod-to-service')
  const outputs = new Map<string, string>()

  // The commands of all its steps are typed where the page's Run button is tested.
  beforeAll(async () => {
    await solveUntil(2, 'pod-to-service')
    guide = openGuide(2)
  })

  test.each(steps.slice(first))('$id', async ({ id }) => {
    outputs.set(id, await workOn(2, id))
    if (id !== 'conntrack') return
    // kube-proxy may have rewritten its chains between the two looks, as it does at every sync. The
    // text says what to do: another request. After the last step, the guide's grading sends more.
    const [before = 0, after = 0] = markedPackets(outputs.get(id) ?? '')
    if (after > before) return
    const { task } = await typedAt(readLab(2), id)
    outputs.set(id, await typeAll(task.filter(({ commands }) => commands.includes('LOOK='))))
  })

  test('IPVS, conntrack and the log contain only the request of its text', () => {
    const output = outputs.get('pod-to-service') ?? ''
    expect(lines(output, /^TCP .*10\.96\./)).toHaveLength(1)
    expect(lines(output, /^tcp .*10\.96\./)).toHaveLength(1)
    expect(lines(output, /"GET/)).toHaveLength(1)
  })

  test("the logs contain the four requests of masquerade's text", () => {
    expect(lines(outputs.get('masquerade') ?? '', /"GET/)).toHaveLength(4)
  })

  test('at conntrack the rule counts one packet, and IPVS lists one more connection', () => {
    const output = outputs.get('conntrack') ?? ''
    const listed = lines(output, /^\d+$/).map(Number)
    for (const [earlier = 0, later = 0] of [markedPackets(output), listed])
      expect(later - earlier, output).toBe(1)
  })

  test('the guide ends with the score, and make without an error', async () => {
    // The last of what the end prints, after the score and the card.
    const end = await guide.shows('make submit')
    expect(end).toContain(`${steps.length} of ${steps.length} steps passed`)
    expect(end).toContain('100/100 points')
    expect(end).toContain('Passed unseen: none.')
    await type(readLabText('02-ipvs').outro)
    guide.type()
    expect(await guide.exitCode()).toBe(0)
    expect(guide.output).not.toContain('make: ***')
    // Nothing but colours: no cursor is moved, no line cleared. Before the first step, progress is
    // shown in one line.
    const fromStep = guide.output.slice(guide.output.indexOf(`step ${first + 1} of`))
    expect(fromStep.replace(/\x1b\[[\d;]*m/g, '')).not.toContain('\x1b')
  })
})

describe('lab 4 with the guide open', () => {
  beforeAll(async () => {
    guide = openGuide(4)
    await guide.shows('Press Enter to start.')
    await type(readLabText('04-lvs').intro)
    guide.type()
    await workOn(4, 'stage')
  })

  test('IPVS lists only the pending request of its text', async () => {
    const output = await workOn(4, 'virtual-server')
    expect(lines(output, /SYN_RECV/)).toHaveLength(1)
  })

  test('the four chains of hooks have counted one packet each', async () => {
    const output = await workOn(4, 'hooks')
    const counts = lines(output, /lab-4/).map((line) => Number.parseInt(line.trim(), 10))
    expect(counts).toEqual([1, 1, 0, 1, 1])
  })

  test('q quits, and the guide resumes at this step', async () => {
    const { steps } = readLab(4)
    const next = `step ${steps.findIndex(({ id }) => id === 'hooks') + 2} of ${steps.length}`
    await guide.shows(next)
    guide.type('q')
    expect(await guide.exitCode()).toBe(0)
    guide = openGuide(4)
    await guide.shows(next)
  })
})
