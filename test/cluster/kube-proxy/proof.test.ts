import { expect, test } from 'vitest'
import { describeProof, type ModeProof } from '../../../cluster/kube-proxy/proof.ts'

const proof: ModeProof = {
  node: 'worker',
  proxyMode: 'iptables',
  logLine: 'I0101 00:00:00.000000 1 server_linux.go:1] "Using iptables Proxier"',
  holds: new Map([
    ['nftables', 'map service-ips leads 4 addresses to Services'],
    ['iptables', 'KUBE-SERVICES lists Services'],
  ]),
  dummyAddresses: undefined,
  schedulers: [],
  leftovers: [],
}

test('a proof names the rules of the mode that runs, not those that another one left', () => {
  expect(describeProof(proof)).toBe(
    'worker: /proxyMode is "iptables", the log says "Using iptables Proxier", KUBE-SERVICES lists Services, no kube-ipvs0',
  )
  expect(describeProof({ ...proof, holds: new Map() })).toContain('no rules yet, no kube-ipvs0')
  const lastError = 'E0101 00:00:01.000000 1 proxier.go:1] "Failed to execute iptables-restore"'
  expect(describeProof({ ...proof, holds: new Map(), lastError })).toContain(
    `no rules yet (its last error: ${lastError})`,
  )
})
