import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { BuildOptions, Plugin } from 'esbuild'
import { ensureArtifact } from './artifact.ts'
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
  external: ['esbuild', 'tsx', 'vitest', 'vitest/node', '@kubernetes/client-node'] as string[],
  logLevel: 'silent',
} as const satisfies BuildOptions

/** Not written out: this module is bundled, too. */
const META = ['import', 'meta'].join('.')

/** Where our own modules stand stays what it was, though the bundle stands elsewhere. */
const OWN_PLACES: Plugin = {
  name: 'own-places',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => ({
      loader: 'ts',
      contents: readFileSync(path, 'utf8')
        .replaceAll(`${META}.dirname`, JSON.stringify(dirname(path)))
        .replaceAll(`${META}.url`, JSON.stringify(pathToFileURL(path).href)),
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
  const path = join(folder, `${hash.digest('hex').slice(0, 16)}.mjs`)
  return ensureArtifact({
    path,
    async make(fresh) {
      const { build } = await import('esbuild')
      await build({ ...OPTIONS, plugins: [OWN_PLACES], stdin: { contents, resolveDir }, outfile: fresh })
      removeOutdated(folder)
    },
  })
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

/**
 * Bundles programs of ours into `folder`, one file each (`NAME.mjs`) and what they share beside them. Folders of its parent that are
 * outdated go.
 */
export async function bundleTogether(entryPoints: string[], folder: string): Promise<void> {
  await ensureArtifact({
    path: folder,
    async make(fresh) {
      const { build } = await import('esbuild')
      await build({
        ...OPTIONS,
        plugins: [OWN_PLACES],
        entryPoints,
        outdir: fresh,
        outExtension: { '.js': '.mjs' },
        chunkNames: 'shared/[hash]',
        splitting: true,
      })
      removeOutdated(dirname(folder))
    },
  })
}

/** Whoever began with another state of the sources has loaded it by now. */
const outdatedMs = 3_600_000

function removeOutdated(folder: string): void {
  for (const name of readdirSync(folder)) {
    const file = join(folder, name)
    const { mtimeMs } = statSync(file, { throwIfNoEntry: false }) ?? { mtimeMs: Date.now() }
    if (Date.now() - mtimeMs > outdatedMs) rmSync(file, { recursive: true, force: true })
  }
}
