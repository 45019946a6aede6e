import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { TEXT_SIZES } from '../../slides/build/geometry.ts'
import { contrast, DARK, PALETTE, SHAPE_PAIRS, TEXT_PAIRS } from '../../slides/build/palette.ts'
import { readTheme } from '../../slides/build/write.ts'
import { TEXT } from '../../slides/figures/canvas.ts'

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
  const used = [...style.matchAll(/(?:color|fill|stroke|background(?:-color)?):\s*var\(--([a-z]+)\)/g)].map(
    (match) => match[1],
  )
  expect(used.length).toBeGreaterThan(20)
  expect(used.filter((name) => !own.includes(name ?? ''))).toEqual([])
  const texts = new Set(TEXT_PAIRS.map(([text]) => text as string))
  const written = [...style.matchAll(/(?<![-a-z])color:\s*var\(--([a-z]+)\)/g)].map((match) => match[1] ?? '')
  expect(written.filter((name) => !texts.has(name))).toEqual([])
})

test('a slide sets its own text and background colour', () => {
  const { style } = readTheme()
  const body = /^\.sheet \{([^}]*)\}/m.exec(style)?.[1]
  expect(body).toMatch(/^\s*background: var\(--paper\);$/m)
  expect(body).toMatch(/^\s*color: var\(--ink\);$/m)
})

test('nothing on a slide is smaller than 24 px at 1280×720', () => {
  expect(Math.min(TEXT, ...TEXT_SIZES)).toBeGreaterThanOrEqual(24)
  const style = readFileSync(new URL('../../slides/theme/deck.css', import.meta.url), 'utf8')
  const onSlides = [...style.matchAll(/^(\.(?:sheet|content|cover)[^{]*)\{([^}]*)\}/gm)]
  const sizes = onSlides.flatMap(([, , body = '']) =>
    [...body.matchAll(/font-size:\s*([^;]+)/g)].map((match) => match[1]),
  )
  expect(sizes.length).toBeGreaterThanOrEqual(5)
  expect(sizes.filter((size) => !/^var\(--(title|text|code|table|foot|cover)\)$/.test(size ?? ''))).toEqual([])
})
