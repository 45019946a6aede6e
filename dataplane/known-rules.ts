import { type ParsedRule, parseRule } from './rule.ts'

/** So many texts are remembered: the rules of a cluster's nodes, at several moments, are for the most part the same. */
const REMEMBERED = 5000

const known = new Map<string, ParsedRule | null>()

/**
 * A rule by its text, read leniently (see parseRule); undefined when the words make no rule. The same text gives the same object,
 * which must not be changed.
 */
export function knownRule(spec: string): ParsedRule | undefined {
  const before = known.get(spec)
  if (before !== undefined) return before ?? undefined
  // A copy: a part of a text that is remembered would keep the whole text in memory.
  const own = Buffer.from(spec).toString()
  const rule = parseRule(own, { lenient: true })
  if (known.size >= REMEMBERED) known.clear()
  known.set(own, rule ?? null)
  return rule
}
