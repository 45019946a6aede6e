import { expect, test } from 'vitest'
import { toSliceV1beta1 } from '../../apiserver/served.ts'

test('v1beta1 names the node of an endpoint in its topology, and leaves all else', () => {
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    addressType: 'IPv4',
    ports: [{ port: 80 }],
    endpoints: [{ addresses: ['10.244.1.2'], nodeName: 'k8s-guide-worker' }, { addresses: ['10.244.1.3'] }],
  }
  expect(toSliceV1beta1(slice)).toEqual({
    ...slice,
    apiVersion: 'discovery.k8s.io/v1beta1',
    endpoints: [
      {
        addresses: ['10.244.1.2'],
        nodeName: 'k8s-guide-worker',
        topology: { 'kubernetes.io/hostname': 'k8s-guide-worker' },
      },
      { addresses: ['10.244.1.3'] },
    ],
  })
})
