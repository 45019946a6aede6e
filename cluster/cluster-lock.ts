import { AsyncLocalStorage } from 'node:async_hooks'
import { join } from 'node:path'
import { cacheFolder } from '../host/layout.ts'
import { type Holder, lockHolder, oneAtATime, onlyOne } from '../host/one-at-a-time.ts'
import type { Progress } from '../host/progress.ts'
import type { Cluster } from './driver.ts'

/**
 * One lock per name for all drivers: the same commands use a kind cluster and an embedded cluster
 * of that name.
 */
const lockOf = (what: 'cluster' | 'guide', name: string) =>
  join(cacheFolder, 'locks', `${what}-${encodeURIComponent(name)}`)

/**
 * Locks that the current call chain already holds: a command that plays a lab also starts the
 * cluster.
 */
const ownLocks = new AsyncLocalStorage<readonly string[]>()

/**
 * Changes a cluster as a whole (starts it, stops it, switches its mode, resets a lab) while no
 * other command does. A second command waits and names the first one.
 * @param doing shown to the commands that wait: `starts`, `plays lab 2 on`
 */
export function changeCluster<T>(
  { name }: Pick<Cluster, 'name'>,
  doing: string,
  progress: Progress,
  work: () => Promise<T>,
): Promise<T> {
  const lock = lockOf('cluster', name)
  const before = ownLocks.getStore() ?? []
  if (before.includes(lock)) return work()
  return oneAtATime(lock, () => ownLocks.run([...before, lock], work), {
    doing: `${doing} the cluster "${name}"`,
    progress,
  })
}

/**
 * Runs the guide of a lab while no other guide, in a terminal or on a page, runs on the same
 * cluster: two guides would undo each other's steps. `target` is the make target to use on another
 * cluster, `doing` is shown to other guides.
 * @throws Error that names the other command
 */
export function guideOnCluster<T>(
  { name }: Pick<Cluster, 'name'>,
  { target, doing }: { target: string; doing: string },
  work: () => Promise<T>,
): Promise<T> {
  return onlyOne(lockOf('guide', name), work, {
    doing,
    refusal: ({ pid, doing: other }) =>
      new Error(
        `Process ${pid} already ${other} on the cluster "${name}": continue there or quit it first, or use another cluster with \`NAME=second make ${target}\`.`,
      ),
  })
}

/** The command that is changing a cluster; undefined when there is none. */
export const changingProcess = ({ name }: Pick<Cluster, 'name'>): Holder | undefined =>
  lockHolder(lockOf('cluster', name))
