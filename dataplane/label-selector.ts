export type Labels = Readonly<Record<string, string>>

/** One requirement of `matchExpressions`; `operator` is In, NotIn, Exists or DoesNotExist. */
export interface LabelRequirement {
  key: string
  operator: string
  values?: readonly string[]
}

/** A LabelSelector of the Kubernetes API (apimachinery meta/v1). */
export interface LabelSelector {
  matchLabels?: Labels
  matchExpressions?: readonly LabelRequirement[]
}

/**
 * True when `labels` has every pair of `selector` (a Service's, a nodeSelector). An empty selector
 * matches all.
 */
export function hasLabels(labels: Labels = {}, selector: Labels): boolean {
  return Object.entries(selector).every(([key, value]) => labelOf(labels, key) === value)
}

/**
 * Whether a LabelSelector matches. As in apimachinery: absent matches nothing, empty matches
 * everything, requirements are ANDed, `NotIn` also matches objects without the key. An unknown
 * operator matches nothing.
 */
export function matchesSelector(selector: LabelSelector | undefined, labels: Labels = {}): boolean {
  if (!selector || !hasLabels(labels, selector.matchLabels ?? {})) return false
  return (selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
    const value = labelOf(labels, key)
    if (operator === 'Exists') return value !== undefined
    if (operator === 'DoesNotExist') return value === undefined
    const listed = value !== undefined && values.includes(value)
    return operator === 'In' ? listed : operator === 'NotIn' && !listed
  })
}

const labelOf = (labels: Labels, key: string): string | undefined =>
  Object.hasOwn(labels, key) ? labels[key] : undefined
