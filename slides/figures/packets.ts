import type { NodeState } from '../../dataplane/node-state.ts'
import { type Hop, parsePacket, type Step, tracePacket } from '../../dataplane/trace.ts'
import { Canvas, type Drawing, type Figure, TALL, WIDE } from './canvas.ts'
import type { HookFigure, Place } from './hooks.ts'

/** The header of a packet at one place of its path; `changed` names the replaced addresses. */
interface HeaderRow {
  at: string
  source: string
  destination: string
  changed?: 'source' | 'destination' | 'both'
}

/** The addresses of a packet and its reply, by forwarding method. */
export const JOURNEYS: Readonly<Record<string, readonly HeaderRow[]>> = {
  nat: [
    { at: 'client sends', source: 'client', destination: 'VIP' },
    { at: 'behind the director', source: 'director', destination: 'real server', changed: 'both' },
    { at: 'the server answers', source: 'real server', destination: 'director' },
    { at: 'back at the director', source: 'VIP', destination: 'client', changed: 'both' },
  ],
  tunnel: [
    { at: 'client sends', source: 'client', destination: 'VIP' },
    { at: 'outer header (IPIP)', source: 'director', destination: 'real server', changed: 'both' },
    { at: 'inner header', source: 'client', destination: 'VIP' },
    { at: 'the server answers', source: 'VIP', destination: 'client' },
  ],
  route: [
    { at: 'client sends', source: 'client', destination: 'VIP' },
    { at: 'behind the director', source: 'client', destination: 'VIP' },
    { at: 'the server answers', source: 'VIP', destination: 'client' },
  ],
  service: [
    { at: 'Pod sends', source: 'client Pod', destination: 'ClusterIP' },
    { at: 'translated', source: 'client Pod', destination: 'backend Pod', changed: 'destination' },
    { at: 'backend answers', source: 'backend Pod', destination: 'client Pod' },
    { at: 'conntrack', source: 'ClusterIP', destination: 'client Pod', changed: 'source' },
  ],
  hairpin: [
    { at: 'Pod sends', source: 'Pod', destination: 'ClusterIP' },
    { at: 'its own rule', source: 'Pod', destination: 'Pod', changed: 'destination' },
    { at: 'masqueraded', source: 'node', destination: 'Pod', changed: 'source' },
  ],
  external: [
    { at: 'client sends', source: 'client', destination: 'node:port' },
    { at: 'policy Cluster', source: 'node', destination: 'Pod', changed: 'both' },
    { at: 'policy Local', source: 'client', destination: 'Pod', changed: 'destination' },
  ],
}

/** The header of a packet at each place, source and destination; replaced addresses are highlighted. */
export function headersFigure(rows: readonly HeaderRow[], label: string): Figure {
  return {
    wide: draw(rows, WIDE),
    tall: draw(rows, TALL),
    label: `${label}: ${rows.map((row) => `${row.at}, from ${row.source} to ${row.destination}`).join('; ')}.`,
  }
}

const HEIGHT = 72

function draw(rows: readonly HeaderRow[], width: number): Drawing {
  const canvas = new Canvas(width)
  const wide = width === WIDE
  const [left, box] = wide ? [330, 330] : [0, 210]
  for (const [index, { at, source, destination, changed }] of rows.entries()) {
    const y = index * (wide ? HEIGHT + 32 : HEIGHT + 64)
    const top = wide ? y : y + 38
    canvas.text(at, 0, wide ? y + 46 : y + 28)
    const tone = (end: 'source' | 'destination') => (changed === end || changed === 'both' ? 'path' : 'plain')
    const from = canvas.box({ x: left, y: top, width: box, height: HEIGHT }, [source], {
      tone: tone('source'),
      face: 'sans',
    })
    const to = canvas.box({ x: width - box, y: top, width: box, height: HEIGHT }, [destination], {
      tone: tone('destination'),
      face: 'sans',
    })
    canvas.connect(from, 'e', to, 'w')
  }
  return canvas.finish()
}

/**
 * The path of a packet that `tracePacket` found in a node's rules, as a figure of the hooks. The path to the first outcome is
 * drawn; differences between backends are in the legend. Throws the errors of parsePacket and tracePacket.
 */
export function packetPathFigure(state: NodeState, from: string, to: string): HookFigure {
  const trace = tracePacket(state, parsePacket(from, to))
  const hooks = passedHooks(trace.steps)
  const caught = trace.hops.find((hop) => hop.table === 'ipvs')?.hook === 'INPUT'
  const path = placesOnPath(hooks, from === 'host', trace.outcomes.length > 0)
  const legend = hooks.map((hook) => {
    return { hook, text: whatHappens(trace.hops.filter((hop) => hop.hook === hook)) }
  })
  const ends = trace.outcomes.map((outcome) => outcome.to).join(' or ') || trace.verdict
  return {
    path,
    local: caught ? 'IPVS' : 'process',
    legend,
    label: `The path of ${trace.packet} through ${hooks.join(', ')}; it ends at ${ends}.`,
  }
}

function passedHooks(steps: readonly Step[]): Step['hook'][] {
  return [...new Set(steps.map((step) => step.hook))]
}

function placesOnPath(hooks: readonly Step['hook'][], fromHost: boolean, passes: boolean): Place[] {
  const path: Place[] = [fromHost ? 'process' : 'in']
  for (const hook of hooks) {
    const before = path.at(-1)
    if (before === 'PREROUTING') path.push('routing')
    if (before === 'INPUT') path.push('process')
    path.push(hook)
  }
  const last = path.at(-1)
  if (!passes) return path
  if (last === 'POSTROUTING') path.push('out')
  if (last === 'INPUT') path.push('process')
  return path
}

/** A line about one hook: the Kubernetes chains that were entered, and the result. */
function whatHappens(hops: readonly Hop[]): string {
  const translating = hops.filter((hop) => hop.table === 'nat' || hop.table === 'ipvs')
  const chains = [...new Set(translating.filter((hop) => hop.verdict === 'JUMP').map(jumpTarget))]
    .filter((name) => name.startsWith('KUBE-') && name !== 'KUBE-NODE-PORT')
    .map(shortName)
  const results = [
    ...resultsOf(translating, 'MARK', 'the mark becomes', /becomes (0x[1-9a-f]\w*)/),
    ...resultsOf(translating, 'ACCEPT', 'it is in', /is in the set (\S+)/),
    ...(translating.some((hop) => hop.table === 'ipvs') ? ['IPVS handles it'] : []),
    ...resultsOf(translating, 'DNAT', 'the destination becomes', /to (\d\S*?:\d+)/),
    ...resultsOf(translating, 'MASQUERADE', 'the source becomes', /becomes (\S+)/),
    ...hops
      .filter(({ verdict }) => verdict === 'REJECT' || verdict === 'DROP')
      .map((hop) => `${hop.verdict} by ${hop.chain}`),
  ]
  const path = [...new Set(chains)].join(' → ')
  const outcome = [...new Set(results)].join('; ')
  if (path === '' && outcome === '') return 'nothing is changed here'
  const passive = translating[0]?.hook === 'POSTROUTING' ? 'no mark, so the source stays' : 'no rule matches'
  return [path, outcome || passive].filter((part) => part !== '').join(': ')
}

function resultsOf(hops: readonly Hop[], verdict: string, phrase: string, pattern: RegExp): string[] {
  const values = hops.filter((hop) => hop.verdict === verdict).flatMap((hop) => pattern.exec(hop.reason)?.[1] ?? [])
  return values.length === 0 ? [] : [`${phrase} ${[...new Set(values)].join(' or ')}`]
}

function jumpTarget(hop: Hop): string {
  return /-[jg] (\S+)/.exec(hop.rule)?.[1] ?? ''
}

/** The first four characters of the hash are enough to distinguish chains on a slide. */
function shortName(chain: string): string {
  if (chain.startsWith('KUBE-SEP-')) return 'one KUBE-SEP-…'
  return chain.replace(/^(KUBE-(?:SVC|SVL|XLB|EXT|FW)-[A-Z0-9]{4})[A-Z0-9]{12}$/, '$1…')
}
