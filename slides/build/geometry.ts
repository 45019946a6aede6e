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
