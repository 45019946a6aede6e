const SVG = 'http://www.w3.org/2000/svg'
const ELEMENTS = new Set(['svg', 'g', 'rect', 'path', 'text', 'tspan', 'line', 'circle', 'title', 'desc'])
const ATTRIBUTES = new Set(
  'class x y x1 y1 x2 y2 cx cy r rx ry d width height viewBox transform text-anchor font-size'.split(' '),
)

/**
 * A drawing of the server as an element of this page. It contains rules of the nodes, so only shapes and text are taken over; what
 * is no drawing gives an empty one.
 */
export function parseDrawing(source: string): SVGElement {
  const { documentElement } = new DOMParser().parseFromString(source, 'image/svg+xml')
  const drawing = copyOf(documentElement) ?? document.createElementNS(SVG, 'svg')
  drawing.setAttribute('aria-hidden', 'true')
  return drawing
}

function copyOf(element: Element): SVGElement | undefined {
  if (element.namespaceURI !== SVG || !ELEMENTS.has(element.localName)) return undefined
  const copy = document.createElementNS(SVG, element.localName) as SVGElement
  for (const { name, value } of element.attributes) if (ATTRIBUTES.has(name)) copy.setAttribute(name, value)
  for (const child of element.childNodes) {
    const kept = child instanceof Element ? copyOf(child) : document.createTextNode(child.textContent ?? '')
    if (kept) copy.append(kept)
  }
  return copy
}
