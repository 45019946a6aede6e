import { existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { $ } from 'zx/core'
import { projectRoot } from '../../host/layout.ts'

/** The compiler, of 290 kB and without headers, that every release of Debian and Ubuntu has. */
export const COMPILER = 'tcc'

const SOURCE = join(projectRoot, 'embedded/machine/xstate-shim.c')
const LIBRARY = 'xstate-shim.so'

/** Where a tree keeps the library that is preloaded into its kernel; the kernel is started in this folder. */
export const SHIM_FOLDER = 'usr/lib/uml/libc'

/** LD_PRELOAD for a kernel that is started in {@link SHIM_FOLDER}: a relative path, as spaces and colons would end it. */
export const shimVariable = `LD_PRELOAD=./${LIBRARY}`

/**
 * Compiles xstate-shim.c, without which User-Mode Linux dies on processors with AMX, into a tree of packages, once.
 * @throws Error with the compiler's message
 */
export async function ensureXstateShim(tree: string): Promise<void> {
  const library = join(tree, SHIM_FOLDER, LIBRARY)
  if (existsSync(library)) return
  const fresh = `${library}-${process.pid}`
  await $({ quiet: true })`mkdir -p ${join(tree, SHIM_FOLDER)}`
  await $({ quiet: true })`${join(tree, 'usr/bin', COMPILER)} -nostdlib -shared -fPIC -o ${fresh} ${SOURCE}`
  renameSync(fresh, library)
}
