import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { buildPage } from '../../guide/server/page-files.ts'

const MOST_BYTES = 400_000
const files = await buildPage()

test('the whole page is small, compressed', () => {
  const bodies = [...files.values()].map(({ body }) => gzipSync(body).length)
  expect(bodies.length).toBeGreaterThanOrEqual(3)
  expect(bodies.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(MOST_BYTES)
})

test('the page loads nothing from elsewhere', () => {
  for (const [path, { body }] of files) {
    const text = Buffer.from(body).toString()
    const loaded = [...text.matchAll(/(?:src|href|@import|url\()[=\s"'(]*((?:https?:)?\/\/[^"')\s]+)/g)].map(
      ([, url]) => url,
    )
    expect(loaded, path).toEqual([])
  }
})
