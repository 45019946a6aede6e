import { type Box, Canvas, type Drawing, type Figure, TALL, type Tone, WIDE } from './canvas.ts'

const ENTRIES = 7

/** A list that is searched from the top, next to a hash table with one lookup. */
export function lookupFigure(): Figure {
  return {
    wide: draw(WIDE),
    tall: draw(TALL),
    label:
      'In a list the packet is compared with one entry after the other; in a hash table the key determines the entry.',
  }
}

function draw(width: number): Drawing {
  const canvas = new Canvas(width)
  const wide = width === WIDE
  drawList(canvas, wide ? 0 : 20, 0)
  drawHash(canvas, wide ? 640 : 20, wide ? 0 : 54 + ENTRIES * 58 + 30)
  return canvas.finish()
}

function drawList(canvas: Canvas, x: number, y: number): void {
  canvas.text('a list: compare in turn', x, y + 24)
  for (let index = 0; index < ENTRIES; index++) {
    const last = index === ENTRIES - 1
    const box = { x: x + 60, y: y + 44 + index * 58, width: 340, height: 48 }
    canvas.box(box, [last ? 'Service n: match' : index === ENTRIES - 2 ? '…' : `Service ${index + 1}: no`], {
      tone: last ? 'path' : 'plain',
      face: 'sans',
    })
    if (!last)
      canvas.arrow(
        [
          [x + 30, box.y + 24],
          [x + 30, box.y + 76],
        ],
        'path',
      )
  }
  canvas.arrow(
    [
      [x + 30, y + 44 + (ENTRIES - 1) * 58 + 24],
      [x + 60, y + 44 + (ENTRIES - 1) * 58 + 24],
    ],
    'path',
  )
}

function drawHash(canvas: Canvas, x: number, y: number): void {
  canvas.text('a hash table: one lookup', x, y + 24)
  const key = canvas.box({ x, y: y + 44 + 120, width: 190, height: 84 }, ['address', 'and port'], { face: 'sans' })
  for (let index = 0; index < ENTRIES; index++) {
    const hit = index === 4
    const box = { x: x + 290, y: y + 44 + index * 58, width: 170, height: 48 }
    canvas.box(box, [hit ? 'the entry' : ' '], { tone: hit ? 'path' : 'plain', face: 'sans' })
    if (hit) canvas.connect(key, 'e', box, 'w', 'path')
  }
}

interface Stage {
  lines: readonly string[]
  note: string
  tone: Tone
}

/** The path of a packet through the objects of nftables mode, with kube-proxy's names. */
const STAGES: readonly Stage[] = [
  { lines: ['chain services'], note: 'one rule for all Services', tone: 'plain' },
  { lines: ['map service-ips'], note: 'one lookup: address, port', tone: 'path' },
  { lines: ['chain service-…'], note: 'numgen random mod 2', tone: 'plain' },
  { lines: ['a map: 0, 1'], note: 'one lookup', tone: 'path' },
  { lines: ['dnat to a Pod'], note: 'conntrack does the rest', tone: 'good' },
]

/** The path in nftables mode: two map lookups from the hook to the Pod, and no list. */
export function verdictMapFigure(): Figure {
  return {
    wide: drawVerdicts(WIDE, 120, 380),
    tall: drawVerdicts(TALL, 0, 300),
    label: STAGES.map(({ lines, note }) => `${lines.join(' ')} (${note})`).join(', then '),
  }
}

function drawVerdicts(width: number, x: number, boxWidth: number): Drawing {
  const canvas = new Canvas(width)
  const wide = width === WIDE
  const step = wide ? 98 : 136
  let before: Box | undefined
  for (const [index, { lines, note, tone }] of STAGES.entries()) {
    const box = canvas.box({ x, y: index * step, width: boxWidth, height: 64 }, lines, { tone, face: 'sans' })
    if (wide) canvas.text(note, x + boxWidth + 40, box.y + 42)
    else canvas.text(note, 0, box.y + 98)
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
