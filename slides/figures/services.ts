import type { Ruleset } from '../../dataplane/iptables-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { type ParsedRule, parseRule } from '../../dataplane/rule.ts'
import { type Box, boxAt, type Canvas, type Figure, figure } from './canvas.ts'
import { shortName } from './packets.ts'

/**
 * The chains of the Service port at `address` (`10.96.0.10:53`) in a node's rules: KUBE-SERVICES,
 * the random choice, the endpoints. Throws Error if there are none.
 */
export function serviceChainsFigure(iptables: Ruleset, address: string): Figure {
  const [ip, port] = address.split(':')
  const list = rulesOf(iptables, 'KUBE-SERVICES')
  const index = list.findIndex(
    (rule) =>
      rule.destination?.value === `${ip}/32` &&
      option(rule, 'dport') === port &&
      jump(rule).startsWith('KUBE-SVC-'),
  )
  const chain = jump(list[index])
  if (chain === '') throw new Error(`KUBE-SERVICES has no entry for "${address}"`)
  const entry = `entry ${index + 1} of ${list.length}`
  const drawn = rulesOf(iptables, chain).filter((rule) => jump(rule).startsWith('KUBE-SEP-'))
  const endpoints = drawn.map((rule) => {
    const dnat = rulesOf(iptables, jump(rule)).find((candidate) => jump(candidate) === 'DNAT')
    const backend = dnat?.target?.options.get('--to-destination')?.value[0] ?? '?'
    return { chain: jump(rule), chance: fraction(option(rule, 'probability')), backend }
  })
  const to = endpoints.map((one) => `${one.chain} (${one.chance}) to ${one.backend}`)
  const label = `KUBE-SERVICES ${entry} for ${address} leads to ${chain}, and that to ${to.join(', ')}.`
  return figure(label, (canvas, isWide) => {
    const middle = Math.max(0, ((endpoints.length - 1) * 132) / 2)
    const place = (wide: Box, tall: Box) => (isWide ? wide : tall)
    const list = canvas.box(
      place(boxAt(0, middle, 284, 112), boxAt(20, 0, 440, 112)),
      ['KUBE-SERVICES', entry, address],
      'path',
      'mono',
    )
    const choice = canvas.box(
      place(boxAt(326, middle, 254, 112), boxAt(20, 150, 440, 80)),
      [shortName(chain), 'random choice'],
      'plain',
      'mono',
    )
    canvas.connect(list, choice, 'path')
    for (const [index, endpoint] of endpoints.entries()) {
      const [y, below] = [index * 132, 266 + index * 186]
      const lines = [shortName(endpoint.chain), endpoint.chance]
      const chosen = canvas.box(
        place(boxAt(622, y, 254, 112), boxAt(20, below, 440, 80)),
        lines,
        'plain',
        'mono',
      )
      const pod = place(boxAt(918, y + 16, 234, 80), boxAt(120, below + 108, 240, 50))
      if (isWide || index === 0) canvas.connect(choice, chosen)
      canvas.connect(chosen, canvas.box(pod, [endpoint.backend], 'strong', 'mono'), 'strong')
    }
  })
}

/** A probability such as `0.33333333349` as a fraction. */
function fraction(probability: string | undefined): string {
  if (probability === undefined) return 'all others'
  const whole = Math.round(1 / Number(probability))
  return Math.abs(1 / whole - Number(probability)) < 1e-6
    ? `chance 1/${whole}`
    : `chance ${Number(probability)}`
}

function rulesOf(iptables: Ruleset, chain: string): ParsedRule[] {
  const rules = iptables.get('nat')?.get(chain)?.rules ?? []
  return rules.flatMap(({ spec }) => parseRule(spec) ?? [])
}

const jump = (rule: ParsedRule | undefined): string => rule?.target?.name ?? ''

function option(rule: ParsedRule, name: string): string | undefined {
  return rule.matches
    .map((match) => match.options.get(`--${name}`)?.value[0])
    .find((value) => value !== undefined)
}

/**
 * The TCP Service port at `address` (`10.96.0.10:53`) on a node in IPVS mode: a member of a set, an
 * address of kube-ipvs0, a virtual server. Throws Error if there is none.
 */
export function serviceSetsFigure(
  { virtualServers, links, ipsets }: NodeState,
  address: string,
): Figure {
  const [ip = '', port] = address.split(':')
  const server = virtualServers.find(
    (one) => one.protocol === 'TCP' && one.address === ip && `${one.port}` === port,
  )
  if (!server) throw new Error(`IPVS has no virtual server "${address}"`)
  const member = `${ip},tcp:${port}`
  const members = [...(ipsets.get('KUBE-CLUSTER-IP')?.members ?? [])]
  const device = links.find((link) => link.name === 'kube-ipvs0')
  const addresses = (device?.addresses ?? []).flatMap((one) =>
    one.family === 'inet' ? [one.address] : [],
  )
  const realServers = server.realServers.map((real) => `${real.address}:${real.port}`)
  const label = `${member} is in the set KUBE-CLUSTER-IP, ${ip} is an address of kube-ipvs0, and the virtual server ${address} (${server.scheduler}) has ${realServers.join(' and ') || 'no real server'}.`
  return figure(label, (canvas, isWide) => {
    const columns = [
      { x: 0, width: 370, heading: 'set KUBE-CLUSTER-IP', entries: members, own: member },
      { x: 459, width: 256, heading: 'device kube-ipvs0', entries: addresses, own: ip },
      { x: 804, width: 348, heading: 'IPVS', entries: [], own: `${address} ${server.scheduler}` },
    ]
    const last = isWide ? columnsBeside(canvas, columns) : columnsBelow(canvas, columns)
    if (last) drawRealServers(canvas, last, realServers)
  })
}

interface ServiceColumn {
  x: number
  width: number
  heading: string
  entries: readonly string[]
  /** The Service's own entry. */
  own: string
}

/** Columns side by side, with arrows from own entry to own entry. Returns the last box. */
function columnsBeside(canvas: Canvas, columns: readonly ServiceColumn[]): Box | undefined {
  let before: DrawnColumn | undefined
  for (const column of columns) {
    const drawn = drawColumn(canvas, { ...column, y: 0 })
    if (before) canvas.connect(before.own, drawn.own, 'path')
    before = drawn
  }
  return before?.last
}

/** Columns one below the other, with arrows from column to column. Returns the last box. */
function columnsBelow(canvas: Canvas, columns: readonly ServiceColumn[]): Box | undefined {
  let before: Box | undefined
  for (const column of columns) {
    const y = before ? before.y + before.height + 76 : 0
    const place = { x: 60, y, width: 370 }
    const { last } = drawColumn(canvas, { ...column, ...place })
    if (before) canvas.connect(before, { ...place, y: y - 10, height: 0 }, 'path')
    before = last
  }
  return before
}

/** The real servers below their virtual server. */
function drawRealServers(canvas: Canvas, server: Box, realServers: readonly string[]): void {
  let above = server
  for (const [index, real] of realServers.entries()) {
    const below = { ...above, y: above.y + above.height + 34 }
    const next = canvas.box(below, [real], 'strong', 'mono')
    if (index === 0) canvas.connect(above, next, 'strong')
    above = next
  }
}

const ROW = 60
const SHOWN = 5

interface DrawnColumn {
  own: Box
  last: Box
}

/**
 * A heading with a box for each entry below it; the Service's own entry is first, so that it is
 * always visible.
 */
function drawColumn(
  canvas: Canvas,
  { x, y, width, heading, entries, own }: ServiceColumn & { y: number },
): DrawnColumn {
  canvas.text(heading, x, y + 26)
  const others = entries.filter((entry) => entry !== own)
  const more = others.length - SHOWN + 1
  const shown = [own, ...others.slice(0, SHOWN - 1), ...(more > 0 ? [`… ${more} more`] : [])]
  const boxes = shown.map((entry, index) => {
    const box = { x, y: y + 42 + index * (ROW + 8), width, height: ROW }
    return canvas.box(box, [entry], entry === own ? 'path' : 'plain', 'mono')
  })
  return { own: boxes[0] as Box, last: boxes.at(-1) as Box }
}
