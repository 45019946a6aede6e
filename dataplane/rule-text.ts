import { BoundedCache } from './bounded-cache.ts'
import { type ParsedRule, parseRule, printRule } from './rule.ts'
import { splitWords } from './words.ts'

const COMMENT = /--comment ("(?:[^"\\]|\\.)*"|\S+)/
const TARGET = /(?:^| )(?:-j|-g|--jump|--goto) (\S+)/

/** The comment of a rule, unquoted; undefined if there is none. Faster than parsing the rule. */
export function commentOf(spec: string): string | undefined {
  const quoted = COMMENT.exec(spec)?.[1]
  return quoted === undefined ? undefined : (splitWords(quoted)?.[0] ?? '')
}

/** The target or chain of a rule; undefined for a rule without a target. */
export function targetOf(spec: string): string | undefined {
  const unquoted = spec.includes('"') ? spec.replace(/"(?:[^"\\]|\\.)*"/g, '""') : spec
  return TARGET.exec(unquoted)?.[1]
}

const texts = new WeakMap<ParsedRule, string>()

/** The canonical text of a rule, so that different spellings are equal; text that is not a rule is unchanged. */
export function normaliseSpec(spec: string): string {
  const rule = knownRule(spec)
  if (!rule) return spec
  const text = texts.get(rule) ?? printRule(rule)
  texts.set(rule, text)
  return text
}

/** Caches 5,000 rules: captures of a cluster's nodes contain mostly the same ones. */
const known = new BoundedCache<ParsedRule | undefined>(5000)
const read = (spec: string) => parseRule(spec, { lenient: true })

/**
 * The parsed rule of a text, read leniently (see parseRule); undefined if the text is not a rule. The object is shared for equal
 * texts and must not be changed.
 */
export const knownRule = (spec: string): ParsedRule | undefined => known.getOrCreateOfSlice(spec, read)
