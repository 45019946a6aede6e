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
