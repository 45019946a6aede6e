import type { NodePlan } from '../../host/layout.ts'
import { Canvas, type Drawing, type Figure, TALL, WIDE } from './canvas.ts'

/**
 * The nodes of the labs' cluster: each kube-proxy watches the API server and programs the kernel of its node.
 */
export function clusterFigure(nodes: readonly NodePlan[]): Figure {
  return {
    wide: draw(nodes, WIDE),
    tall: draw(nodes, TALL),
    label: `kube-proxy on ${nodes.length} nodes (${nodes.map(({ name, address }) => `${name}, ${address}`).join('; ')}) watches the API server and writes to the kernel of its own node.`,
  }
}

function draw(nodes: readonly NodePlan[], width: number): Drawing {
  const canvas = new Canvas(width)
  const wide = width === WIDE
  const api = canvas.box(
    { x: (width - 420) / 2, y: 0, width: 420, height: 76 },
    ['API server', 'Services, EndpointSlices'],
    { face: 'sans', tone: 'strong' },
  )
  const column = wide ? Math.floor((width - 2 * 40) / nodes.length) : 380
  for (const [index, node] of nodes.entries()) {
    const x = wide ? index * (column + 40) : 50
    const y = wide ? 136 : 130 + index * 330
    const proxy = canvas.box({ x: x + 50, y, width: column - 100, height: 50 }, ['kube-proxy'])
    const kernel = canvas.box(
      { x: x + 20, y: y + 92, width: column - 40, height: 76 },
      ['rules, sets and', 'virtual servers'],
      { face: 'sans', tone: 'path' },
    )
    canvas.connect(proxy, 's', kernel, 'n', 'path')
    for (const [line, text] of [role(node.name), node.address, `Pods: ${node.podCIDR}`].entries())
      canvas.text(text, x + column / 2, y + 208 + line * 38, { anchor: 'middle' })
    if (wide || index === 0) canvas.connect(api, 's', proxy, 'n')
  }
  return canvas.finish()
}

/** The name without the cluster's name. */
function role(name: string): string {
  return /(control-plane|worker\d*)$/.exec(name)?.[1] ?? name
}
