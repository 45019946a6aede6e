import { z } from 'zod'
import type { FileEdit } from './mutation.ts'

/** Every single change of a set of kube-proxy's, its type or its members, in an `ipset save` text. */
export function* ipsetEdits(text: string): Generator<FileEdit> {
  const lines = text.split('\n')
  for (const [at, line] of lines.entries()) {
    const [verb, set = '', entry = ''] = line.split(' ')
    if (!set.startsWith('KUBE-')) continue
    const about = { place: `set ${set}`, words: [set], detail: line }
    const put = (...instead: string[]) => lines.toSpliced(at, 1, ...instead).join('\n')
    if (verb === 'add') {
      yield { ...about, operator: 'drop member', edit: () => put() }
      yield { ...about, operator: 'alter member', edit: () => put(line.replace(entry, altered(entry))) }
      yield { ...about, operator: 'add member', edit: () => put(line, line.replace(entry, another(entry))) }
    }
    if (verb !== 'create') continue
    yield {
      ...about,
      operator: 'drop set',
      edit: () => lines.filter((other) => other.split(' ')[1] !== set).join('\n'),
    }
    const other = entry === 'hash:ip' ? 'hash:net' : 'hash:ip'
    yield { ...about, operator: 'alter set type', edit: () => put(line.replace(entry, other)) }
    if (entry.startsWith('hash:ip,port') && !entry.endsWith(',ip'))
      yield { ...about, operator: 'add member', edit: () => put(line, `add ${set} 10.96.99.99,tcp:99`) }
  }
  yield {
    operator: 'add stale set',
    place: 'set KUBE-NOBODY',
    detail: 'create KUBE-NOBODY hash:ip',
    words: ['KUBE-NOBODY'],
    edit: () => `create KUBE-NOBODY hash:ip family inet hashsize 1024 maxelem 65536\n${text}`,
  }
}

/** The same kind of member, with another port or else another last byte. */
const altered = (entry: string) =>
  /:\d+/.test(entry)
    ? entry.replace(/:(\d+)/, (_all, port) => `:${Number(port) + 1}`)
    : entry.replace(/\d+$/, (end) => String((Number(end) + 7) % 250))

const another = (entry: string) =>
  /^\d+\.\d+/.test(entry) ? entry.replace(/^(\d+\.\d+)\.\d+\.\d+/, '$1.98.98') : altered(entry)

type ForwardingMethod = 'm' | 'g' | 'i'
/** NAT, direct routing, tunnel. */
const OTHER_METHOD: Record<ForwardingMethod, ForwardingMethod> = { m: 'g', g: 'i', i: 'm' }

/** Every single change of a virtual server or a real server in an `ipvsadm -Sn` text. */
export function* ipvsEdits(text: string): Generator<FileEdit> {
  const lines = text.split('\n')
  for (const [at, line] of lines.entries()) {
    const found = /^-([Aa]) (-[tuf]) (\S+) (.*)$/.exec(line)
    if (!found) continue
    const [, verb, protocol = '', server = '', rest = ''] = found
    const about = { place: `virtual server ${server}`, words: [server], detail: line }
    const put = (...instead: string[]) => lines.toSpliced(at, 1, ...instead).join('\n')
    if (verb === 'A') {
      const own = (other: string) =>
        other.startsWith(`-A ${protocol} ${server} `) || other.startsWith(`-a ${protocol} ${server} `)
      yield { ...about, operator: 'drop virtual server', edit: () => lines.filter((other) => !own(other)).join('\n') }
      yield {
        ...about,
        operator: 'alter scheduler',
        edit: () => put(line.replace(/-s \w+/, (now) => (now === '-s wrr' ? '-s sh' : '-s wrr'))),
      }
      yield {
        ...about,
        operator: 'alter persistence',
        edit: () => put(/-p \d+/.test(line) ? line.replace(/ -p \d+/, '') : `${line} -p 300`),
      }
      const moved = shifted(server)
      yield {
        ...about,
        words: [server, moved],
        operator: 'alter virtual server',
        edit: () => lines.map((other) => (own(other) ? other.replace(server, moved) : other)).join('\n'),
      }
      yield {
        ...about,
        operator: 'add real server',
        edit: () => put(line, `-a ${protocol} ${server} -r 10.244.9.9:80 -m -w 1`),
      }
      continue
    }
    const real = /-r (\S+)/.exec(rest)?.[1] ?? ''
    const words = [server, real]
    yield { ...about, words, operator: 'drop real server', edit: () => put() }
    yield { ...about, words, operator: 'alter weight', edit: () => put(line.replace(/-w \d+/, '-w 7')) }
    yield { ...about, words, operator: 'weight nought', edit: () => put(line.replace(/-w \d+/, '-w 0')) }
    yield {
      ...about,
      words,
      operator: 'alter forwarding',
      edit: () => put(line.replace(/ -([mgi]) /, (_all, method: ForwardingMethod) => ` -${OTHER_METHOD[method]} `)),
    }
    yield { ...about, words, operator: 'alter real server', edit: () => put(line.replace(real, shifted(real))) }
  }
  yield {
    operator: 'add virtual server',
    place: 'virtual server 10.96.97.97:80',
    detail: '-A -t 10.96.97.97:80 -s rr',
    words: ['10.96.97.97:80'],
    edit: () => `${text.trimEnd()}\n-A -t 10.96.97.97:80 -s rr\n`,
  }
}

/** Another port, or firewall mark, that no server of the labs has. */
const shifted = (server: string) =>
  server.replace(/(?<=:|^)(\d+)$/, (_all, number) => `${(Number(number) + 977) % 65_536}`)

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

/** In lab 4 the learner adds addresses of TEST-NET-1 (RFC 5737) to a node, on any device. */
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
