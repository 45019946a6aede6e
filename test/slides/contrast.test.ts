import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { type Colour, DARK, GEOMETRY, PALETTE } from '../../slides/build/style.ts'
import { readTheme } from '../../slides/build/write.ts'
import { TEXT } from '../../slides/figures/canvas.ts'

/**
 * Text colours and their backgrounds; WCAG 2.1 (1.4.3) requires a contrast of 4.5 : 1 at level AA.
 */
const TEXT_PAIRS: readonly (readonly [text: Colour, ground: Colour])[] = [
  ['ink', 'paper'],
  ['soft', 'paper'],
  ['link', 'paper'],
  ['ink', 'shade'],
  ['soft', 'shade'],
  ['moon', 'night'],
  ['dim', 'night'],
  ['ink', 'box'],
  ['onpath', 'path'],
  ['onstrong', 'strong'],
  ['ongood', 'good'],
  ['onbad', 'bad'],
  ['onfaint', 'faint'],
  ['onbad', 'paper'],
  ['ongood', 'paper'],
  ['onfaint', 'paper'],
  ['path', 'paper'],
  ['strong', 'paper'],
]

/** Lines and shapes and their backgrounds; WCAG 2.1 (1.4.11) requires 3 : 1. */
const SHAPE_PAIRS: readonly (readonly [shape: Colour, ground: Colour])[] = [
  ['line', 'paper'],
  ['path', 'paper'],
  ['strong', 'paper'],
  ['badline', 'paper'],
]

/**
 * The contrast of two colours `#rrggbb`, 1 to 21, by WCAG 2.1's definition of relative luminance.
 */
function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number]
  return (high + 0.05) / (low + 0.05)
}

function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(colour.slice(at, at + 2), 16) / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

test('contrast equals the WCAG value of known pairs', () => {
  expect(contrast('#000000', '#ffffff')).toBeCloseTo(21, 5)
  expect(contrast('#777777', '#ffffff')).toBeCloseTo(4.478, 3)
  expect(contrast('#ffffff', '#ffffff')).toBe(1)
})

describe.each([
  ['light', PALETTE],
  ['dark', DARK],
])('%s', (_, palette) => {
  test.each(TEXT_PAIRS)('text %s on %s has AA contrast', (text, ground) => {
    expect(contrast(palette[text], palette[ground])).toBeGreaterThanOrEqual(4.5)
  })

  test.each(SHAPE_PAIRS)('the shape %s contrasts with %s', (shape, ground) => {
    expect(contrast(palette[shape], palette[ground])).toBeGreaterThanOrEqual(3)
  })
})

test('the theme names colours of the palette only, and each rule pairs a text with a tested background', () => {
  const { style } = readTheme()
  expect(style.match(/#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(/gi)).toBeNull()
  const own = Object.keys(PALETTE)
  const used = [
    ...style.matchAll(/(?:color|fill|stroke|background(?:-color)?):\s*var\(--([a-z]+)\)/g),
  ].map((match) => match[1])
  expect(used.length).toBeGreaterThan(20)
  expect(used.filter((name) => !own.includes(name ?? ''))).toEqual([])
  const texts = new Set(TEXT_PAIRS.map(([text]) => text as string))
  const written = [...style.matchAll(/(?<![-a-z])color:\s*var\(--([a-z]+)\)/g)].map(
    (match) => match[1] ?? '',
  )
  expect(written.filter((name) => !texts.has(name))).toEqual([])
})

test('a slide sets its own text and background colour', () => {
  const { style } = readTheme()
  const body = /^\.sheet \{([^}]*)\}/m.exec(style)?.[1]
  expect(body).toMatch(/^\s*background: var\(--paper\);$/m)
  expect(body).toMatch(/^\s*color: var\(--ink\);$/m)
})

test('nothing on a slide is smaller than 24 px at 1280×720', () => {
  const { title, text, code, table, foot, cover } = GEOMETRY
  expect(Math.min(TEXT, title, text, code, table, foot, cover)).toBeGreaterThanOrEqual(24)
  const style = readFileSync(new URL('../../slides/theme/deck.css', import.meta.url), 'utf8')
  const onSlides = [...style.matchAll(/^(\.(?:sheet|content|cover)[^{]*)\{([^}]*)\}/gm)]
  const sizes = onSlides.flatMap(([, , body = '']) =>
    [...body.matchAll(/font-size:\s*([^;]+)/g)].map((match) => match[1]),
  )
  expect(sizes.length).toBeGreaterThanOrEqual(5)
  expect(
    sizes.filter((size) => !/^var\(--(title|text|code|table|foot|cover)\)$/.test(size ?? '')),
  ).toEqual([])
})
