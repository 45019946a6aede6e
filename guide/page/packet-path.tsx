import { useState } from 'preact/hooks'
import type { LinkPacket } from '../../course/link-packets.ts'
import type { PathAction, PathEnd } from '../../dataplane/view/packet-path.ts'
import type { ActionReplies, DrawnPath } from '../protocol.ts'
import { performAction } from './connection.ts'
import { Button, Form, Select } from './controls.tsx'
import { Journey } from './journey.tsx'
import { now, type PageState, say, showEntry, update } from './store.ts'

/**
 * The path of a packet through a node: what the rules do with it, in a drawing and in words, in
 * every mode.
 */
export function PacketPathView({ state: { dataplane, path, stepPacket } }: { state: PageState }) {
  const { origins = [], destinations = [], nodes = [] } = dataplane ?? {}
  const {
    from = usual(origins, [stepPacket?.from, 'pod/client']) ?? 'host',
    to = usual(destinations, [stepPacket?.to, 'svc/web:80']) ?? '',
    node = '',
    found,
  } = path
  const [isBusy, setBusy] = useState<'look' | 'send'>()
  const change = (part: PageState['path']) => update({ path: { ...now().path, ...part } })
  const ask = async (send: boolean) => {
    if (isBusy !== undefined) return
    setBusy(send ? 'send' : 'look')
    // What is typed during the look-up stays.
    change({ from, to })
    const reply = await performAction('path', { from, to, node: node || undefined, send })
    setBusy(undefined)
    // A path of another packet would be shown below the reason.
    if (!reply) return change({ found: undefined })
    change({ found: { ...reply, asked: `${Date.now()}` } })
    const [first] = reply.paths
    if (first) say(first.stop ? `The packet stops: ${first.stop.sentence}` : 'The packet arrives.')
  }
  return (
    <div class="path">
      <Form class="bar" send={() => ask(false)}>
        <PlaceInput
          label="From"
          suggestions={origins}
          value={from}
          type={(from) => change({ from })}
        />
        <PlaceInput
          label="To"
          suggestions={destinations}
          value={to}
          type={(to) => change({ to })}
        />
        <Select
          label="On"
          value={node}
          options={[['', 'its node'], ...nodes.map((one) => one.node)]}
          choose={(node) => change({ node })}
        />
        <button type="submit" class="main" aria-disabled={isBusy !== undefined}>
          {isBusy === 'look' ? 'Looking …' : 'Show the path'}
        </button>
        <Button aria-disabled={isBusy !== undefined} onClick={() => void ask(true)}>
          {isBusy === 'send' ? 'Sending …' : 'Send a real one'}
        </Button>
      </Form>
      {found ? (
        <FoundPaths key={found.asked} found={found} />
      ) : (
        <p class="empty">Choose where a packet comes from and where it goes.</p>
      )}
    </div>
  )
}

/** What the step is about, else what labs usually are about, else the first one. */
const usual = (
  existing: readonly string[],
  wanted: readonly (string | undefined)[],
): string | undefined =>
  wanted.find((one, index) => one !== undefined && (index === 0 || existing.includes(one))) ??
  existing[0]

interface PlaceProps {
  label: string
  suggestions: readonly string[]
  value: string
  type(value: string): void
}

/** Where a packet comes from or goes to. */
function PlaceInput({ label, suggestions, value, type }: PlaceProps) {
  const list = `places-${label}`
  return (
    <>
      <label>
        {label}{' '}
        <input
          list={list}
          size={Math.min(48, Math.max(16, value.length + 2))}
          required
          maxLength={100}
          value={value}
          onInput={({ currentTarget }) => type(currentTarget.value)}
        />
      </label>
      <datalist id={list}>
        {suggestions.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </>
  )
}

function FoundPaths({ found: { paths, sent } }: { found: ActionReplies['path'] }) {
  const [first, ...others] = paths
  if (!first) return null
  return (
    <>
      <Journeys paths={paths} links={sent?.links} />
      {sent && (
        <details class="sent" open>
          <summary>
            {sent.count} connections were opened; what the kernel counted is beside the rules
          </summary>
          <pre>{sent.output}</pre>
        </details>
      )}
      <details class="rules" open>
        <summary>The rules at each hook</summary>
        <OnePath path={first} />
      </details>
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

/** What a journey is known by in the list of those to compare with. */
const titleOf = ({ packet, mode, node, real }: DrawnPath) =>
  `${packet}, ${mode} mode${real ? ` on ${node}` : ', predicted'}`

/**
 * The journey of the packet, and beside it one to compare with: in another mode, or one that was
 * kept before.
 */
function Journeys({
  paths,
  links,
}: {
  paths: readonly DrawnPath[]
  links: readonly LinkPacket[] | undefined
}) {
  const { kept } = now().path
  const [chosen, choose] = useState(kept ? 'kept' : '')
  const [own] = paths
  if (!own?.journey) return null
  const other = chosen === 'kept' ? kept : paths.find(({ mode, real }) => !real && mode === chosen)
  return (
    <section class="journeys" aria-label="The journey of the packet">
      <div class="bar">
        <Select
          label="Compare with"
          value={chosen}
          options={[
            ['', 'nothing'],
            ...(kept ? [['kept', `kept: ${titleOf(kept)}`] as const] : []),
            ...paths
              .filter(({ real }) => !real)
              .map(({ mode }) => [mode, `${mode} mode, predicted`] as const),
          ]}
          choose={choose}
        />
        <Button
          onClick={() => {
            update({ path: { ...now().path, kept: own } })
            say('Kept: show another path to compare it with this one')
          }}
        >
          Keep this one to compare
        </Button>
        <SavePicture mode={own.mode} />
      </div>
      <div class="pair">
        {other?.journey && (
          <div>
            <h3>{titleOf(other)}</h3>
            <Journey path={other} title={titleOf(other)} other={own} />
          </div>
        )}
        <div>
          <h3>{titleOf(own)}</h3>
          <Journey path={own} title={titleOf(own)} other={other} {...(links && { links })} />
        </div>
      </div>
    </section>
  )
}

/** Saves the drawing of the path as a file, for slides and notes. */
function SavePicture({ mode }: { mode: string }) {
  const { from, to, node } = now().path
  if (from === undefined || to === undefined) return null
  return (
    <Button
      onClick={async () => {
        const reply = await performAction('picture', { from, to, mode, ...(node && { node }) })
        if (!reply) return
        const link = document.createElement('a')
        link.href = URL.createObjectURL(new Blob([reply.svg], { type: 'image/svg+xml' }))
        link.download = reply.name
        link.click()
        URL.revokeObjectURL(link.href)
        say(`Saved as ${reply.name}`)
      }}
    >
      Save as a picture
    </Button>
  )
}

function OnePath({ path, small = false }: { path: DrawnPath; small?: boolean }) {
  const { mode, node, packet, real, stop, hooks, ends, conntrack, drawing } = path
  return (
    <section class={small ? 'one small' : 'one'} aria-label={`Path in ${mode} mode`}>
      <h3>
        {mode}{' '}
        <span class="soft">
          {real ? `what ${node} holds now` : 'predicted: the node is in another mode'}
        </span>
      </h3>
      <p class="packet">
        <code>{packet}</code>
      </p>
      {stop && (
        <p class="stop">
          <strong>✗ Stops at {stop.hook}.</strong> {stop.sentence}
          {stop.rule !== '' && !stop.sentence.includes(stop.rule) && (
            <code>
              {stop.table} {stop.chain}: {stop.rule}
            </code>
          )}
        </p>
      )}
      {/* As the space allows. Rules in it are text (slides/figures/canvas.ts); the list below says the same in words. */}
      <figure class="drawing" role="img" aria-label={drawing.label}>
        {!small && <div class="wide" dangerouslySetInnerHTML={{ __html: drawing.wide }} />}
        <div class="tall" dangerouslySetInnerHTML={{ __html: drawing.tall }} />
      </figure>
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
                    <ActionItem
                      key={`${action.table} ${action.text}`}
                      action={action}
                      node={real ? node : undefined}
                    />
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

const percent = (probability: number) =>
  probability >= 1 ? '' : ` ${Math.round(probability * 1000) / 10} %`

function ActionItem({ action, node }: { action: PathAction; node: string | undefined }) {
  const { table, chains, text, probability, counted, disagrees, entries } = action
  const [id] = entries
  return (
    <li>
      <span class="soft">
        {table} {chains.join(' → ')}
      </span>{' '}
      {node !== undefined && id !== undefined ? (
        <Button class="code" onClick={() => showEntry({ node, id })}>
          {text}
        </Button>
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
      <span class="sign">{isGood ? '✓' : '✗'}</span>{' '}
      {to ? <code>{to}</code> : `${verdict}${by ? ` by ${by}` : ''}`}
      {percent(probability)}
      {masquerade && <span class="soft"> masqueraded</span>}
      {counted !== undefined && <span class="lit"> {counted} arrived</span>}
    </li>
  )
}
