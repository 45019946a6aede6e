import type { NodeState } from '../../dataplane/node-state.ts'
import { type Box, Canvas, type Drawing, type Figure, TALL, WIDE } from './canvas.ts'

/** A Service port in IPVS mode: the three places in which a node holds it. */
export interface ServiceSets {
  members: string[]
  addresses: string[]
  server: string
  scheduler: string
  realServers: string[]
  /** Which member and which address belong to the Service. */
  member: string
  address: string
}

/** Reads what a node in IPVS mode holds of the TCP Service port at `address` (`10.96.0.10:53`). Throws Error where it holds none. */
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

/** The picture of a Service port in IPVS mode: a member of a set, an address of kube-ipvs0, a virtual server. */
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
    canvas.connect(set.marked, 'e', device.marked, 'w', 'way')
    canvas.connect(device.marked, 'e', ipvs.marked, 'w', 'way')
  } else {
    canvas.connect(set.last, 's', { ...device.last, y: below(set.last) - 10, height: 0 }, 'n', 'way')
    canvas.connect(device.last, 's', { ...ipvs.last, y: below(device.last) - 10, height: 0 }, 'n', 'way')
  }
  return canvas.finish()
}

/** A heading with a box for each entry below it; the Service's own first, so that it is always seen. */
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
    return canvas.box(box, [entry], { tone: entry === own ? 'way' : 'plain' })
  })
  return { marked: boxes[0] as Box, last: boxes.at(-1) as Box }
}
