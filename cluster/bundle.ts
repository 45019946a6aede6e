import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { BuildOptions, Plugin } from 'esbuild'
import { cacheFolder, projectRoot } from './layout.ts'

/** Bundled packages that are CommonJS ask for Node's own modules by `require`. */
const REQUIRE = `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);`

const OPTIONS = {
  bundle: true,
  platform: 'node',
  format: 'esm',
  minifyWhitespace: true,
  minifySyntax: true,
  banner: { js: REQUIRE },
  external: ['esbuild', 'vitest', 'vitest/node', '@kubernetes/client-node'] as string[],
  logLevel: 'silent',
} as const satisfies BuildOptions

/** Where our own modules stand stays what it was, though the bundle stands elsewhere. */
const OWN_PLACES: Plugin = {
  name: 'own-places',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => ({
      loader: 'ts',
      contents: readFileSync(path, 'utf8')
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)),
    }))
  },
}

/**
 * Path of a module and of all that it imports as one plain JavaScript file in the cache's folder `name`, made once for each `state`
 * of its sources. `contents` is the module's text; it imports as if it stood in `resolveDir`. Loading the bundler takes half a
 * second, which nobody waits for again.
 */
export async function bundleOf(contents: string, resolveDir: string, name: string, state: string): Promise<string> {
  const folder = join(cacheFolder, name)
  const hash = createHash('sha256')
    .update(JSON.stringify([OPTIONS, contents, resolveDir]))
    .update(state)
  const bundle = join(folder, `${hash.digest('hex').slice(0, 16)}.mjs`)
  if (existsSync(bundle)) return bundle
  const { build } = await import('esbuild')
  mkdirSync(folder, { recursive: true })
  const unfinished = `${bundle}.${process.pid}.${Math.random().toString(36).slice(2)}`
  await build({ ...OPTIONS, plugins: [OWN_PLACES], stdin: { contents, resolveDir }, outfile: unfinished })
  renameSync(unfinished, bundle)
  removeOutdated(folder)
  return bundle
}

/**
 * Path of a program of ours as one plain JavaScript file: reading hundreds of sources takes a second and more. It is made anew when
 * one of the sources in `folders` of the checkout, or what is installed, has changed. `entry` is a path from the checkout.
 */
export function programBundle(entry: string, name: string, folders: readonly string[]): Promise<string> {
  const sources = folders.flatMap((folder) =>
    readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => join(folder, file)),
  )
  const state = ['node_modules/.package-lock.json', ...sources.sort()]
    .map((file) => `${file}\0${readFileSync(join(projectRoot, file), 'utf8')}`)
    .join('\0')
  return bundleOf(`import ${JSON.stringify(`./${entry}`)}`, projectRoot, name, state)
}

/** Whoever began with another state of the sources has loaded it by now. */
const outdatedMs = 3_600_000

function removeOutdated(folder: string): void {
  for (const name of readdirSync(folder)) {
    const file = join(folder, name)
    const { mtimeMs } = statSync(file, { throwIfNoEntry: false }) ?? { mtimeMs: Date.now() }
    if (Date.now() - mtimeMs > outdatedMs) rmSync(file, { force: true })
  }
}
