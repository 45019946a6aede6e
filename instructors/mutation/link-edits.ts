import { z } from 'zod'
import type { FileEdit } from './mutation.ts'

const linksSchema = z.array(
  z.looseObject({
    ifname: z.string(),
    flags: z.array(z.string()),
    addr_info: z.array(z.looseObject({ family: z.string(), local: z.string(), prefixlen: z.number() })),
    linkinfo: z.looseObject({ info_kind: z.string() }).optional(),
  }),
)
type RawLink = z.infer<typeof linksSchema>[number]

const DEVICE = 'kube-ipvs0'

/** Every single change of kube-ipvs0, and of an address that a learner gave, in an `ip -j -d addr` text. */
export function* linkEdits(text: string): Generator<FileEdit> {
  const links = linksSchema.parse(JSON.parse(text))
  yield* learnersAddressEdits(links)
  for (const [at, { ifname, flags }] of links.entries())
    if (ifname.startsWith('veth') && flags.includes('UP'))
      yield {
        operator: 'take link down',
        place: `link ${ifname}`,
        words: [ifname],
        detail: ifname,
        edit: () =>
          JSON.stringify(links.with(at, { ...links[at], ifname, flags: [], addr_info: links[at]?.addr_info ?? [] })),
      }
  const device = links.find(({ ifname }) => ifname === DEVICE)
  if (!device) return
  const about = { place: DEVICE, words: [DEVICE] }
  const put = (edit: (link: RawLink) => void) => () => {
    const copy = structuredClone(links)
    for (const link of copy) if (link.ifname === DEVICE) edit(link)
    return JSON.stringify(copy)
  }
  for (const [at, { local }] of device.addr_info.entries()) {
    const here = { place: DEVICE, words: [DEVICE, local], detail: local }
    yield { ...here, operator: 'drop address', edit: put((link) => link.addr_info.splice(at, 1)) }
    yield {
      ...here,
      operator: 'alter address',
      edit: put((link) => {
        const entry = link.addr_info[at]
        if (entry) entry.local = local.replace(/\d+$/, (end) => String((Number(end) + 9) % 250))
      }),
    }
    yield {
      ...here,
      operator: 'alter prefix',
      edit: put((link) => {
        const entry = link.addr_info[at]
        if (entry) entry.prefixlen = 24
      }),
    }
  }
  yield {
    ...about,
    operator: 'add address',
    detail: '10.96.96.96',
    edit: put((link) => link.addr_info.push({ family: 'inet', local: '10.96.96.96', prefixlen: 32 })),
  }
  yield { ...about, operator: 'raise link', detail: 'UP', edit: put((link) => link.flags.push('UP')) }
  yield {
    ...about,
    operator: 'answer ARP',
    detail: 'NOARP',
    edit: put((link) => link.flags.splice(link.flags.indexOf('NOARP'), 1)),
  }
  yield {
    ...about,
    operator: 'drop link',
    detail: DEVICE,
    edit: () => JSON.stringify(links.filter(({ ifname }) => ifname !== DEVICE)),
  }
  if (device.linkinfo)
    yield {
      ...about,
      operator: 'alter kind',
      detail: 'bridge',
      edit: put((link) => {
        if (link.linkinfo) link.linkinfo.info_kind = 'bridge'
      }),
    }
}

/** Lab 4 has its reader give a node addresses of TEST-NET-1 (RFC 5737), on whichever device. */
function* learnersAddressEdits(links: readonly RawLink[]): Generator<FileEdit> {
  for (const [at, { ifname, addr_info }] of links.entries())
    for (const [index, { local }] of addr_info.entries()) {
      if (!local.startsWith('192.0.2.')) continue
      const put = (...instead: RawLink['addr_info']) => {
        const copy = structuredClone(links)
        copy[at]?.addr_info.splice(index, 1, ...instead)
        return () => JSON.stringify(copy)
      }
      const about = { place: `address ${local}`, words: [local], detail: ifname }
      yield { ...about, operator: 'drop address', edit: put() }
      yield { ...about, operator: 'alter address', edit: put({ family: 'inet', local: '192.0.2.99', prefixlen: 32 }) }
    }
}
