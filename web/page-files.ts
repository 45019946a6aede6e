// The files of a page: its HTML as it is, its scripts and styles bundled by esbuild.

import { readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { build } from 'esbuild'

/** One file of a page, ready to be sent. */
export interface PageFile {
  type: string
  body: Uint8Array
}

/** The files of a page by path. */
export type PageFiles = ReadonlyMap<string, PageFile>

const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

/**
 * The page of a folder by path: `/` is its index.html, `/main.js` and `/main.css` are what esbuild
 * makes of its main.tsx. Made at each start, as it takes a few hundred milliseconds. Throws when a
 * source of the page has an error.
 */
export async function buildPage(folder: string): Promise<PageFiles> {
  const { outputFiles } = await build({
    entryPoints: [join(folder, 'main.tsx')],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    outdir: folder,
    logLevel: 'silent',
  })
  const html = { type: 'text/html; charset=utf-8', body: readFileSync(join(folder, 'index.html')) }
  const made = outputFiles.map(({ path, contents }): [string, PageFile] => [
    path.slice(folder.length),
    { type: TYPES[extname(path)] ?? 'application/octet-stream', body: contents },
  ])
  return new Map([['/', html], ...made])
}
