import { describe, expect, test } from 'vitest'
import { readCapturedNode } from '../../../dataplane/capture.ts'
import { observedOptions } from '../../../dataplane/kube-proxy/circumstances.ts'
import { clusterConfig, defaultConfig } from '../../../dataplane/kube-proxy/config.ts'
import { differencesOn } from '../../../dataplane/node-differences.ts'
import { readObjects } from '../../../dataplane/objects.ts'
import { unpackedRecording } from '../recorded-archive.ts'
import { NODE, recordedConfig } from '../recordings.ts'

const archive = unpackedRecording('nfacct')
const recorded = [...archive.keys()]
  .filter((path) => path.endsWith('/ip-addr.json'))
  .map((path) => path.split('/'))
const objectsOf = (scenario = '') =>
  readObjects(JSON.parse(archive.get(`objects/${scenario}.json`) ?? '')).objects

function filesOf(folder: readonly string[]): Map<string, string> {
  const prefix = `${folder.join('/')}/`
  const own = [...archive].filter(([path]) => path.startsWith(prefix))
  return new Map(own.map(([path, text]) => [path.slice(prefix.length), text]))
}

function differences(folder: readonly string[], files = filesOf(folder)) {
  const [version = '', , scenario] = folder
  const objects = objectsOf(scenario)
  const config = objects.kubeProxyConfigMap ? clusterConfig(objects) : recordedConfig()
  const { state, faults } = readCapturedNode(files)
  expect(faults).toEqual([])
  const options = observedOptions(objects, state, { node: NODE, mode: 'iptables', version, config })
  return {
    options,
    texts: differencesOn(objects, state, options, true).differences.map(({ text }) => text),
  }
}

describe('kube-proxies on a kernel with nfnetlink_acct', () => {
  test('every recording of nfacct is read: four versions, five scenarios', () => {
    expect(recorded).toHaveLength(20)
  })

  test.each(recorded.map((path) => path.slice(0, -1)))(
    '%s %s %s equals the prediction in both families',
    (...folder) => {
      const { options, texts } = differences(folder)
      expect(options.ip6tables).toBe(true)
      expect(texts).toEqual([])
    },
  )

  test('a counter that the rules of one family have lost is found', () => {
    const folder = ['v1.34.2', 'iptables', 'web-nodeport-local']
    for (const file of ['iptables-save', 'ip6tables-save']) {
      const files = filesOf(folder)
      const before = files.get(file) ?? ''
      const after = before.replace(/ -m nfacct --nfacct-name +ct_state_invalid_dropped_pkts/, '')
      expect(after).not.toBe(before)
      expect(differences(folder, files.set(file, after)).texts).toEqual([
        expect.stringMatching(/KUBE-FORWARD: rule is .* not .*--nfacct-name/),
      ])
    }
  })
})

test('the IPv6 rules are compared only if kube-proxy serves both families and has written them', () => {
  const folder = ['v1.34.2', 'iptables', 'web-lb']
  const objects = objectsOf('web-lb')
  const known = { node: NODE, mode: 'iptables', config: defaultConfig() } as const
  const { state } = readCapturedNode(filesOf(folder))
  expect(observedOptions(objects, state, { ...known, version: '1.34' }).ip6tables).toBe(true)
  // Without its feature gate 1.20 serves one family.
  expect(observedOptions(objects, state, { ...known, version: '1.20' }).ip6tables).toBe(false)
  const kubelet = filesOf(folder).set(
    'ip6tables-save',
    '*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n',
  )
  expect(
    observedOptions(objects, readCapturedNode(kubelet).state, { ...known, version: '1.34' })
      .ip6tables,
  ).toBe(false)
})
