import { readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { ensureArtifact, proveArtifact } from '../../host/artifact.ts'
import { projectRoot } from '../../host/layout.ts'
import { runTool } from '../../host/supervised.ts'

/** The compiler, of 290 kB and without headers, that every release of Debian and Ubuntu has. */
export const COMPILER = 'tcc'

const SOURCE = join(projectRoot, 'embedded/machine/xstate-shim.c')
const LIBRARY = 'xstate-shim.so'

/** Where a tree keeps the library that is preloaded into its kernel; the kernel is started in this folder. */
export const SHIM_FOLDER = 'usr/lib/uml/libc'

/** LD_PRELOAD for a kernel that is started in {@link SHIM_FOLDER}: a relative path, as spaces and colons would end it. */
export const shimVariable = `LD_PRELOAD=./${LIBRARY}`

const shimIn = (tree: string) => join(tree, SHIM_FOLDER, LIBRARY)

/**
 * Compiles xstate-shim.c, without which User-Mode Linux dies on processors with AMX, into a tree of packages, once.
 * @throws Error with the compiler's message
 */
export async function ensureXstateShim(tree: string): Promise<void> {
  const compiler = join(tree, 'usr/bin', COMPILER)
  await ensureArtifact({
    path: shimIn(tree),
    parts: [readFileSync(SOURCE, 'utf8')],
    // By its name alone: tcc writes the path into a string of C, which a quote in it would end.
    make: (fresh) =>
      runTool([compiler, '-nostdlib', '-shared', '-fPIC', '-o', fresh, basename(SOURCE)], dirname(SOURCE)),
  })
}

/** As proveArtifact does. */
export const proveXstateShim = (tree: string): string | undefined => proveArtifact(shimIn(tree))
