import type { V1LabelSelector } from '@kubernetes/client-node'

export type Labels = Readonly<Record<string, string>>

/** True when `labels` has every pair of `selector` (a Service's, a nodeSelector). An empty selector matches all. */
export function hasLabels(labels: Labels | undefined, selector: Labels): boolean {
  return Object.entries(selector).every(([key, value]) => labels?.[key] === value)
}

/**
 * Whether a LabelSelector matches. As in apimachinery: absent matches nothing, empty matches everything, requirements
 * are ANDed, `NotIn` also matches objects without the key.
 */
export function matchesSelector(selector: V1LabelSelector | undefined, labels: Labels | undefined): boolean {
  if (!selector) return false
  if (!hasLabels(labels, selector.matchLabels ?? {})) return false
  return (selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
    const value = labels?.[key]
    switch (operator) {
      case 'In':
        return value !== undefined && values.includes(value)
      case 'NotIn':
        return value === undefined || !values.includes(value)
      case 'Exists':
        return value !== undefined
      case 'DoesNotExist':
        return value === undefined
      default:
        return false
    }
  })
}

/** True for a selector without any requirement; workloads refuse it because it would claim every Pod. */
export function selectsEverything(selector: V1LabelSelector | undefined): boolean {
  if (!selector) return false
  return Object.keys(selector.matchLabels ?? {}).length === 0 && (selector.matchExpressions ?? []).length === 0
}
