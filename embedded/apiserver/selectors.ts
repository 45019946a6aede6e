import { type LabelRequirement, type LabelSelector, matchesSelector } from '../../dataplane/label-selector.ts'
import { valueAt } from './json.ts'
import type { Resource } from './resource.ts'
import { badRequest } from './status-error.ts'
import type { KubeObject } from './store.ts'

const key = `(?:[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?/)?[a-zA-Z0-9](?:[-a-zA-Z0-9_.]*[a-zA-Z0-9])?`
const setBased = new RegExp(String.raw`^(${key})\s+(in|notin)\s*\(([^()]*)\)$`)
const equality = new RegExp(String.raw`^(${key})\s*(==|=|!=)\s*(\S*)$`)
const presence = new RegExp(`^(!?)\\s*(${key})$`)
const value = /^(?:[a-zA-Z0-9](?:[-a-zA-Z0-9_.]*[a-zA-Z0-9])?)?$/

/**
 * Parses the label selector of a query (`app=web,tier in (a,b),!old`). Throws 400 BadRequest with the part
 * that can't be read.
 */
export function parseLabelSelector(text: string): LabelSelector {
  // At the commas that are not in parentheses.
  const parts = text.trim() === '' ? [] : text.split(/,(?![^(]*\))/)
  return { matchExpressions: parts.map((part) => parseRequirement(part.trim())) }
}

function parseRequirement(text: string): LabelRequirement {
  const set = setBased.exec(text)
  if (set?.[1] && set[3] !== undefined) {
    const values = set[3].split(',').map((item) => item.trim())
    for (const item of values) checkValue(text, item)
    return { key: set[1], operator: set[2] === 'in' ? 'In' : 'NotIn', values }
  }
  const equal = equality.exec(text)
  if (equal?.[1] && equal[3] !== undefined) {
    checkValue(text, equal[3])
    return { key: equal[1], operator: equal[2] === '!=' ? 'NotIn' : 'In', values: [equal[3]] }
  }
  const present = presence.exec(text)
  if (present?.[2]) return { key: present[2], operator: present[1] ? 'DoesNotExist' : 'Exists' }
  throw badRequest(`unable to parse requirement: found '${text}', expected: a label key, '=', '!=', 'in' or 'notin'`)
}

function checkValue(text: string, item: string): void {
  if (!value.test(item) || item.length > 63) {
    throw badRequest(`unable to parse requirement: invalid value "${item}" in '${text}'`)
  }
}

export interface FieldRequirement {
  path: string
  equal: boolean
  value: string
}

/**
 * Reads a field selector (`spec.nodeName=a,status.phase!=Running`). Backslash escapes `,`, `=` and itself.
 * Throws 400 for a field that the resource does not support in selectors.
 */
export function parseFieldSelector(text: string, resource: Resource): FieldRequirement[] {
  if (text === '') return []
  const allowed = ['metadata.name', ...(resource.namespaced ? ['metadata.namespace'] : []), ...resource.fields]
  return splitUnescaped(text).map((part) => {
    const match = /^((?:[^=!\\]|\\.)+?)(==|=|!=)((?:[^\\]|\\.)*)$/.exec(part)
    if (!match?.[1] || match[3] === undefined) {
      throw badRequest(`invalid selector: '${part}'; can't understand '${part}'`)
    }
    const path = match[1]
    if (!allowed.includes(path)) throw badRequest(`field label not supported: ${path}`)
    return { path, equal: match[2] !== '!=', value: match[3].replaceAll(/\\(.)/g, '$1') }
  })
}

export function matchesFields(requirements: readonly FieldRequirement[], object: unknown): boolean {
  return requirements.every(({ path, equal, value }) => (fieldText(object, path) === value) === equal)
}

function fieldText(object: unknown, path: string): string {
  const value = valueAt(object, path)
  if (value === undefined || value === null) {
    return path === 'spec.unschedulable' || path === 'spec.hostNetwork' ? 'false' : ''
  }
  return String(value)
}

function splitUnescaped(text: string): string[] {
  return (text.match(/(?:[^,\\]|\\.)+/g) ?? []).map((part) => part.trim())
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
  const fields = parseFieldSelector(fieldSelector ?? '', resource)
  return (object) => matchesSelector(labels, object.metadata.labels) && matchesFields(fields, object)
}
