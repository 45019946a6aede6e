import type { Change } from '../../dataplane/view/changes.ts'
import { showEntry } from './store.ts'
import { SIGNS } from './words.ts'

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
        <button type="button" class="code" onClick={() => showEntry({ node, id })}>
          {text}
        </button>
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
export function Changes({ changes, canOpen = true }: { changes: readonly Change[]; canOpen?: boolean }) {
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
  [...Map.groupBy(changes, ({ change }) => change)].map(([change, list]) => `${list.length} ${change}`).join(', ')
