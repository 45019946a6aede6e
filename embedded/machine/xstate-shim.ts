import { readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { ensureArtifact, proveArtifact } from '../../host/artifact.ts'
import { projectRoot } from '../../host/layout.ts'
import { runTool } from '../../host/supervised.ts'

/** A compiler of 290 kB without headers, which every release of Debian and Ubuntu has. */
export const COMPILER = 'tcc'

const SOURCE = join(projectRoot, 'embedded/machine/xstate-shim.c')
const LIBRARY = 'xstate-shim.so'

/** The folder of a tree with the library that is preloaded into its kernel; the kernel is started in this folder. */
export const SHIM_FOLDER = 'usr/lib/uml/libc'

/** LD_PRELOAD for a kernel that is started in {@link SHIM_FOLDER}: a relative path, as spaces and colons would end it. */
export const shimVariable = `LD_PRELOAD=./${LIBRARY}`

/**
 * Compiles a source file of this project, which uses no library, with the compiler of a tree. The source is passed without its
 * folder, because tcc writes the name into a C string, which a quote in the path would end.
 * @throws Error with the compiler's message
 */
export function compile(tree: string, flags: readonly string[], source: string, result: string): Promise<void> {
  const compiler = join(tree, 'usr/bin', COMPILER)
  return runTool([compiler, '-nostdlib', ...flags, '-o', result, basename(source)], dirname(source))
}

const shimIn = (tree: string) => join(tree, SHIM_FOLDER, LIBRARY)

/**
 * Compiles xstate-shim.c, without which User-Mode Linux crashes on processors with AMX, into a tree of packages, once.
 * @throws Error with the compiler's message
 */
export async function ensureXstateShim(tree: string): Promise<void> {
  await ensureArtifact({
    path: shimIn(tree),
    parts: [readFileSync(SOURCE, 'utf8')],
    make: (fresh) => compile(tree, ['-shared', '-fPIC'], SOURCE, fresh),
  })
}

/** As proveArtifact does. */
export const proveXstateShim = (tree: string): string | undefined => proveArtifact(shimIn(tree))
