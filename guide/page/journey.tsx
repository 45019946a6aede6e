// One packet on its journey, place by place: to be stepped through, played, and compared with another one.

import { useEffect, useState } from 'preact/hooks'
import type { JourneyPacket, Station } from '../../dataplane/view/journey.ts'
import { Button } from './controls.tsx'
import { say } from './store.ts'

/** The time at each place while it plays. */
const PLAY_MS = 1200

interface JourneyProps {
  stations: readonly Station[]
  /** What is above it: the packet, its mode. */
  title: string
  /** The place of the step that is shown: `PREROUTING`. */
  lit?: string | undefined
  /** The journey that it is compared with: places that differ from it are marked. */
  other?: readonly Station[] | undefined
}

/** A list of places, node by node; the current one shows the packet as it leaves there. */
export function Journey({ stations, title, lit, other }: JourneyProps) {
  const start = Math.max(
    0,
    stations.findIndex(({ place }) => place === lit),
  )
  const [at, setAt] = useState(start)
  const [isPlaying, setPlaying] = useState(false)
  const last = stations.length - 1
  const go = (to: number) => {
    const next = Math.min(last, Math.max(0, to))
    setAt(next)
    const station = stations[next]
    if (station) say(`${stationName(station)}: ${inWords(station)}`)
  }
  useEffect(() => {
    if (!isPlaying) return
    if (at >= last) return setPlaying(false)
    const timer = setTimeout(() => go(at + 1), PLAY_MS)
    return () => clearTimeout(timer)
  }, [isPlaying, at])
  const shown = stations[Math.min(at, last)]
  if (!shown) return null
  return (
    <section
      class="journey"
      aria-label={`Journey: ${title}`}
      onKeyDown={(event) => {
        const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last }[event.key]
        if (to === undefined) return
        event.preventDefault()
        setPlaying(false)
        go(to)
      }}
    >
      <div class="bar">
        <Button aria-label="Previous place" aria-disabled={at === 0} onClick={() => go(at - 1)}>
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
        <Button aria-label="Next place" aria-disabled={at >= last} onClick={() => go(at + 1)}>
          ▶
        </Button>
        <span class="soft">
          place {at + 1} of {stations.length}
        </span>
      </div>
      {machinesOf(stations).map(({ node, places }, index) => (
        <div key={`${index}`} class={node === '' ? 'machine wire' : 'machine'}>
          {node !== '' && <h4>{node}</h4>}
          <ol>
            {places.map(({ station, index: own }) => (
              <li
                key={own}
                class={[
                  own === at ? 'at' : own < at ? 'gone' : '',
                  station.isStopped ? 'stopped' : '',
                  station.place === lit ? 'own' : '',
                  other && differs(station, other) ? 'differs' : '',
                ].join(' ')}
              >
                <Button
                  class="plain"
                  aria-current={own === at ? 'step' : undefined}
                  onClick={() => go(own)}
                >
                  <span class="place">{stationName(station)}</span>
                  {station.device && <span class="soft">{station.device}</span>}
                  {station.changed.map((field) => (
                    <code key={field} class="change">
                      {field} {station.packet[field]}
                    </code>
                  ))}
                  {station.isStopped && <strong>✗ stopped here</strong>}
                  {other && differs(station, other) && (
                    <span class="hidden">, differs from the other path</span>
                  )}
                </Button>
              </li>
            ))}
          </ol>
        </div>
      ))}
      <StationHeader station={shown} />
    </section>
  )
}

/** The packet as it leaves a place, and conntrack's entry. */
function StationHeader({ station }: { station: Station }) {
  const { packet, changed, conntrack } = station
  const field = (name: keyof JourneyPacket) => (
    <>
      <dt>{name}</dt>
      <dd>
        <code class={changed.includes(name) ? 'change' : ''}>{packet[name]}</code>
        {changed.includes(name) && <small> changed here</small>}
      </dd>
    </>
  )
  return (
    <div class="header">
      <h4>The packet as it leaves {stationName(station)}</h4>
      <dl>
        {field('source')}
        {field('destination')}
        {field('mark')}
        {conntrack && (
          <>
            <dt>conntrack, original</dt>
            <dd>
              <code>{conntrack.original}</code>
            </dd>
            <dt>conntrack, reply</dt>
            <dd>
              <code>{conntrack.reply}</code>
            </dd>
          </>
        )}
      </dl>
    </div>
  )
}

const stationName = ({ place, hook }: Station): string => (hook ? `IPVS at ${hook}` : place)

const inWords = ({ packet, changed, isStopped }: Station): string =>
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
