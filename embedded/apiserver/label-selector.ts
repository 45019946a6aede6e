import type { LabelRequirement, LabelSelector } from '../../dataplane/label-selector.ts'
import { badRequest } from './status-error.ts'

const key = `(?:[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?/)?[a-zA-Z0-9](?:[-a-zA-Z0-9_.]*[a-zA-Z0-9])?`
const setBased = new RegExp(String.raw`^(${key})\s+(in|notin)\s*\(([^()]*)\)$`)
const equality = new RegExp(String.raw`^(${key})\s*(==|=|!=)\s*(\S*)$`)
const presence = new RegExp(`^(!?)\\s*(${key})$`)
const value = /^(?:[a-zA-Z0-9](?:[-a-zA-Z0-9_.]*[a-zA-Z0-9])?)?$/

/**
 * Reads a label selector as the API takes it in a query (`app=web,tier in (a,b),!old`).
 * Throws 400 BadRequest with the part that can't be read.
 */
export function parseLabelSelector(text: string): LabelSelector {
  return { matchExpressions: splitOutsideParentheses(text).map(parseRequirement) }
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

function splitOutsideParentheses(text: string): string[] {
  const parts: string[] = []
  let depth = 0
  let part = ''
  for (const character of text) {
    if (character === '(') depth++
    if (character === ')') depth--
    if (character === ',' && depth === 0) {
      parts.push(part)
      part = ''
    } else part += character
  }
  parts.push(part)
  return parts.map((item) => item.trim()).filter((item, _, items) => item !== '' || items.length > 1)
}
