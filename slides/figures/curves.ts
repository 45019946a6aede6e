import { countState, MEASURED_NODE, MEASURED_VERSION, syntheticCluster } from '../../course/scale/synthetic-cluster.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import { textWidth } from '../build/text-width.ts'
import { type Figure, figure, TEXT, type Tone } from './canvas.ts'

/** One quantity over the sizes, and its label. */
interface Curve {
  name: string
  values: readonly number[]
  tone: Extract<Tone, 'path' | 'strong'>
}

const HEIGHT = 330
const AXIS = 44

/**
 * Quantities over sizes, both axes linear and from zero, so that linear growth is a straight line. Throws Error for labels that
 * do not fit.
 */
function curvesFigure(sizes: readonly number[], curves: readonly Curve[], label: string): Figure {
  return figure(label, (canvas, isWide) => {
    const largest = Math.max(...sizes)
    const highest = Math.max(...curves.flatMap(({ values }) => values))
    const left = Math.ceil(textWidth(thousands(highest), TEXT)) + 14
    const right = isWide ? Math.ceil(Math.max(...curves.map(({ name }) => textWidth(name, TEXT)))) + 24 : 16
    const width = canvas.width - left - right
    const top = isWide ? 14 : curves.length * 36 + 14
    const bottom = top + HEIGHT
    const x = (size: number) => left + (size / largest) * width
    const y = (value: number) => bottom - (value / highest) * HEIGHT
    canvas.bar({ x: left, y: top, width: 2, height: HEIGHT }, 'faint')
    canvas.bar({ x: left, y: bottom, width, height: 2 }, 'faint')
    canvas.text(thousands(highest), left - 10, top + 10, { anchor: 'end' })
    canvas.text('0', left - 10, bottom + 8, { anchor: 'end' })
    for (const size of readable(sizes, x, isWide ? 90 : 70))
      canvas.text(thousands(size), x(size), bottom + AXIS - 6, { anchor: size === largest ? 'end' : 'middle' })
    for (const [index, { name, values, tone }] of curves.entries()) {
      canvas.arrow(
        sizes.map((size, at) => [x(size), y(values[at] ?? 0)] as const),
        tone,
      )
      if (isWide) canvas.text(name, x(largest) + 16, y(values.at(-1) ?? 0) + 8, { tone })
      else canvas.text(name, left, index * 36 + 24, { tone })
    }
  })
}

/** The sizes whose labels do not overlap the next one; the largest is always included. */
function readable(sizes: readonly number[], x: (size: number) => number, room: number): number[] {
  const shown: number[] = []
  for (const size of [...sizes].reverse()) if (shown.every((one) => x(one) - x(size) > room)) shown.push(size)
  return shown
}

const thousands = (value: number) => value.toLocaleString('en')

const SIZES = [10, 250, 500, 750, 1000]

/** The predicted number of rules on a node over the number of Services. */
export function ruleGrowthFigure(endpoints: number): Figure {
  const clusters = SIZES.map((services) => readObjects(syntheticCluster(services, endpoints)).objects)
  const rules = (mode: SwitchedMode) =>
    clusters.map(
      (objects) => countState(predict(objects, { node: MEASURED_NODE, mode, version: MEASURED_VERSION })).rules,
    )
  const [iptables, ipvs] = [rules('iptables'), rules('ipvs')]
  return curvesFigure(
    SIZES,
    [
      { name: 'iptables', values: iptables, tone: 'path' },
      { name: 'IPVS', values: ipvs, tone: 'strong' },
    ],
    `Rules on a node with ${SIZES.at(-1)} Services of ${endpoints} endpoints: ${iptables.at(-1)} in iptables mode, ${ipvs.at(-1)} in IPVS mode.`,
  )
}
