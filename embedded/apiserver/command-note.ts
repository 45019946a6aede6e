import type { V1Pod } from '@kubernetes/client-node'
import type { KubeObject } from './api.ts'
import type { ClusterApi } from './cluster-api.ts'
import type { ExecRequest } from './node-backend.ts'

/** Annotation of a Node: when a command was last run on it, or in a Pod of it that can change the node. */
const LAST_COMMAND = 'kube-service-labs/last-command'

/**
 * Notes on a Node that a command is run there (`make exec`, `make shell`, `kubectl exec`), so that lab 8 can tell a repair by hand
 * from what kube-proxy repaired by itself. The project's own scripts are not noted: they come by `nodes/NAME/script`.
 */
export function noteCommand(api: ClusterApi, { target }: ExecRequest): void {
  const node = target.kind === 'node' ? target.name : nodeInReach(api, target)
  if (node === undefined || !api.get('nodes', undefined, node)) return
  const annotations = { [LAST_COMMAND]: new Date().toISOString() }
  api.patch('nodes', undefined, node, { metadata: { annotations } })
}

/** The node that a Pod's command can change: the Pod shares its namespaces or is privileged. */
function nodeInReach(api: ClusterApi, { namespace, name }: { namespace: string; name: string }): string | undefined {
  const spec = api.get<KubeObject & Pick<V1Pod, 'spec'>>('pods', namespace, name)?.spec
  const containers = [
    ...(spec?.containers ?? []),
    ...(spec?.initContainers ?? []),
    ...(spec?.ephemeralContainers ?? []),
  ]
  const reaches =
    spec?.hostNetwork || spec?.hostPID || containers.some(({ securityContext }) => securityContext?.privileged)
  return reaches ? spec?.nodeName : undefined
}
