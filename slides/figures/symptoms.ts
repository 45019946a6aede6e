import { Canvas, type Drawing, type Figure, TALL, type Tone, WIDE } from './canvas.ts'

interface Symptom {
  seen: string
  tone: Tone
  /** What it means, line by line. */
  means: readonly string[]
  look: readonly string[]
}

/** How a request ends, what that says about the packet, and where to look first. */
const SYMPTOMS: readonly Symptom[] = [
  {
    seen: 'refused at once',
    tone: 'bad',
    means: ['somebody was reached', 'and said no'],
    look: ['a REJECT rule,', 'or a Pod without listener'],
  },
  {
    seen: 'never answered',
    tone: 'faint',
    means: ['dropped, or gone', 'where nobody is'],
    look: ['DROP, routes, conntrack,', 'the way back'],
  },
  {
    seen: 'now and then',
    tone: 'good',
    means: ['one of several ways', 'is broken'],
    look: ['one endpoint,', 'or one node'],
  },
]

const HEIGHT = 82

/** From the symptom to what it means, and to the place that is looked at first. */
export function symptomsFigure(): Figure {
  return {
    wide: wide(),
    tall: tall(),
    label: SYMPTOMS.map(({ seen, means, look }) => `${seen}: ${means.join(' ')}; look for ${look.join(' ')}`).join(
      '. ',
    ),
  }
}

function wide(): Drawing {
  const canvas = new Canvas(WIDE)
  for (const [index, { seen, tone, means, look }] of SYMPTOMS.entries()) {
    const y = index * (HEIGHT + 34)
    const first = canvas.box({ x: 0, y, width: 230, height: HEIGHT }, [seen], { tone, face: 'sans' })
    const second = canvas.box({ x: 306, y, width: 340, height: HEIGHT }, means, { face: 'sans' })
    const third = canvas.box({ x: 722, y, width: 430, height: HEIGHT }, look, { tone: 'way', face: 'sans' })
    canvas.connect(first, 'e', second, 'w')
    canvas.connect(second, 'e', third, 'w', 'way')
  }
  return canvas.finish()
}

function tall(): Drawing {
  const canvas = new Canvas(TALL)
  let y = 0
  for (const { seen, tone, means, look } of SYMPTOMS) {
    const first = canvas.box({ x: 40, y, width: 400, height: 48 }, [seen], { tone, face: 'sans' })
    const second = canvas.box({ x: 40, y: y + 80, width: 400, height: HEIGHT }, means, { face: 'sans' })
    const third = canvas.box({ x: 40, y: y + 194, width: 400, height: HEIGHT }, look, { tone: 'way', face: 'sans' })
    canvas.connect(first, 's', second, 'n')
    canvas.connect(second, 's', third, 'n', 'way')
    y += 194 + HEIGHT + 40
  }
  return canvas.finish()
}
