/** A slide's measures in px at 1280×720; the style sheet knows each as `var(--name)`, times `--u`, so all of it scales as one. */
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

/** The room for everything but the heading. */
export const CONTENT = {
  width: GEOMETRY.width - 2 * GEOMETRY.padSide,
  height: GEOMETRY.height - GEOMETRY.padTop - GEOMETRY.padBottom,
} as const

/** How much larger the text of a slide with little on it is set. */
export const ROOMY = 1.2

/** Sizes of text in which something may be set; the least of them must be read from the last row (24 px of 720). */
export const TEXT_SIZES = [
  GEOMETRY.title,
  GEOMETRY.text,
  GEOMETRY.code,
  GEOMETRY.table,
  GEOMETRY.foot,
  GEOMETRY.cover,
] as const

/** The measures as custom properties, in units of a slide's pixel. */
export function geometryStyle(): string {
  const names = Object.entries(GEOMETRY).map(([name, value]) => `--${name}:calc(${value} * var(--u))`)
  return `.sheet,.roomy .content{${names.join(';')}}.roomy .content{--u:calc(100cqw / 1280 * ${ROOMY})}`
}
