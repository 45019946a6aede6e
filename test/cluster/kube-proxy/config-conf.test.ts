import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { ConfigConfError, readMode, writeMode } from '../../../dataplane/kube-proxy/config-conf.ts'

const kubeadm = `# learner's own note
apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
ipvs:
  excludeCIDRs: null
  scheduler: ""   # round robin
  strictARP: false
kind: KubeProxyConfiguration
mode: ""  # which proxier
nodePortAddresses: null
`

test('mode and scheduler are replaced in place, all other bytes are unchanged', () => {
  const changed = writeMode(kubeadm, { mode: 'ipvs', scheduler: 'wrr' })
  expect(changed).toBe(
    kubeadm.replace('mode: ""', 'mode: ipvs').replace('scheduler: ""', 'scheduler: wrr'),
  )
  expect(readMode(changed)).toEqual({ mode: 'ipvs', scheduler: 'wrr' })
})

test('without a scheduler that line is not touched, and writing twice changes nothing', () => {
  const once = writeMode(kubeadm, { mode: 'ipvs' })
  expect(once).toBe(kubeadm.replace('mode: ""', 'mode: ipvs'))
  expect(writeMode(once, { mode: 'ipvs' })).toBe(once)
  expect(writeMode(once, { mode: 'iptables' })).toBe(kubeadm.replace('mode: ""', 'mode: iptables'))
})

describe.each([
  ['no mode at all', 'kind: KubeProxyConfiguration\nipvs:\n  strictARP: true\n'],
  ['an empty mode', 'mode:\nipvs:\n    strictARP: true\n'],
  ['mode: null', 'mode: null\nipvs: {strictARP: true}\n'],
  ['an empty section', 'mode: "iptables"\nipvs: {}\n'],
  ['a section without a value', "ipvs:\nmode: 'iptables' # old\n"],
  ['ipvs: null, and no newline at the end', 'ipvs: null\nmode: iptables'],
  [
    'Windows line ends',
    'mode: iptables\r\nipvs:\r\n  scheduler: rr\r\nkind: KubeProxyConfiguration\r\n',
  ],
])('%s', (_title, text) => {
  test('takes both values and keeps the rest', () => {
    const changed = writeMode(text, { mode: 'ipvs', scheduler: 'sh' })
    expect(readMode(changed)).toEqual({ mode: 'ipvs', scheduler: 'sh' })
    const before = parse(text)
    expect(parse(changed)).toEqual({
      ...before,
      mode: 'ipvs',
      ipvs: { ...before.ipvs, scheduler: 'sh' },
    })
    expect(changed.match(/#.*/g)).toEqual(text.match(/#.*/g))
  })
})

test.each([
  ['a: [', /not YAML/],
  ['- a\n', /not a mapping/],
  ['ipvs: rr\nmode: ipvs\n', /"ipvs".*not a section/],
])('%j is refused in a sentence', (text, message) => {
  expect(() => writeMode(text, { mode: 'ipvs', scheduler: 'rr' })).toThrow(ConfigConfError)
  expect(() => writeMode(text, { mode: 'ipvs', scheduler: 'rr' })).toThrow(message)
})
