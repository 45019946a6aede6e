// Which image `make ipvs KUBE_PROXY_VERSION=…` gives kube-proxy's DaemonSet, and when it must not.

import type { V1DaemonSet } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import {
  chooseImage,
  type ImageChoice,
  isForeignImage,
  ownImageAnnotation,
} from '../../../cluster/kube-proxy/rollout.ts'
import { genuineAnnotation } from '../../../embedded/index.ts'
import { LIKE_EMBEDDED, madeCluster } from '../made-cluster.ts'

const OWN = 'registry.example:5000/kube-proxy:v1.34.11'
const OLD = 'registry.example:5000/kube-proxy:v1.20.0'

const embedded = madeCluster({ capabilities: LIKE_EMBEDDED })

function daemonSet(image: string, annotations: Record<string, string> = {}): V1DaemonSet {
  const containers = [
    { name: 'sidecar', image: 'sidecar:v1' },
    { name: 'kube-proxy', image },
  ]
  const selector = { matchLabels: {} }
  return { metadata: { annotations }, spec: { selector, template: { spec: { containers } } } }
}

const away = daemonSet(OLD, { [ownImageAnnotation]: OWN })

test.each<[string, V1DaemonSet, string, ImageChoice | undefined]>([
  [
    'a minor version begins with its first release',
    daemonSet(OWN),
    '1.20',
    { image: OLD, own: OWN },
  ],
  ['with or without v', daemonSet(OWN), 'v1.20', { image: OLD, own: OWN }],
  [
    'a patch level is taken as it is',
    daemonSet(OWN),
    '1.25.16',
    { image: 'registry.example:5000/kube-proxy:v1.25.16', own: OWN },
  ],
  ['the own minor version is the own image', daemonSet(OWN), '1.34', undefined],
  ['own is what runs already', daemonSet(OWN), 'own', undefined],
  ['the way back is remembered', away, 'own', { image: OWN, own: null }],
  ['and found by its number, too', away, 'v1.34', { image: OWN, own: null }],
  ['what runs already is no change', away, '1.20', undefined],
  [
    'from one foreign version to the next the own one stays the own one',
    away,
    '1.26',
    { image: 'registry.example:5000/kube-proxy:v1.26.0', own: OWN },
  ],
])('%s', (_name, current, version, choice) => {
  expect(chooseImage(embedded, current, version)).toEqual(choice)
})

test("a DaemonSet shows whether it runs another version than the cluster's own", () => {
  expect([isForeignImage(daemonSet(OWN)), isForeignImage(away)]).toEqual([false, true])
})

test.each(['1.19', '2.0', 'latest', '1.20; rm', 'nine'])('%s is no version', (version) => {
  expect(() => chooseImage(embedded, daemonSet(OWN), version)).toThrow(
    `"${version}" is not modelled`,
  )
})

test('only the embedded cluster runs another version than its own, and only with our kube-proxy', () => {
  {
    const other = madeCluster()
    expect(() => chooseImage(other, daemonSet(OWN), '1.20')).toThrow('needs the embedded cluster')
    expect(chooseImage(other, daemonSet(OWN), 'own')).toBeUndefined()
  }
  const genuine = daemonSet(OWN, { [genuineAnnotation]: 'true' })
  expect(() => chooseImage(embedded, genuine, '1.20')).toThrow('KUBE_PROXY=')
  expect(chooseImage(embedded, genuine, 'own')).toBeUndefined()
})
