import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from './layout.ts'

/** Bundled packages that are CommonJS ask for Node's own modules by `require`. */
const REQUIRE = `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);`

const OPTIONS = {
  bundle: true,
  platform: 'node',
  format: 'esm',
  minifyWhitespace: true,
  minifySyntax: true,
  banner: { js: REQUIRE },
  logLevel: 'silent',
} as const

/**
 * Path of a module and of all that it imports as one plain JavaScript file in the cache's folder `name`, made once for each `state`
 * of its sources. `contents` is the module's text; it imports as if it stood in `resolveDir`. Loading the bundler takes half a
 * second, which nobody waits for again.
 */
export async function bundleOf(contents: string, resolveDir: string, name: string, state: string): Promise<string> {
  const folder = join(cacheFolder, name)
  const hash = createHash('sha256').update(JSON.stringify(OPTIONS)).update(contents).update(state)
  const bundle = join(folder, `${hash.digest('hex').slice(0, 16)}.mjs`)
  if (existsSync(bundle)) return bundle
  const { build } = await import('esbuild')
  mkdirSync(folder, { recursive: true })
  const unfinished = `${bundle}.${process.pid}.${Math.random().toString(36).slice(2)}`
  await build({ ...OPTIONS, stdin: { contents, resolveDir }, outfile: unfinished })
  renameSync(unfinished, bundle)
  return bundle
}
