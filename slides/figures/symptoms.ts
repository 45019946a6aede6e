import { Canvas, type Drawing, type Figure, TALL, type Tone, WIDE } from './canvas.ts'

interface Symptom {
  seen: string
  tone: Tone
  /** What it means, line by line. */
  means: readonly string[]
  checkFirst: readonly string[]
}

/** How a request ends, what that means for the packet, and where to checkFirst first. */
const SYMPTOMS: readonly Symptom[] = [
  {
    seen: 'refused at once',
    tone: 'bad',
    means: ['a host was reached', 'and refused it'],
    checkFirst: ['a REJECT rule,', 'or a Pod without listener'],
  },
  {
    seen: 'never answered',
    tone: 'faint',
    means: ['dropped, or sent to', 'an unused address'],
    checkFirst: ['DROP, routes, conntrack,', 'the return path'],
  },
  {
    seen: 'now and then',
    tone: 'good',
    means: ['one of several paths', 'is broken'],
    checkFirst: ['one endpoint,', 'or one node'],
  },
]

const HEIGHT = 100

/** The meaning of each symptom, and the first place to checkFirst. */
export function symptomsFigure(): Figure {
  return {
    wide: wide(),
    tall: tall(),
    label: SYMPTOMS.map(
      ({ seen, means, checkFirst }) => `${seen}: ${means.join(' ')}; checkFirst for ${checkFirst.join(' ')}`,
    ).join('. '),
  }
}

function wide(): Drawing {
  const canvas = new Canvas(WIDE)
  for (const [index, { seen, tone, means, checkFirst }] of SYMPTOMS.entries()) {
    const y = index * (HEIGHT + 44)
    const first = canvas.box({ x: 0, y, width: 250, height: HEIGHT }, [seen], { tone, face: 'sans' })
    const second = canvas.box({ x: 318, y, width: 340, height: HEIGHT }, means, { face: 'sans' })
    const third = canvas.box({ x: 726, y, width: 426, height: HEIGHT }, checkFirst, { tone: 'path', face: 'sans' })
    canvas.connect(first, 'e', second, 'w')
    canvas.connect(second, 'e', third, 'w', 'path')
  }
  return canvas.finish()
}

function tall(): Drawing {
  const canvas = new Canvas(TALL)
  let y = 0
  for (const { seen, tone, means, checkFirst } of SYMPTOMS) {
    const first = canvas.box({ x: 20, y, width: 440, height: 48 }, [seen], { tone, face: 'sans' })
    const second = canvas.box({ x: 20, y: y + 80, width: 440, height: HEIGHT }, means, { face: 'sans' })
    const third = canvas.box({ x: 20, y: y + 212, width: 440, height: HEIGHT }, checkFirst, {
      tone: 'path',
      face: 'sans',
    })
    canvas.connect(first, 's', second, 'n')
    canvas.connect(second, 's', third, 'n', 'path')
    y += 212 + HEIGHT + 40
  }
  return canvas.finish()
}
