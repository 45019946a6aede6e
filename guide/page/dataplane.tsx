import { useMemo } from 'preact/hooks'
import type { Cause } from '../../dataplane/view/causes.ts'
import { type Entry, holdingEntries } from '../../dataplane/view/holdings.ts'
import type { DataplanePush } from '../protocol.ts'
import { Button, CodeText, Select } from './controls.tsx'
import { type PageState, update } from './store.ts'
import { type EntryIndex, indexOf, Tree } from './tree.tsx'

type CausesById = ReadonlyMap<string, readonly Cause[]>

/**
 * What each node holds now or held at a moment of the timeline: a tree, and beside it why the
 * selected entry exists.
 */
export function Dataplane({ state }: { state: PageState }) {
  const { dataplane, past, entry, service } = state
  const nodes = (past ?? dataplane)?.nodes ?? []
  const holdings =
    nodes.find(({ node }) => node === entry?.node) ?? nodes.find(({ groups }) => groups.length > 0)
  const index = useMemo(() => indexOf(holdings), [holdings])
  const causes = useMemo(() => causesIn(dataplane, holdings?.node), [dataplane, holdings?.node])
  const kept = useMemo(
    () => (service !== '' ? keptFor(index, causes, service) : undefined),
    [index, causes, service],
  )
  if (!dataplane || !holdings) return <p class="empty">Reading what the nodes hold …</p>
  const changes = (past ?? dataplane).changes.filter(({ node }) => node === holdings.node)
  const selected = entry?.node === holdings.node ? entry.id : undefined
  const chosen = index.get(selected ?? '')?.entry
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
        <Select
          label="Because of"
          value={service}
          options={[['', 'everything'], ...dataplane.services]}
          choose={(chosen) => update({ service: chosen })}
        />
      </div>
      {past && (
        <p class="past">
          You see a moment of the past.{' '}
          <Button onClick={() => update({ past: undefined })}>Back to now</Button>
        </p>
      )}
      {holdings.trouble && (
        <p class="trouble">
          ! <CodeText text={holdings.trouble} />
        </p>
      )}
      {kept?.size === 0 && <p class="empty">Nothing on this node exists because of {service}.</p>}
      <div class="split">
        <Tree
          key={holdings.node + service}
          holdings={holdings}
          index={index}
          kept={kept}
          selected={selected}
          changed={new Map(changes.map(({ id, change }) => [id, change]))}
          moved={past ? {} : state.moved}
          select={(id) => update({ entry: { node: holdings.node, id } })}
        />
        <aside class="why" aria-label="Selected entry">
          {chosen ? (
            <EntryDetails
              entry={chosen}
              index={index}
              node={holdings.node}
              because={causes.get(chosen.id) ?? []}
            />
          ) : (
            <p class="soft">
              Select an entry to see why it exists. Choose a Service to see everything that exists
              because of it.
            </p>
          )}
        </aside>
      </div>
    </div>
  )
}

/** By entry of a node why it exists. */
function causesIn(dataplane: DataplanePush | undefined, node = ''): CausesById {
  const { nodes = [], causes = [], causedBy = {} } = dataplane ?? {}
  const entries = nodes
    .filter((holdings) => holdings.node === node)
    .flatMap((shown) => [...holdingEntries(shown)])
  return new Map(
    entries.map(({ id }, at) => [
      id,
      (causedBy[node]?.[at] ?? []).flatMap((index) => causes[index] ?? []),
    ]),
  )
}

/** The entries that exist because of a Service, and those that contain them. */
function keptFor(index: EntryIndex, causes: CausesById, service: string): ReadonlySet<string> {
  const ids = [...index.values()].flatMap(({ entry, parents }) =>
    causes.get(entry.id)?.some((cause) => cause.service === service)
      ? [...parents, entry].map(({ id }) => id)
      : [],
  )
  return new Set(ids)
}

interface DetailsProps {
  entry: Entry
  index: EntryIndex
  node: string
  because: readonly Cause[]
}

/** Why the selected entry exists, and what it is linked with. */
function EntryDetails({ entry, index, node, because }: DetailsProps) {
  const leadsTo = (entry.refersTo ?? []).flatMap((id) => index.get(id)?.entry ?? [])
  const entries = [...index.values()].map((placed) => placed.entry)
  const reachedFrom = entries.filter(({ refersTo }) => refersTo?.includes(entry.id))
  return (
    <>
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
      <Links title="Leads to" entries={leadsTo} node={node} />
      <Links title="Reached from" entries={reachedFrom} node={node} />
    </>
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
        <Button class="plain" onClick={() => update({ service })}>
          Everything because of {service}
        </Button>
      )}
    </li>
  )
}

/** Maximum number of links; a set that every rule uses has hundreds. */
const LINKS = 12

function Links({
  title,
  entries,
  node,
}: {
  title: string
  entries: readonly Entry[]
  node: string
}) {
  if (entries.length === 0) return null
  return (
    <>
      <h3>
        {title} <span class="soft">{entries.length}</span>
      </h3>
      <ul class="links">
        {entries.slice(0, LINKS).map(({ id, text }) => (
          <li key={id}>
            <Button class="code" onClick={() => update({ entry: { node, id }, service: '' })}>
              {text}
            </Button>
          </li>
        ))}
      </ul>
    </>
  )
}
