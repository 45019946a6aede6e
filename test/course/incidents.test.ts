// What holds for every incident without a cluster: its words, the draw, the seal and the score.

import { stripVTControlCharacters } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { commandToRestore } from '../../course/incident/baseline.ts'
import {
  choicesFor,
  describeIncident,
  draw,
  listIncidents,
  type Need,
  possible,
  seedFor,
} from '../../course/incident/incident.ts'
import { belongsToIncident, seal, unseal } from '../../course/incident/incident-note.ts'
import type { IncidentEnvironment } from '../../course/incident/shop.ts'
import { defaultConfig } from '../../dataplane/kube-proxy/config.ts'
import { findStep, readLab } from '../../grading/lab-definition.ts'
import { Refusal } from '../../host/main.ts'
import { incidents } from '../../labs/08-incidents/incidents/all.ts'
import { incidentsByLab } from '../../labs/08-incidents/incidents/by-lab.ts'

const environment: IncidentEnvironment = {
  nodes: ['control-plane', 'worker', 'worker2'],
  nodeAddresses: ['172.18.0.2', '172.18.0.3', '172.18.0.4'],
  node: 'worker',
  customer: '10.244.1.7',
  shop: '10.96.7.7',
  nodePort: 30880,
  facts: {
    address: '10.96.8.8',
    warehouse: '172.18.0.1',
    branch: '172.18.0.9',
    chain: 'KUBE-SEP-X',
  },
}
/** The same with a text for every other fact that an incident may have stored when it began. */
const withAnyFact: IncidentEnvironment = {
  ...environment,
  facts: new Proxy(environment.facts, {
    get: (facts, name) => facts[String(name)] ?? `the-${String(name)}`,
  }),
}
const everything: ReadonlySet<Need> = new Set([
  'ipvs',
  'outside',
  'zones',
  'embedded',
  'partial-syncs',
  'internal-policy',
])

test('every incident has an id of its own', () => {
  expect(new Set(incidents.map(({ id }) => id)).size).toBe(incidents.length)
})

describe.each(incidents.map((incident) => [incident.id, incident] as const))(
  '%s',
  (id, incident) => {
    test('is reported in words of a user, which contain neither the id nor the sentence of the cause', () => {
      const report = incident.report(withAnyFact)
      expect(report).not.toContain(id)
      expect(report).not.toContain(incident.cause)
      expect(report).not.toContain('undefined')
      expect(report.length).toBeLessThan(320)
    })

    test('has a sign by which it is recognised, and which does not name it', () => {
      expect(incident.sign).toMatch(/^(If|With|Without) .*\.$/)
      expect(incident.sign).not.toContain(id)
    })

    test('has hints, a command to repair it and a story', () => {
      expect(incident.hints.length).toBeGreaterThanOrEqual(3)
      for (const command of incident.fix(withAnyFact).commands)
        expect(command).toMatch(/^(make|kubectl) /)
      expect(incident.debrief.split('\n').every((line) => line.length <= 132)).toBe(true)
    })
  },
)

test.each([60, 100])('what make incident prints fits a terminal of %d columns', (columns) => {
  const choices = incidents.map(({ id }) => id)
  const report = incidents.map((incident) => incident.report(withAnyFact)).join(' ')
  const note = { sealed: '', choices, seed: '7', openedAt: '', hints: 0, report }
  for (const text of [
    describeIncident(note, incidents, { columns }),
    describeIncident(note, incidents, { columns, lab: 3 }),
    describeIncident(note, incidents, {
      columns,
      lab: 3,
      prediction: findStep(readLab(3), 'incident').predict,
    }),
    listIncidents(incidents, columns),
  ]) {
    const widths = stripVTControlCharacters(text)
      .split('\n')
      .map((line) => line.length)
    expect(Math.max(...widths)).toBeLessThanOrEqual(columns)
  }
})

test('make incident names the prediction before the cause where a step asks for one', () => {
  const note = { sealed: '', choices: [], seed: '7', openedAt: '', hints: 0, report: 'Slow.' }
  const { predict: prediction } = findStep(readLab(3), 'incident')
  const text = describeIncident(note, incidents, { lab: 3, prediction })
  const [predicted, named] = ['Predict first: Where does', 'Then name the cause: make answer LAB=3']
  expect(text.indexOf(predicted)).toBeGreaterThan(0)
  expect(text.indexOf(named)).toBeGreaterThan(text.indexOf(predicted))
})

describe('the draw', () => {
  test('is decided by the seed', () => {
    fc.assert(
      fc.property(fc.string(), (seed) => draw(incidents, seed) === draw([...incidents], seed)),
    )
  })

  test('by chance passes over what was solved, and its seed draws the same again', () => {
    for (const incident of incidents)
      expect(
        draw(
          incidents,
          seedFor(incidents, (one) => one === incident),
        ),
      ).toBe(incident)
  })

  test('begins again when all were solved', () => {
    expect(incidents).toContain(
      draw(
        incidents,
        seedFor(incidents, () => false),
      ),
    )
  })

  test('reaches every incident', () => {
    const drawn = new Set(
      Array.from({ length: 40 * incidents.length }, (_, seed) => draw(incidents, `${seed}`).id),
    )
    expect(drawn.size).toBe(incidents.length)
  })

  test('leaves out what a cluster cannot do', () => {
    expect(possible(incidents, everything)).toEqual(incidents)
    const plain = possible(incidents, new Set())
    expect(plain.length).toBeGreaterThanOrEqual(Math.min(10, incidents.length / 2))
    expect(plain.filter(({ mode, needs }) => mode === 'ipvs' || needs?.length)).toEqual([])
  })

  // The incidents of lab 2 are all about IPVS mode.
  test('refuses in a sentence where none of a lab can run', () => {
    const draws = incidentsByLab.get(2)?.draws ?? []
    expect(draws.length).toBeGreaterThan(2)
    const here = possible(draws, new Set(['outside', 'embedded']))
    expect(here).toEqual([])
    expect(() => draw(here, 'any')).toThrow(Refusal)
  })

  test('offers the cause among others, in an order that does not reveal it', () => {
    for (const incident of incidents) {
      const ids = choicesFor(incident, incidents, 'a seed').map(({ id }) => id)
      expect(ids).toContain(incident.id)
      expect(new Set(ids).size).toBe(ids.length)
      expect(ids).toEqual([...ids].sort())
    }
  })
})

describe('the incidents of a lab', () => {
  test.each([...incidentsByLab])(
    'lab %d: each has an end of its packet, and is one of four causes',
    (_lab, own) => {
      expect(own.choices).toHaveLength(4)
      for (const incident of own.draws) {
        expect(own.choices).toContain(incident)
        expect(incident.stops, incident.id).toBeDefined()
        expect(incident.needs ?? []).not.toContain('embedded')
      }
      expect(new Set(own.draws.map(({ mode }) => mode)).size).toBe(1)
      expect(own.draws.filter(({ from }) => from !== undefined)).toEqual([])
    },
  )

  test('leave the other notes of their lab, and lab 8 keeps what was solved', () => {
    const of = (lab: number) => (key: string) => belongsToIncident(lab, key)
    const own = [
      'incident',
      'closed',
      'attempt',
      'answer.incident',
      'predicted.incident',
      'wrong-try.incident.1a',
    ]
    const others = ['guide', 'answer.mode', 'endpoints']
    expect([...own, ...others].filter(of(1))).toEqual(own)
    const ofLab8 = ['guide', 'guess.12', 'answer.diagnosis', 'answered.diagnosis']
    expect([...ofLab8, 'history', 'exam'].filter(of(8))).toEqual(ofLab8)
  })
})

describe('the seal', () => {
  test.each(incidents.map(({ id }) => id))('hides %s, and opens again', (id) => {
    const secret = {
      id,
      environment,
      baseline: { foreign: {}, config: defaultConfig(), configText: '', services: {} },
    }
    const sealed = seal(secret)
    expect(sealed).not.toContain(id)
    expect(Buffer.from(sealed, 'base64').toString('latin1')).not.toContain(id)
    expect(unseal(sealed)).toEqual(secret)
  })

  test('does not open what it did not close', () => {
    fc.assert(fc.property(fc.string(), (text) => unseal(text) === undefined))
  })
})

test.each([
  [
    'nat PREROUTING -d 10.96.0.1/32 -j ACCEPT',
    'new',
    'iptables -t nat -D PREROUTING -d 10.96.0.1/32 -j ACCEPT',
  ],
  ['raw OUTPUT -p tcp -j CT --notrack', 'gone', 'iptables -t raw -A OUTPUT -p tcp -j CT --notrack'],
  [
    'filter OUTPUT -m comment --comment "`id` $HOME, it\\\'s \\"\\\\\\"" -j DROP',
    'new',
    'iptables -t filter -D OUTPUT -m comment --comment "\\`id\\` \\$HOME, it\'s \\"\\\\\\"" -j DROP',
  ],
  ['filter FORWARD policy DROP', 'new', 'iptables -t filter -P FORWARD ACCEPT'],
  ['filter FORWARD policy DROP', 'gone', 'iptables -t filter -P FORWARD DROP'],
  ['virtual server of the firewall mark 7', 'new', 'ipvsadm -D -f 7'],
] as const)('%s, which is %s, is restored by a command', (rule, is, command) =>
  expect(commandToRestore(rule, is)).toBe(command),
)
