// A diagnosis in the learner's own words: which cause its sentence names, by the key facts of each
// cause.

import type { IncidentEnvironment } from './shop.ts'

/** The kinds of key facts that a diagnosis names, besides the node. */
const kinds = ['object', 'field', 'fault'] as const
type Kind = (typeof kinds)[number]

const descriptions: Record<Kind, string> = {
  object: 'an object (a Service, a Pod, a rule, a virtual server, kube-proxy, the kernel)',
  field: 'its field or part',
  fault: 'the kind of fault',
}

/**
 * What a sentence must name to be the diagnosis of one cause: a match of each kind, in any order.
 */
export interface KeyFacts extends Record<Kind, RegExp> {
  /** Texts that mean another cause, although all kinds match. */
  unless?: RegExp
  /** The fault is on one node only, which the sentence must name. */
  node?(environment: IncidentEnvironment): string
  /** A sentence that names the cause, told after the incident. */
  example(environment: IncidentEnvironment): string
  /** The steps of earlier labs that teach what was missing, as `lab/step`. */
  reads: readonly string[]
}

/** Cause id → its key facts. */
export type FactTable = Readonly<Record<string, KeyFacts>>

/** The key facts of every cause: content of lab 8, loaded on demand like the incidents. */
export async function loadKeyFacts(folder = '08-incidents'): Promise<FactTable> {
  const module: { keyFacts: FactTable } = await import(
    `../../labs/${folder}/incidents/key-facts.ts`
  )
  return module.keyFacts
}

const plain = (text: string) =>
  text
    .toLowerCase()
    .replace(/[`"'‘’“”]/g, '')
    .replace(/\s+/g, ' ')

/** What a sentence names. */
export interface NamedCause {
  id: string
  /** The node on which it places the cause, if that cause is on one node. */
  node?: string
}

/**
 * Every cause whose key facts are all in a sentence. A cause on one node counts only if exactly one
 * node is named. What the cause really is plays no part, so that a sentence can't be completed by
 * trying.
 */
export function causesNamed(
  text: string,
  table: FactTable,
  nodes: readonly string[],
): NamedCause[] {
  const plainText = plain(text)
  const named = nodesNamed(plainText, nodes)
  const [node] = named
  const close = Object.entries(table).filter(([, facts]) =>
    kinds.every((kind) => facts[kind].test(plainText)),
  )
  if (close.length > MOST_CLOSE) return []
  return close.flatMap(([id, { unless, node: place }]) => {
    if (unless?.test(plainText)) return []
    if (!place) return [{ id }]
    return node !== undefined && named.length === 1 ? [{ id, node }] : []
  })
}

/**
 * Sentences of learners come close to at most four causes; one that lists words of more names none.
 */
const MOST_CLOSE = 4

/** The nodes that a sentence names, by their whole names or by the part that distinguishes them. */
function nodesNamed(plainText: string, nodes: readonly string[]): string[] {
  const [first = ''] = nodes
  let shared = first.length
  while (!nodes.every((node) => node.startsWith(first.slice(0, shared)))) shared--
  const isNamed = (name: string) =>
    new RegExp(`(?<![a-z0-9])${name.replace(/[^a-z0-9]/g, '[^a-z0-9]')}(?![a-z0-9])`).test(
      plainText,
    )
  return nodes.filter((node) => {
    const short = node.slice(shared)
    return isNamed(node) || (short.length >= 4 && isNamed(short))
  })
}

/** What a sentence that names no known cause lacks, judged without regard to the true cause. */
export function describeMissing(text: string, table: FactTable, nodes: readonly string[]): string {
  const plainText = plain(text)
  const all = Object.values(table)
  const missing = kinds.filter((kind) => !all.some((facts) => facts[kind].test(plainText)))
  if (missing.length > 0)
    return `it does not name ${missing.map((kind) => descriptions[kind]).join(', nor ')}`
  const named = nodesNamed(plainText, nodes)
  if (named.length === 1)
    return 'no cause of this course has this object, this part and this kind of fault together'
  const place = named.length === 0 ? 'no node' : `${named.length} nodes`
  return `no cause of this course has these together, and it names ${place}: name the one with the fault, if it is only one`
}

/** What a learner is asked for when no causes are listed. */
export const FACTS_ASKED =
  'Name the cause in one sentence: the object (a Service, a Pod, a rule, a virtual server, kube-proxy, the kernel), its field or part, what is wrong with it, and the node, if it is only one.'
