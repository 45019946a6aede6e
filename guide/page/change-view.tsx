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
