import { revisionHashLabel } from './daemon-revision.ts'
import { isAvailable, isTerminating } from './pod-condition.ts'
import type { DaemonSet, Pod } from './resources.ts'
import { countOf } from './rollout.ts'

/**
 * The Pods of an earlier template to delete now, as pkg/controller/daemon/update.go chooses: those that are not available
 * anyway, then available ones while no more than maxUnavailable (1 unless told; percentages round up) of the `wanted`
 * nodes lack an available Pod.
 */
export function replacements(
  daemonSet: DaemonSet,
  wanted: readonly string[],
  podsByNode: ReadonlyMap<string, readonly Pod[]>,
  hash: string,
  now: number,
): Pod[] {
  const { minReadySeconds = 0, updateStrategy } = daemonSet.spec
  const limit = countOf(updateStrategy?.rollingUpdate?.maxUnavailable ?? 1, wanted.length, Math.ceil)
  const broken: Pod[] = []
  const available: Pod[] = []
  let unavailable = 0
  for (const node of wanted) {
    const live = (podsByNode.get(node) ?? []).filter((pod) => !isTerminating(pod))
    const [pod] = live
    if (!pod || live.length > 1) unavailable++
    else if (pod.metadata.labels?.[revisionHashLabel] === hash) {
      if (!isAvailable(pod, minReadySeconds, now)) unavailable++
    } else if (isAvailable(pod, minReadySeconds, now)) available.push(pod)
    else broken.push(pod)
  }
  return [...broken, ...available.slice(0, Math.max(0, limit - unavailable))]
}
