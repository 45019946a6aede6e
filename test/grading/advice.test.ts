import { expect, test } from 'vitest'
import { restoredBySync } from '../../grading/advice.ts'

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
