import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from './layout.ts'

/**
 * The text of a program that runs on a node, in a Pod or in a container: a .sh or .pl file beside
 * its caller, named by its path in the repository (`cluster/backend.sh`). Programs get values as
 * arguments, never by interpolation; test/architecture/programs.test.ts checks every one with
 * shellcheck or `perl -c`.
 */
export const programText = (path: string): string => readFileSync(join(projectRoot, path), 'utf8')
