import {
  type LabelRequirement,
  type LabelSelector,
  matchesSelector,
} from '../../dataplane/label-selector.ts'
import { jsonAt } from './json.ts'
import type { Resource } from './resource.ts'
import { badRequest } from './status-error.ts'
import type { KubeObject } from './store.ts'

const key =
  '(?:[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?/)?[a-zA-Z0-9](?:[-a-zA-Z0-9_.]*[a-zA-Z0-9])?'
/** `app`, `app=web`, `app in (a,b)`; a `!` only before a key alone. */
const requirement = new RegExp(
  String.raw`^(?:!\s*(?<absent>${key})|(?<key>${key})(?:\s*(?<equality>==?|!=)\s*(?<value>\S*)|\s+(?<set>in|notin)\s*\((?<values>[^()]*)\))?)$`,
)
const value = /^(?:[a-zA-Z0-9](?:[-a-zA-Z0-9_.]*[a-zA-Z0-9])?)?$/

/**
 * Parses the label selector of a query (`app=web,tier in (a,b),!old`). Throws 400 with the part
 * that can't be read.
 */
export function parseLabelSelector(text: string): LabelSelector {
  // At the commas that are not in parentheses.
  const parts = text.trim() === '' ? [] : text.split(/,(?![^(]*\))/)
  return { matchExpressions: parts.map((part) => parseRequirement(part.trim())) }
}

function parseRequirement(text: string): LabelRequirement {
  const {
    absent,
    key,
    equality,
    value: single = '',
    set,
    values: list = '',
  } = requirement.exec(text)?.groups ?? {}
  if (absent) return { key: absent, operator: 'DoesNotExist' }
  if (!key)
    throw badRequest(
      `unable to parse requirement: found '${text}', expected: a label key, '=', '!=', 'in' or 'notin'`,
    )
  if (!equality && !set) return { key, operator: 'Exists' }
  const values = set ? list.split(',').map((item) => item.trim()) : [single]
  const wrong = values.find((item) => !value.test(item) || item.length > 63)
  if (wrong !== undefined)
    throw badRequest(`unable to parse requirement: invalid value "${wrong}" in '${text}'`)
  return { key, operator: equality === '!=' || set === 'notin' ? 'NotIn' : 'In', values }
}

/**
 * The predicate of a field selector (`spec.nodeName=a,status.phase!=Running`). Throws 400 for a
 * field that it can't name.
 */
function parseFieldSelector(text: string, resource: Resource): (object: KubeObject) => boolean {
  const allowed = [
    'metadata.name',
    ...(resource.namespaced ? ['metadata.namespace'] : []),
    ...resource.fields,
  ]
  const requirements = (text === '' ? [] : text.split(',')).map((part) => {
    const [, path = '', operator, wanted] = /^([^=!]+)(==|=|!=)(.*)$/.exec(part.trim()) ?? []
    if (!path) throw badRequest(`invalid selector: '${part}'; can't understand '${part}'`)
    if (!allowed.includes(path)) throw badRequest(`field label not supported: ${path}`)
    const absent = path === 'spec.unschedulable' || path === 'spec.hostNetwork' ? 'false' : ''
    return (object: KubeObject) =>
      (String(jsonAt(object, path) ?? absent) === wanted) === (operator !== '!=')
  })
  return (object) => requirements.every((holds) => holds(object))
}

/** The selectors of a query; each may be empty or absent. */
export interface SelectorQuery {
  labelSelector?: string | null
  fieldSelector?: string | null
}

/** The predicate of a label selector and a field selector. */
export function selects(
  resource: Resource,
  { labelSelector, fieldSelector }: SelectorQuery,
): (object: KubeObject) => boolean {
  const labels = parseLabelSelector(labelSelector ?? '')
  const matchesFields = parseFieldSelector(fieldSelector ?? '', resource)
  return (object) => matchesSelector(labels, object.metadata.labels) && matchesFields(object)
}
