import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { deckNames, writeSlides } from '../../slides/build/write.ts'

const folder = mkdtempSync(join(tmpdir(), 'slides-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('a build without printing keeps and links the PDFs of its decks, and removes files of other decks', async () => {
  const [deck = ''] = deckNames()
  writeFileSync(join(folder, `${deck}.pdf`), 'printed before')
  for (const file of ['99-removed.pdf', '99-removed.html'])
    writeFileSync(join(folder, file), 'of a deck that is gone')

  const { pdf } = await writeSlides(folder, { print: false })

  expect(readFileSync(join(folder, `${deck}.pdf`), 'utf8')).toBe('printed before')
  expect([...pdf]).toEqual([deck])
  expect(readFileSync(join(folder, 'index.html'), 'utf8')).toContain(`href="${deck}.pdf"`)
  for (const file of ['99-removed.pdf', '99-removed.html'])
    expect(existsSync(join(folder, file))).toBe(false)
})
