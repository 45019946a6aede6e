import type { ApiObject } from '../grading/api-object.ts'
import type { Variant } from '../grading/variant.ts'

/**
 * The packet that shows a lab's Service at work, in the form that `make trace` accepts: from the
 * lab's client if there is one.
 */
export function labRoute(
  items: readonly ApiObject[],
  variant: Variant,
): { from: string; to: string } {
  const has = (kind: string, name: string) =>
    items.some(
      (item) =>
        item.kind === kind && item.metadata.namespace === 'default' && item.metadata.name === name,
    )
  return {
    from: has('Pod', 'client') ? 'pod/client' : 'host',
    to: has('Service', variant.name) ? `svc/${variant.name}` : 'svc/kubernetes',
  }
}
