import { BoundedCache } from './bounded-cache.ts'
import { type ParsedRule, parseRule } from './rule.ts'

/** So many texts are remembered: the rules of a cluster's nodes, at several moments, are for the most part the same. */
const known = new BoundedCache<ParsedRule | undefined>(5000)
const read = (spec: string) => parseRule(spec, { lenient: true })

/**
 * A rule by its text, read leniently (see parseRule); undefined when the words make no rule. The same text gives the same object,
 * which must not be changed.
 */
export const knownRule = (spec: string): ParsedRule | undefined => known.getOrCreateOfSlice(spec, read)
