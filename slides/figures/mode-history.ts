import { Canvas, type Drawing, type Figure, TALL, type Tone, WIDE } from './canvas.ts'

interface Mode {
  name: string
  /** Minor versions of Kubernetes 1.x: from its first release (or stable one) to its last. */
  spans: readonly { from: number; to: number; tone: Tone }[]
  note: string
}

const NOW = 37

/**
 * kube-proxy's modes by version. Sources: the release notes of 1.2 (iptables by default), 1.11 (IPVS stable), 1.26 (userspace
 * removed), 1.33 (nftables stable), 1.35 (IPVS deprecated).
 */
const MODES: readonly Mode[] = [
  { name: 'userspace', spans: [{ from: 0, to: 26, tone: 'faint' }], note: 'removed in 1.26' },
  { name: 'iptables', spans: [{ from: 2, to: NOW, tone: 'path' }], note: 'default since 1.2' },
  {
    name: 'IPVS',
    spans: [
      { from: 11, to: 35, tone: 'strong' },
      { from: 35, to: NOW, tone: 'bad' },
    ],
    note: 'stable 1.11, deprecated 1.35',
  },
  { name: 'nftables', spans: [{ from: 33, to: NOW, tone: 'path' }], note: 'stable since 1.33' },
]

/** The lifetime of each mode, on an axis of Kubernetes versions. */
export function modeHistoryFigure(): Figure {
  return {
    wide: draw(WIDE),
    tall: draw(TALL),
    label: `kube-proxy's modes: ${MODES.map(({ name, note }) => `${name}, ${note}`).join('; ')}.`,
  }
}

function draw(width: number): Drawing {
  const canvas = new Canvas(width)
  const wide = width === WIDE
  const left = wide ? 160 : 0
  const room = width - left - (wide ? 460 : 0)
  const at = (version: number) => left + (version / NOW) * room
  for (const [index, { name, spans, note }] of MODES.entries()) {
    const y = index * (wide ? 96 : 110)
    const top = wide ? y + 6 : y + 44
    canvas.text(name, 0, wide ? y + 42 : y + 30)
    for (const { from, to, tone } of spans)
      canvas.bar({ x: at(from), y: top, width: at(to) - at(from), height: 52 }, tone)
    if (wide) canvas.text(note, width - 440, y + 42)
    else canvas.text(note, width, y + 30, { anchor: 'end' })
  }
  return canvas.finish()
}
