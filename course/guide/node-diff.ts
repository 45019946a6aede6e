import { entryName } from '../../dataplane/entry-id.ts'
import { isServiceChain } from '../../dataplane/kube-proxy/chain-names.ts'
import { isServicePortChain } from '../../dataplane/kube-proxy/nftables/builder.ts'
import { type Change, changesBetween } from '../../dataplane/view/changes.ts'
import { holdingsOf } from '../../dataplane/view/holdings.ts'
import { modeOf, type NodeView, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import type { Part } from './terminal-text.ts'

/** The maximum number of lines listed for one place. */
const SHOWN = 4

/**
 * The heading under which a change is listed. The chains of single Services share one heading,
 * because there are many.
 */
function placeOf({ id, place }: Change): string {
  const isOfService = (name: string) => isServiceChain(name) || isServicePortChain(name)
  if (isOfService(entryName(id))) return `${place} chains of single Services and endpoints`
  const [table = '', chain = ''] = place.split(/ (?:(?:chain|set) )?(?=\S+$)/)
  return isOfService(chain) ? `${table} chains of single Services and endpoints` : place
}

function linesOf({ change, text, before }: Change): string[] {
  if (change === 'moved') return [`~ ${text} (moved)`]
  return [
    ...(change === 'removed' ? [] : [`+ ${text}`]),
    ...(change === 'added' ? [] : [`- ${before ?? text}`]),
  ]
}

function linesByPlace(changes: readonly Change[]): Map<string, string[]> {
  const places = new Map<string, string[]>()
  for (const change of changes)
    places.set(placeOf(change), [...(places.get(placeOf(change)) ?? []), ...linesOf(change)])
  return places
}

/** Each place with the number of its lines, and the lines themselves if they are few. */
function describePlaces(places: ReadonlyMap<string, string[]>): string {
  return [...places]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([place, lines]) => {
      const count = (sign: string, word: string) =>
        `${lines.filter((line) => line.startsWith(sign)).length} ${word}`
      const moved = lines.some((line) => line.startsWith('~')) ? `, ${count('~', 'moved')}` : ''
      const head = `${place}: ${count('+', 'more')}, ${count('-', 'less')}${moved}`
      return lines.length <= SHOWN ? [head, ...lines.map((line) => `  ${line}`)] : [head]
    })
    .join('\n')
}

function objectLines(before: Snapshot, after: Snapshot): string[] {
  const namesOf = ({ items }: Snapshot) =>
    items.flatMap(({ kind, metadata }) =>
      kind === 'Service' || kind === 'Pod' ? `${kind} ${metadata.namespace}/${metadata.name}` : [],
    )
  const [was, is] = [new Set(namesOf(before)), new Set(namesOf(after))]
  const added = [...is].filter((name) => !was.has(name))
  const removed = [...was].filter((name) => !is.has(name))
  return [...added.map((name) => `+ ${name}`), ...removed.map((name) => `- ${name}`)]
}

/** The changes in a cluster between two snapshots. Nodes with identical changes share one list. */
export function diffSnapshots(before: Snapshot, after: Snapshot): Part[] {
  const read = (node: NodeView) => holdingsOf(node.name, stateOf(node), { mode: modeOf(node) })
  const byText = new Map<string, string[]>()
  for (const node of after.nodes) {
    const old = before.nodes.find(({ name }) => name === node.name)
    const changes = changesBetween(old ? read(old) : { node: node.name, groups: [] }, read(node))
    const text = describePlaces(linesByPlace(changes))
    if (text !== '') byText.set(text, [...(byText.get(text) ?? []), node.name])
  }
  const objects = objectLines(before, after)
  const lists: [string, string][] = [...byText].map(([text, nodes]) => [
    nodes.length === after.nodes.length ? 'every node' : nodes.join(', '),
    text,
  ])
  if (objects.length > 0)
    lists.unshift(['Kubernetes', describePlaces(new Map([['objects', objects]]))])
  if (lists.length === 0)
    return [{ text: 'Nothing has changed on the nodes since this step began.' }]
  return lists.flatMap(([where, text]) => [
    { text: where },
    ...text.split('\n').map((line): Part => ({ text: `  ${line}`, whole: true })),
    { text: '' },
  ])
}
