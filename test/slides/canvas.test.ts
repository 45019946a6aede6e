import { expect, test } from 'vitest'
import { textWidth, wrapText } from '../../slides/figures/canvas.ts'

test('no wrapped line is too wide, and no character is lost', () => {
  const text = 'a KUBE-SVC-LOLE4ISW44XBNF3G chain and WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW more'
  for (const width of [60, 150, 400, 2000]) {
    const lines = wrapText(text, width, 24, 'mono')
    expect(lines.every((line) => textWidth(line, 24, 'mono') <= width)).toBe(true)
    expect(lines.join('').replaceAll(' ', '')).toBe(text.replaceAll(' ', ''))
  }
})
