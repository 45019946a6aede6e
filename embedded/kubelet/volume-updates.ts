import type { Api, KubeObject } from '../apiserver/api.ts'
import type { Machine } from '../machine/machine.ts'
import type { PodWorker } from './pod-worker.ts'
import { podVolumes } from './volumes.ts'

/** Brings changes of ConfigMaps and Secrets to the files of the Pods that mount them. Returns what ends that. */
export function watchVolumes(machine: Machine, api: Api, workers: () => Iterable<PodWorker>): () => void {
  const refresh = (kind: 'configMap' | 'secret', { metadata }: KubeObject) => {
    for (const { pod, sandbox } of workers()) {
      const { volumes = [] } = pod.spec
      const uses = volumes.some(({ configMap, secret, projected }) => {
        const sources = [{ configMap, secret }, ...(projected?.sources ?? [])]
        return sources.some((one) =>
          kind === 'configMap'
            ? one.configMap?.name === metadata.name
            : (one.secret as { secretName?: string; name?: string } | undefined)?.secretName === metadata.name,
        )
      })
      if (!uses || pod.metadata.namespace !== metadata.namespace) continue
      const addresses = { podIP: sandbox.podIP, hostIP: pod.status?.hostIP ?? '' }
      // What can't be shown any more stays as it was, like a real volume does; so does everything when the machine ends.
      Promise.resolve()
        .then(() => machine.write(podVolumes(api, pod, addresses).files))
        .catch(() => {})
    }
  }
  const ends = (['configMap', 'secret'] as const).map((kind) =>
    api.watch(`${kind.toLowerCase()}s`, (type, object) => {
      if (type === 'MODIFIED') refresh(kind, object)
    }),
  )
  return () => {
    for (const end of ends) end()
  }
}
