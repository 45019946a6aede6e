// The drawing of a packet's journey, with the place that is shown just now.

import { useEffect, useRef } from 'preact/hooks'
import type { DrawnPath } from '../protocol.ts'

interface JourneyFigureProps {
  picture: NonNullable<DrawnPath['picture']>
  /** The index of the place that is shown. */
  at: number
  /**
   * The places that the step is about, and those that differ from a path that this one is compared
   * with.
   */
  own?: ReadonlySet<number>
  differing?: ReadonlySet<number>
  choose(place: number): void
}

const NONE: ReadonlySet<number> = new Set()

/**
 * Draws a journey; a click on a place chooses it. The list of its places says the same in words.
 */
export function JourneyFigure({ picture, at, own, differing, choose }: JourneyFigureProps) {
  const figure = useRef<HTMLElement>(null)
  const chosen = useRef(choose)
  chosen.current = choose
  useEffect(() => {
    const onClick = ({ target }: Event) => {
      const [first] = placesOf((target as Element).closest('[data-at]'))
      if (first !== undefined) chosen.current(first)
    }
    const { current } = figure
    current?.addEventListener('click', onClick)
    return () => current?.removeEventListener('click', onClick)
  }, [])
  useEffect(() => {
    for (const svg of figure.current?.querySelectorAll('svg') ?? [])
      light(svg, at, own ?? NONE, differing ?? NONE)
  })
  return (
    <figure ref={figure} class="journey-figure" role="img" aria-label={picture.label}>
      <div class="wide" dangerouslySetInnerHTML={{ __html: picture.wide }} />
      <div class="tall" dangerouslySetInnerHTML={{ __html: picture.tall }} />
    </figure>
  )
}

/** The indices of the places that an element of the drawing stands for. */
const placesOf = (element: Element | null): number[] =>
  element?.getAttribute('data-at')?.split(' ').map(Number) ?? []

/** Marks the places of a drawing, and puts the packet at the one that is shown. */
function light(
  svg: SVGElement,
  at: number,
  own: ReadonlySet<number>,
  differing: ReadonlySet<number>,
): void {
  for (const element of svg.querySelectorAll('[data-at]')) {
    const places = placesOf(element)
    element.classList.toggle('at', places.includes(at))
    element.classList.toggle(
      'own',
      places.some((place) => own.has(place)),
    )
    element.classList.toggle(
      'differs',
      places.some((place) => differing.has(place)),
    )
    if (!places.includes(at)) continue
    const dot = svg.querySelector<SVGElement>('.packet-dot')
    dot?.style.setProperty('cx', `${element.getAttribute('data-x')}px`)
    dot?.style.setProperty('cy', `${element.getAttribute('data-y')}px`)
  }
}
