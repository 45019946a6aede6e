/**
 * Every colour by name, on light paper and in a dark window. Style sheets and figures only use
 * `var(--name)`; each pair is tested.
 */
const COLOURS = {
  paper: ['#ffffff', '#14191f'],
  ink: ['#15202b', '#e4eaf0'],
  soft: ['#44525f', '#a9b6c2'],
  link: ['#0a4a8f', '#7db8f5'],
  rule: ['#c3ccd5', '#36424e'],
  shade: ['#eef2f6', '#1c232b'],
  night: ['#10212f', '#0b1015'],
  moon: ['#f1f6fa', '#f1f6fa'],
  dim: ['#b9cbd9', '#b9cbd9'],
  box: ['#e8eef5', '#25303b'],
  line: ['#5a6b7a', '#8495a5'],
  path: ['#0a4a8f', '#7db8f5'],
  onpath: ['#ffffff', '#0b1015'],
  strong: ['#0f5a3c', '#6fce9f'],
  onstrong: ['#ffffff', '#0b1015'],
  good: ['#d9f0e1', '#16382a'],
  ongood: ['#0b3f22', '#a5e6c4'],
  bad: ['#fbe0dc', '#47211e'],
  onbad: ['#7a130c', '#ffb9b0'],
  badline: ['#a8251c', '#f0776c'],
  faint: ['#f6f8fa', '#1a2027'],
  onfaint: ['#55626e', '#98a6b3'],
} as const

export type Colour = keyof typeof COLOURS
type Palette = Readonly<Record<Colour, string>>

const paletteOf = (window: 0 | 1) =>
  Object.fromEntries(
    Object.entries(COLOURS).map(([name, colours]) => [name, colours[window]]),
  ) as Palette

/** The colours of the slides. */
export const PALETTE = paletteOf(0)

/** The same colours for a dark window. */
export const DARK = paletteOf(1)

/** A palette as custom properties of the elements that a selector names. */
export function paletteStyle(palette: Palette = PALETTE, selector = ':root'): string {
  return `${selector}{${Object.entries(palette)
    .map(([name, colour]) => `--${name}:${colour}`)
    .join(';')}}`
}

/**
 * A slide's measures in px at 1280×720; in the style sheet each is `var(--name)`, multiplied by
 * `--u`, so that the slide scales as a whole.
 */
export const GEOMETRY = {
  width: 1280,
  height: 720,
  padTop: 40,
  padSide: 64,
  padBottom: 56,
  title: 44,
  titleLine: 52,
  titleGap: 20,
  text: 28,
  textLine: 38,
  gap: 16,
  itemGap: 8,
  indent: 40,
  code: 24,
  codeLine: 32,
  codePad: 16,
  table: 25,
  tableLine: 34,
  cellPad: 8,
  cellSide: 14,
  foot: 24,
  cover: 60,
  coverLine: 70,
} as const

/** The space for everything except the heading. */
export const CONTENT = {
  width: GEOMETRY.width - 2 * GEOMETRY.padSide,
  height: GEOMETRY.height - GEOMETRY.padTop - GEOMETRY.padBottom,
} as const

/** Commands are folded so that text can be enlarged this much (theme/fit.js). */
export const FOLD_SCALE = 1.2

/** The measures as custom properties, in units of a slide's pixel. */
export function geometryStyle(): string {
  const names = Object.entries(GEOMETRY).map(
    ([name, value]) => `--${name}:calc(${value} * var(--u))`,
  )
  return `.sheet,.content{--u:calc(100cqw / ${GEOMETRY.width} * var(--scale, 1));${names.join(';')}}`
}
