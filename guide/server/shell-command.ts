import { userInfo } from 'node:os'
import { delimiter } from 'node:path'
import type { Cluster } from '../../cluster/driver.ts'
import { projectRoot, START } from '../../host/layout.ts'

/** The place of the user's own shell. */
export const HOST = 'host'

/** What runs in a terminal. */
export interface ShellCommand {
  file: string
  words: string[]
  env: NodeJS.ProcessEnv
  cwd: string
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

/**
 * What runs in a terminal at a place: on the host the user's shell in the checkout, with kubectl pointed at the cluster as
 * `make env` does, elsewhere what `make shell` starts.
 */
export function shellAt(cluster: Cluster, place: string, kubectlFolder: string): ShellCommand {
  const { CLUSTER = cluster.driver === 'context' ? `context:${cluster.name}` : cluster.driver, ...own } = process.env
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
  const shell = process.env.SHELL || userInfo().shell || '/bin/sh'
  if (place === HOST) return { file: shell, words: [], env, cwd: projectRoot }
  return {
    file: process.execPath,
    words: [START, 'scripts/exec.ts', '--shell'],
    env: { ...env, NODE: place },
    cwd: projectRoot,
  }
}
