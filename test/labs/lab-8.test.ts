// Lab 8 on one embedded cluster: each incident shows its symptom, a wrong fix is refused, the right
// one passes.

import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { runOnNode } from '../../cluster/node-script.ts'
import { beginExam, nextOfExam, readExam } from '../../course/incident/exam.ts'
import type { Exam } from '../../course/incident/exam-note.ts'
import type { Incident } from '../../course/incident/incident.ts'
import {
  GUESS_PREFIX,
  HISTORY_KEY,
  INCIDENT_KEY,
  type IncidentNote,
  solvedMark,
  unseal,
} from '../../course/incident/incident-note.ts'
import { laterSync } from '../../course/incident/later-sync.ts'
import { currentNote, latestIncident, openNext } from '../../course/incident/open.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import { LabBench } from '../../course/lab-bench.ts'
import { endIncidentsOfOthers, resetLab } from '../../course/lab-solution.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { notesName, readConfigMap, writeNotes } from '../../grading/lab-notes.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'
import { incidents } from '../../labs/08-incidents/incidents/all.ts'
import { keyFacts } from '../../labs/08-incidents/incidents/key-facts.ts'
import { alteredCluster } from '../altered-cluster.ts'
import { wrongFixes } from './lab-8-wrong-fixes.ts'
import { LabTest } from './own-cluster.ts'

const own = await LabTest.of(INCIDENT_LAB, { asBooted: true })
const { lab, spec } = own
const repairSteps = ['report', 'cause', 'rules', 'whole']

/** The verdicts on one snapshot, without waiting. */
async function verdicts(only = repairSteps): Promise<Record<string, string>> {
  const outcomes = await judgeRound(spec, await own.snapshot(), own.source.live, only)
  return Object.fromEntries(
    outcomes.map(({ id, verdict, failure, reason }) => [
      id,
      verdict === 'passed' ? verdict : `${verdict}: ${failure?.actual ?? reason}`,
    ]),
  )
}

/** Plays an incident from its report to its debrief. */
async function playThrough(incident: Incident): Promise<void> {
  const note = await openNext(own.bench, { seed: 'test', id: incident.id })
  const secret = unseal(note.sealed)
  if (!secret) throw new Error('the note can not be read')
  const { environment } = secret
  expect(note.report).not.toContain(incident.id)
  expect(note.choices).toContain(incident.id)

  const unsolved = await verdicts()
  expect(unsolved.report, 'the symptom appears').toMatch(/^failed/)
  expect(unsolved.cause, 'the cause is present').toMatch(/^failed/)

  for (const wrong of wrongFixes[incident.id] ?? []) {
    await wrong.play(own.bench, environment)
    const { outcomes } = await judge(spec, own.source, { only: repairSteps, patienceMs: 6000 })
    const passed = outcomes.filter(({ verdict }) => verdict === 'passed').map(({ id }) => id)
    expect(passed.length, `refused: ${wrong.what}`).toBeLessThan(repairSteps.length)
    await wrong.undo?.(own.bench, environment)
  }

  await incident.fix(environment).play?.(own.bench)
  await own.bench.answer(INCIDENT_LAB, 'diagnosis', incident.id)
  let last = {}
  const solved = Object.fromEntries(lab.steps.map(({ id }) => [id, 'passed']))
  await waitFor('the right fix to pass', 20_000, async () => {
    last = await verdicts(lab.steps.map(({ id }) => id))
    return Object.values(last).every((verdict) => verdict === 'passed')
  }).catch(() => undefined)
  expect(last).toEqual(solved)
}

test('unsolved: no step passes while nothing is open', async () => {
  await resetLab(lab, own.bench)
  expect(
    Object.values(await verdicts(lab.steps.map(({ id }) => id))).map((text) => text.split(':')[0]),
  ).toEqual(['failed', 'failed', 'failed', 'not yet', 'not yet'])
})

/**
 * All of them by `make test-incidents`; else a quarter of each mode's, another one with each SEED.
 */
const { SEED, INCIDENTS } = process.env
const first = SEED
  ? Number.parseInt(createHash('sha256').update(SEED).digest('hex').slice(0, 8), 16)
  : 0
const chosen = incidents.filter(
  (_incident, index) => INCIDENTS === 'all' || (index + first) % 4 === 0,
)

test('every incident has a wrong fix, which must be refused', () => {
  expect(Object.keys(wrongFixes).sort()).toEqual(incidents.map(({ id }) => id).sort())
})

describe('each incident appears, a wrong fix is refused and the right one passes', () => {
  test.each(chosen.map((incident) => [incident.id, incident] as const))(
    '%s',
    async (_id, incident) => playThrough(incident),
  )
})

describe('one open incident', () => {
  let note: IncidentNote
  beforeAll(async () => {
    note = await openNext(own.bench, { seed: 'test', id: 'untracked' })
  })

  test('only a cause of the list is a diagnosis, and a wrong one reports its cost', async () => {
    const { choices, sealed } = note
    const wrong = choices.find((id) => id !== unseal(sealed)?.id) ?? ''
    const guesses = async () => {
      const { data } = await own.bench.client.core.readNamespacedConfigMap({
        namespace: 'default',
        name: 'lab-8',
      })
      return Object.keys(data ?? {}).filter((key) => key.startsWith(GUESS_PREFIX)).length
    }
    for (const [text, found, counted] of [
      ['masquerade', /which is not on the list; it costs nothing/, 0],
      [wrong, /costs 5 of the step's points/, 1],
      [`"${wrong.toUpperCase()}"`, /costs 5 of the step's points/, 1],
    ] as const) {
      await own.bench.answer(INCIDENT_LAB, 'diagnosis', text)
      expect((await verdicts(['diagnosis'])).diagnosis).toMatch(found)
      expect(await guesses()).toBe(counted)
    }
    const [told] = await judgeRound(spec, await own.snapshot(), own.source.live, ['diagnosis'])
    expect(told?.failure?.why).toBe(incidents.find(({ id }) => id === wrong)?.sign)
    await own.bench.answer(INCIDENT_LAB, 'diagnosis', unseal(sealed)?.id ?? '')
    const outcomes = await judgeRound(spec, await own.snapshot(), own.source.live, ['diagnosis'])
    expect(outcomes).toMatchObject([{ id: 'diagnosis', verdict: 'passed', cost: 5 }])
  })

  test('an incident that disappeared without a repair gives no points, and `make flush-nat` is a repair', async () => {
    const { node = '', shop } = unseal(note.sealed)?.environment ?? {}
    // As kube-proxy would, without a command that the cluster records.
    await runOnNode(
      own.cluster,
      node,
      `iptables -t raw -D PREROUTING -d ${shop} -p tcp -j CT --notrack`,
    )
    for (const verdict of Object.values(
      await verdicts(['report', 'cause', 'rules', 'whole']),
    ).slice(0, 2))
      expect(verdict).toMatch(/^failed: there was no repair/)
    await runOnNode(own.cluster, node, 'ipset create KUBE-CLUSTER-IP hash:ip,port')
    await own.bench.flush()
    expect(await verdicts(repairSteps)).toEqual(
      Object.fromEntries(repairSteps.map((id) => [id, 'passed'])),
    )
  })

  test('stays open when the next one that is requested cannot run here', async () => {
    const { capabilities } = own.cluster
    const kept = async () =>
      (await readConfigMap(own.bench.client, notesName(INCIDENT_LAB)))?.[INCIDENT_KEY]
    const before = await kept()
    expect(before).toContain(note.sealed)
    const inside = alteredCluster(own.cluster, {
      capabilities: { ...capabilities, hasOutside: false },
    })
    const bench = await LabBench.open(inside, silent)
    await expect(openNext(bench, { id: 'source-ranges' })).rejects.toThrow(
      `The incident "source-ranges" can't run on this cluster`,
    )
    expect(await kept()).toBe(before)
  })

  test('remains solved if the next one cannot be started', async () => {
    const apply = vi.spyOn(own.bench, 'apply').mockRejectedValueOnce(new Error('no shop'))
    await expect(openNext(own.bench, { seed: 'test' })).rejects.toThrow('no shop')
    apply.mockRestore()
    const notes = await readConfigMap(own.bench.client, notesName(INCIDENT_LAB))
    expect(JSON.parse(notes?.[HISTORY_KEY] ?? '[]')).toContain(solvedMark('untracked'))
  })
})

describe('an exam without a list of causes', () => {
  let exam: Exam

  test('begins with an incident whose cause is named in a sentence', async () => {
    const begun = await beginExam(own.bench, { seed: 'test', length: 2, hard: true })
    exam = begun.exam
    const { choices, hard, sealed } = begun.note
    expect({ choices, hard, of: exam.of }).toEqual({ choices: [], hard: true, of: 2 })
    const secret = unseal(sealed)
    if (!secret) throw new Error('the note can not be read')
    const { id, environment } = secret
    const other = Object.entries(keyFacts)
      .find(([one]) => one !== id)?.[1]
      .example(environment)
    const before = { exam: await readExam(own.bench) }
    expect(before.exam).toEqual(exam)
    for (const [text, found] of [
      ['it does not work', /names no cause, because it does not name an object/],
      [id, /^failed/],
      [other ?? '', /which is not the cause: each wrong diagnosis costs 5/],
    ] as const) {
      await own.bench.answer(INCIDENT_LAB, 'diagnosis', text)
      expect((await verdicts(['diagnosis'])).diagnosis).toMatch(found)
    }
  })

  test('hands in what was earned, and the next incident begins at 0', async () => {
    for (const step of Object.values(own.solution.steps)) await step.play?.(own.bench)
    const { exam: after, part, note } = await nextOfExam(own.bench, exam)
    expect(part).toMatchObject({ points: 95, of: 100, wrong: 1, diagnosed: true, repaired: true })
    expect(note?.openedAt).toBe(after.openedAt)
    expect((await verdicts(['diagnosis'])).diagnosis).toMatch(/^failed/)
    exam = after
  })

  test('an incident that another one has replaced earns nothing, and the exam ends with its result', async () => {
    await openNext(own.bench, { seed: 'test', id: 'selector-typo' })
    for (const step of Object.values(own.solution.steps)) await step.play?.(own.bench)
    const { exam: after, part, note } = await nextOfExam(own.bench, exam)
    expect(part).toMatchObject({ points: 0, diagnosed: false, repaired: false })
    expect(note).toBeUndefined()
    expect(after.endedAt).toBeDefined()
    expect(after.parts.map(({ points }) => points)).toEqual([95, 0])
    await resetLab(lab, own.bench)
    expect(await readExam(own.bench)).toBeUndefined()
  })
})

test('the notes of an incident are told with the cluster before its fault, also if it fails to start', async () => {
  const incident = incidents.find(({ id }) => id === 'selector-typo')
  if (!incident) throw new Error('no such incident')
  const apply = vi.spyOn(incident, 'break').mockRejectedValueOnce(new Error('no fault'))
  const told = vi.fn()
  await expect(openNext(own.bench, { seed: 'test', id: incident.id }, told)).rejects.toThrow(
    'no fault',
  )
  apply.mockRestore()
  const healthy = { items: expect.arrayContaining([expect.objectContaining({ kind: 'Service' })]) }
  expect(told.mock.calls).toEqual([
    [await currentNote(own.bench), expect.objectContaining(healthy)],
  ])
})

describe('an incident of another lab', () => {
  const notesIn = async (number: number) =>
    Object.keys((await readConfigMap(own.bench.client, notesName(number))) ?? {})

  test('ends that of lab 8, keeps the other notes of its lab, and ends when another lab starts', async () => {
    await openNext(own.bench, { seed: 'test', id: 'selector-typo' })
    await writeNotes(own.bench.client, 1, {
      'answer.mode': '{}',
      'answer.incident': '{}',
      closed: '{}',
    })
    await expect(openNext(own.bench, { lab: 1, id: 'ip-forward-off' })).rejects.toThrow(
      'The incident "ip-forward-off" is not one of lab 1, which has selector-typo, ',
    )
    expect(await currentNote(own.bench)).toBeDefined()
    await openNext(own.bench, { lab: 1, id: 'wrong-target-port' })
    expect(await currentNote(own.bench)).toBeUndefined()
    expect(await latestIncident(own.bench)).toMatchObject({ lab: 1, isRepaired: false })
    expect((await notesIn(1)).sort()).toEqual(['answer.mode', 'attempt', 'incident'])
    const note = vi.spyOn(own.bench.progress, 'note')
    await endIncidentsOfOthers(readLab(1), own.bench)
    expect(await latestIncident(own.bench)).toBeDefined()
    await endIncidentsOfOthers(readLab(2), own.bench)
    expect(await latestIncident(own.bench)).toBeUndefined()
    expect(note.mock.calls.flat().join()).toMatch(/incident of lab 1 was not repaired/)
    expect(await notesIn(1)).toEqual(['answer.mode'])
    const { items } = await own.bench.client.core.listNamespacedService({ namespace: 'default' })
    expect(items.filter(({ metadata }) => metadata?.labels?.lab === 'incidents')).toEqual([])
    await own.bench.delete('ConfigMap', notesName(1))
  })
})

test('a later sync follows the first one of a kube-proxy that has just started', async () => {
  const [node = ''] = await own.cluster.nodes()
  await resetLab(lab, own.bench)
  const jump = 'POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING'
  for (let round = 0; round < 3; round++) {
    await own.bench.replaceKubeProxyPod(node)
    await runOnNode(own.cluster, node, `iptables -t nat -D ${jump}`)
    await laterSync(own.bench)
    const before = (await runOnNode(own.cluster, node, 'iptables -t nat -S POSTROUTING')).stdout
    await laterSync(own.bench)
    expect((await runOnNode(own.cluster, node, 'iptables -t nat -S POSTROUTING')).stdout).toBe(
      before,
    )
  }
})

test("a learner's own rule that stops the kubelets' probes is named within seconds, with the command that deletes it", async () => {
  await resetLab(lab, own.bench)
  const [, node = ''] = await own.cluster.nodes()
  const rule = 'OUTPUT -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable'
  const undo = `iptables -t filter -D ${rule}`
  await runOnNode(own.cluster, node, `iptables -A ${rule}`)
  const began = Date.now()
  const message = await openNext(own.bench, { seed: 'test' }).catch(String)
  expect(message).toContain(`on ${node}, a rule of filter OUTPUT rejects the kubelet's probe of `)
  expect(message).toContain(`: -A ${rule}. Delete the rule: make exec NODE=${node} CMD='${undo}'`)
  expect(Date.now() - began).toBeLessThan(30_000 * timeoutScale())
  await runOnNode(own.cluster, node, undo)
})

const reverting = [['the beginning of another lab', 1] as const, ['reset', INCIDENT_LAB] as const]

test.each(INCIDENTS === 'all' ? reverting : reverting.slice(0, 1))(
  '%s reverts an incident that was not repaired, and closes the shop',
  async (_what, number) => {
    const { sealed } = await openNext(own.bench, { seed: 'test', id: 'ip-forward-off' })
    const note = vi.spyOn(own.bench.progress, 'note')
    await resetLab(readLab(number), own.bench)
    const told = note.mock.calls.flat().join()
    expect(told.includes('incident of lab 8 was not repaired')).toBe(number !== INCIDENT_LAB)
    note.mockRestore()
    expect(await currentNote(own.bench)).toBeUndefined()
    const { items } = await own.bench.client.core.listNamespacedService({
      namespace: 'default',
      labelSelector: 'lab=incidents',
    })
    expect(items).toEqual([])
    const { stdout } = await runOnNode(
      own.cluster,
      unseal(sealed)?.environment.node ?? '',
      'sysctl -n net.ipv4.ip_forward',
    )
    expect(stdout.trim()).toBe('1')
  },
)
