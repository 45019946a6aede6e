// The pictures of packets' journeys, on nodes as genuine kube-proxies left them in each mode.

import { describe, expect, test } from 'vitest'
import { pathOn } from '../../course/node-paths.ts'
import { parsePacket } from '../../dataplane/trace.ts'
import type { PacketPath } from '../../dataplane/view/packet-path.ts'
import { stateOf } from '../../grading/snapshot.ts'
import {
  describeJourney,
  journeyFile,
  journeyPicture,
} from '../../slides/figures/journey-picture.ts'
import { NODE } from '../dataplane/recordings.ts'
import { recordedSnapshot } from '../guide/recorded-snapshot.ts'

const CLUSTER_IP = '10.96.119.228:80'
const FIREWALL = '-A OUTPUT -p tcp -m tcp --dport 80 -j DROP'

function pathIn(mode: string, from: string, to = CLUSTER_IP, edit?: (rules: string) => string) {
  const snapshot = recordedSnapshot(mode, 'web-three-endpoints', edit)
  return pathOn(snapshot, NODE, stateOf(snapshot.node(NODE)), parsePacket(from, to))
}

/** The elements of a drawing balance, which is enough for a browser to read it as XML. */
function isBalanced(svg: string): boolean {
  const open: string[] = []
  for (const [, end, name = '', rest = ''] of svg.matchAll(/<(\/?)([a-z]+)((?:"[^"]*"|[^">])*)>/g))
    if (end === '/') {
      if (open.pop() !== name) return false
    } else if (!rest.endsWith('/')) open.push(name)
  return open.length === 0
}

/** Every place of a journey but the wires, and what changed there. */
function expectDrawn(svg: string, journey: NonNullable<PacketPath['journey']>): void {
  for (const [index, { place, packet, changed }] of journey.entries()) {
    if (place !== 'wire') expect(svg).toMatch(new RegExp(`data-at="(?:\\d+ )*${index}(?: \\d+)*"`))
    const texts = { source: 'src', destination: 'dst', mark: 'mark' }
    for (const field of changed) expect(svg).toContain(`>${texts[field]} ${packet[field]}<`)
  }
}

describe.each(['iptables', 'ipvs', 'nftables'])('in %s mode', (mode) => {
  test.each(['pod:10.244.1.99', 'host', 'external:203.0.113.9'])(
    'from %s: every change is drawn at its place',
    (from) => {
      const path = pathIn(mode, from)
      const picture = journeyPicture(path)
      for (const svg of [picture?.wide ?? '', picture?.tall ?? '']) {
        expect(isBalanced(svg)).toBe(true)
        expectDrawn(svg, path.journey ?? [])
        expect(svg).not.toMatch(/NaN|undefined/)
      }
      expect(picture?.label).toContain('the destination becomes'.replace('the ', ''))
    },
  )
})

interface Box {
  x: number
  y: number
  width: number
  height: number
}

/** The tags of changed fields and the labels of interfaces. */
const labelsOf = (svg: string): Box[] =>
  [
    ...svg.matchAll(
      /<rect class="(?:tag|port)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"/g,
    ),
  ].map(([, ...numbers]) => {
    const [x = 0, y = 0, width = 0, height = 0] = numbers.map(Number)
    return { x, y, width, height }
  })

const overlap = (one: Box, other: Box): boolean =>
  one.x < other.x + other.width &&
  other.x < one.x + one.width &&
  one.y < other.y + other.height &&
  other.y < one.y + one.height

/** Each two labels of which one covers the other. */
const covered = (labels: readonly Box[]): Box[][] =>
  labels.flatMap((one, index) =>
    labels
      .slice(index + 1)
      .filter((other) => overlap(one, other))
      .map((other) => [one, other]),
  )

/** The same path, whose end is a Pod of the node itself. */
function toPodOfNode(path: PacketPath): PacketPath {
  const journey = (path.journey ?? []).filter(({ node }) => node === NODE)
  const last = journey.at(-1)
  if (!last) throw new Error('the path is on no node')
  const end = { ...last, place: 'Pod' as const, device: 'veth0fc127a0', changed: [] }
  return { ...path, journey: [...journey, end] }
}

test.each(['iptables', 'ipvs', 'nftables'])('no label covers another in %s mode', (mode) => {
  for (const from of ['pod:10.244.1.99', 'host', 'external:203.0.113.9'])
    for (const path of [pathIn(mode, from), toPodOfNode(pathIn(mode, from))]) {
      const picture = journeyPicture(path)
      for (const svg of [picture?.wide ?? '', picture?.tall ?? '']) {
        expect(labelsOf(svg).length).toBeGreaterThan(1)
        expect(covered(labelsOf(svg)), from).toEqual([])
      }
    }
})

test('a file has its own colours, its title, and the header at each place', () => {
  const path = pathIn('ipvs', 'pod:10.244.1.99')
  const file = journeyFile(path, 'pod/<client> → "web"') ?? ''
  expect(file).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 \d+ \d+"/)
  expect(file).toContain('pod/&lt;client&gt; → &quot;web&quot;')
  expect(file).toContain('--paper:')
  expect(isBalanced(file.replace(/<style>.*?<\/style>/s, ''))).toBe(true)
  for (const { place, packet } of path.journey ?? [])
    if (place !== 'wire') expect(file).toContain(`>${packet.destination}<`)
})

test('the place at which a packet is stopped is marked, and the words say so', () => {
  const insert = (rules: string) => {
    const at = rules.indexOf('COMMIT', rules.indexOf('*filter'))
    return rules.slice(0, at).replace(/^-A OUTPUT /m, `${FIREWALL}\n$&`) + rules.slice(at)
  }
  const path = pathIn('iptables', 'host', CLUSTER_IP, insert)
  expect(path.journey?.at(-1)).toMatchObject({ place: 'OUTPUT', isStopped: true })
  expect(journeyPicture(path)?.wide).toContain('class="hop bad"')
  expect(describeJourney(path, path.journey ?? [])).toContain('it is stopped at OUTPUT')
})

test('a path without a journey has no picture', () => {
  const { journey: _none, ...path } = pathIn('iptables', 'host')
  expect(journeyPicture(path as PacketPath)).toBeUndefined()
  expect(journeyFile(path as PacketPath)).toBeUndefined()
})
