import { type FileEdit, lineEdits } from './mutation.ts'

/**
 * Every single change of a set of kube-proxy's, its type or its members, in an `ipset save` text.
 */
export function* ipsetEdits(text: string): Generator<FileEdit> {
  const lines = text.split('\n')
  for (const [at, line] of lines.entries()) {
    const [verb, set = '', entry = ''] = line.split(' ')
    if (!set.startsWith('KUBE-')) continue
    const place = { place: `set ${set}`, detail: line }
    if (verb === 'add')
      yield* lineEdits(lines, at, place, {
        'drop member': [],
        'alter member': [line.replace(entry, altered(entry))],
        'add member': [line, line.replace(entry, another(entry))],
      })
    if (verb !== 'create') continue
    const isOwn = (other: string) => other.split(' ')[1] === set
    yield {
      ...place,
      operator: 'drop set',
      edit: () => lines.filter((other) => !isOwn(other)).join('\n'),
    }
    const hasPorts = entry.startsWith('hash:ip,port') && !entry.endsWith(',ip')
    yield* lineEdits(lines, at, place, {
      'alter set type': [line.replace(entry, entry === 'hash:ip' ? 'hash:net' : 'hash:ip')],
      'add member': hasPorts ? [line, `add ${set} 10.96.99.99,tcp:99`] : [line],
    })
  }
  const stale = { place: 'set KUBE-NOBODY', detail: 'create KUBE-NOBODY hash:ip' }
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
    const place = { place: `virtual server ${server}`, detail: line }
    if (verb === 'A') {
      const isOwn = (other: string) =>
        /^-[Aa]/.test(other) && other.slice(3).startsWith(`${protocol} ${server} `)
      const moved = shifted(server)
      const renamed = () =>
        lines.map((other) => (isOwn(other) ? other.replace(server, moved) : other)).join('\n')
      yield {
        ...place,
        operator: 'drop virtual server',
        edit: () => lines.filter((other) => !isOwn(other)).join('\n'),
      }
      yield { ...place, mentions: [moved], operator: 'alter virtual server', edit: renamed }
      yield* lineEdits(lines, at, place, {
        'alter scheduler': [
          line.replace(/-s \w+/, (now) => (now === '-s wrr' ? '-s sh' : '-s wrr')),
        ],
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
      { ...place, mentions: [real] },
      {
        'drop real server': [],
        'alter weight': [line.replace(/-w \d+/, '-w 7')],
        'weight nought': [line.replace(/-w \d+/, '-w 0')],
        'alter forwarding': [line.replace(/ -([mgi]) /, otherMethod)],
        'alter real server': [line.replace(real, shifted(real))],
      },
    )
  }
  const added = { place: 'virtual server 10.96.97.97:80', detail: '-A -t 10.96.97.97:80 -s rr' }
  yield {
    ...added,
    operator: 'add virtual server',
    edit: () => `${text.trimEnd()}\n${added.detail}\n`,
  }
}

/** Another port, or firewall mark, that no server of the labs has. */
const shifted = (server: string) =>
  server.replace(/(?<=:|^)(\d+)$/, (_all, number) => `${(Number(number) + 977) % 65_536}`)

/** The fields of a link that are changed here. */
interface EditedLink {
  ifname: string
  flags: string[]
  addr_info: { family: string; local: string; prefixlen: number }[]
  linkinfo?: { info_kind: string }
}

const DEVICE = 'kube-ipvs0'
/** In lab 4 the learner adds addresses of TEST-NET-1 (RFC 5737) to a node, on any device. */
const LEARNERS_RANGE = '192.0.2.'

/**
 * Every single change of kube-ipvs0, of an address that a learner gave, and of a Pod's link, in an
 * `ip -j -d addr` text.
 */
export function* linkEdits(text: string): Generator<FileEdit> {
  const links: EditedLink[] = JSON.parse(text)
  for (const [at, link] of links.entries()) {
    const { ifname, flags, addr_info: addresses, linkinfo } = link
    const put = (changes: Partial<EditedLink>) => () =>
      JSON.stringify(links.with(at, { ...link, ...changes }))
    const withAddress = (index: number, ...instead: EditedLink['addr_info']) =>
      put({ addr_info: addresses.toSpliced(index, 1, ...instead) })
    for (const [index, { local }] of addresses.entries()) {
      if (!local.startsWith(LEARNERS_RANGE)) continue
      const place = { place: `address ${local}`, detail: ifname }
      const other = { family: 'inet', local: `${LEARNERS_RANGE}99`, prefixlen: 32 }
      yield { ...place, operator: 'drop address', edit: withAddress(index) }
      yield { ...place, operator: 'alter address', edit: withAddress(index, other) }
    }
    if (ifname.startsWith('veth') && flags.includes('UP')) {
      const place = { place: `link ${ifname}`, detail: ifname }
      yield { ...place, operator: 'take link down', edit: put({ flags: [] }) }
    }
    if (ifname !== DEVICE) continue
    for (const [index, address] of addresses.entries()) {
      const { local } = address
      const place = { place: DEVICE, mentions: [local], detail: local }
      const other = local.replace(/\d+$/, (end) => String((Number(end) + 9) % 250))
      yield { ...place, operator: 'drop address', edit: withAddress(index) }
      yield {
        ...place,
        operator: 'alter address',
        edit: withAddress(index, { ...address, local: other }),
      }
      yield {
        ...place,
        operator: 'alter prefix',
        edit: withAddress(index, { ...address, prefixlen: 24 }),
      }
    }
    const place = { place: DEVICE }
    const added = { family: 'inet', local: '10.96.96.96', prefixlen: 32 }
    yield {
      ...place,
      operator: 'add address',
      detail: added.local,
      edit: put({ addr_info: [...addresses, added] }),
    }
    yield { ...place, operator: 'raise link', detail: 'UP', edit: put({ flags: [...flags, 'UP'] }) }
    const answering = flags.filter((flag) => flag !== 'NOARP')
    yield { ...place, operator: 'answer ARP', detail: 'NOARP', edit: put({ flags: answering }) }
    yield {
      ...place,
      operator: 'drop link',
      detail: DEVICE,
      edit: () => JSON.stringify(links.toSpliced(at, 1)),
    }
    const bridge = { ...linkinfo, info_kind: 'bridge' }
    if (linkinfo)
      yield { ...place, operator: 'alter kind', detail: 'bridge', edit: put({ linkinfo: bridge }) }
  }
}
