import { type Box, Canvas, type Drawing, type Figure, TALL, WIDE } from './canvas.ts'

const HEIGHT = 70

/** One way to a Pod that refuses: who chooses it, and what comes of the refusal. */
interface Row {
  title: string
  chooser: readonly string[]
  /** The refusal reaches the one who chose, and another Pod is asked. */
  again: boolean
}

const ROWS: readonly Row[] = [
  { title: 'a rule has chosen', chooser: ['a rule of', 'the kernel'], again: false },
  { title: 'a process has chosen', chooser: ['kube-proxy,', 'userspace mode'], again: true },
]

/** The same refusal in a mode that rewrites packets and in one that relays connections. */
export function retryFigure(): Figure {
  return {
    wide: draw(WIDE),
    tall: draw(TALL),
    label:
      'A rule has chosen a Pod that refuses: the refusal goes to the client. A process has chosen it: the process asks the next Pod, and the client gets an answer.',
  }
}

function draw(width: number): Drawing {
  const canvas = new Canvas(width)
  for (const [index, row] of ROWS.entries()) {
    if (width === WIDE) drawWide(canvas, row, index * 270)
    else drawTall(canvas, row, index * 470)
  }
  return canvas.finish()
}

function drawWide(canvas: Canvas, row: Row, y: number): void {
  canvas.text(row.title, 0, y + 26)
  const middle = y + 100
  const client = canvas.box({ x: 0, y: middle, width: 170, height: HEIGHT }, ['client'], { face: 'sans' })
  const chooser = canvas.box({ x: 350, y: middle, width: 250, height: HEIGHT }, row.chooser, {
    tone: 'way',
    face: 'sans',
  })
  const deaf = pod(canvas, { x: 820, y: middle - 56, width: 330, height: HEIGHT }, false)
  const other = pod(canvas, { x: 820, y: middle + 56, width: 330, height: HEIGHT }, true)
  canvas.connect(client, 'e', chooser, 'w')
  if (!row.again) canvas.connect(chooser, 'e', other, 'w', 'faint')
  canvas.connect(chooser, 'e', deaf, 'w', 'bad')
  if (row.again) canvas.connect(chooser, 'e', other, 'w', 'way')
  canvas.text(result(row), 0, middle + HEIGHT + 50, { tone: row.again ? 'way' : 'bad' })
}

function drawTall(canvas: Canvas, row: Row, y: number): void {
  canvas.text(row.title, 0, y + 26)
  const client = canvas.box({ x: 150, y: y + 50, width: 180, height: 50 }, ['client'], { face: 'sans' })
  const chooser = canvas.box({ x: 110, y: y + 140, width: 260, height: HEIGHT }, row.chooser, {
    tone: 'way',
    face: 'sans',
  })
  const deaf = pod(canvas, { x: 0, y: y + 280, width: 225, height: HEIGHT }, false)
  const other = pod(canvas, { x: 255, y: y + 280, width: 225, height: HEIGHT }, true)
  canvas.connect(client, 's', chooser, 'n')
  if (!row.again) canvas.connect(chooser, 's', other, 'n', 'faint')
  canvas.connect(chooser, 's', deaf, 'n', 'bad')
  if (row.again) canvas.connect(chooser, 's', other, 'n', 'way')
  canvas.text(result(row), 0, y + 400, { tone: row.again ? 'way' : 'bad' })
}

const pod = (canvas: Canvas, box: Box, answers: boolean): Box =>
  canvas.box(box, ['a Pod that', answers ? 'answers' : 'refuses'], {
    tone: answers ? 'good' : 'bad',
    face: 'sans',
  })

const result = ({ again }: Row) => (again ? 'the process asks the next one' : 'the refusal goes to the client')
