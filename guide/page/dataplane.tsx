import { useMemo } from 'preact/hooks'
import type { Cause } from '../../dataplane/view/causes.ts'
import { type Entry, entriesOf, type NodeHoldings } from '../../dataplane/view/holdings.ts'
import type { DataplanePush } from '../protocol.ts'
import { type State, update } from './store.ts'
import { ancestorsOf, parentsOf, Tree } from './tree.tsx'

type CausesById = ReadonlyMap<string, readonly Cause[]>

/** What each node holds now or held at a moment of the timeline: a tree, and beside it why the selected entry exists. */
export function Dataplane({ state }: { state: State }) {
  const { dataplane, past, entry, service } = state
  const nodes = (past ?? dataplane)?.nodes ?? []
  const holdings = nodes.find(({ node }) => node === entry?.node) ?? nodes.find(({ groups }) => groups.length > 0)
  const causes = useMemo(() => causesIn(dataplane, holdings?.node), [dataplane, holdings?.node])
  const kept = useMemo(
    () => (holdings && service !== '' ? keptFor(holdings, causes, service) : undefined),
    [holdings, causes, service],
  )
  if (!dataplane || !holdings) return <p class="empty">Reading what the nodes hold …</p>
  const changes = (past ?? dataplane).changes.filter(({ node }) => node === holdings.node)
  const selected = entry?.node === holdings.node ? entry.id : undefined
  return (
    <div class="dataplane">
      <div class="bar">
        <fieldset class="chips" aria-label="Node">
          {nodes.map(({ node, mode, trouble }) => (
            <button
              key={node}
              type="button"
              aria-pressed={node === holdings.node}
              onClick={() => update({ entry: { node, id: selected ?? '' } })}
            >
              {node} <small>{trouble ? '! not read' : mode}</small>
            </button>
          ))}
        </fieldset>
        <label>
          Because of{' '}
          <select value={service} onChange={({ currentTarget }) => update({ service: currentTarget.value })}>
            <option value="">everything</option>
            {dataplane.services.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </div>
      {past && (
        <p class="past">
          You see a moment of the past.{' '}
          <button type="button" onClick={() => update({ past: undefined })}>
            Back to now
          </button>
        </p>
      )}
      {holdings.trouble && <p class="trouble">! {holdings.trouble}</p>}
      {kept?.size === 0 && <p class="empty">Nothing on this node exists because of {service}.</p>}
      <div class="split">
        <Tree
          key={holdings.node + service}
          holdings={holdings}
          kept={kept}
          selected={selected}
          changed={new Map(changes.map(({ id, change }) => [id, change]))}
          moved={past ? {} : (state.moved[holdings.node] ?? {})}
          select={(id) => update({ entry: { node: holdings.node, id } })}
        />
        <Details holdings={holdings} causes={causes} selected={selected} />
      </div>
    </div>
  )
}

/** By entry of a node why it exists. */
function causesIn(dataplane: DataplanePush | undefined, node = ''): CausesById {
  const { nodes = [], causes = [], causedBy = {} } = dataplane ?? {}
  const entries = nodes.filter((held) => held.node === node).flatMap((held) => [...entriesOf(held)])
  return new Map(
    entries.map(({ id }, at) => [id, (causedBy[node]?.[at] ?? []).flatMap((index) => causes[index] ?? [])]),
  )
}

/** The entries that exist because of a Service, and those that contain them. */
function keptFor(holdings: NodeHoldings, causes: CausesById, service: string): ReadonlySet<string> {
  const parents = parentsOf(holdings)
  const kept = new Set<string>()
  for (const [id, list] of causes)
    if (list.some((cause) => cause.service === service))
      for (const one of [id, ...ancestorsOf(id, parents)]) kept.add(one)
  return kept
}

interface DetailsProps {
  holdings: NodeHoldings
  causes: CausesById
  selected: string | undefined
}

function Details({ holdings, causes, selected }: DetailsProps) {
  const known = useMemo(() => new Map([...entriesOf(holdings)].map((entry) => [entry.id, entry])), [holdings])
  const entry = selected === undefined ? undefined : known.get(selected)
  if (!entry)
    return (
      <aside class="why" aria-label="Selected entry">
        <p class="soft">
          Select an entry to see why it exists. Choose a Service to see everything that exists because of it.
        </p>
      </aside>
    )
  const because = causes.get(entry.id) ?? []
  const referring = [...known.values()].filter(({ refersTo }) => refersTo?.includes(entry.id))
  return (
    <aside class="why" aria-label="Selected entry">
      <h3>{entry.kind}</h3>
      <pre>{entry.text}</pre>
      <h3>Why it exists</h3>
      {because.length === 0 ? (
        <p class="soft">No Service or endpoint is the cause of this {entry.kind}.</p>
      ) : (
        <ul class="causes">
          {because.map((cause) => (
            <CauseView key={`${cause.object} ${cause.field} ${cause.reason}`} cause={cause} />
          ))}
        </ul>
      )}
      <Links
        title="Leads to"
        entries={(entry.refersTo ?? []).flatMap((id) => known.get(id) ?? [])}
        node={holdings.node}
      />
      <Links title="Reached from" entries={referring} node={holdings.node} />
    </aside>
  )
}

function CauseView({ cause: { kind, object, field, reason, service } }: { cause: Cause }) {
  return (
    <li class={kind.replace(' ', '-')}>
      <p>{kind === 'service' || kind === 'kube-proxy' ? `It exists ${reason}` : reason}</p>
      {object !== '' && (
        <p class="soft">
          {object} <code>{field}</code>
        </p>
      )}
      {service && (
        <button type="button" class="plain" onClick={() => update({ service })}>
          Everything because of {service}
        </button>
      )}
    </li>
  )
}

/** Maximum number of links; a set that every rule uses has hundreds. */
const LINKS = 12

function Links({ title, entries, node }: { title: string; entries: readonly Entry[]; node: string }) {
  if (entries.length === 0) return null
  return (
    <>
      <h3>
        {title} <span class="soft">{entries.length}</span>
      </h3>
      <ul class="links">
        {entries.slice(0, LINKS).map(({ id, text }) => (
          <li key={id}>
            <button type="button" class="code" onClick={() => update({ entry: { node, id }, service: '' })}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </>
  )
}
