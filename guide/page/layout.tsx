// How the page's room is divided: the splitter between text and tools, and the size of the
// terminals' letters.

import { useEffect, useState } from 'preact/hooks'
import { Button } from './controls.tsx'

const WIDTH = 'guide-course-width'
const LETTERS = 'guide-letters'
const LEAST = 22
const MOST = 70
/** One press of an arrow key moves the splitter by this percentage of the page's width. */
const STEP = 2

const clamp = (percent: number) => Math.min(MOST, Math.max(LEAST, percent))
const savedNumber = (key: string): number | undefined =>
  Number(localStorage.getItem(key)) || undefined

/** Divides the page as it was divided last in this browser. */
export function applyWidth(percent = savedNumber(WIDTH)): void {
  if (percent === undefined) document.documentElement.style.removeProperty('--course')
  else document.documentElement.style.setProperty('--course', `${clamp(percent)}%`)
}

function keepWidth(percent: number): void {
  localStorage.setItem(WIDTH, String(clamp(percent)))
  applyWidth(percent)
}

/** The width of the text in hundredths of the page's, as it is shown. */
const shownWidth = () =>
  ((document.querySelector('.course')?.clientWidth ?? 0) /
    Math.max(1, document.documentElement.clientWidth)) *
  100

/**
 * The line between text and tools: dragged, or moved by the arrow keys; a double click divides as
 * at first.
 */
export function Splitter() {
  const [width, setWidth] = useState(40)
  useEffect(() => setWidth(Math.round(shownWidth())), [])
  const move = (percent: number) => {
    keepWidth(percent)
    setWidth(Math.round(clamp(percent)))
  }
  return (
    // biome-ignore lint/a11y/useSemanticElements: an <hr> can't be moved
    <div
      class="splitter"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the text"
      aria-valuenow={width}
      aria-valuemin={LEAST}
      aria-valuemax={MOST}
      tabIndex={0}
      onPointerDown={(event) => {
        event.preventDefault()
        event.currentTarget.setPointerCapture(event.pointerId)
      }}
      onPointerMove={({ currentTarget, pointerId, clientX }) => {
        if (!currentTarget.hasPointerCapture(pointerId)) return
        move((clientX / document.documentElement.clientWidth) * 100)
      }}
      onDblClick={() => {
        localStorage.removeItem(WIDTH)
        applyWidth()
        setWidth(Math.round(shownWidth()))
      }}
      onKeyDown={({ key }) => {
        const by = { ArrowLeft: -STEP, ArrowRight: STEP }[key]
        if (by !== undefined) move(shownWidth() + by)
      }}
    />
  )
}

/** Shows the tools in the whole page, or beside the text again. */
export function Maximise() {
  const [isWhole, setWhole] = useState(false)
  useEffect(() => {
    document.documentElement.toggleAttribute('data-whole', isWhole)
  }, [isWhole])
  return (
    <Button
      class="plain maximise"
      aria-pressed={isWhole}
      title={isWhole ? 'Show the text again' : 'Use the whole page'}
      onClick={() => setWhole(!isWhole)}
    >
      {isWhole ? 'Show the text' : 'Maximise'}
    </Button>
  )
}

/** The sizes of a terminal's letters in pixels. */
const LETTER_SIZES = { least: 9, most: 22, usual: 13, compact: 12 }
/**
 * The columns for which letters are made a little smaller: what `kubectl get -o wide` and a rule
 * need.
 */
const COLUMNS = 120
/** The width of a letter of a monospaced font, as a part of its height. */
const LETTER_WIDTH = 0.602

/**
 * The size that was chosen in this browser, else the largest usual one in which 120 columns fit
 * into that many pixels.
 */
export function lettersFor(widthPixels: number): number {
  const chosen = savedNumber(LETTERS)
  if (chosen !== undefined) return chosen
  const fits = Math.floor(widthPixels / (LETTER_SIZES.usual * LETTER_WIDTH)) >= COLUMNS
  return fits ? LETTER_SIZES.usual : LETTER_SIZES.compact
}

/** Chooses another size; undefined restores the automatic one. */
export function chooseLetters(size: number | undefined): void {
  if (size === undefined) localStorage.removeItem(LETTERS)
  else
    localStorage.setItem(
      LETTERS,
      String(Math.min(LETTER_SIZES.most, Math.max(LETTER_SIZES.least, size))),
    )
}
