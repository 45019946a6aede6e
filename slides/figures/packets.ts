import { groupBy } from '../../dataplane/collections.ts'
import type { PacketPath, PathAction, PathEnd } from '../../dataplane/view/packet-path.ts'
import { shortened } from '../../host/plain-text.ts'
import type { Drawing } from './canvas.ts'
import { type HookFigure, type HookRow, hooksFigure, type Line } from './hooks.ts'
import { NOT_XML } from './svg-text.ts'

/** Rows that the parts of the connections, or the ends, get at most. */
const ROWS = 4
/** A rule of nf_tables can list a thousand addresses. */
const LONGEST = 300

/**
 * The path of a packet through a node's hooks: what the tables, chains and virtual servers did at
 * each, and where it ends.
 * @param brief a row for each hook, with what changed there, and no more: for a slide
 */
export function packetFigure(path: PacketPath, { brief = false } = {}): HookFigure {
  const { legs, local, stop, hooks, ends, conntrack } = path
  const rows = hooks.map(({ hook, actions }): HookRow => {
    const isStop = hook === stop?.hook
    const lines = brief ? briefLines(actions) : actionLines(actions)
    if (isStop && stop.rule === '') lines.push({ text: `✗ ${stop.sentence}`, tone: 'bad' })
    return {
      title: hook,
      tone: isStop ? 'bad' : 'path',
      lines: lines.length > 0 ? lines : [{ text: NOTHING }],
    }
  })
  if (!brief && conntrack)
    rows.push({ title: 'conntrack', tone: 'strong', lines: [{ text: conntrack }] })
  if (!brief) rows.push(endRow(ends))
  const through = hooks.map(({ hook }) => hook).join(', ')
  const where = ends.map(({ to, verdict }) => to ?? verdict).join(' or ')
  const label = `The path of ${path.packet} through ${through}; it ends at ${where}.${stop ? ` ✗ ${stop.sentence}` : ''}`
  return { legs, local, stop: stop?.hook, rows, brief, label }
}

/** A path with its figure as the elements that a page can show. */
export function drawPath(path: PacketPath): { wide: string; tall: string; label: string } {
  const { wide, tall, label } = hooksFigure(packetFigure(path))
  return { wide: svgElement(wide), tall: svgElement(tall), label }
}

const svgElement = ({ width, height, body }: Drawing): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}">${body.replace(NOT_XML, '\ufffd')}</svg>`

const NOTHING = 'no rule has an effect'
const isBad = ({ text, disagrees }: PathAction) => disagrees || /^(REJECT|DROP)/.test(text)

/** The actions that the same chains lead to. */
const joined = (actions: readonly PathAction[]): PathAction[][] => [
  ...groupBy(actions, (action) => `${placeOf(action)} ${action.text.split(' ')[0]}`).values(),
]

/**
 * `nat: KUBE-SERVICES → KUBE-SVC-LOLE…`; the chain of the hook itself is left out where others
 * follow.
 */
function placeOf({ table, chains }: PathAction): string {
  if (table === 'ipvs') return `IPVS: ${chains.join(' ')}`
  return `${table}: ${(chains.length > 1 ? chains.slice(1) : chains).map(shortName).join(' → ')}`
}

/**
 * A line for the actions of each place: `nat: KUBE-SERVICES → KUBE-SVC-LOLE…: DNAT to 10.244.1.6:80
 * or 10.244.2.4:80`; the chains that it has in common with the line before are left out.
 */
function briefLines(actions: readonly PathAction[]): Line[] {
  let before: PathAction | undefined
  return joined(actions).map((group) => {
    const [first] = group as [PathAction]
    const own = first.chains.findIndex((chain, index) => chain !== before?.chains[index])
    const isShortened = first.table === before?.table && own > 1
    const place = isShortened
      ? `… → ${first.chains.slice(own).map(shortName).join(' → ')}`
      : placeOf(first)
    before = first
    const [action = '', ...others] = group.map(({ text }) =>
      text.replace(/^MARK |(?<=^REJECT|^DROP): .*/g, ''),
    )
    return {
      text: `${place}: ${[action, ...others.map((text) => text.replace(/^.* (to|becomes) /, ''))].join(' or ')}`,
    }
  })
}

const actionLines = (actions: readonly PathAction[]): Line[] =>
  joined(actions).flatMap((group) => [
    { text: placeOf(group[0] as PathAction), tone: 'path' },
    ...limited(group, (action) => {
      const text = `${shortened(action.text, LONGEST)}${shareOf(action)}${countText(action)}`
      const remark = action.counted !== undefined && action.disagrees ? ': not as predicted' : ''
      return isBad(action) ? { text: `✗ ${text}${remark}`, tone: 'bad' } : { text }
    }),
  ])

function endRow(ends: readonly PathEnd[]): HookRow {
  const lines = limited(ends, (end) => {
    const { to, verdict, masquerade, by } = end
    if (to === undefined)
      return { text: `✗ ${verdict} by ${by}${shareOf(end)}${countText(end)}`, tone: 'bad' }
    return {
      text: `→ ${to}${shareOf(end)}, source ${masquerade ? 'masqueraded' : 'kept'}${countText(end)}`,
    }
  })
  const isStopped = ends.every(({ to }) => to === undefined)
  return { title: isStopped ? '✗ stopped' : 'end', tone: isStopped ? 'bad' : 'good', lines }
}

/** The first lines, and how many are left out. */
function limited<Item>(items: readonly Item[], print: (item: Item) => Line): Line[] {
  if (items.length <= ROWS) return items.map(print)
  return [...items.slice(0, ROWS - 1).map(print), { text: `… and ${items.length - ROWS + 1} more` }]
}

const shareOf = ({ probability }: PathEnd | PathAction): string =>
  probability < 0.999_999 ? `, ${Number((probability * 100).toFixed(1))} %` : ''
const countText = ({ counted }: PathEnd | PathAction): string =>
  counted === undefined ? '' : `, ${counted} counted`

/** The first four characters of the hash are enough to distinguish chains in a drawing. */
export const shortName = (chain: string): string =>
  chain.replace(/^(KUBE-(?:SVC|SVL|XLB|EXT|FW|SEP)-[A-Z0-9]{4})[A-Z0-9]{12}$/, '$1…')
