import { type Box, Canvas, type Drawing, type Figure, TALL, type Tone, WIDE } from './canvas.ts'

interface Stage {
  lines: readonly string[]
  says: string
  tone: Tone
}

/** The path of a packet through nftables mode's objects, by the names that kube-proxy gives them. */
const STAGES: readonly Stage[] = [
  { lines: ['chain services'], says: 'the only rule that matters', tone: 'plain' },
  { lines: ['map service-ips'], says: 'one look: address and port', tone: 'way' },
  { lines: ['chain service-…'], says: 'numgen random mod 2', tone: 'plain' },
  { lines: ['a map: 0, 1'], says: 'one look', tone: 'way' },
  { lines: ['dnat to a Pod'], says: 'the rest is conntrack', tone: 'good' },
]

/** A list nowhere: two looks into a map from the hook to the Pod. */
export function verdictMapFigure(): Figure {
  return {
    wide: draw(WIDE, 120, 380),
    tall: draw(TALL, 0, 300),
    label: STAGES.map(({ lines, says }) => `${lines.join(' ')} (${says})`).join(', then '),
  }
}

function draw(width: number, x: number, boxWidth: number): Drawing {
  const canvas = new Canvas(width)
  const wide = width === WIDE
  const step = wide ? 98 : 136
  let before: Box | undefined
  for (const [index, { lines, says, tone }] of STAGES.entries()) {
    const box = canvas.box({ x, y: index * step, width: boxWidth, height: 64 }, lines, { tone, face: 'sans' })
    if (wide) canvas.text(says, x + boxWidth + 40, box.y + 42)
    else canvas.text(says, 0, box.y + 98)
    if (before && wide) canvas.connect(before, 's', box, 'n')
    if (before && !wide)
      canvas.arrow([
        [width - 90, before.y + 32],
        [width - 90, box.y + 32],
        [x + boxWidth, box.y + 32],
      ])
    before = box
  }
  return canvas.finish()
}
