import type { Ruleset } from '../../dataplane/iptables-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { type ParsedRule, parseRule } from '../../dataplane/rule.ts'
import { type Box, boxAt, type Canvas, type Figure, figure } from './canvas.ts'
import { shortName } from './packets.ts'

/** A Service port in the rules of a node in iptables mode. */
interface ServiceChains {
  /** The position of its entry in KUBE-SERVICES, and the number of entries. */
  entry: number
  entries: number
  address: string
  chain: string
  endpoints: { chain: string; chance: string; backend: string }[]
}

/**
 * Reads the chains of the Service port at `address` (`10.96.0.10:53`) from a node's rules. Throws Error if there are none.
 */
export function readServiceChains(iptables: Ruleset, address: string): ServiceChains {
  const [ip, port] = address.split(':')
  const list = rulesOf(iptables, 'KUBE-SERVICES')
  const entry = list.findIndex(
    (rule) =>
      rule.destination?.value === `${ip}/32` && option(rule, 'dport') === port && jump(rule)?.startsWith('KUBE-SVC-'),
  )
  const chain = jump(list[entry])
  if (chain === undefined) throw new Error(`KUBE-SERVICES has no entry for "${address}"`)
  const drawn = rulesOf(iptables, chain).filter((rule) => jump(rule)?.startsWith('KUBE-SEP-'))
  const endpoints = drawn.map((rule) => {
    const sep = jump(rule) ?? ''
    const dnat = rulesOf(iptables, sep).find((candidate) => jump(candidate) === 'DNAT')
    return {
      chain: sep,
      chance: fraction(option(rule, 'probability')),
      backend: dnat?.target?.options.get('--to-destination')?.value[0] ?? '?',
    }
  })
  return { entry: entry + 1, entries: list.length, address, chain, endpoints }
}

/**
 * The figure of a Service port's chains: KUBE-SERVICES, the random choice, the endpoints. Throws Error for more than four
 * endpoints.
 */
export function serviceChainsFigure({ entry, entries, address, chain, endpoints }: ServiceChains): Figure {
  if (endpoints.length > 4) throw new Error(`${endpoints.length} endpoints are too many for one slide`)
  const to = endpoints.map((one) => `${one.chain} (${one.chance}) to ${one.backend}`)
  const label = `KUBE-SERVICES entry ${entry} of ${entries} for ${address} leads to ${chain}, and that to ${to.join(', ')}.`
  return figure(label, (canvas, isWide) => {
    const [out, into] = isWide ? (['e', 'w'] as const) : (['s', 'n'] as const)
    const middle = Math.max(0, ((endpoints.length - 1) * 132) / 2)
    const place = (wide: Box, tall: Box) => (isWide ? wide : tall)
    const list = canvas.box(
      place(boxAt(0, middle, 284, 112), boxAt(20, 0, 440, 112)),
      ['KUBE-SERVICES', `entry ${entry} of ${entries}`, address],
      'path',
      'mono',
    )
    const choice = canvas.box(
      place(boxAt(326, middle, 254, 112), boxAt(20, 150, 440, 80)),
      [shortName(chain), 'random choice'],
      'plain',
      'mono',
    )
    canvas.connect(list, out, choice, into, 'path')
    for (const [index, endpoint] of endpoints.entries()) {
      const [y, below] = [index * 132, 266 + index * 186]
      const lines = [shortName(endpoint.chain), endpoint.chance]
      const chosen = canvas.box(place(boxAt(622, y, 254, 112), boxAt(20, below, 440, 80)), lines, 'plain', 'mono')
      const pod = place(boxAt(918, y + 16, 234, 80), boxAt(120, below + 108, 240, 50))
      if (isWide || index === 0) canvas.connect(choice, out, chosen, into)
      canvas.connect(chosen, out, canvas.box(pod, [endpoint.backend], 'strong', 'mono'), into, 'strong')
    }
  })
}

/** A probability such as `0.33333333349` as a fraction. */
function fraction(probability: string | undefined): string {
  if (probability === undefined) return 'all others'
  const whole = Math.round(1 / Number(probability))
  return Math.abs(1 / whole - Number(probability)) < 1e-6 ? `chance 1/${whole}` : `chance ${Number(probability)}`
}

function rulesOf(iptables: Ruleset, chain: string): ParsedRule[] {
  const rules = iptables.get('nat')?.get(chain)?.rules ?? []
  return rules.flatMap(({ spec }) => parseRule(spec) ?? [])
}

function jump(rule: ParsedRule | undefined): string | undefined {
  return rule?.target?.name
}

function option(rule: ParsedRule, name: string): string | undefined {
  return rule.matches.map((match) => match.options.get(`--${name}`)?.value[0]).find((value) => value !== undefined)
}

/** A Service port in IPVS mode: its three places on a node. */
interface ServiceSets {
  members: string[]
  addresses: string[]
  server: string
  scheduler: string
  realServers: string[]
  /** The member and the address of this Service. */
  member: string
  address: string
}

/**
 * Reads the state on a node in IPVS mode of the TCP Service port at `address` (`10.96.0.10:53`). Throws Error if there is
 * none.
 */
export function readServiceSets(state: NodeState, address: string): ServiceSets {
  const [ip, port] = address.split(':')
  const server = state.virtualServers.find(
    (one) => one.protocol === 'TCP' && one.address === ip && `${one.port}` === port,
  )
  if (!server || ip === undefined) throw new Error(`IPVS has no virtual server "${address}"`)
  const device = state.links.find((link) => link.name === 'kube-ipvs0')
  return {
    members: [...(state.ipsets.get('KUBE-CLUSTER-IP')?.members ?? [])],
    addresses: (device?.addresses ?? []).filter(({ family }) => family === 'inet').map((one) => one.address),
    server: address,
    scheduler: server.scheduler,
    realServers: server.realServers.map((real) => `${real.address}:${real.port}`),
    member: `${ip},tcp:${port}`,
    address: ip,
  }
}

/** The figure of a Service port in IPVS mode: a member of a set, an address of kube-ipvs0, a virtual server. */
export function serviceSetsFigure(service: ServiceSets): Figure {
  const { members, addresses, member, address, server, scheduler, realServers } = service
  const label = `${member} is in the set KUBE-CLUSTER-IP, ${address} is an address of kube-ipvs0, and the virtual server ${server} (${scheduler}) has ${realServers.join(' and ')}.`
  return figure(label, (canvas, isWide) => {
    const columns = [
      { x: 0, width: 370, heading: 'set KUBE-CLUSTER-IP', entries: members, own: member },
      { x: 459, width: 256, heading: 'device kube-ipvs0', entries: addresses, own: address },
      { x: 804, width: 348, heading: 'IPVS', entries: [], own: `${server} ${scheduler}` },
    ]
    let before: { own: Box; last: Box } | undefined
    for (const { x, width, heading, entries, own } of columns) {
      const y = before && !isWide ? before.last.y + before.last.height + 76 : 0
      const place = isWide ? { x, y, width } : { x: 60, y, width: 370 }
      const drawn = drawColumn(canvas, place, heading, entries, own)
      if (before && isWide) canvas.connect(before.own, 'e', drawn.own, 'w', 'path')
      if (before && !isWide) canvas.connect(before.last, 's', { ...place, y: y - 10, height: 0 }, 'n', 'path')
      before = drawn
    }
    let above = before?.last
    for (const [index, real] of realServers.entries()) {
      if (!above) break
      const next = canvas.box({ ...above, y: above.y + above.height + 34 }, [real], 'strong', 'mono')
      if (index === 0) canvas.connect(above, 's', next, 'n', 'strong')
      above = next
    }
  })
}

const ROW = 60
const SHOWN = 5

/** A heading with a box for each entry below it; the Service's own entry is first, so that it is always visible. */
function drawColumn(
  canvas: Canvas,
  { x, y, width }: Omit<Box, 'height'>,
  heading: string,
  entries: readonly string[],
  own: string,
): { own: Box; last: Box } {
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
