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

/** Every single change of kube-ipvs0 in an `ip -j -d addr` text. */
export function* linkEdits(text: string): Generator<FileEdit> {
  const links = linksSchema.parse(JSON.parse(text))
  const device = links.find(({ ifname }) => ifname === DEVICE)
  if (!device) return
  const about = { place: DEVICE, words: [DEVICE] }
  const put = (edit: (link: RawLink) => void) => () => {
    const copy = structuredClone(links)
    for (const link of copy) if (link.ifname === DEVICE) edit(link)
    return JSON.stringify(copy)
  }
  for (const [at, { local }] of device.addr_info.entries()) {
    yield { ...about, operator: 'drop address', detail: local, edit: put((link) => link.addr_info.splice(at, 1)) }
    yield {
      ...about,
      operator: 'alter address',
      detail: local,
      edit: put((link) => {
        const entry = link.addr_info[at]
        if (entry) entry.local = local.replace(/\d+$/, (end) => String((Number(end) + 9) % 250))
      }),
    }
    yield {
      ...about,
      operator: 'alter prefix',
      detail: local,
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
