import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { bundleOf } from '../../host/bundle.ts'
import { cacheFolder } from '../../host/layout.ts'

const folder = mkdtempSync(join(tmpdir(), 'sources-'))
const name = `bundle-test-${process.pid}`
afterAll(() => {
  for (const path of [folder, join(cacheFolder, name)]) rmSync(path, { recursive: true, force: true })
})

test('a bundle is made once for each state, knows where its sources stand, and outdated ones go', async () => {
  const source = join(folder, 'place.ts')
  writeFileSync(source, 'export const place: string = import.meta.dirname\nexport const url = import.meta.url\n')
  const made = () => bundleOf("export * from './place.ts'", folder, name, 'first')
  const bundle = await made()
  expect(await import(pathToFileURL(bundle).href)).toMatchObject({ place: folder, url: pathToFileURL(source).href })
  expect(await made()).toBe(bundle)
  const yesterday = new Date(Date.now() - 86_400_000)
  for (const file of [bundle, `${bundle}.manifest`]) utimesSync(file, yesterday, yesterday)
  const other = await bundleOf("export * from './place.ts'", folder, name, 'second')
  expect(other).not.toBe(bundle)
  const left = readdirSync(join(cacheFolder, name)).map((file) => join(cacheFolder, name, file))
  expect(left.sort()).toEqual([other, `${other}.manifest`])
})
