/** Every colour of the slides by name; the style sheet and the figures only use `var(--name)`, and each pair of colours is tested. */
export const PALETTE = {
  paper: '#ffffff',
  ink: '#15202b',
  soft: '#44525f',
  link: '#0a4a8f',
  rule: '#c3ccd5',
  shade: '#eef2f6',
  night: '#10212f',
  moon: '#f1f6fa',
  dim: '#b9cbd9',
  box: '#e8eef5',
  line: '#5a6b7a',
  path: '#0a4a8f',
  onpath: '#ffffff',
  strong: '#0f5a3c',
  onstrong: '#ffffff',
  good: '#d9f0e1',
  ongood: '#0b3f22',
  bad: '#fbe0dc',
  onbad: '#7a130c',
  badline: '#a8251c',
  faint: '#f6f8fa',
  onfaint: '#55626e',
} as const

export type Colour = keyof typeof PALETTE

/** The same colours for a dark window. */
export const DARK: Readonly<Record<Colour, string>> = {
  paper: '#14191f',
  ink: '#e4eaf0',
  soft: '#a9b6c2',
  link: '#7db8f5',
  rule: '#36424e',
  shade: '#1c232b',
  night: '#0b1015',
  moon: '#f1f6fa',
  dim: '#b9cbd9',
  box: '#25303b',
  line: '#8495a5',
  path: '#7db8f5',
  onpath: '#0b1015',
  strong: '#6fce9f',
  onstrong: '#0b1015',
  good: '#16382a',
  ongood: '#a5e6c4',
  bad: '#47211e',
  onbad: '#ffb9b0',
  badline: '#f0776c',
  faint: '#1a2027',
  onfaint: '#98a6b3',
}

/** A palette as custom properties of the elements that a selector names. */
export function paletteStyle(palette: Readonly<Record<Colour, string>> = PALETTE, selector = ':root'): string {
  return `${selector}{${Object.entries(palette)
    .map(([name, colour]) => `--${name}:${colour}`)
    .join(';')}}`
}

/**
 * A slide's measures in px at 1280×720; in the style sheet each is `var(--name)`, multiplied by `--u`, so that the slide
 * scales as a whole.
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
  const names = Object.entries(GEOMETRY).map(([name, value]) => `--${name}:calc(${value} * var(--u))`)
  return `.sheet,.content{--u:calc(100cqw / ${GEOMETRY.width} * var(--scale, 1));${names.join(';')}}`
}
