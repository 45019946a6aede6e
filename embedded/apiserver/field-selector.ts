import { valueAt } from './json.ts'
import type { Resource } from './resource.ts'
import { badRequest } from './status-error.ts'

export interface FieldRequirement {
  path: string
  equal: boolean
  value: string
}

/**
 * Reads a field selector (`spec.nodeName=a,status.phase!=Running`). Backslash escapes `,`, `=` and itself.
 * Throws 400 for a field that the resource can't be selected by.
 */
export function parseFieldSelector(text: string, resource: Resource): FieldRequirement[] {
  if (text === '') return []
  const allowed = ['metadata.name', ...(resource.namespaced ? ['metadata.namespace'] : []), ...(resource.fields ?? [])]
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
  // `source` of an Event selects by the component's name, as in core/v1.
  const value = valueAt(object, path === 'source' ? 'source.component' : path)
  if (value === undefined || value === null) {
    return path === 'spec.unschedulable' || path === 'spec.hostNetwork' ? 'false' : ''
  }
  return String(value)
}

function splitUnescaped(text: string): string[] {
  return (text.match(/(?:[^,\\]|\\.)+/g) ?? []).map((part) => part.trim())
}
