import { expect, test } from 'vitest'
import { createClusterApi } from '../../apiserver/api.ts'
import type { Event } from '../../controllers/resources.ts'
import { startKubelets } from '../../kubelet/kubelets.ts'
import type { Pod } from '../../kubelet/objects.ts'
import type { Machine } from '../../machine/machine.ts'
import { Network, podLink } from '../../network/topology.ts'
import { nodes, worker } from './guest-cluster.ts'

const [, node] = nodes
if (!node) throw new Error('there is no worker')
/** The addresses of a node's Pods. */
const addresses = 253

/** A machine on which scripts end with this exit code. */
const machineWith = (exitCode: number) =>
  ({
    write: async () => {},
    script: async () => ({ exitCode, stdout: '', stderr: 'File exists' }),
  }) as Partial<Machine> as Machine

const networkWith = (exitCode: number) =>
  new Network(machineWith(exitCode), nodes, new Map(nodes.map(({ name }, index) => [name, index])))

test('a node has an address for each of 253 Pods, and one that is removed frees its own', async () => {
  const network = networkWith(0)
  const attached = Array.from({ length: addresses }, (_, index) =>
    network.attach(podLink(node, `${index}`)),
  )
  expect(new Set(await Promise.all(attached)).size).toBe(addresses)
  await expect(network.attach(podLink(node, 'more'))).rejects.toThrow(
    'no IP addresses available in range set',
  )
  await network.detach(podLink(node, '7'), '10.244.1.9')
  expect(await network.attach(podLink(node, 'more'))).toBe('10.244.1.9')
})

test('a Pod whose network could not be made keeps no address', async () => {
  const network = networkWith(1)
  for (let count = 0; count <= addresses; count++)
    await expect(network.attach(podLink(node, `${count}`))).rejects.toThrow('File exists')
})

test('Pods that wait for a volume keep no address', async () => {
  const api = createClusterApi()
  const kubelets = await startKubelets(machineWith(0), networkWith(0), api)
  const volumes = [{ name: 'missing', configMap: { name: 'missing' } }]
  const names = Array.from({ length: addresses }, (_, index) => `waiting-${index}`)
  const create = (name: string, spec: object) =>
    api.create('pods', 'default', {
      metadata: { name },
      spec: { nodeName: worker, containers: [{ name: 'main', image: 'nosuch' }], ...spec },
    })
  for (const name of names) create(name, { volumes })
  create('last', {})
  await expect
    .poll(() => api.get<Pod>('pods', 'default', 'last')?.status?.podIP)
    .toMatch(/^10\.244\.1\./)
  const failed = api.list<Event>('events').filter(({ reason }) => reason === 'FailedMount')
  expect(failed).toHaveLength(addresses)
  for (const name of names) api.delete('pods', 'default', name, { gracePeriodSeconds: 0 })
  await kubelets.stop()
})
