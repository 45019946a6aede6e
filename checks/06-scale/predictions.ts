// Lab 6: what learners predict before they look at the measurement, compared with their own run.

import {
  largestPoint,
  type Measurement,
  median,
  type Quantity,
  riseOf,
  risesClearly,
  seriesOf,
} from '../../course/scale/measurement.ts'
import type { CheckContext, WrongAnswer } from '../../grading/check-context.ts'
import type { Truth } from '../../grading/question.ts'
import { measuredRun, SHOW } from './run.ts'

const show = (part: string) => `make measure SHOW=${part}`

/**
 * What can grow in iptables mode, in the order of the choices, and the measured quantity behind it.
 */
const quantities = [
  ['change', 'changeMs'],
  ['new-connections', 'newMoreMicros'],
  ['open-connections', 'keptMoreMicros'],
  ['cpu', 'busyMore'],
] as const satisfies readonly (readonly [string, Quantity])[]

/**
 * What grows by itself: names that grow for certain, and names that noise hides, which may be
 * predicted or not.
 */
function growing(run: Measurement): { certain: string[]; hidden: string[] } {
  const certain = ['rules']
  const hidden: string[] = []
  const rises = (quantity: Quantity) => risesClearly(seriesOf(run.iptables, quantity))
  for (const [name, quantity] of quantities) {
    if (name === 'open-connections') continue
    if (rises(quantity)) certain.push(name)
    else hidden.push(name)
  }
  return { certain, hidden }
}

const order = ['rules', ...quantities.map(([name]) => name)]
const inOrder = (names: readonly string[]) =>
  order.filter((name) => names.includes(name)).join(', ')

/** Every list of names with all certain ones and any of the hidden ones, the longest first. */
function lists({ certain, hidden }: { certain: string[]; hidden: string[] }): string[] {
  let subsets: string[][] = [[]]
  for (const name of hidden) subsets = [...subsets.map((one) => [...one, name]), ...subsets]
  return subsets.map((more) => inOrder([...certain, ...more]))
}

const includes = (name: string) => (answer: string) => answer.split(', ').includes(name)
const lacks = (name: string) => (answer: string) => !includes(name)(answer)

/** Prediction: which quantities grow with the Services in iptables mode. */
export async function curvesThatRise(context: CheckContext): Promise<Truth> {
  const run = await measuredRun(context)
  return {
    accepts: lists(growing(run)),
    inspect: SHOW,
    wrong: [
      {
        when: includes('open-connections'),
        because:
          'Only the first packet of a connection is compared with the list; conntrack translates all others (lab 2). An open connection does not notice how many Services there are.',
      },
      {
        when: lacks('rules'),
        because:
          'Every Service port has rules of its own, an entry in KUBE-SERVICES among them (lab 1).',
      },
      {
        when: lacks('new-connections'),
        because:
          'The first packet of a connection is compared with one entry after the other, until its own one matches.',
      },
    ],
    because:
      'Rules, changes, new connections and their CPU time grow with the list; open connections do not, because conntrack translates their packets.',
  }
}

/** Prediction: the length of KUBE-SERVICES at the largest size. */
export async function lengthOfList(context: CheckContext): Promise<Truth> {
  const { iptables } = await measuredRun(context)
  const { services, entries, rules } = largestPoint(iptables)
  return {
    accepts: [String(entries)],
    inspect: show('rules'),
    wrong: [
      {
        when: String(services),
        because:
          'Nearly: one rule for each Service port, and the jump to KUBE-NODEPORTS comes last.',
      },
      {
        when: String(rules),
        because:
          'That is the number of rules in all tables. KUBE-SERVICES contains only the entries; the other rules are in the chains to which they jump.',
      },
      {
        when: (answer) => Number(answer) > 0 && Number(answer) < services,
        because:
          'In iptables mode there is no way around an entry for each Service port. A few rules for all of them is IPVS mode.',
      },
    ],
    because: `${services} Services with one port each, and one rule for node ports.`,
  }
}

/** Prediction: what grows in IPVS mode. */
export async function growsInIpvs(context: CheckContext): Promise<Truth> {
  const { ipvs } = await measuredRun(context)
  const [first, last] = [ipvs[0] ?? largestPoint(ipvs), largestPoint(ipvs)]
  const grown = (
    [
      ['rules', last.rules > first.rules],
      ['set-members', last.members > first.members],
      ['virtual-servers', last.virtualServers > first.virtualServers],
      ['real-servers', last.realServers > first.realServers],
    ] as const
  ).flatMap(([name, isLarger]) => (isLarger ? [name] : []))
  return {
    accepts: [grown.join(', ')],
    inspect: show('rules'),
    wrong: [
      {
        when: includes('rules'),
        because:
          'The rules match against sets. A further Service is a further member of KUBE-CLUSTER-IP, and no rule (lab 2).',
      },
      {
        when: 'none',
        because:
          'The same information must be stored somewhere: in a set and in the table of IPVS.',
      },
      {
        when: lacks('set-members'),
        because: 'KUBE-CLUSTER-IP has a member for each ClusterIP, protocol and port.',
      },
    ],
    because:
      'Every Service port is a member and a virtual server, every endpoint a real server; the rules stay the same.',
  }
}

/**
 * A power of ten that a measured value is close to; both neighbours if it is near the middle of
 * two.
 */
export function magnitudesOf(value: number): number[] {
  const exact = Math.log10(Math.max(value, 1e-9))
  const near = Math.round(exact)
  const between = Math.abs(exact - near) > NEAR_MIDDLE
  return between ? [near, exact > near ? near + 1 : near - 1] : [near]
}
/** Of half a power of ten: closer to the middle than this, both neighbours are accepted. */
const NEAR_MIDDLE = 0.35

/** The name of a power of ten, from the lowest one on. */
export const magnitudeName = (names: readonly string[], lowest: number) => (magnitude: number) =>
  names[Math.min(names.length - 1, Math.max(0, magnitude - lowest))] ?? ''

/** What is said of a magnitude below or above all that are right, if nothing else is said of it. */
export function misjudged(
  names: readonly string[],
  accepts: readonly string[],
  { below, above }: { below: string; above: string },
): WrongAnswer[] {
  const right = accepts.map((name) => names.indexOf(name))
  return [
    { when: (answer) => names.indexOf(answer) < Math.min(...right), because: below },
    { when: (answer) => names.indexOf(answer) > Math.max(...right), because: above },
  ]
}

/** Prediction: how many times as long a change takes at the largest size, in iptables mode. */
export async function growthOfChange(context: CheckContext): Promise<Truth> {
  const { iptables } = await measuredRun(context)
  const [first, last] = [iptables[0] ?? largestPoint(iptables), largestPoint(iptables)]
  const ratio = median(last.changeMs) / median(first.changeMs)
  const names = ['1x', '10x', '100x', '1000x']
  const accepts = magnitudesOf(ratio).map(magnitudeName(names, 0))
  return {
    accepts,
    inspect: show('change'),
    wrong: [
      {
        when: '1x',
        because:
          'One endpoint changes, but iptables-legacy reads and writes the whole table for it. Only in IPVS mode is the change one entry.',
      },
      ...misjudged(names, accepts, {
        below: 'What grows is the table, and it is a larger part of a change than that.',
        above:
          'The table grows, but the smallest change has a cost of its own: starting iptables-restore and reading any table at all.',
      }),
    ],
    because: `At ${first.services} Services it took ${median(first.changeMs).toPrecision(2)} ms, at ${last.services} ${median(last.changeMs).toPrecision(2)} ms: ${ratio.toPrecision(2)} times as long.`,
  }
}

/** Prediction: what one entry of the list costs a new connection. */
export async function costOfEntry(context: CheckContext): Promise<Truth> {
  const { iptables } = await measuredRun(context)
  const last = largestPoint(iptables)
  const nanos = (riseOf(seriesOf(iptables, 'newMoreMicros')) * 1000) / last.services
  const names = ['1ns', '10ns', '100ns', '1us', '10us']
  const wholeMicros = median(last.newMicros)
  const accepts = magnitudesOf(nanos).map(magnitudeName(names, 0))
  return {
    accepts,
    inspect: show('lookup'),
    wrong: [
      {
        when: '10us',
        because: `Then the list of ${last.services} Services would cost a connection ${last.services / 100} ms; the whole request takes ${wholeMicros.toPrecision(2)} µs.`,
      },
      {
        when: '1us',
        because: `Then the list of ${last.services} Services would cost a connection ${last.services} µs; the whole request takes ${wholeMicros.toPrecision(2)} µs.`,
      },
      {
        when: '1ns',
        because:
          'That is a few instructions. Comparing an entry means reading it from memory and comparing address, mask and protocol.',
      },
      ...misjudged(names, accepts, {
        below: `Then the list of ${last.services} Services would have cost less than it did.`,
        above: `Then the list of ${last.services} Services would have cost more than it did.`,
      }),
    ],
    because: `The list of ${last.services} Services cost ${((nanos * last.services) / 1000).toPrecision(2)} µs, ${nanos.toPrecision(2)} ns for each entry.`,
  }
}
