import { hasReason } from '../apiserver/status-error.ts'
import { type ControllerContext, keyOf } from './context.ts'
import type { Node, Pod } from './resources.ts'

/** pkg/controller/podgc waits as long before it believes that a node is gone for good. */
const quarantineMs = 40_000

/** Deletes the Pods of nodes that no longer exist; no kubelet will ever confirm their end. */
export function startPodGarbageCollector(context: ControllerContext, quarantine = quarantineMs): void {
  const { api } = context
  const queue = context.queue((node) => {
    if (api.get<Node>('nodes', undefined, node)) return
    for (const { metadata, spec } of api.list<Pod>('pods')) {
      if (spec.nodeName !== node) continue
      try {
        api.delete('pods', metadata.namespace, metadata.name, { gracePeriodSeconds: 0 })
      } catch (error) {
        if (!hasReason(error, 'NotFound')) throw error
      }
    }
  })
  context.watch<Node>('nodes', ({ type, object }) => {
    if (type === 'DELETED') queue.addAfter(keyOf(object), quarantine)
  })
  context.watch<Pod>('pods', ({ object: { spec }, previous }) => {
    const bound = spec.nodeName && spec.nodeName !== previous?.spec.nodeName
    if (bound && !api.get<Node>('nodes', undefined, spec.nodeName ?? ''))
      queue.addAfter(spec.nodeName ?? '', quarantine)
  })
}
