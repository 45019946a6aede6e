import { useEffect, useState } from 'preact/hooks'
import { type Change, changesOnNodes } from '../../dataplane/view/changes.ts'
import type { TimelinePush } from '../protocol.ts'
import { performAction } from './connection.ts'
import { Button, Select } from './controls.tsx'
import { type PageState, showEntry, update } from './store.ts'
import { SIGNS } from './words.ts'

type TimelineLabel = TimelinePush[number]

/**
 * What changed on the nodes and when: a slider through the moments, and all changes since one of
 * them.
 */
export function TimelineView({ state }: { state: PageState }) {
  const { timeline = [], dataplane, past } = state
  const [since, setSince] = useState('')
  const last = timeline.at(-1)
  if (!dataplane || !last) return <p class="empty">Nothing has changed on the nodes yet.</p>
  const index = past
    ? timeline.findIndex(({ moment }) => moment === past.moment)
    : timeline.length - 1
  const shown = timeline[index] ?? last
  return (
    <div class="timeline">
      <label class="slider">
        <span>
          Moment {index + 1} of {timeline.length}: <strong>{timeOf(shown)}</strong> {shown.label}
        </span>
        <input
          type="range"
          min={0}
          max={timeline.length - 1}
          value={index}
          aria-valuetext={momentName(shown)}
          onInput={({ currentTarget }) => void show(timeline[Number(currentTarget.value)], last)}
        />
      </label>
      <div class="bar">
        <Button aria-disabled={index <= 0} onClick={() => void show(timeline[index - 1], last)}>
          ← Before
        </Button>
        <Button
          aria-disabled={index >= timeline.length - 1}
          onClick={() => void show(timeline[index + 1], last)}
        >
          After →
        </Button>
        <Button aria-disabled={!past} onClick={() => update({ past: undefined })}>
          Now
        </Button>
        <Button onClick={() => update({ tab: 'dataplane' })}>Show the nodes at this moment</Button>
        <Select
          label="Changes since"
          value={since}
          options={[
            ['', 'the moment before'],
            ...timeline.map((one) => [`${one.moment}`, momentName(one)] as const),
          ]}
          choose={setSince}
        />
      </div>
      {since === '' ? (
        <Changes changes={(past ?? dataplane).changes} />
      ) : (
        <ChangesSince key={since} since={Number(since)} nodes={(past ?? dataplane).nodes} />
      )}
    </div>
  )
}

const timeOf = ({ at }: TimelineLabel) => new Date(at).toLocaleTimeString()
const momentName = (moment: TimelineLabel) => `${timeOf(moment)} ${moment.label}`

async function show(moment: TimelineLabel | undefined, last: TimelineLabel): Promise<void> {
  if (!moment) return
  if (moment === last) return update({ past: undefined })
  const holdings = await performAction('moment', { moment: moment.moment })
  if (holdings) update({ past: { moment: moment.moment, ...holdings } })
}

function ChangesSince({
  since,
  nodes,
}: {
  since: number
  nodes: NonNullable<PageState['dataplane']>['nodes']
}) {
  const [before, setBefore] = useState<typeof nodes>()
  useEffect(() => {
    void performAction('moment', { moment: since }).then((holdings) => setBefore(holdings?.nodes))
  }, [since])
  if (!before) return <p class="soft">Reading that moment …</p>
  return <Changes changes={changesOnNodes(before, nodes)} />
}

interface ChangeViewProps {
  change: Change
  /** Names the node, for lists of several nodes. */
  withNode?: boolean
  /** The entry can be opened in the dataplane. */
  canOpen?: boolean
}

/** One change as an item of a list. */
export function ChangeView({ change: entry, withNode = false, canOpen = true }: ChangeViewProps) {
  const { node, id, place, change, text, before } = entry
  return (
    <li class={change}>
      <span class="sign" title={change}>
        {SIGNS[change]}
        <span class="hidden"> {change}</span>
      </span>{' '}
      <span class="soft">{withNode ? `${node} ${place}` : place}</span>{' '}
      {change === 'removed' || !canOpen ? (
        <code>{text}</code>
      ) : (
        <Button class="code" onClick={() => showEntry({ node, id })}>
          {text}
        </Button>
      )}
      {before !== undefined && (
        <span class="soft">
          {' '}
          before: <code>{before}</code>
        </span>
      )}
    </li>
  )
}

/** Changes that are listed for each node; a switch of modes makes hundreds. */
const LISTED = 100

/** Changes by node: those of the first node are open. */
export function Changes({
  changes,
  canOpen = true,
}: {
  changes: readonly Change[]
  canOpen?: boolean
}) {
  if (changes.length === 0) return <p class="soft">Nothing changed on the nodes.</p>
  return (
    <>
      {[...Map.groupBy(changes, ({ node }) => node)].map(([node, list], index) => (
        <details key={node} open={index === 0}>
          <summary>
            <strong>{node}</strong> <span class="soft">{summary(list)}</span>
          </summary>
          <ul class="changes">
            {list.slice(0, LISTED).map((change) => (
              <ChangeView key={`${change.id} ${change.change}`} change={change} canOpen={canOpen} />
            ))}
          </ul>
          {list.length > LISTED && <p class="soft">and {list.length - LISTED} more</p>}
        </details>
      ))}
    </>
  )
}

const summary = (changes: readonly Change[]) =>
  [...Map.groupBy(changes, ({ change }) => change)]
    .map(([change, list]) => `${list.length} ${change}`)
    .join(', ')
