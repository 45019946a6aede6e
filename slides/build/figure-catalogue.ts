import { COST } from '../../course/incident/incident-note.ts'
import { published } from '../../course/scale/results.ts'
import { parsePacket } from '../../dataplane/trace.ts'
import { packetPath } from '../../dataplane/view/packet-path.ts'
import { nodePlans } from '../../host/layout.ts'
import type { Figure } from '../figures/canvas.ts'
import {
  type Bar,
  barsFigure,
  choiceBars,
  countBars,
  localShares,
  modeHistoryFigure,
  ruleGrowthFigure,
} from '../figures/charts.ts'
import {
  clusterFigure,
  headersFigure,
  JOURNEYS,
  lookupFigure,
  retryFigure,
  symptomsFigure,
  verdictMapFigure,
} from '../figures/diagrams.ts'
import { hooksFigure, legsAlong, PATHS } from '../figures/hooks.ts'
import { packetFigure } from '../figures/packets.ts'
import { scheduleFigure } from '../figures/schedule.ts'
import { serviceChainsFigure, serviceSetsFigure } from '../figures/services.ts'
import { countsOfFlow, readRecording, recordedService } from './recording.ts'

/** Points of lab 8 for a repair, by the number of hints and wrong diagnoses. */
const REPAIRS: readonly Bar[] = [
  { name: 'no hint', effort: 0 },
  { name: 'with one hint', effort: 1 },
  { name: 'one hint, one wrong cause', effort: 2 },
  { name: 'four hints', effort: 4 },
].map(({ name, effort }) => ({
  name,
  share: 1 - (effort * COST) / 100,
  value: String(100 - effort * COST),
}))

type Draw = (options: ReadonlyMap<string, string>) => Figure

/** Every figure by its name in a deck. */
const FIGURES: Readonly<Record<string, Draw>> = {
  cluster: () => clusterFigure(nodePlans('k8s-guide')),
  lookup: lookupFigure,
  modes: modeHistoryFigure,
  symptoms: symptomsFigure,
  retry: retryFigure,
  maps: verdictMapFigure,
  growth: (options) => ruleGrowthFigure(Number(need(options, 'endpoints'))),
  published: () => {
    const { iptables, ipvs } = published.cpuPercent
    return barsFigure('Published for 10,000 Services', [
      { name: 'iptables mode', share: iptables / 100, value: `${iptables} % of a core` },
      { name: 'IPVS mode', share: ipvs / 100, value: `${ipvs} % of a core`, tone: 'strong' },
    ])
  },
  score: () => barsFigure('Points', REPAIRS),
  hooks: (options) => {
    const name = options.get('path') ?? 'none'
    const path = entryOf(PATHS, name, 'path')
    const local = name === 'ipvs' ? 'IPVS' : 'process'
    const label =
      path.length === 0
        ? "Netfilter's five hooks and the steps between them."
        : `The path through ${path.join(', ')}.`
    return hooksFigure({ legs: legsAlong(path), local, rows: [], label })
  },
  packet: (options) => {
    const recording = readRecording(need(options, 'recording'), options.get('node'))
    const packet = parsePacket(need(options, 'from'), destination(options))
    const input = { node: recording.node, mode: '', real: true, isService: false }
    return hooksFigure(packetFigure(packetPath(recording.state, packet, input), { brief: true }))
  },
  chains: (options) =>
    serviceChainsFigure(
      readRecording(need(options, 'recording')).state.iptables,
      destination(options),
    ),
  sets: (options) =>
    serviceSetsFigure(readRecording(need(options, 'recording')).state, destination(options)),
  probabilities: (options) => {
    const endpoints = Number(need(options, 'endpoints'))
    return barsFigure(
      `With ${endpoints} endpoints each rule matches 1/${endpoints} of all packets`,
      choiceBars(endpoints),
    )
  },
  counts: (options) =>
    barsFigure(
      'Who answered',
      countBars(
        countsOfFlow(need(options, 'recording'), need(options, 'from'), destination(options)),
      ),
    ),
  local: (options) =>
    barsFigure('Shares under Local', localShares(need(options, 'pods').split(',').map(Number))),
  headers: (options) => {
    const name = need(options, 'journey')
    return headersFigure(entryOf(JOURNEYS, name, 'journey'), `Addresses of a packet (${name})`)
  },
  schedule: (options) => {
    const weights = need(options, 'weights').split(',').map(Number)
    return scheduleFigure(need(options, 'scheduler'), weights, Number(need(options, 'requests')))
  },
}

/**
 * Draws the figure of a directive `<!-- figure: name … -->`. Throws Error for an unknown name or
 * option.
 */
export function drawFigure(name: string, options: ReadonlyMap<string, string>): Figure {
  return entryOf(FIGURES, name, 'figure')(options)
}

function entryOf<Entry>(table: Readonly<Record<string, Entry>>, name: string, what: string): Entry {
  const entry = Object.hasOwn(table, name) ? table[name] : undefined
  if (entry === undefined)
    throw new Error(`"${name}" is not a ${what}; use one of ${Object.keys(table).join(', ')}`)
  return entry
}

function need(options: ReadonlyMap<string, string>, name: string): string {
  const value = options.get(name)
  if (value === undefined) throw new Error(`the figure needs ${name}=…`)
  return value
}

/** `to=`, or the ClusterIP and first port of `service=namespace/name`. */
function destination(options: ReadonlyMap<string, string>): string {
  const to = options.get('to')
  if (to !== undefined) return to
  const service = recordedService(
    readRecording(need(options, 'recording')),
    need(options, 'service'),
  )
  return `${service.clusterIPs[0]}:${service.ports[0]?.port}`
}
