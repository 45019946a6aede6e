import { randomBytes } from 'node:crypto'
import { accessSync, constants } from 'node:fs'
import { userInfo } from 'node:os'
import { delimiter, join } from 'node:path'
import type { Cluster } from '../../cluster/driver.ts'
import { projectRoot, START } from '../../host/layout.ts'

/** The place of the user's own shell. */
export const HOST = 'host'

/** What runs in a terminal. */
export interface ShellCommand {
  file: string
  args: string[]
  env: NodeJS.ProcessEnv
  cwd: string
  /** The word in the marks of its prompts and commands; absent if the shell makes none. */
  mark?: string
}

/** Variables of `make guide` itself and of make, which the learner's commands must not inherit. */
const OWN = [
  'MAKEFLAGS',
  'MFLAGS',
  'MAKEOVERRIDES',
  'MAKELEVEL',
  'MAKE_TERMOUT',
  'MAKE_TERMERR',
  'STEM',
  'LAB',
  'PORT',
  'NODE',
]

/** The start file of the guide's bash. */
const BASHRC = join(projectRoot, 'guide/shell/bashrc')

/**
 * What runs in a terminal at a place: on the host bash in the checkout, for which the labs'
 * commands are made, or the user's shell if there is none, with kubectl pointed at the cluster as
 * `make env` does; elsewhere what `make shell` starts. `variables`: a file of assignments that bash
 * reads again when it has changed.
 */
export function shellAt(
  cluster: Cluster,
  place: string,
  kubectlFolder: string,
  variables: string,
): ShellCommand {
  const { CLUSTER = cluster.selector, ...own } = process.env
  const env: NodeJS.ProcessEnv = {
    ...own,
    CLUSTER,
    NAME: cluster.name,
    KUBECONFIG: cluster.kubeconfig,
    PATH: `${kubectlFolder}${delimiter}${process.env.PATH ?? ''}`,
    TERM: 'xterm-256color',
    COLORTERM: 'truecolor',
  }
  for (const name of OWN) delete env[name]
  if (place === HOST) {
    const bash = programIn(env.PATH ?? '', 'bash')
    const shell = process.env.SHELL || userInfo().shell || '/bin/sh'
    if (bash === undefined) return { file: shell, args: [], env, cwd: projectRoot }
    const mark = randomBytes(8).toString('hex')
    const marked = { ...env, GUIDE_MARK: mark, GUIDE_VARIABLES: variables }
    return { file: bash, args: ['--rcfile', BASHRC, '-i'], env: marked, cwd: projectRoot, mark }
  }
  return {
    file: process.execPath,
    args: [START, 'scripts/exec.ts', '--shell'],
    env: { ...env, NODE: place },
    cwd: projectRoot,
  }
}

/** The first executable of that name in a PATH. */
const programIn = (path: string, name: string): string | undefined =>
  path
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK)
        return true
      } catch {
        return false
      }
    })
