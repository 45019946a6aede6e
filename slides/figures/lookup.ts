import { Canvas, type Drawing, type Figure, TALL, WIDE } from './canvas.ts'

const ENTRIES = 7

/** A list that is walked from the top beside a hash table that is asked once. */
export function lookupFigure(): Figure {
  return {
    wide: draw(WIDE),
    tall: draw(TALL),
    label:
      'In a list the packet is compared with one entry after the other; in a hash table the key says where to look.',
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
  canvas.text('a list: walk until it fits', x, y + 24)
  for (let index = 0; index < ENTRIES; index++) {
    const last = index === ENTRIES - 1
    const box = { x: x + 60, y: y + 44 + index * 58, width: 340, height: 48 }
    canvas.box(box, [last ? 'Service n: it fits' : index === ENTRIES - 2 ? '…' : `Service ${index + 1}: no`], {
      tone: last ? 'way' : 'plain',
      face: 'sans',
    })
    if (!last)
      canvas.arrow(
        [
          [x + 30, box.y + 24],
          [x + 30, box.y + 76],
        ],
        'way',
      )
  }
  canvas.arrow(
    [
      [x + 30, y + 44 + (ENTRIES - 1) * 58 + 24],
      [x + 60, y + 44 + (ENTRIES - 1) * 58 + 24],
    ],
    'way',
  )
}

function drawHash(canvas: Canvas, x: number, y: number): void {
  canvas.text('a hash table: look once', x, y + 24)
  const key = canvas.box({ x, y: y + 44 + 120, width: 190, height: 84 }, ['address', 'and port'], { face: 'sans' })
  for (let index = 0; index < ENTRIES; index++) {
    const hit = index === 4
    const box = { x: x + 290, y: y + 44 + index * 58, width: 170, height: 48 }
    canvas.box(box, [hit ? 'the entry' : ' '], { tone: hit ? 'way' : 'plain', face: 'sans' })
    if (hit) canvas.connect(key, 'e', box, 'w', 'way')
  }
}
