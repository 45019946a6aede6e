// Cheap detection of activity on a cluster.

import { setTimeout as pause } from 'node:timers/promises'
import type { Cluster } from '../../cluster/driver.ts'
import { kubeClient } from '../../cluster/kube-client.ts'
import { runOnNode } from '../../cluster/node-script.ts'

/** The interval of the test whether a program was started on a node, and the number of tests in one run of the script. */
const STEP_SECONDS = 0.25
const STEPS = 80
/** The pause before a watch that ended is started again. */
const AGAIN_MS = 1000

/** The kinds of objects that steps check. */
const WATCHED = [
  '/api/v1/nodes',
  '/api/v1/services',
  '/api/v1/pods',
  '/api/v1/namespaces/default/configmaps',
  '/apis/discovery.k8s.io/v1/endpointslices',
]

/**
 * Ends when a program was started: the last field of /proc/loadavg is the process ID that was given last in this PID namespace
 * (proc(5)). One bash that only uses builtins: it starts nothing itself, and waits by reading from a pipe that nobody writes to.
 */
const UNTIL_PROGRAM = `exec bash -c '
exec 9<> <(:)
read -r _ _ _ _ before </proc/loadavg
for ((step = 0; step < ${STEPS}; step++)); do
  read -rt ${STEP_SECONDS} -u 9
  read -r _ _ _ _ last </proc/loadavg
  [ "$last" = "$before" ] || exit 0
done
exit 1'`

/** Whether a cluster can report cheaply that programs are started: where all nodes are one kernel and nothing runs by itself. */
export const reportsPrograms = ({ sharedKernel }: Cluster): boolean => sharedKernel === true

/** Calls `onSign` when a program is started on any node of such a cluster, until `signal` aborts. Rejects if the cluster can't be reached. */
export async function watchPrograms(cluster: Cluster, onSign: () => void, signal: AbortSignal): Promise<void> {
  const [node] = await cluster.nodes()
  if (node === undefined) return
  while (!signal.aborted) {
    const { exitCode } = await runOnNode(cluster, node, UNTIL_PROGRAM, { readOnly: true, timeoutMs: 60_000 })
    if (exitCode === 0) return onSign()
  }
}

/** Calls `onSign` on every API event about objects that steps check, until `signal` aborts. */
export async function watchObjects(cluster: Cluster, onSign: () => void, signal: AbortSignal): Promise<void> {
  const { Watch } = await import('../../cluster/kubernetes.ts')
  // One listener for all watches: each of them ends and begins again as often as the cluster goes down.
  const open = new Map<string, AbortController>()
  signal.addEventListener('abort', () => {
    for (const request of open.values()) request.abort()
  })
  const follow = async (path: string) => {
    while (!signal.aborted) {
      try {
        const watch = new Watch((await kubeClient(cluster)).config)
        await new Promise<void>((resolve, reject) => {
          void watch
            .watch(path, {}, onSign, () => resolve())
            .then((request) => {
              open.set(path, request)
              if (signal.aborted) request.abort()
            }, reject)
        })
      } catch {
        // The cluster is not up: its nodes are read until it is.
      }
      await pause(AGAIN_MS, undefined, { signal }).catch(() => {})
    }
  }
  await Promise.all(WATCHED.map(follow))
}
