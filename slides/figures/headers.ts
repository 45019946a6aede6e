import { type Figure, figure } from './canvas.ts'

/** The header of a packet at one place of its path; `changed` names the replaced addresses. */
interface HeaderRow {
  at: string
  source: string
  destination: string
  changed?: 'source' | 'destination' | 'both'
}

/** The addresses of a packet and its reply, by forwarding method. */
export const JOURNEYS: Readonly<Record<string, readonly HeaderRow[]>> = {
  nat: [
    { at: 'client sends', source: 'client', destination: 'VIP' },
    { at: 'behind the director', source: 'director', destination: 'real server', changed: 'both' },
    { at: 'the server answers', source: 'real server', destination: 'director' },
    { at: 'back at the director', source: 'VIP', destination: 'client', changed: 'both' },
  ],
  tunnel: [
    { at: 'client sends', source: 'client', destination: 'VIP' },
    { at: 'outer header (IPIP)', source: 'director', destination: 'real server', changed: 'both' },
    { at: 'inner header', source: 'client', destination: 'VIP' },
    { at: 'the server answers', source: 'VIP', destination: 'client' },
  ],
  route: [
    { at: 'client sends', source: 'client', destination: 'VIP' },
    { at: 'in a new frame', source: 'client', destination: 'VIP' },
    { at: 'the server answers', source: 'VIP', destination: 'client' },
  ],
  service: [
    { at: 'Pod sends', source: 'client Pod', destination: 'ClusterIP' },
    { at: 'translated', source: 'client Pod', destination: 'backend Pod', changed: 'destination' },
    { at: 'backend answers', source: 'backend Pod', destination: 'client Pod' },
    { at: 'conntrack', source: 'ClusterIP', destination: 'client Pod', changed: 'source' },
  ],
  hairpin: [
    { at: 'Pod sends', source: 'Pod', destination: 'ClusterIP' },
    { at: 'its own rule', source: 'Pod', destination: 'Pod', changed: 'destination' },
    { at: 'masqueraded', source: 'node', destination: 'Pod', changed: 'source' },
  ],
  external: [
    { at: 'client sends', source: 'client', destination: 'node:port' },
    { at: 'policy Cluster', source: 'node', destination: 'Pod', changed: 'both' },
    { at: 'policy Local', source: 'client', destination: 'Pod', changed: 'destination' },
  ],
}

const HEIGHT = 72
const TOP = 44

/** The header of a packet at each place, source and destination; replaced addresses are highlighted. */
export function headersFigure(rows: readonly HeaderRow[], label: string): Figure {
  const list = rows.map(({ at, source, destination }) => `${at}, from ${source} to ${destination}`)
  return figure(`${label}: ${list.join('; ')}.`, (canvas, isWide) => {
    const [left, width, step] = isWide ? [330, 330, HEIGHT + 22] : [0, 210, HEIGHT + 64]
    const right = canvas.width - width
    canvas.text('source', left + width / 2, 26, { anchor: 'middle', tone: 'faint' })
    canvas.text('destination', right + width / 2, 26, { anchor: 'middle', tone: 'faint' })
    for (const [index, { at, source, destination, changed }] of rows.entries()) {
      const y = TOP + index * step
      const top = isWide ? y : y + 38
      canvas.text(at, 0, isWide ? y + 46 : y + 28)
      const tone = (end: 'source' | 'destination') => (changed === end || changed === 'both' ? 'path' : 'plain')
      const from = canvas.box({ x: left, y: top, width, height: HEIGHT }, [source], tone('source'))
      const to = canvas.box({ x: right, y: top, width, height: HEIGHT }, [destination], tone('destination'))
      canvas.connect(from, 'e', to, 'w')
    }
  })
}
