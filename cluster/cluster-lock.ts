import { AsyncLocalStorage } from 'node:async_hooks'
import { join } from 'node:path'
import { cacheFolder } from '../host/layout.ts'
import { type Holder, oneAlone, oneAtATime, whoHolds } from '../host/one-at-a-time.ts'
import type { Progress } from '../host/progress.ts'
import type { Cluster } from './driver.ts'

/** One for each name, whatever the driver: a kind cluster and an embedded one of one name share the learner's commands. */
const lockOf = (what: 'cluster' | 'guide', name: string) =>
  join(cacheFolder, 'locks', `${what}-${encodeURIComponent(name)}`)

/** Locks that what runs now has taken already: starting a cluster is also a part of playing a lab on it. */
const held = new AsyncLocalStorage<readonly string[]>()

/**
 * Does what changes a cluster as a whole (starts it, stops it, switches its mode, resets a lab) while no other command does. A
 * second command waits and says for which one.
 * @param doing for those who wait: `starts`, `plays lab 2 on`
 */
export function changeCluster<T>(
  { name }: Pick<Cluster, 'name'>,
  doing: string,
  progress: Progress,
  work: () => Promise<T>,
): Promise<T> {
  const lock = lockOf('cluster', name)
  const before = held.getStore() ?? []
  if (before.includes(lock)) return work()
  return oneAtATime(lock, () => held.run([...before, lock], work), {
    doing: `${doing} the cluster "${name}"`,
    progress,
  })
}

/**
 * Leads through a lab while no other command does on the same cluster: two guides would undo each other's steps.
 * @throws Error that names the other command
 */
export function leadOnCluster<T>({ name }: Pick<Cluster, 'name'>, lab: number, work: () => Promise<T>): Promise<T> {
  return oneAlone(lockOf('guide', name), work, {
    doing: `leads through lab ${lab}`,
    refusal: ({ pid, doing }) =>
      new Error(
        `Process ${pid} ${doing} on the cluster "${name}" already: go on there or quit it first, or take a cluster of its own with \`NAME=second make lab-${lab}\`.`,
      ),
  })
}

/** The command that changes a cluster right now; undefined when none does. */
export const whoChanges = ({ name }: Pick<Cluster, 'name'>): Holder | undefined => whoHolds(lockOf('cluster', name))
