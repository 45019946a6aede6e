import { expect, test } from 'vitest'
import { countsOfFlow, readRecording } from '../../slides/build/recording.ts'
import { Canvas } from '../../slides/figures/canvas.ts'
import { choiceBars, countBars, localShares } from '../../slides/figures/curves.ts'
import { hooksFigure } from '../../slides/figures/hooks.ts'
import { packetPathFigure } from '../../slides/figures/packets.ts'
import { SCHEDULES } from '../../slides/figures/schedule.ts'
import { readServiceChains, readServiceSets, serviceChainsFigure } from '../../slides/figures/services.ts'

const WEB = '10.96.119.228:80'
const POD = 'pod:10.244.1.99'
const path = (recording: string, from: string, to: string) => packetPathFigure(readRecording(recording).state, from, to)

test('a Pod’s packet is forwarded in iptables mode and goes in and out again in IPVS mode', () => {
  expect(path('v1.30.3/iptables/web-clusterip', POD, WEB).path).toEqual([
    'in',
    'PREROUTING',
    'routing',
    'FORWARD',
    'POSTROUTING',
    'out',
  ])
  const ipvs = path('v1.30.3/ipvs/web-clusterip', POD, WEB)
  expect(ipvs.path).toEqual(['in', 'PREROUTING', 'routing', 'INPUT', 'process', 'OUTPUT', 'POSTROUTING', 'out'])
  expect(ipvs.local).toBe('IPVS')
  expect(path('v1.30.3/ipvs/web-clusterip', 'host', WEB).path).toEqual(['process', 'OUTPUT', 'POSTROUTING', 'out'])
})

test('the legend reports what the rules of the recording do', () => {
  const legend = new Map(path('v1.30.3/ipvs/web-clusterip', 'host', WEB).legend.map(({ hook, text }) => [hook, text]))
  expect(legend.get('OUTPUT')).toMatch(
    /KUBE-SERVICES → KUBE-MARK-MASQ: the mark becomes 0x4000; .*KUBE-CLUSTER-IP.*10\.244\.1\.6:80 or 10\.244\.2\.4:80/,
  )
  expect(legend.get('POSTROUTING')).toMatch(/KUBE-POSTROUTING: the source becomes /)
  const rejected = path('v1.30.3/iptables/web-no-endpoints', POD, WEB)
  expect(rejected.legend.at(-1)?.text).toMatch(/REJECT by KUBE-SERVICES/)
  expect(rejected.path).not.toContain('POSTROUTING')
})

test('a listener behind a ClusterIP: reached in IPVS mode by 1.20, rejected by 1.30', () => {
  expect(path('v1.20.2/ipvs/web-clusterip', POD, '10.96.119.228:9100').path.at(-1)).toBe('process')
  expect(path('v1.30.3/ipvs/web-clusterip', POD, '10.96.119.228:9100').path.at(-1)).toBe('INPUT')
  expect(path('v1.30.3/ipvs/web-clusterip', POD, '10.96.119.228:9100').legend.at(-1)?.text).toMatch(
    /REJECT by KUBE-IPVS-FILTER/,
  )
})

test('chains and sets of a Service are read from the node', () => {
  const chains = readServiceChains(readRecording('v1.30.3/iptables/web-three-endpoints').state.iptables, WEB)
  expect(chains.chain).toBe('KUBE-SVC-LOLE4ISW44XBNF3G')
  expect(chains.endpoints.map(({ chance, backend }) => [chance, backend])).toEqual([
    ['chance 1/3', '10.244.1.6:80'],
    ['chance 1/2', '10.244.1.7:80'],
    ['all others', '10.244.2.4:80'],
  ])
  const sets = readServiceSets(readRecording('v1.30.3/ipvs/web-three-endpoints').state, WEB)
  expect(sets.members).toContain('10.96.119.228,tcp:80')
  expect(sets.addresses).toContain('10.96.119.228')
  expect(sets.realServers).toEqual(['10.244.1.6:80', '10.244.1.7:80', '10.244.2.4:80'])
  expect(() => readServiceChains(readRecording('v1.30.3/iptables/empty').state.iptables, WEB)).toThrow(
    /no entry for "10.96.119.228:80"/,
  )
})

test('shares add up to 1', () => {
  const sum = (bars: readonly { share: number }[]) => bars.reduce((total, { share }) => total + share, 0)
  expect(sum(choiceBars(7))).toBeCloseTo(1)
  expect(localShares([1, 5]).map(({ value }) => value)).toEqual(['50 %', '10 %', '10 %', '10 %', '10 %', '10 %'])
  expect(sum(localShares([2, 0, 3]))).toBeCloseTo(1)
  expect(sum(countBars(countsOfFlow('v1.30.3/iptables/web-three-endpoints', POD, WEB)))).toBeCloseTo(1)
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
  expect(() => canvas.box({ x: 0, y: 0, width: 300, height: 40 }, ['one', 'two'])).toThrow(/does not fit into its box/)
  expect(() => canvas.box({ x: 300, y: 0, width: 200, height: 40 }, ['x'])).toThrow(/is outside the figure/)
  expect(() => canvas.text('x'.repeat(60), 0, 20)).toThrow(/does not fit into a figure/)
})

test('a figure has a text alternative, and escapes its input', () => {
  const service = { entry: 1, entries: 2, address: '<b>', chain: 'KUBE-SVC-A', endpoints: [] }
  expect(serviceChainsFigure(service).wide.body).toContain('&lt;b&gt;')
  const figure = hooksFigure(path('v1.30.3/ipvs/web-clusterip', POD, WEB))
  expect(figure.label).toMatch(/10\.244\.1\.99.*PREROUTING, INPUT, OUTPUT, POSTROUTING.*10\.244\.1\.6:80/)
})
