import { useEffect, useRef, useState } from 'preact/hooks'
import type { PathAction, PathEnd } from '../../dataplane/view/packet-path.ts'
import type { DrawnPath } from '../protocol.ts'
import { act } from './connection.ts'
import { type State, say, showEntry } from './store.ts'

interface Found {
  paths: DrawnPath[]
  sent?: { count: number; output: string }
}

/** The last question and its reply outlive the tab. */
const last: { from: string; to: string; node: string; found?: Found } = { from: '', to: '', node: '' }

/** The path of a packet through a node: what the rules do with it, in a drawing and in words, in every mode. */
export function PacketPathView({ state: { dataplane } }: { state: State }) {
  const { origins = [], destinations = [], nodes = [] } = dataplane ?? {}
  const [from, setFrom] = useState(last.from || (origins[0] ?? 'host'))
  const [to, setTo] = useState(last.to || (destinations[0] ?? ''))
  const [node, setNode] = useState(last.node)
  const [found, setFound] = useState(last.found)
  const [isBusy, setBusy] = useState(false)
  const ask = async (send: boolean) => {
    if (isBusy) return
    setBusy(true)
    const reply = await act('path', { from, to, ...(node === '' ? {} : { node }), send })
    setBusy(false)
    Object.assign(last, { from, to, node, found: reply ?? last.found })
    if (!reply) return
    setFound(reply)
    const [first] = reply.paths
    if (first) say(first.stop ? `The packet stops: ${first.stop.words}` : 'The packet arrives.')
  }
  return (
    <div class="path">
      <form
        class="bar"
        onSubmit={(event) => {
          event.preventDefault()
          void ask(false)
        }}
      >
        <label>
          From{' '}
          <input list="origins" required maxLength={100} value={from} onInput={(e) => setFrom(e.currentTarget.value)} />
        </label>
        <label>
          To{' '}
          <input
            list="destinations"
            required
            maxLength={100}
            value={to}
            onInput={(e) => setTo(e.currentTarget.value)}
          />
        </label>
        <label>
          On{' '}
          <select value={node} onChange={({ currentTarget }) => setNode(currentTarget.value)}>
            <option value="">its node</option>
            {nodes.map((one) => (
              <option key={one.node}>{one.node}</option>
            ))}
          </select>
        </label>
        <button type="submit" class="main" aria-disabled={isBusy}>
          Show the path
        </button>
        <button type="button" aria-disabled={isBusy} onClick={() => void ask(true)}>
          {isBusy ? 'Sending …' : 'Send a real one'}
        </button>
        <datalist id="origins">
          {origins.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        <datalist id="destinations">
          {destinations.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      </form>
      {found ? <FoundPaths found={found} /> : <p class="empty">Choose where a packet comes from and where it goes.</p>}
    </div>
  )
}

function FoundPaths({ found: { paths, sent } }: { found: Found }) {
  const [first, ...others] = paths
  if (!first) return null
  return (
    <>
      {sent && (
        <details class="sent" open>
          <summary>{sent.count} connections were opened; what the kernel counted is beside the rules</summary>
          <pre>{sent.output}</pre>
        </details>
      )}
      <OnePath path={first} />
      {others.length > 0 && (
        <section aria-label="The same packet in other modes">
          <h3>The same packet in other modes</h3>
          <div class="modes">
            {others.map((path) => (
              <OnePath key={path.mode} path={path} small />
            ))}
          </div>
        </section>
      )}
    </>
  )
}

function OnePath({ path, small = false }: { path: DrawnPath; small?: boolean }) {
  const { mode, node, packet, real, stop, hooks, ends, conntrack } = path
  return (
    <section class={small ? 'one small' : 'one'} aria-label={`Path in ${mode} mode`}>
      <h3>
        {mode} <span class="soft">{real ? `what ${node} holds now` : 'predicted: the node is in another mode'}</span>
      </h3>
      <p class="packet">
        <code>{packet}</code>
      </p>
      {stop && (
        <p class="stop">
          <strong>✗ Stops at {stop.hook}.</strong> {stop.words}
          {stop.rule !== '' && !stop.words.includes(stop.rule) && (
            <code>
              {stop.table} {stop.chain}: {stop.rule}
            </code>
          )}
        </p>
      )}
      <DrawingView drawing={path.drawing} tall={small} />
      <details open={!small}>
        <summary>The same in words</summary>
        <ol class="hooks">
          {hooks
            .filter(({ actions }) => actions.length > 0)
            .map(({ hook, actions }) => (
              <li key={hook} class={hook === stop?.hook ? 'stopped' : ''}>
                <strong>{hook}</strong>
                <ul>
                  {actions.map((action) => (
                    <Action key={`${action.table} ${action.text}`} action={action} node={real ? node : undefined} />
                  ))}
                </ul>
              </li>
            ))}
        </ol>
      </details>
      <ul class="ends" aria-label="Where it ends">
        {ends.map((end) => (
          <End key={`${end.verdict} ${end.to}`} end={end} />
        ))}
      </ul>
      {conntrack && <p class="soft">{conntrack}</p>}
    </section>
  )
}

const percent = (probability: number) => (probability >= 1 ? '' : ` ${Math.round(probability * 1000) / 10} %`)

function Action({ action, node }: { action: PathAction; node: string | undefined }) {
  const { table, chains, text, probability, counted, disagrees, entries } = action
  const [id] = entries
  return (
    <li>
      <span class="soft">
        {table} {chains.join(' → ')}
      </span>{' '}
      {node !== undefined && id !== undefined ? (
        <button type="button" class="code" onClick={() => showEntry({ node, id })}>
          {text}
        </button>
      ) : (
        <code>{text}</code>
      )}
      <span class="soft">{percent(probability)}</span>
      {counted !== undefined && (
        <span class={disagrees ? 'lit disagrees' : 'lit'}>
          {disagrees ? '! ' : ''}the kernel counted {counted}
        </span>
      )}
    </li>
  )
}

function End({ end: { to, verdict, probability, masquerade, by, counted } }: { end: PathEnd }) {
  const isGood = verdict === 'dnat' || verdict === 'accept'
  return (
    <li class={isGood ? 'good' : 'bad'}>
      <span class="sign">{isGood ? '✓' : '✗'}</span> {to ? <code>{to}</code> : `${verdict}${by ? ` by ${by}` : ''}`}
      {percent(probability)}
      {masquerade && <span class="soft"> masqueraded</span>}
      {counted !== undefined && <span class="lit"> {counted} arrived</span>}
    </li>
  )
}

/** The wide or the tall drawing, as the space allows. The list below says the same in words. */
function DrawingView({ drawing, tall }: { drawing: DrawnPath['drawing']; tall: boolean }) {
  const place = useRef<HTMLElement>(null)
  useEffect(() => {
    const isNarrow = tall || (place.current?.clientWidth ?? 0) < 520
    place.current?.replaceChildren(parseDrawing(isNarrow ? drawing.tall : drawing.wide))
    if (place.current) place.current.className = isNarrow ? 'drawing tall' : 'drawing'
  }, [drawing, tall])
  return <figure ref={place} class="drawing" role="img" aria-label={drawing.label} />
}

const SVG = 'http://www.w3.org/2000/svg'
const ELEMENTS = new Set(['svg', 'g', 'rect', 'path', 'text', 'tspan', 'line', 'circle', 'title', 'desc'])
const ATTRIBUTES = new Set(
  'class x y x1 y1 x2 y2 cx cy r rx ry d width height viewBox transform text-anchor font-size'.split(' '),
)

/**
 * A drawing of the server as an element of this page. It contains rules of the nodes, so only shapes and text are taken over; what
 * is no drawing gives an empty one.
 */
function parseDrawing(source: string): SVGElement {
  const { documentElement } = new DOMParser().parseFromString(source, 'image/svg+xml')
  const drawing = copyOf(documentElement) ?? document.createElementNS(SVG, 'svg')
  drawing.setAttribute('aria-hidden', 'true')
  return drawing
}

function copyOf(element: Element): SVGElement | undefined {
  if (element.namespaceURI !== SVG || !ELEMENTS.has(element.localName)) return undefined
  const copy = document.createElementNS(SVG, element.localName) as SVGElement
  for (const { name, value } of element.attributes) if (ATTRIBUTES.has(name)) copy.setAttribute(name, value)
  for (const child of element.childNodes) {
    const kept = child instanceof Element ? copyOf(child) : document.createTextNode(child.textContent ?? '')
    if (kept) copy.append(kept)
  }
  return copy
}
