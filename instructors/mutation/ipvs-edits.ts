import { z } from 'zod'
import { type FileEdit, lineEdits } from './mutation.ts'

/** Every single change of a set of kube-proxy's, its type or its members, in an `ipset save` text. */
export function* ipsetEdits(text: string): Generator<FileEdit> {
  const lines = text.split('\n')
  for (const [at, line] of lines.entries()) {
    const [verb, set = '', entry = ''] = line.split(' ')
    if (!set.startsWith('KUBE-')) continue
    const place = { place: `set ${set}`, words: [set], detail: line }
    if (verb === 'add')
      yield* lineEdits(lines, at, place, {
        'drop member': [],
        'alter member': [line.replace(entry, altered(entry))],
        'add member': [line, line.replace(entry, another(entry))],
      })
    if (verb !== 'create') continue
    const isOwn = (other: string) => other.split(' ')[1] === set
    yield { ...place, operator: 'drop set', edit: () => lines.filter((other) => !isOwn(other)).join('\n') }
    const hasPorts = entry.startsWith('hash:ip,port') && !entry.endsWith(',ip')
    yield* lineEdits(lines, at, place, {
      'alter set type': [line.replace(entry, entry === 'hash:ip' ? 'hash:net' : 'hash:ip')],
      'add member': hasPorts ? [line, `add ${set} 10.96.99.99,tcp:99`] : [line],
    })
  }
  const stale = { place: 'set KUBE-NOBODY', detail: 'create KUBE-NOBODY hash:ip', words: ['KUBE-NOBODY'] }
  const created = 'create KUBE-NOBODY hash:ip family inet hashsize 1024 maxelem 65536'
  yield { ...stale, operator: 'add stale set', edit: () => `${created}\n${text}` }
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
    const place = { place: `virtual server ${server}`, words: [server], detail: line }
    if (verb === 'A') {
      const isOwn = (other: string) => /^-[Aa]/.test(other) && other.slice(3).startsWith(`${protocol} ${server} `)
      const moved = shifted(server)
      const renamed = () => lines.map((other) => (isOwn(other) ? other.replace(server, moved) : other)).join('\n')
      yield { ...place, operator: 'drop virtual server', edit: () => lines.filter((other) => !isOwn(other)).join('\n') }
      yield { ...place, words: [server, moved], operator: 'alter virtual server', edit: renamed }
      yield* lineEdits(lines, at, place, {
        'alter scheduler': [line.replace(/-s \w+/, (now) => (now === '-s wrr' ? '-s sh' : '-s wrr'))],
        'alter persistence': [/-p \d+/.test(line) ? line.replace(/ -p \d+/, '') : `${line} -p 300`],
        'add real server': [line, `-a ${protocol} ${server} -r 10.244.9.9:80 -m -w 1`],
      })
      continue
    }
    const real = /-r (\S+)/.exec(rest)?.[1] ?? ''
    const otherMethod = (_all: string, method: ForwardingMethod) => ` -${OTHER_METHOD[method]} `
    yield* lineEdits(
      lines,
      at,
      { ...place, words: [server, real] },
      {
        'drop real server': [],
        'alter weight': [line.replace(/-w \d+/, '-w 7')],
        'weight nought': [line.replace(/-w \d+/, '-w 0')],
        'alter forwarding': [line.replace(/ -([mgi]) /, otherMethod)],
        'alter real server': [line.replace(real, shifted(real))],
      },
    )
  }
  const added = {
    place: 'virtual server 10.96.97.97:80',
    words: ['10.96.97.97:80'],
    detail: '-A -t 10.96.97.97:80 -s rr',
  }
  yield { ...added, operator: 'add virtual server', edit: () => `${text.trimEnd()}\n${added.detail}\n` }
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

/** Every single change of kube-ipvs0, of an address that a learner gave, and of a Pod's link, in an `ip -j -d addr` text. */
export function* linkEdits(text: string): Generator<FileEdit> {
  const links = linksSchema.parse(JSON.parse(text))
  for (const [at, link] of links.entries()) {
    const { ifname, flags } = link
    const put: Put =
      (...instead) =>
      () =>
        JSON.stringify(links.toSpliced(at, 1, ...instead))
    yield* learnersAddressEdits(link, put)
    if (ifname === DEVICE) yield* deviceEdits(link, put)
    const place = { place: `link ${ifname}`, words: [ifname], detail: ifname }
    if (ifname.startsWith('veth') && flags.includes('UP'))
      yield { ...place, operator: 'take link down', edit: put({ ...link, flags: [] }) }
  }
}

/** An edit that replaces one link; without another, it is dropped. */
type Put = (...instead: RawLink[]) => () => string

const withAddress = (link: RawLink, index: number, ...instead: RawLink['addr_info']): RawLink => ({
  ...link,
  addr_info: link.addr_info.toSpliced(index, 1, ...instead),
})

function* deviceEdits(link: RawLink, put: Put): Generator<FileEdit> {
  const { addr_info: addresses, flags, linkinfo } = link
  for (const [index, address] of addresses.entries()) {
    const { local } = address
    const place = { place: DEVICE, words: [DEVICE, local], detail: local }
    const other = local.replace(/\d+$/, (end) => String((Number(end) + 9) % 250))
    const changed = (...instead: RawLink['addr_info']) => put(withAddress(link, index, ...instead))
    yield { ...place, operator: 'drop address', edit: changed() }
    yield { ...place, operator: 'alter address', edit: changed({ ...address, local: other }) }
    yield { ...place, operator: 'alter prefix', edit: changed({ ...address, prefixlen: 24 }) }
  }
  const place = { place: DEVICE, words: [DEVICE] }
  const added = { family: 'inet', local: '10.96.96.96', prefixlen: 32 }
  const changes: readonly [operator: string, detail: string, edit: () => string][] = [
    ['add address', added.local, put(withAddress(link, addresses.length, added))],
    ['raise link', 'UP', put({ ...link, flags: [...flags, 'UP'] })],
    ['answer ARP', 'NOARP', put({ ...link, flags: flags.filter((flag) => flag !== 'NOARP') })],
    ['drop link', DEVICE, put()],
  ]
  for (const [operator, detail, edit] of changes) yield { ...place, operator, detail, edit }
  const bridge = { ...link, linkinfo: { ...linkinfo, info_kind: 'bridge' } }
  if (linkinfo) yield { ...place, operator: 'alter kind', detail: 'bridge', edit: put(bridge) }
}

/** In lab 4 the learner adds addresses of TEST-NET-1 (RFC 5737) to a node, on any device. */
function* learnersAddressEdits(link: RawLink, put: Put): Generator<FileEdit> {
  for (const [index, { local }] of link.addr_info.entries()) {
    if (!local.startsWith('192.0.2.')) continue
    const place = { place: `address ${local}`, words: [local], detail: link.ifname }
    const other = { family: 'inet', local: '192.0.2.99', prefixlen: 32 }
    yield { ...place, operator: 'drop address', edit: put(withAddress(link, index)) }
    yield { ...place, operator: 'alter address', edit: put(withAddress(link, index, other)) }
  }
}
