import { expect, test } from 'vitest'
import type { Difference } from '../../dataplane/compare/difference.ts'
import { adviceFor, restoredBySync } from '../../grading/advice.ts'
import type { NodeView } from '../../grading/snapshot.ts'

// A rule deleted from KUBE-SVC was missing 97 s later in kube-proxy 1.34.2, and an element of a map
// 75 s later.
test.each(['iptables', 'nftables'] as const)(
  'in %s mode no rule is said to come back within seconds',
  (mode) => {
    const { hint, next } = restoredBySync(mode)
    expect(hint).toContain('hourly full sync')
    expect(hint).not.toMatch(/second|next sync/)
    expect(next).toBe(`make ${mode} FORCE=1`)
  },
)

test('in IPVS mode everything is written periodically', () => {
  expect(restoredBySync('ipvs').hint).toContain('after 30 seconds')
})

// A virtual server whose persistence was removed had it again within 30 s.
test('only the weights and methods of real servers need a restart of kube-proxy in IPVS mode', () => {
  const node = { name: 'worker', mode: 'ipvs' } as NodeView
  const where = { virtualServer: 'TCP 10.96.0.1:443' }
  const advice = (expected: string) => {
    const difference: Difference = { kind: 'wrong', where, expected, actual: '', text: '' }
    return adviceFor(node, 'ipvs', [difference])
  }
  expect(advice('-A -t 10.96.0.1:443 -s rr -p 10800')).toEqual(restoredBySync('ipvs'))
  expect(advice('-a -t 10.96.0.1:443 -r 10.244.1.2:443 -m -w 1').next).toBe('make ipvs FORCE=1')
})
