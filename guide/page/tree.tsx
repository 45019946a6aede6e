import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Change } from '../../dataplane/view/changes.ts'
import { type Entry, type NodeHoldings, placedEntries } from '../../dataplane/view/holdings.ts'
import { Button } from './controls.tsx'
import { isFocusLost } from './focus.ts'
import type { Moved } from './store.ts'
import { SIGNS } from './words.ts'

interface TreeRow {
  entry: Entry
  level: number
  position: number
  size: number
  parent: string | undefined
  /** Undefined if there is nothing to open. */
  open: boolean | undefined
}

interface TreeProps {
  holdings: NodeHoldings
  index: EntryIndex
  /** The ids to show, with their parents; all if undefined. */
  kept: ReadonlySet<string> | undefined
  selected: string | undefined
  changed: ReadonlyMap<string, Change['change']>
  moved: Readonly<Record<string, Moved>>
  select(id: string): void
}

/** Undefined if a key does nothing. */
type KeyAction = (() => void) | undefined

/** How long a counter that changed is highlighted. */
const LIT_MS = 5000

/**
 * What a node holds as a tree (WAI-ARIA tree view): arrows move, open and close; J follows a jump;
 * the selected entry is the focus.
 */
export function Tree({ holdings, index, kept, selected, changed, moved, select }: TreeProps) {
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set())
  const list = useRef<HTMLDivElement>(null)
  const ancestors = new Set(index.get(selected ?? '')?.parents.map(({ id }) => id))
  const isOpen = (entry: Entry, level: number) =>
    ancestors.has(entry.id) || (level <= 1 || kept !== undefined) !== toggled.has(entry.id)
  const rows = rowsOf(holdings, kept, isOpen)
  const at = Math.max(
    0,
    rows.findIndex(({ entry }) => entry.id === selected),
  )
  useScroll(list, selected)
  const toggle = (id: string) => {
    // What contains the selection would stay open, so it becomes the selection itself.
    if (ancestors.has(id)) {
      if (!toggled.has(id)) setToggled(new Set(toggled).add(id))
      return select(id)
    }
    const next = new Set(toggled)
    if (!next.delete(id)) next.add(id)
    setToggled(next)
  }
  const go = (to: number) => {
    const row = rows[Math.max(0, Math.min(to, rows.length - 1))]
    if (row) select(row.entry.id)
  }
  /** What each key does to the selected row; undefined if nothing. */
  const keyActions = ({ entry, open, parent }: TreeRow): Record<string, KeyAction> => {
    const jump = entry.refersTo?.[0]
    const next = () => go(at + 1)
    const toggleThis = () => toggle(entry.id)
    const selectParent = parent === undefined ? undefined : () => select(parent)
    const isLeaf = open === undefined
    return {
      ArrowDown: next,
      ArrowUp: () => go(at - 1),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: open ? next : isLeaf ? undefined : toggleThis,
      ArrowLeft: open ? toggleThis : selectParent,
      Enter: isLeaf ? undefined : toggleThis,
      j: jump === undefined ? undefined : () => select(jump),
    }
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[at]
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return
    const actions = keyActions(row)
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : undefined
    if (!action) return
    action()
    event.preventDefault()
  }
  return (
    <div
      ref={list}
      role="tree"
      class="tree"
      aria-label={`What ${holdings.node} holds`}
      onKeyDown={onKeyDown}
    >
      {rows.map(({ entry, level, position, size, open }, line) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the tree handles the keys
        <div
          key={entry.id}
          role="treeitem"
          aria-level={level}
          aria-posinset={position}
          aria-setsize={size}
          aria-expanded={open}
          aria-selected={line === at}
          tabIndex={line === at ? 0 : -1}
          class={`${entry.kind.replace(' ', '-')} ${isBare(entry) ? 'bare' : ''} ${changed.get(entry.id) ?? ''}`}
          style={{ paddingInlineStart: `${(level - 1) * 1.1}rem` }}
          onClick={({ target }) => {
            const isTwisty = target instanceof Element && target.closest('.twisty') !== null
            if (open === false || (open && (isTwisty || entry.id === selected))) toggle(entry.id)
            select(entry.id)
          }}
        >
          <span class="twisty" aria-hidden="true">
            {open === undefined ? '' : open ? '▾' : '▸'}
          </span>
          <EntryText
            entry={entry}
            change={changed.get(entry.id)}
            moved={moved[`${holdings.node} ${entry.id}`]}
            follow={select}
          />
        </div>
      ))}
    </div>
  )
}

/** A set or a chain without entries: most sets of IPVS mode are. */
const isBare = ({ children }: Entry) => children?.length === 0

interface EntryTextProps {
  entry: Entry
  change: Change['change'] | undefined
  moved: Moved | undefined
  follow(id: string): void
}

function EntryText({ entry, change, moved, follow }: EntryTextProps) {
  const { packets, connections } = { ...entry, ...moved }
  const isLit = moved !== undefined && moved.by > 0 && Date.now() - moved.at < LIT_MS
  const target = entry.refersTo?.[0]
  const count = entry.children?.length ?? 0
  return (
    <>
      {change && (
        <span class="sign" title={change}>
          {SIGNS[change]}
          <span class="hidden"> {change}: </span>
        </span>
      )}
      <code class="entry">{entry.text.replace(/^-A \S+ /, '')}</code>
      {count > 0 && entry.kind !== 'group' && <span class="soft count">{count}</span>}
      {target !== undefined && (
        <Button
          class="jump"
          tabIndex={-1}
          aria-hidden="true"
          title="Follow (J)"
          onClick={(event) => {
            event.stopPropagation()
            follow(target)
          }}
        >
          →
        </Button>
      )}
      {connections && (
        <span class="counter" title="active and inactive connections, as ipvsadm -Ln counts them">
          {connections.active} act · {connections.inactive} inact
        </span>
      )}
      {packets !== undefined && packets > 0 && <span class="counter">{packets} pkts</span>}
      {isLit && (
        <span class="lit" key={moved.at}>
          +{moved.by}
        </span>
      )}
    </>
  )
}

/**
 * Brings the selected row into view, and the focus with it if it was in the tree or is nowhere
 * else.
 */
function useScroll(list: RefObject<HTMLDivElement | null>, selected: string | undefined): void {
  useEffect(() => {
    const row = list.current?.querySelector<HTMLElement>('[aria-selected="true"]')
    if (selected === undefined || !row) return
    row.scrollIntoView({ block: 'nearest' })
    if (list.current?.contains(document.activeElement) || isFocusLost()) row.focus()
  }, [selected])
}

function rowsOf(
  { groups }: NodeHoldings,
  kept: ReadonlySet<string> | undefined,
  isOpen: (entry: Entry, level: number) => boolean,
): TreeRow[] {
  const rows: TreeRow[] = []
  const add = (entries: readonly Entry[], level: number, parent?: string): void => {
    const shown = kept ? entries.filter(({ id }) => kept.has(id)) : entries
    for (const [index, entry] of shown.entries()) {
      const children = entry.children ?? []
      const open = children.length === 0 ? undefined : isOpen(entry, level)
      rows.push({ entry, level, position: index + 1, size: shown.length, parent, open })
      if (open) add(children, level + 1, entry.id)
    }
  }
  add(groups, 1)
  return rows
}

/** The entries of a node by id, each with those that contain it. */
export type EntryIndex = ReadonlyMap<string, { entry: Entry; parents: readonly Entry[] }>

export const indexOf = (holdings: NodeHoldings | undefined): EntryIndex =>
  new Map([...placedEntries(holdings?.groups ?? [])].map((placed) => [placed.entry.id, placed]))
