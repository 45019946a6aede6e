import { readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { build } from 'esbuild'
import { projectRoot } from '../../host/layout.ts'

/** One file of the page, ready to be sent. */
export interface PageFile {
  type: string
  body: Uint8Array
}

const FOLDER = join(projectRoot, 'guide', 'page')
const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

/**
 * The page by path: `/` is guide/page/index.html, `/main.js` and `/main.css` are what esbuild makes of guide/page/main.tsx. Made at
 * each start, as it takes a few hundred milliseconds. Throws when a source of the page has an error.
 */
export async function buildPage(): Promise<ReadonlyMap<string, PageFile>> {
  const { outputFiles } = await build({
    entryPoints: [join(FOLDER, 'main.tsx')],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    outdir: FOLDER,
    logLevel: 'silent',
  })
  const html = { type: 'text/html; charset=utf-8', body: readFileSync(join(FOLDER, 'index.html')) }
  const made = outputFiles.map(({ path, contents }): [string, PageFile] => [
    path.slice(FOLDER.length),
    { type: TYPES[extname(path)] ?? 'application/octet-stream', body: contents },
  ])
  return new Map([['/', html], ...made])
}
