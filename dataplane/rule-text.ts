import { BoundedCache } from './bounded-cache.ts'
import { type ParsedRule, parseRule, printRule } from './rule.ts'
import { splitWords } from './words.ts'

const COMMENT = /--comment ("(?:[^"\\]|\\.)*"|\S+)/
const TARGET = /(?:^| )(?:-j|-g|--jump|--goto) (\S+)/

/** The comment of a rule, unquoted; undefined when it has none. Quicker than parsing the rule. */
export function commentOf(spec: string): string | undefined {
  const quoted = COMMENT.exec(spec)?.[1]
  return quoted === undefined ? undefined : (splitWords(quoted)?.[0] ?? '')
}

/** The target or chain a rule sends packets to; undefined when it only counts them. */
export function targetOf(spec: string): string | undefined {
  const unquoted = spec.includes('"') ? spec.replace(/"(?:[^"\\]|\\.)*"/g, '""') : spec
  return TARGET.exec(unquoted)?.[1]
}

const texts = new WeakMap<ParsedRule, string>()

/** The canonical text of a rule, so that two spellings of one rule are equal; text that is no rule is left as it is. */
export function normaliseSpec(spec: string): string {
  const rule = knownRule(spec)
  if (!rule) return spec
  const text = texts.get(rule) ?? printRule(rule)
  texts.set(rule, text)
  return text
}

/** 5,000 rules are remembered: nodes of a cluster, at several moments, have mostly the same ones. */
const known = new BoundedCache<ParsedRule | undefined>(5000)
const read = (spec: string) => parseRule(spec, { lenient: true })

/**
 * A rule by its text, read leniently (see parseRule); undefined when the words make no rule. The same text gives the same object,
 * which must not be changed.
 */
export const knownRule = (spec: string): ParsedRule | undefined => known.getOrCreateOfSlice(spec, read)
