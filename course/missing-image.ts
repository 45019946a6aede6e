import type { V1Pod } from '@kubernetes/client-node'

const REASONS = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'InvalidImageName',
])

/** A container that can't start because its image is not on the node. */
export interface MissingImage {
  pod: string
  image: string
  /** The kubelet's message: while it waits for its next attempt, up to 1.31 without the cause. */
  message: string
}

/** The first Pod whose image can't be pulled: there is no network, a registry limits its users, or the name is wrong. */
export function missingImage(pods: readonly V1Pod[]): MissingImage | undefined {
  for (const { metadata, status } of pods) {
    const containers = [
      ...(status?.initContainerStatuses ?? []),
      ...(status?.containerStatuses ?? []),
    ]
    for (const { image, state } of containers) {
      const { reason = '', message = '' } = state?.waiting ?? {}
      if (!metadata?.deletionTimestamp && REASONS.has(reason))
        return { pod: metadata?.name ?? '', image, message }
    }
  }
  return undefined
}
