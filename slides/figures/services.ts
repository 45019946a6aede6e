import type { Ruleset } from '../../dataplane/iptables-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { type ParsedRule, parseRule } from '../../dataplane/rule.ts'
import { type Box, Canvas, type Drawing, type Figure, TALL, WIDE } from './canvas.ts'

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
export function serviceChainsFigure(service: ServiceChains): Figure {
  if (service.endpoints.length > 4) throw new Error(`${service.endpoints.length} endpoints are too many for one slide`)
  const to = service.endpoints.map(({ chain, chance, backend }) => `${chain} (${chance}) to ${backend}`)
  return {
    wide: drawWide(service),
    tall: drawTall(service),
    label: `KUBE-SERVICES entry ${service.entry} of ${service.entries} for ${service.address} leads to ${service.chain}, and that to ${to.join(', ')}.`,
  }
}

function drawWide({ entry, entries, address, chain, endpoints }: ServiceChains): Drawing {
  const canvas = new Canvas(WIDE)
  const row = 140
  const height = 120
  const middle = Math.max(0, ((endpoints.length - 1) * row) / 2)
  const list = canvas.box(
    { x: 0, y: middle, width: 284, height },
    ['KUBE-SERVICES', `entry ${entry} of ${entries}`, address],
    { tone: 'path' },
  )
  const draw = canvas.box({ x: 308, y: middle, width: 284, height }, [...split(chain), 'random choice'])
  canvas.connect(list, 'e', draw, 'w', 'path')
  for (const [index, endpoint] of endpoints.entries()) {
    const y = index * row
    const sep = canvas.box({ x: 616, y, width: 284, height }, [...split(endpoint.chain), endpoint.chance])
    const pod = canvas.box({ x: 922, y: y + 20, width: 230, height: 80 }, [endpoint.backend], { tone: 'strong' })
    canvas.connect(draw, 'e', sep, 'w')
    canvas.connect(sep, 'e', pod, 'w', 'strong')
  }
  return canvas.finish()
}

function drawTall({ entry, entries, address, chain, endpoints }: ServiceChains): Drawing {
  const canvas = new Canvas(TALL)
  const box = (y: number, height: number) => ({ x: 20, y, width: 440, height })
  const list = canvas.box(box(0, 112), ['KUBE-SERVICES', `entry ${entry} of ${entries}`, address], { tone: 'path' })
  const draw = canvas.box(box(150, 80), [chain, 'random choice'])
  canvas.connect(list, 's', draw, 'n', 'path')
  for (const [index, endpoint] of endpoints.entries()) {
    const y = 266 + index * 186
    const sep = canvas.box(box(y, 80), [endpoint.chain, endpoint.chance])
    const pod = canvas.box({ x: 120, y: y + 108, width: 240, height: 50 }, [endpoint.backend], { tone: 'strong' })
    if (index === 0) canvas.connect(draw, 's', sep, 'n')
    canvas.connect(sep, 's', pod, 'n', 'strong')
  }
  return canvas.finish()
}

/** A probability such as `0.33333333349` as a fraction. */
function fraction(probability: string | undefined): string {
  if (probability === undefined) return 'all others'
  const whole = Math.round(1 / Number(probability))
  return Math.abs(1 / whole - Number(probability)) < 1e-6 ? `chance 1/${whole}` : `chance ${Number(probability)}`
}

function split(chain: string): string[] {
  const end = chain.lastIndexOf('-') + 1
  return [chain.slice(0, end), chain.slice(end)]
}

function rulesOf(iptables: Ruleset, chain: string): ParsedRule[] {
  const rules = iptables.get('nat')?.get(chain)?.rules ?? []
  return rules.flatMap(({ spec }) => parseRule(spec, { lenient: true }) ?? [])
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
  const { member, address, server, scheduler, realServers } = service
  return {
    wide: draw(service, WIDE),
    tall: draw(service, TALL),
    label: `${member} is in the set KUBE-CLUSTER-IP, ${address} is an address of kube-ipvs0, and the virtual server ${server} (${scheduler}) has ${realServers.join(' and ')}.`,
  }
}

const ROW = 56
const SHOWN = 5

function draw(service: ServiceSets, width: number): Drawing {
  const canvas = new Canvas(width)
  const wide = width === WIDE
  const { members, addresses, server, scheduler, realServers, member, address } = service
  const set = column(canvas, wide ? [0, 0, 370] : [60, 0, 370], 'set KUBE-CLUSTER-IP', members, member)
  const below = (box: Box) => box.y + box.height + 76
  const device = column(
    canvas,
    wide ? [459, 0, 256] : [60, below(set.last), 370],
    'device kube-ipvs0',
    addresses,
    address,
  )
  const ipvs = column(
    canvas,
    wide ? [804, 0, 348] : [60, below(device.last), 370],
    'IPVS',
    [`${server} ${scheduler}`],
    `${server} ${scheduler}`,
  )
  let above = ipvs.last
  for (const real of realServers) {
    const next = canvas.box({ ...above, y: above.y + above.height + 34, height: ROW }, [real], { tone: 'strong' })
    if (above === ipvs.last) canvas.connect(above, 's', next, 'n', 'strong')
    above = next
  }
  if (wide) {
    canvas.connect(set.marked, 'e', device.marked, 'w', 'path')
    canvas.connect(device.marked, 'e', ipvs.marked, 'w', 'path')
  } else {
    canvas.connect(set.last, 's', { ...device.last, y: below(set.last) - 10, height: 0 }, 'n', 'path')
    canvas.connect(device.last, 's', { ...ipvs.last, y: below(device.last) - 10, height: 0 }, 'n', 'path')
  }
  return canvas.finish()
}

/** A heading with a box for each entry below it; the Service's own entry is first, so that it is always visible. */
function column(
  canvas: Canvas,
  [x, y, width]: [number, number, number],
  heading: string,
  entries: readonly string[],
  own: string,
) {
  canvas.text(heading, x, y + 26)
  const others = entries.filter((entry) => entry !== own)
  const shown = [own, ...others.slice(0, SHOWN - 1)]
  if (others.length > SHOWN - 1) shown.push(`… ${others.length - SHOWN + 1} more`)
  const boxes = shown.map((entry, index) => {
    const box = { x, y: y + 42 + index * (ROW + 6), width, height: ROW }
    return canvas.box(box, [entry], { tone: entry === own ? 'path' : 'plain' })
  })
  return { marked: boxes[0] as Box, last: boxes.at(-1) as Box }
}
