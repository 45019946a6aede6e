import { expect, test } from 'vitest'
import { quoteWord } from '../../dataplane/program-output.ts'
import { parsePacket } from '../../dataplane/trace.ts'
import { packetPath } from '../../dataplane/view/packet-path.ts'
import { countsOfFlow, readRecording } from '../../slides/build/recording.ts'
import { Canvas } from '../../slides/figures/canvas.ts'
import { barsFigure, choiceBars, countBars, localShares } from '../../slides/figures/charts.ts'
import { hooksFigure, legsAlong, PATHS } from '../../slides/figures/hooks.ts'
import { drawPath, packetFigure } from '../../slides/figures/packets.ts'
import { SCHEDULES } from '../../slides/figures/schedule.ts'
import { serviceChainsFigure, serviceSetsFigure } from '../../slides/figures/services.ts'
import { node } from '../dataplane/made-node.ts'

const WEB = '10.96.119.228:80'
const POD = 'pod:10.244.1.99'
const path = (recording: string, from: string, to: string, brief = true) => {
  const input = { node: 'k8s-guide-worker', mode: 'any', real: true, isService: true }
  return packetFigure(packetPath(readRecording(recording).state, parsePacket(from, to), input), {
    brief,
  })
}
const linesOf = (...input: Parameters<typeof path>) =>
  new Map(
    path(...input).rows.map(({ title, lines }) => [
      title,
      lines.map(({ text }) => text).join('\n'),
    ]),
  )

test('a Pod’s packet is forwarded in iptables mode and goes in and out again in IPVS mode', () => {
  expect(path('v1.30.3/iptables/web-clusterip', POD, WEB).legs).toEqual(legsAlong(PATHS.forward))
  const ipvs = path('v1.30.3/ipvs/web-clusterip', POD, WEB)
  expect(ipvs.legs).toEqual([...legsAlong(PATHS.in), ...legsAlong(PATHS.out)])
  expect(ipvs.local).toBe('IPVS')
  expect(path('v1.30.3/ipvs/web-clusterip', 'host', WEB).legs).toEqual(legsAlong(PATHS.out))
})

test('the rows report what the rules of the recording do', () => {
  const rows = linesOf('v1.30.3/ipvs/web-clusterip', 'host', WEB)
  expect(rows.get('OUTPUT')).toMatch(
    /nat: KUBE-SERVICES → KUBE-MARK-MASQ: mark becomes 0x4000\n[\s\S]*IPVS: TCP 10\.96\.119\.228:80: DNAT to 10\.244\.1\.6:80 or 10\.244\.2\.4:80/,
  )
  expect(rows.get('POSTROUTING')).toMatch(/KUBE-POSTROUTING: MASQUERADE source becomes /)
  const details = linesOf('v1.30.3/iptables/web-three-endpoints', POD, WEB, false)
  expect(details.get('PREROUTING')).toBe(
    'nat: KUBE-SERVICES → KUBE-SVC-LOLE…\nDNAT to 10.244.1.6:80, 33.3 %\nDNAT to 10.244.1.7:80, 33.3 %\nDNAT to 10.244.2.4:80, 33.3 %',
  )
  expect(details.get('conntrack')).toMatch(/replies come from 10\.96\.119\.228:80 again/)
  expect(details.get('end')).toMatch(/^→ 10\.244\.1\.6:80, 33\.3 %, source kept\n/)
})

test('the hook that stops a packet is marked by a sign too, and named in the text alternative', () => {
  const rejected = path('v1.30.3/iptables/web-no-endpoints', POD, WEB)
  expect(rejected).toMatchObject({
    stop: 'FORWARD',
    rows: [{ tone: 'path' }, { title: 'FORWARD', tone: 'bad' }],
  })
  expect(rejected.rows.at(-1)?.lines[0]?.text).toMatch(/KUBE-SERVICES: REJECT/)
  expect(rejected.legs.flat()).not.toContain('POSTROUTING')
  expect(rejected.label).toMatch(
    /✗ The packet is rejected .* by filter KUBE-SERVICES: .*The sender gets "connection refused"\./,
  )
  expect(hooksFigure(rejected).wide.body).toContain('✗')
  const lost = path('v1.30.3/iptables/empty', POD, WEB)
  expect(lost).toMatchObject({ stop: 'PREROUTING' })
  expect(lost.label).toMatch(/reaches KUBE-SERVICES .* finds no rule for TCP 10\.96\.119\.228:80/)
})

test('an arrow between two places of the hooks is straight, or has a bend that is seen as one', () => {
  const { wide, tall } = hooksFigure({ legs: [], local: 'process', rows: [], label: '' })
  const jogs = [
    ...`${wide.body}${tall.body}`.matchAll(/<path class="arrow [^"]*" d="([^"]*)"/g),
  ].flatMap(([, d = '']) => {
    const [first, second, third] = d
      .split(/[ML]/)
      .slice(1)
      .map((point) => point.trim().split(' ').map(Number))
    if (!first || !second || !third) return []
    return Math.abs((third[0] ?? 0) - (first[0] ?? 0)) < 10 ||
      Math.abs((third[1] ?? 0) - (first[1] ?? 0)) < 10
      ? [d]
      : []
  })
  expect(jogs).toEqual([])
})

test('a listener behind a ClusterIP: reached in IPVS mode by 1.20, rejected by 1.30', () => {
  expect(path('v1.20.2/ipvs/web-clusterip', POD, '10.96.119.228:9100').legs.at(-1)).toEqual([
    'INPUT',
    'process',
  ])
  expect(path('v1.30.3/ipvs/web-clusterip', POD, '10.96.119.228:9100')).toMatchObject({
    stop: 'INPUT',
  })
  expect(linesOf('v1.30.3/ipvs/web-clusterip', POD, '10.96.119.228:9100').get('INPUT')).toMatch(
    /filter: KUBE-IPVS-FILTER: REJECT/,
  )
})

test('chains and sets of a Service are read from the node', () => {
  const stateOf = (recording: string) => readRecording(recording).state
  expect(
    serviceChainsFigure(stateOf('v1.30.3/iptables/web-three-endpoints').iptables, WEB).label,
  ).toMatch(
    /^KUBE-SERVICES entry \d of 6 for 10\.96\.119\.228:80 leads to KUBE-SVC-LOLE4ISW44XBNF3G, and that to KUBE-SEP-\w+ \(chance 1\/3\) to 10\.244\.1\.6:80, KUBE-SEP-\w+ \(chance 1\/2\) to 10\.244\.1\.7:80, KUBE-SEP-\w+ \(all others\) to 10\.244\.2\.4:80\.$/,
  )
  const sets = serviceSetsFigure(stateOf('v1.30.3/ipvs/web-three-endpoints'), WEB)
  expect(sets.label).toMatch(/ has 10\.244\.1\.6:80 and 10\.244\.1\.7:80 and 10\.244\.2\.4:80\.$/)
  for (const shown of ['10.96.119.228,tcp:80', '10.96.119.228', '10.96.0.10', '10.96.0.10,udp:53'])
    expect(sets.wide.body).toContain(`>${shown}<`)
  expect(() => serviceChainsFigure(stateOf('v1.30.3/iptables/empty').iptables, WEB)).toThrow(
    /no entry for "10.96.119.228:80"/,
  )
})

test('shares add up to 1', () => {
  const sum = (bars: readonly { share: number }[]) =>
    bars.reduce((total, { share }) => total + share, 0)
  expect(sum(choiceBars(7))).toBeCloseTo(1)
  expect(localShares([1, 5]).map(({ value }) => value)).toEqual([
    '50 %',
    '10 %',
    '10 %',
    '10 %',
    '10 %',
    '10 %',
  ])
  expect(sum(localShares([2, 0, 3]))).toBeCloseTo(1)
  expect(
    sum(countBars(countsOfFlow('v1.30.3/iptables/web-three-endpoints', POD, WEB))),
  ).toBeCloseTo(1)
})

test('schedulers distribute requests in the order of the kernel', () => {
  const turns = (scheduler: string, weights: number[], requests: number) => {
    const order = SCHEDULES[scheduler]?.(weights, requests) ?? []
    return weights.map((_, server) => order.filter((chosen) => chosen === server).length)
  }
  expect(turns('rr', [3, 1], 8)).toEqual([4, 4])
  expect(turns('wrr', [3, 1], 8)).toEqual([6, 2])
  expect(turns('wrr', [4, 2, 2], 8)).toEqual([4, 2, 2])
  expect(turns('wlc', [4, 1], 10)).toEqual([8, 2])
})

test('text that does not fit stops the build instead of being cut off', () => {
  const canvas = new Canvas(480)
  expect(() => canvas.box({ x: 0, y: 0, width: 100, height: 40 }, ['KUBE-SERVICES'])).toThrow(
    /does not fit into its box/,
  )
  expect(() => canvas.box({ x: 0, y: 0, width: 300, height: 40 }, ['one', 'two'])).toThrow(
    /does not fit into its box/,
  )
  expect(() => canvas.box({ x: 300, y: 0, width: 200, height: 40 }, ['x'])).toThrow(
    /is outside the figure/,
  )
  expect(() => canvas.text('x'.repeat(60), 0, 20)).toThrow(/does not fit into a figure/)
})

test('a figure has a text alternative, and escapes its input', () => {
  expect(barsFigure('Bars', [{ name: '<b>', share: 1, value: '1' }]).wide.body).toContain(
    '&lt;b&gt;',
  )
  const figure = hooksFigure(path('v1.30.3/ipvs/web-clusterip', POD, WEB))
  expect(figure.label).toMatch(
    /10\.244\.1\.99.*PREROUTING, INPUT, OUTPUT, POSTROUTING.*10\.244\.1\.6:80/,
  )
})

test('what a rule contains is text in the drawing of a path, and the drawing stays well-formed', () => {
  const hostile = '</text><script>alert(1)</script>\u0001\u001b[31m & "'
  const filter = [
    `-A FORWARD -m comment --comment ${quoteWord(`${hostile}${'x'.repeat(5000)}`)} -j DROP`,
  ]
  const input = { node: '<b>worker</b>', mode: 'iptables', real: true, isService: false }
  const drawing = drawPath(
    packetPath(node({ filter }), parsePacket('pod:10.244.1.9', '8.8.8.8:53'), input),
  )
  for (const svg of [drawing.wide, drawing.tall]) {
    expect(svg).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 \d+ \d+">/)
    expect(svg).not.toMatch(
      /<(?!\/?(?:svg|rect|path|text)[ >])|[\u0000-\u0008\u000b-\u001f]|style=|&(?!amp;|lt;|gt;|quot;)/,
    )
    expect(svg).toContain('&lt;script&gt;')
    expect(svg.length).toBeLessThan(20_000)
  }
})
