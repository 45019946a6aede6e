import { afterAll, beforeAll, expect, test } from 'vitest'
import { ModeUnsupported, requireModules } from '../../../cluster/kube-proxy/module-check.ts'
import { writeMode } from '../../../dataplane/kube-proxy/config-conf.ts'
import { ThreeNodes, worker, worker2 } from './three-nodes.ts'

let nodes: ThreeNodes
beforeAll(async () => {
  nodes = await ThreeNodes.start()
})
afterAll(async () => {
  await nodes?.stopProxies()
  await nodes?.stop()
})

const forbid = { path: '/etc/modprobe.d/no-ipvs.conf', content: 'install ip_vs /bin/false\n' }

test('a kernel that cannot load ip_vs is reported for every node before anything is changed', async () => {
  await nodes.machine.write([forbid])
  const asked = requireModules(nodes.cluster(), [worker, worker2], 'ipvs', 'rr')
  await expect(asked).rejects.toThrow(ModeUnsupported)
  await expect(asked).rejects.toThrow(
    `nothing was changed: the kernel of ${worker} and ${worker2} has no IPVS (module ip_vs).`,
  )
  await expect(requireModules(nodes.cluster(), [worker], 'iptables', 'rr')).resolves.toBeUndefined()
})

test("kube-proxy in IPVS mode ends there with kube-proxy's message, and no port is open", async () => {
  nodes.configure((text) => writeMode(text, { mode: 'ipvs' }))
  const { container, log } = nodes.startProxy(worker)
  expect(await container.exited).toBe(1)
  expect(log.at(-1)).toContain(`"command failed" err="can't use the IPVS proxier: Ipvs not supported by the kernel"`)
  expect(await nodes.sh(worker, 'ss -ltnH')).toBe('')
})

test('with the module, a scheduler of the kernel is accepted and an unknown one is refused', async () => {
  await nodes.machine.write([{ ...forbid, content: '' }])
  await expect(requireModules(nodes.cluster(), [worker], 'ipvs', 'wrr')).resolves.toBeUndefined()
  await expect(requireModules(nodes.cluster(), [worker], 'ipvs', 'foo')).rejects.toThrow(/no IPVS scheduler "foo"/)
  expect((await nodes.state(worker)).virtualServers).toEqual([])
})
