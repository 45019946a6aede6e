import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ensureArtifact, proveArtifact } from '../../host/artifact.ts'
import { projectRoot } from '../../host/layout.ts'
import { runTool } from '../../host/supervised.ts'
import { SHIM, umlTrouble } from './kernel-package.ts'
import { GUEST_CONFINE } from './placement.ts'

/** A compiler of 290 kB without headers, which every release of Debian and Ubuntu has. */
export const COMPILER = 'tcc'

const folder = join(projectRoot, 'embedded/machine')

/** The sources in this folder, which use no library, and where a tree of packages has what they are compiled to. */
const confine = { source: 'confine.c', flags: ['-static'], result: GUEST_CONFINE }
const shim = { source: 'xstate-shim.c', flags: ['-shared', '-fPIC'], result: SHIM }
const programs = () => (umlTrouble() ? [confine] : [confine, shim])

/**
 * Compiles what a kernel of a tree needs beside its packages, once for each state of the sources. They are passed without their folder,
 * because tcc writes the name into a C string, which a quote in the path would end.
 * @throws Error with the compiler's message
 */
export async function compileInto(tree: string): Promise<void> {
  const compiler = join(tree, 'usr/bin', COMPILER)
  const compile = ({ source, flags, result }: typeof confine) =>
    ensureArtifact({
      path: join(tree, result),
      parts: [readFileSync(join(folder, source), 'utf8')],
      make: (fresh) => runTool([compiler, '-nostdlib', ...flags, '-o', fresh, source], folder),
    })
  await Promise.all(programs().map(compile))
}

/** The damage of a compiled program of a tree; undefined if there is none. */
export function proveCompiled(tree: string): string | undefined {
  for (const { result } of programs()) {
    const damage = proveArtifact(join(tree, result))
    if (damage) return damage
  }
  return undefined
}
