import type { FileEdit } from './mutation.ts'

type Way = 'm' | 'g' | 'i'
/** NAT, direct routing, tunnel. */
const OTHER_WAY: Record<Way, Way> = { m: 'g', g: 'i', i: 'm' }

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
      edit: () => put(line.replace(/ -([mgi]) /, (_all, way: Way) => ` -${OTHER_WAY[way]} `)),
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
