import { describe, expect, test } from 'vitest'
import type { NftChain, NftTable } from '../../dataplane/nft-table.ts'
import { drawTrace } from '../../dataplane/trace/draw.ts'
import { external, node, pod, trace } from './made-node.ts'
import { recordedFolders, stateAt } from './recordings.ts'

const drawn = (...flow: Parameters<typeof trace>) => drawTrace(trace(...flow), { width: 80 })
const picture = (lines: readonly string[]) => lines.slice(1, 4)

describe('drawTrace', () => {
  const nat = [
    ':KUBE-SVC-A - [0:0]',
    ':KUBE-SEP-B - [0:0]',
    '-A PREROUTING -j KUBE-SVC-A',
    '-A KUBE-SVC-A -j KUBE-SEP-B',
    '-A KUBE-SEP-B -p tcp -j DNAT --to-destination 10.244.2.5:8080',
    '-A POSTROUTING -j MASQUERADE',
  ]

  test('shows the hooks that the packet passed, the actions at each hook, and the destination', () => {
    expect(drawn(node({ nat }), pod, '10.96.0.9:80')).toEqual([
      '10.244.1.9 → 10.96.0.9:80/tcp',
      '           INPUT    ─────>  process   ─────>   OUTPUT',
      '              │                                   │',
      'in ━━━▶ [PREROUTING]  ━━━▶ [FORWARD]  ━━━▶ [POSTROUTING]  ━━━▶ out',
      '',
      'PREROUTING',
      '  nat: PREROUTING → KUBE-SVC-A → KUBE-SEP-B  DNAT to 10.244.2.5:8080',
      'FORWARD: no rule has an effect',
      'POSTROUTING',
      '  nat: POSTROUTING  MASQUERADE source becomes 172.18.0.3',
      '',
      '→ 10.244.2.5:8080  100 %, source masqueraded',
    ])
  })

  test('marks the hook that stops a packet, and names the rule', () => {
    const filter = ['-A FORWARD -d 10.244.2.5/32 -j DROP']
    const lines = drawn(node({ nat, filter }), external, '10.96.0.9:80')
    expect(picture(lines)[2]).toBe(
      'in ━━━▶ [PREROUTING]  ━━━▶ [FORWARD]✗ ───>  POSTROUTING   ───> out',
    )
    expect(lines).toContain('    DROP: -A FORWARD -d 10.244.2.5/32 -j DROP')
    expect(lines.slice(-2)).toEqual([
      '✗ drop  100 %, by filter FORWARD',
      'It is dropped: the sender gets no answer and times out.',
    ])
  })

  test('shows a process of the node, or IPVS, between INPUT and OUTPUT', () => {
    expect(picture(drawn(node({}), external, '172.18.0.3:22'))[0]).toBe(
      '          [INPUT]   ━━━━━▶ [process]  ─────>   OUTPUT',
    )
    expect(picture(drawn(node({}), 'host', '8.8.8.8:53'))[0]).toBe(
      '           INPUT    ─────> [process]  ━━━━━▶  [OUTPUT]',
    )
    const servers = '-A -t 10.96.0.1:443 -s rr\n-a -t 10.96.0.1:443 -r 10.244.2.7:6443 -m -w 1\n'
    const [first, , last] = picture(drawn(node({}, servers), pod, '10.96.0.1:443'))
    expect(first).toBe('          [INPUT]   ━━━━━▶   [IPVS]   ━━━━━▶  [OUTPUT]')
    expect(last).toBe('in ━━━▶ [PREROUTING]  ───>  FORWARD   ───> [POSTROUTING]  ━━━▶ out')
  })

  test.each([
    ['meta mark set meta mark | 0x00004000 goto b', 'mark becomes 0x4000'],
    [
      'meta mark set 0x00000001 ct mark set meta mark',
      'mark becomes 0x1, connection mark becomes 0x1',
    ],
    [
      'meta mark set 0x00000001 ct mark set 0x00000000',
      'mark becomes 0x1, connection mark becomes 0x0',
    ],
    ['meta mark set 0x00000001 notrack', 'mark becomes 0x1, not tracked'],
    ['notrack', 'not tracked'],
    ['meta mark set 0x00000000 drop', 'DROP: meta mark set 0x00000000 drop'],
  ])('shows all that %s changes, not the chain to which it leads', (text, action) => {
    const chains = new Map<string, NftChain>([
      [
        'pre',
        { base: { type: 'nat', hook: 'prerouting', priority: -100 }, rules: [{ text: 'jump a' }] },
      ],
      ['a', { rules: [{ text }] }],
      ['b', { rules: [] }],
    ])
    const table: NftTable = {
      family: 'ip',
      name: 'kube-proxy',
      chains,
      sets: new Map(),
      maps: new Map(),
    }
    const lines = drawn({ ...node({}), nftables: [table] }, pod, '10.96.0.9:80').join('\n')
    expect(lines.replace(/\s+/g, ' ')).toContain(`ip kube-proxy: pre → a ${action}`)
  })

  test('prints lines of ASCII text without a drawing with the option plain', () => {
    const lines = drawTrace(trace(node({ nat }), pod, '10.96.0.9:80'), {
      width: 80,
      plain: true,
      stop: 'stops there',
    })
    expect(lines.join('\n')).toMatch(/^[ -~\n]*$/)
    expect(lines.slice(0, 3)).toEqual(['10.244.1.9 -> 10.96.0.9:80/tcp', '', 'PREROUTING'])
    expect(lines.at(-1)).toBe('It stops there.')
  })

  test('fits into 80 columns and 24 lines for recordings of 1.20 and 1.30, and is never wider than the terminal', () => {
    const flows = ['pod:10.244.1.99', 'pod:10.244.1.6', 'host', 'outside'].flatMap((from) =>
      ['10.96.119.228:80', '172.18.0.3:31730', '172.18.255.200:80'].map(
        (to) => [from, to] as const,
      ),
    )
    for (const path of recordedFolders.filter((path) => /^v1\.(20\.2|30\.3)\//.test(path))) {
      const state = stateAt(path)
      for (const [from, to] of flows) {
        const walked = trace(state, from, to)
        const lines = drawTrace(walked, { width: 80 })
        expect(lines.length, `${path} ${from} ${to}\n${lines.join('\n')}`).toBeLessThan(24)
        for (const width of [40, 65, 66, 80, 120])
          expect(drawTrace(walked, { width }).filter((line) => line.length > width)).toEqual([])
      }
    }
  })
})
