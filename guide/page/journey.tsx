// One packet on its journey, place by place: to be stepped through, played, and compared with
// another one.

import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { LinkPacket } from '../../course/link-packets.ts'
import type { JourneyPacket, Station } from '../../dataplane/view/journey.ts'
import type { DrawnPath } from '../protocol.ts'
import { Button } from './controls.tsx'
import { JourneyFigure } from './journey-figure.tsx'
import { LinkPackets } from './link-packets.tsx'
import { say } from './store.ts'

/** The time at each place while it plays. */
const PLAY_MS = 1200

interface JourneyProps {
  path: DrawnPath
  /** What is above it: the packet, its mode. */
  title: string
  /** The place that the step is about: `PREROUTING`. */
  lit?: string | undefined
  /** The path that it is compared with: places that differ from it are marked. */
  other?: DrawnPath | undefined
  /** The places in a row, and without the rules, for a small room. */
  isBrief?: boolean
  /** Without the drawing. */
  isHidden?: boolean
  /** A real packet on each link, which is played at once. */
  links?: readonly LinkPacket[]
  children?: ComponentChildren
}

/**
 * A packet's journey, drawn and place by place; the current place shows the packet as it leaves
 * there, and what was done to it.
 */
export function Journey(props: JourneyProps) {
  const { path, title, lit, other, isBrief = false, isHidden = false, links, children } = props
  const { picture, journey: stations = [] } = path
  const own = indicesOf(stations, ({ place }) => place === lit)
  const differing = other
    ? indicesOf(stations, (station) => differs(station, other.journey ?? []))
    : undefined
  const [start = 0] = own
  const [at, setAt] = useState(start)
  const [isPlaying, setPlaying] = useState(links !== undefined && links.length > 0 && mayMove())
  const last = stations.length - 1
  const go = (to: number) => {
    const next = Math.min(last, Math.max(0, to))
    setAt(next)
    const station = stations[next]
    if (station) say(`${stationName(station)}: ${stationState(station)}`)
  }
  useEffect(() => {
    if (!isPlaying) return
    if (at >= last) return setPlaying(false)
    const timer = setTimeout(() => go(at + 1), PLAY_MS)
    return () => clearTimeout(timer)
  }, [isPlaying, at])
  const shown = stations[Math.min(at, last)]
  if (!shown) return null
  const choose = (place: number) => {
    setPlaying(false)
    go(place)
  }
  const list = { stations, at, own, differing, choose }
  return (
    <section
      class={isBrief ? 'journey brief' : 'journey'}
      aria-label={`Journey: ${title}`}
      onKeyDown={(event) => {
        const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last }[event.key]
        if (to === undefined || (event.target as Element).matches('select')) return
        event.preventDefault()
        choose(to)
      }}
    >
      <div class="bar">
        <Button aria-label="Previous place" aria-disabled={at === 0} onClick={() => choose(at - 1)}>
          ◀
        </Button>
        <Button
          aria-pressed={isPlaying}
          onClick={() => {
            if (!isPlaying && at >= last) go(0)
            setPlaying(!isPlaying)
          }}
        >
          {isPlaying ? '❙❙ Pause' : '▶ Play'}
        </Button>
        <Button aria-label="Next place" aria-disabled={at >= last} onClick={() => choose(at + 1)}>
          ▶
        </Button>
        <span class="soft">
          place {Math.min(at, last) + 1} of {stations.length}
        </span>
        {children}
      </div>
      {isBrief && <StationList {...list} />}
      {picture && !isHidden && (
        <JourneyFigure
          picture={picture}
          at={at}
          own={own}
          {...(differing && { differing })}
          choose={choose}
        />
      )}
      <StationHeader station={shown} isEnd={at >= last && !shown.isStopped} />
      {!isBrief && <StationActions station={shown} path={path} />}
      {links && <LinkPackets links={links} lit={`${shown.node} ${shown.device ?? ''}`} />}
      {!isBrief && (
        <details class="places" open={other !== undefined}>
          <summary>All places of the journey</summary>
          <StationList
            stations={stations}
            at={at}
            own={own}
            differing={differing}
            choose={choose}
          />
        </details>
      )}
    </section>
  )
}

const indicesOf = (
  stations: readonly Station[],
  isWanted: (station: Station) => boolean,
): ReadonlySet<number> =>
  new Set(stations.flatMap((station, index) => (isWanted(station) ? [index] : [])))

/** Nothing moves by itself for a learner who has asked for reduced motion. */
const mayMove = (): boolean => !matchMedia('(prefers-reduced-motion: reduce)').matches

interface StationListProps {
  stations: readonly Station[]
  at: number
  own: ReadonlySet<number>
  differing: ReadonlySet<number> | undefined
  choose(place: number): void
}

/** The places, machine by machine. */
function StationList({ stations, at, own, differing, choose }: StationListProps) {
  const placeClass = (place: number, { isStopped }: Station) =>
    [
      place === at ? 'at' : place < at ? 'gone' : '',
      isStopped ? 'stopped' : '',
      own.has(place) ? 'own' : '',
      differing?.has(place) ? 'differs' : '',
    ].join(' ')
  return (
    <>
      {machinesOf(stations).map(({ node, places }, index) => (
        <div key={`${index}`} class={node === '' ? 'machine wire' : 'machine'}>
          {node !== '' && <h4>{node}</h4>}
          <ol>
            {places.map(({ station, index: place }) => (
              <li key={place} class={placeClass(place, station)}>
                <Button
                  class="plain"
                  aria-current={place === at ? 'step' : undefined}
                  onClick={() => choose(place)}
                >
                  <StationText station={station} isDiffering={differing?.has(place) ?? false} />
                </Button>
              </li>
            ))}
          </ol>
        </div>
      ))}
    </>
  )
}

/** The name of a place, and what happens to the packet there. */
function StationText({ station, isDiffering }: { station: Station; isDiffering: boolean }) {
  return (
    <>
      <span class="place">{stationName(station)}</span>
      {station.device && <span class="soft">{station.device}</span>}
      {station.changed.map((field) => (
        <code key={field} class="change">
          {field} {station.packet[field]}
        </code>
      ))}
      {station.isStopped && <strong>✗ stopped here</strong>}
      {isDiffering && <span class="hidden">, differs from the other path</span>}
    </>
  )
}

/** The packet as it leaves a place, and conntrack's entry. */
function StationHeader({ station, isEnd }: { station: Station; isEnd: boolean }) {
  const { packet, changed, conntrack } = station
  const field = (name: keyof JourneyPacket) => (
    <div>
      <dt>{name}</dt>
      <dd>
        <code class={changed.includes(name) ? 'change' : ''}>{packet[name]}</code>
        {changed.includes(name) && <small class="hidden"> changed here</small>}
      </dd>
    </div>
  )
  return (
    <div class="header">
      <h4>
        {isEnd ? 'As it arrives at' : 'As it leaves'} {stationName(station)}
      </h4>
      <dl>
        {field('source')}
        {field('destination')}
        {field('mark')}
        {conntrack && (
          <>
            <div>
              <dt>conntrack, original</dt>
              <dd>
                <code>{conntrack.original}</code>
              </dd>
            </div>
            <div>
              <dt>conntrack, reply</dt>
              <dd>
                <code>{conntrack.reply}</code>
              </dd>
            </div>
          </>
        )}
      </dl>
    </div>
  )
}

/** What the rules, or IPVS, did at a place of the first node, with what the kernel counted. */
function StationActions({ station, path }: { station: Station; path: DrawnPath }) {
  const { place, hook, node } = station
  const at = hook === 'LOCAL_IN' ? 'INPUT' : hook === 'LOCAL_OUT' ? 'OUTPUT' : place
  const found = path.hooks.find((one) => one.hook === at)
  if (node !== path.node || !found) return null
  const actions = found.actions.filter(({ table }) => (table === 'ipvs') === (place === 'IPVS'))
  return (
    <div class="done">
      {actions.length === 0 ? (
        <p class="soft">No rule has an effect here.</p>
      ) : (
        <ul>
          {actions.map(({ table, chains, text, counted, disagrees }) => (
            <li key={`${table} ${text}`}>
              <span class="soft">
                {table} {chains.join(' → ')}
              </span>{' '}
              <code>{text}</code>
              {counted !== undefined && (
                <span class={disagrees ? 'lit disagrees' : 'lit'}>
                  {disagrees ? '! ' : ''}the kernel counted {counted}
                </span>
              )}
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

const stationName = ({ place, hook }: Station): string => (hook ? `IPVS at ${hook}` : place)

const stationState = ({ packet, changed, isStopped }: Station): string =>
  isStopped
    ? 'stopped here'
    : changed.length === 0
      ? 'nothing changes'
      : changed.map((field) => `${field} becomes ${packet[field]}`).join(', ')

/** A place that the other journey has not, or at which it changes something else. */
function differs(station: Station, other: readonly Station[]): boolean {
  const same = other.filter(({ place, hook }) => place === station.place && hook === station.hook)
  return !same.some(
    ({ changed, isStopped }) =>
      changed.join() === station.changed.join() && isStopped === station.isStopped,
  )
}

interface MachineStations {
  node: string
  places: { station: Station; index: number }[]
}

/** The places of each machine in turn; what is between machines has no name. */
function machinesOf(stations: readonly Station[]): MachineStations[] {
  const machines: MachineStations[] = []
  for (const [index, station] of stations.entries()) {
    const last = machines.at(-1)
    if (last?.node === station.node) last.places.push({ station, index })
    else machines.push({ node: station.node, places: [{ station, index }] })
  }
  return machines
}
