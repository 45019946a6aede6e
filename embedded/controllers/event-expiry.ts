import { hasReason } from '../apiserver/status-error.ts'
import { type ControllerContext, keyOf, splitKey } from './context.ts'
import type { Event } from './resources.ts'

/** kube-apiserver's --event-ttl. */
const lifetimeMs = 3_600_000

/** Deletes Events an hour after their last change, as kube-apiserver lets them expire. */
export function startEventExpiry(context: ControllerContext, lifetime = lifetimeMs): void {
  const { api } = context
  const lastChange = new Map<string, number>()
  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const left = (lastChange.get(key) ?? 0) + lifetime - Date.now()
    if (left > 0) {
      queue.addAfter(key, left)
      return
    }
    lastChange.delete(key)
    try {
      api.delete('events', namespace, name)
    } catch (error) {
      if (!hasReason(error, 'NotFound')) throw error
    }
  })
  context.watch<Event>('events', ({ type, object }) => {
    const key = keyOf(object)
    if (type === 'DELETED') lastChange.delete(key)
    else lastChange.set(key, Date.now())
    if (type === 'ADDED') queue.addAfter(key, lifetime)
  })
}
