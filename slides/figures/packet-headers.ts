import { Canvas, type Drawing, type Figure, TALL, WIDE } from './canvas.ts'

/** The header of a packet at one place of its path; `changed` names what has just been replaced. */
export interface HeaderRow {
  at: string
  source: string
  destination: string
  changed?: 'source' | 'destination' | 'both'
}

/** What happens to the addresses of a packet and its answer, by the forwarding method. */
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
    { at: 'behind the director', source: 'client', destination: 'VIP' },
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

/** The header of a packet at each place, source and destination; what was replaced is highlighted. */
export function headersFigure(rows: readonly HeaderRow[], label: string): Figure {
  return {
    wide: draw(rows, WIDE),
    tall: draw(rows, TALL),
    label: `${label}: ${rows.map((row) => `${row.at}, from ${row.source} to ${row.destination}`).join('; ')}.`,
  }
}

const HEIGHT = 72

function draw(rows: readonly HeaderRow[], width: number): Drawing {
  const canvas = new Canvas(width)
  const wide = width === WIDE
  const [left, box] = wide ? [330, 330] : [0, 210]
  for (const [index, { at, source, destination, changed }] of rows.entries()) {
    const y = index * (wide ? HEIGHT + 32 : HEIGHT + 64)
    const top = wide ? y : y + 38
    canvas.text(at, 0, wide ? y + 46 : y + 28)
    const tone = (end: 'source' | 'destination') => (changed === end || changed === 'both' ? 'way' : 'plain')
    const from = canvas.box({ x: left, y: top, width: box, height: HEIGHT }, [source], {
      tone: tone('source'),
      face: 'sans',
    })
    const to = canvas.box({ x: width - box, y: top, width: box, height: HEIGHT }, [destination], {
      tone: tone('destination'),
      face: 'sans',
    })
    canvas.connect(from, 'e', to, 'w')
  }
  return canvas.finish()
}
