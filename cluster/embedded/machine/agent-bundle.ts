import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from '../../layout.ts'

/**
 * Path of the guest's agent as one plain JavaScript file, bundled once for each state of its sources. Loading the bundler takes
 * half a second, which a cluster that starts with an unchanged agent need not wait for.
 */
export async function agentBundle(): Promise<string> {
  const here = import.meta.dirname
  const hash = createHash('sha256')
  for (const name of readdirSync(here).sort()) hash.update(`${name}\0`).update(readFileSync(join(here, name)))
  const folder = join(cacheFolder, 'agent')
  const bundle = join(folder, `${hash.digest('hex').slice(0, 16)}.mjs`)
  if (existsSync(bundle)) return bundle
  const { build } = await import('esbuild')
  mkdirSync(folder, { recursive: true })
  const unfinished = `${bundle}.${process.pid}`
  await build({
    entryPoints: [join(here, 'agent.ts')],
    outfile: unfinished,
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'silent',
  })
  renameSync(unfinished, bundle)
  return bundle
}
