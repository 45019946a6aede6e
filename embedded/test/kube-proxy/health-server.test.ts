import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { parseKubeProxyConfiguration } from '../../../dataplane/kube-proxy/config.ts'
import { GuestNode } from '../../kube-proxy/guest-node.ts'
import { HealthServer } from '../../kube-proxy/health-server.ts'
import type { Settings } from '../../kube-proxy/settings.ts'
import type { GuestProcess, Machine } from '../../machine/machine.ts'

const settings: Settings = {
  config: parseKubeProxyConfiguration(''),
  mode: 'iptables',
  syncPeriodMs: 30_000,
  minSyncPeriodMs: 0,
  sysctls: [],
  healthzPort: 10_256,
  metricsPort: 10_249,
}
const check = { port: 30_000, namespace: 'default', name: 'web', localEndpoints: 1 }

test('a configuration that could not be loaded is loaded by the next sync', async () => {
  const files: string[] = []
  let reloads = 0
  let late = false
  const output = new PassThrough()
  const nginx: Partial<GuestProcess> = {
    stdout: output,
    stderr: output,
    exited: new Promise(() => {}),
  }
  const machine: Partial<Machine> = {
    async write(written) {
      files.push(...written.map(({ content }) => String(content)))
    },
    async script() {
      if (late) throw new Error('a script did not end')
      reloads++
      return { exitCode: 0, stdout: '', stderr: '' }
    },
    spawn: async () => nginx as GuestProcess,
  }
  const server = new HealthServer(new GuestNode(machine as Machine, {}))
  await server.serve(settings, [])
  late = true
  await expect(server.serve(settings, [check])).rejects.toThrow('a script did not end')
  late = false
  await server.serve(settings, [check])
  await server.serve(settings, [check])
  expect(reloads).toBe(1)
  expect(files.at(-1)).toContain('listen 30000;')
  expect(files).toHaveLength(3)
})
