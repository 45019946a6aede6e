import { COST } from '../../course/incident/incident-note.ts'
import { published } from '../../course/scale/table.ts'
import { parsePacket } from '../../dataplane/trace.ts'
import { packetPath } from '../../dataplane/view/packet-path.ts'
import { nodePlans } from '../../host/layout.ts'
import type { Figure } from '../figures/canvas.ts'
import { clusterFigure } from '../figures/cluster.ts'
import { type Bar, barsFigure, choiceBars, countBars, localShares, ruleGrowthFigure } from '../figures/curves.ts'
import { hooksFigure, legsAlong, PATHS } from '../figures/hooks.ts'
import { lookupFigure, verdictMapFigure } from '../figures/lookup.ts'
import { modeHistoryFigure } from '../figures/mode-history.ts'
import { headersFigure, JOURNEYS, packetFigure } from '../figures/packets.ts'
import { retryFigure, scheduleFigure } from '../figures/schedule.ts'
import { readServiceChains, readServiceSets, serviceChainsFigure, serviceSetsFigure } from '../figures/services.ts'
import { symptomsFigure } from '../figures/symptoms.ts'
import type { Directive } from './deck.ts'
import { countsOfFlow, readRecording, serviceOf } from './recording.ts'

/** Points of lab 8 for a repair, by the number of hints and wrong diagnoses. */
const REPAIRS: readonly Bar[] = [
  { name: 'no hint', effort: 0 },
  { name: 'with one hint', effort: 1 },
  { name: 'one hint, one wrong cause', effort: 2 },
  { name: 'four hints', effort: 4 },
].map(({ name, effort }) => ({ name, share: 1 - (effort * COST) / 100, value: String(100 - effort * COST) }))

type Draw = (options: ReadonlyMap<string, string>) => Figure

/** Every figure by its name in a deck. */
const FIGURES: Readonly<Record<string, Draw>> = {
  cluster: () => clusterFigure(nodePlans('k8s-guide')),
  lookup: () => lookupFigure(),
  modes: () => modeHistoryFigure(),
  symptoms: () => symptomsFigure(),
  retry: () => retryFigure(),
  maps: () => verdictMapFigure(),
  growth: (options) => ruleGrowthFigure(Number(need(options, 'endpoints'))),
  published: () => {
    const { iptables, ipvs } = published.cpuPercent
    const bars: Bar[] = [
      { name: 'iptables mode', share: iptables / 100, value: `${iptables} % of a core` },
      { name: 'IPVS mode', share: ipvs / 100, value: `${ipvs} % of a core`, tone: 'strong' },
    ]
    return barsFigure(bars, `Published for 10,000 Services: ${iptables} % and ${ipvs} % of a core.`, iptables / 100)
  },
  score: () => barsFigure(REPAIRS, `Points: ${REPAIRS.map(({ name, value }) => `${name}, ${value}`).join('; ')}.`),
  hooks: (options) => {
    const name = options.get('path') ?? 'none'
    const path = name in PATHS ? PATHS[name as keyof typeof PATHS] : undefined
    if (!path) throw new Error(`"${name}" is not a path; use one of ${Object.keys(PATHS).join(', ')}`)
    const label =
      path.length === 0 ? "Netfilter's five hooks and the steps between them." : `The path through ${path.join(', ')}.`
    return hooksFigure({ legs: legsAlong(path), local: 'process', rows: [], label })
  },
  packet: (options) => {
    const recording = readRecording(need(options, 'recording'), options.get('node'))
    const packet = parsePacket(need(options, 'from'), destination(options))
    const given = { node: recording.node, mode: '', real: true, isService: false }
    return hooksFigure(packetFigure(packetPath(recording.state, packet, given), { brief: true }))
  },
  chains: (options) => {
    return serviceChainsFigure(
      readServiceChains(readRecording(need(options, 'recording')).state.iptables, destination(options)),
    )
  },
  sets: (options) => {
    return serviceSetsFigure(readServiceSets(readRecording(need(options, 'recording')).state, destination(options)))
  },
  probabilities: (options) => {
    const endpoints = Number(need(options, 'endpoints'))
    return barsFigure(
      choiceBars(endpoints),
      `With ${endpoints} endpoints each rule matches 1/${endpoints} of all packets.`,
    )
  },
  counts: (options) => {
    const counts = countsOfFlow(need(options, 'recording'), need(options, 'from'), destination(options))
    const bars = countBars(counts)
    return barsFigure(
      bars,
      `Who answered: ${bars.map(({ name, value }) => `${name}, ${value}`).join('; ')}.`,
      highestShare(bars),
    )
  },
  local: (options) => {
    const bars = localShares(need(options, 'pods').split(',').map(Number))
    return barsFigure(
      bars,
      `Shares under Local: ${bars.map(({ name, value }) => `${name}, ${value}`).join('; ')}.`,
      highestShare(bars),
    )
  },
  headers: (options) => {
    const name = need(options, 'journey')
    const rows = JOURNEYS[name]
    if (!rows) throw new Error(`"${name}" is not a journey; use one of ${Object.keys(JOURNEYS).join(', ')}`)
    return headersFigure(rows, `Addresses of a packet (${name})`)
  },
  schedule: (options) => {
    const weights = need(options, 'weights').split(',').map(Number)
    return scheduleFigure(need(options, 'scheduler'), weights, Number(need(options, 'requests')))
  },
}

/**
 * Draws the figure of a directive `<!-- figure: name … -->`. Throws Error for an unknown name or option, and
 * for content that does not fit.
 */
export function drawFigure({ name, options }: Directive): Figure {
  const draw = FIGURES[name]
  if (!draw) throw new Error(`"${name}" is not a figure; use one of: ${Object.keys(FIGURES).join(', ')}`)
  return draw(options)
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
  const service = serviceOf(readRecording(need(options, 'recording')), need(options, 'service'))
  return `${service.clusterIPs[0]}:${service.ports[0]?.port}`
}

function highestShare(bars: readonly { share: number }[]): number {
  return Math.max(...bars.map(({ share }) => share))
}
