import { describe, expect, test } from 'vitest'
import {
  ConfigError,
  defaultConfig,
  likelyClusterCIDR,
  parseKubeProxyConfiguration,
} from '../../../dataplane/kube-proxy/config.ts'
import type { ClusterObjects } from '../../../dataplane/objects.ts'

const faultsOf = (text: string): string[] => {
  try {
    parseKubeProxyConfiguration(text)
  } catch (error) {
    if (error instanceof ConfigError) return error.faults.map((fault) => fault.field)
    throw error
  }
  return []
}

describe('KubeProxyConfiguration', () => {
  test('reads the configuration that kubeadm writes, with defaults for empty values', () => {
    const config = parseKubeProxyConfiguration(`
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: 0.0.0.0
clusterCIDR: 10.244.0.0/16,fd00:10:244::/56
detectLocalMode: ""
detectLocal: {bridgeInterface: "", interfaceNamePrefix: ""}
iptables: {masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 1s, syncPeriod: 0s}
ipvs: {scheduler: "", strictARP: true, excludeCIDRs: null}
mode: ipvs
nodePortAddresses: null
featureGates: {IPv6DualStack: true}
`)
    expect(config).toEqual({
      ...defaultConfig(),
      mode: 'ipvs',
      clusterCIDR: '10.244.0.0/16,fd00:10:244::/56',
      ipvs: { scheduler: 'rr', strictARP: true, excludeCIDRs: [] },
      dualStack: true,
    })
  })

  test('an empty file is the default configuration', () =>
    expect(parseKubeProxyConfiguration('')).toEqual(defaultConfig()))

  test('reports all faults at once', () => {
    const text = `
kind: Pod
mode: turbo
bindAddress: here
clusterCIDR: 10.0.0.0/40
detectLocalMode: Guess
detectLocal: {bridgeInterface: "br0 -j ACCEPT"}
iptables: {masqueradeAll: yes please, masqueradeBit: 99}
ipvs: [rr]
nodePortAddresses: [10.0.0.0/8, nonsense]
`
    expect(faultsOf(text)).toEqual(
      [
        'kind',
        'ipvs',
        'mode',
        'bindAddress',
        'clusterCIDR',
        'detectLocalMode',
        'detectLocal.bridgeInterface',
        'iptables.masqueradeAll',
        'iptables.masqueradeBit',
        'nodePortAddresses[1]',
      ].sort((a, b) => faultsOf(text).indexOf(a) - faultsOf(text).indexOf(b)),
    )
    expect(faultsOf(text)).toHaveLength(10)
  })

  test('text that is not YAML or expands without limit is one fault', () => {
    expect(faultsOf('a: [')).toContain('YAML')
    const bomb = [
      'a: &a [x, x]',
      ...'bcdefghijk'
        .split('')
        .map((key, i) => `${key}: &${key} [${Array(9).fill(`*${'abcdefghijk'[i]}`)}]`),
    ]
    expect(faultsOf(bomb.join('\n'))).toEqual(['YAML'])
  })
})

describe('the clusterCIDR inferred from the nodes', () => {
  const objects = (podCIDRs: string[][]): ClusterObjects => ({
    nodes: podCIDRs.map((ranges, index) => ({
      name: `n${index}`,
      labels: {},
      internalIPs: [],
      externalIPs: [],
      podCIDRs: ranges,
    })),
    services: [],
    endpointSlices: [],
    serviceCIDRs: [],
  })
  test.each([
    [[['10.244.0.0/24'], ['10.244.2.0/24']], '10.244.0.0/16'],
    [[['10.8.0.0/24'], ['10.9.7.0/24']], '10.8.0.0/15'],
    [
      [
        ['10.1.0.0/24', 'fd00:10:244:1::/64'],
        ['10.1.1.0/24', 'fd00:10:244:2::/64'],
      ],
      '10.1.0.0/16,fd00:10:244::/56',
    ],
    [[['10.0.0.0/8']], '10.0.0.0/8'],
    [[[]], ''],
  ])('%j: %s', (ranges, expected) => expect(likelyClusterCIDR(objects(ranges))).toBe(expected))
})

test.each(['[', '{a: ', '- ', '? '])(
  'a configuration that is nested 50,000 times by "%s" is refused before it is composed',
  (level) => {
    expect(() => parseKubeProxyConfiguration(level.repeat(50_000))).toThrow(
      'nested more than 100 levels deep',
    )
  },
)
