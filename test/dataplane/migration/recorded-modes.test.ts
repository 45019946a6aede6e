// What the report claims, compared with genuine kube-proxies that ran in both modes on the same
// objects.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { compareAnswers, describeAnswer } from '../../../dataplane/migration/compare-answers.ts'
import { imaginedLinks } from '../../../dataplane/migration/imagined-links.ts'
import { type ProbeAnswer, probeAnswers } from '../../../dataplane/migration/probe-answer.ts'
import { migrationProbes } from '../../../dataplane/migration/probes.ts'
import { predict, proxiersOf } from '../../../dataplane/predict.ts'
import { parsePacket } from '../../../dataplane/trace.ts'
import {
  configOf,
  folders,
  NODE,
  objectsAt,
  recordedVersions,
  recordingPath,
  stateAt,
} from '../recordings.ts'

const MODES = ['iptables', 'ipvs', 'nftables'] as const
type Mode = (typeof MODES)[number]

function predictedState(scenario: string, mode: Mode, version: string) {
  const objects = objectsAt('objects', `${scenario}.json`)
  const config = configOf(objects)
  const state = predict(objects, { node: NODE, mode, version, config })
  return { ...state, links: [...imaginedLinks(objects, NODE), ...state.links] }
}

/** The answers to all probes of a scenario in each mode, in predicted and in recorded states. */
function answersIn(scenario: string, version: string, modes: readonly Mode[]) {
  const objects = objectsAt('objects', `${scenario}.json`)
  const options = { node: NODE, mode: 'iptables', version, config: configOf(objects) } as const
  const proxier = proxiersOf(objects, options).get('ipv4')
  if (!proxier) throw new Error(`${scenario} has no IPv4 proxier`)
  const probes = migrationProbes(objects, proxier)
  const all = (mode: Mode, state: ReturnType<typeof stateAt>) => {
    const answer = probeAnswers(objects, NODE, state)
    return { mode, answers: probes.map(({ packet }) => answer(packet)) }
  }
  return {
    probes,
    predicted: modes.map((mode) => all(mode, predictedState(scenario, mode, version))),
    recorded: modes.map((mode) => all(mode, stateAt(`${version}/${mode}/${scenario}`))),
  }
}

/** What the report says about one probe. */
const claim = (before: ProbeAnswer, after: ProbeAnswer) =>
  `${compareAnswers(before, after).join(' and ')}: ${describeAnswer(before)} -> ${describeAnswer(after)}`

/** Every way from one mode to another one, by their places. */
const movesBetween = (modes: readonly unknown[]): [from: number, to: number][] =>
  [...modes.keys()].flatMap((from) =>
    [...modes.keys()].filter((to) => to !== from).map((to): [number, number] => [from, to]),
  )

const counts = { claims: 0, changes: 0 }

test.each(recordedVersions)('the claims for %s are those of the recorded rules', (version) => {
  const scenarios = new Set(MODES.flatMap((mode) => folders(version, mode)))
  for (const scenario of scenarios) {
    const modes = MODES.filter((mode) => folders(version, mode).includes(scenario))
    const { probes, predicted, recorded } = answersIn(scenario, version, modes)
    for (const [from, to] of movesBetween(modes))
      for (const [index, { client, target, packet }] of probes.entries()) {
        const [told, genuine] = [predicted, recorded].map((states) =>
          claim(
            states[from]?.answers[index] as ProbeAnswer,
            states[to]?.answers[index] as ProbeAnswer,
          ),
        )
        counts.claims++
        if (!genuine?.startsWith(':')) counts.changes++
        const where = `${scenario} ${modes[from]} -> ${modes[to]}, ${client} to ${target} ${packet.destination}:${packet.port}`
        expect(told, where).toBe(genuine)
      }
  }
})

test('no claim is left out', () => {
  expect(counts.claims).toBeGreaterThanOrEqual(55_000)
  expect(counts.changes).toBeGreaterThanOrEqual(7_000)
})

const flows = z
  .array(
    z.object({
      mode: z.enum(MODES),
      version: z.string(),
      scenario: z.string(),
      from: z.string(),
      to: z.string(),
      verdict: z.string(),
      outcomes: z.array(z.string()),
      clients: z.array(z.string()).optional(),
    }),
  )
  .parse(JSON.parse(readFileSync(recordingPath('flows.json'), 'utf8')))

test.each(flows)('$mode $scenario: $from → $to fares as real packets did', (flow) => {
  const objects = objectsAt('objects', `${flow.scenario}.json`)
  const state = predictedState(flow.scenario, flow.mode, flow.version)
  const { endpoints, none, seen } = probeAnswers(
    objects,
    NODE,
    state,
  )(parsePacket(flow.from, flow.to))
  expect([...endpoints.keys()].sort()).toEqual([...flow.outcomes].sort())
  if (flow.outcomes.length === 0) {
    expect([...none.keys()]).toEqual([flow.verdict === 'reject' ? 'refused' : 'timeout'])
    return
  }
  const source = flow.from.split(':')[1]
  const sawClient = flow.clients?.some((client) => client === source)
  if (source !== undefined && flow.clients?.length === 1)
    expect(new Set(seen.values())).toEqual(new Set([sawClient ? 'client' : 'node']))
})
