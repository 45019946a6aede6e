import type { Facts, KindFacts } from '../../cluster/doctor/facts.ts'
import { type KernelFacts, schedulers } from '../../cluster/doctor/kernel-probe.ts'
import type { EngineFacts } from '../../cluster/kind/engine.ts'

// The facts of a machine that can run everything.

export const gigabyte = 1024 ** 3
export const kernel: KernelFacts = {
  release: '6.1.0-18-amd64',
  ipvs: true,
  schedulers: [...schedulers],
  ipset: true,
  dummy: true,
  extensions: [
    'comment',
    'conntrack',
    'addrtype',
    'mark',
    'MARK',
    'statistic',
    'recent',
    'MASQUERADE',
  ],
  natLegacy: true,
  natNft: true,
  nodeBackend: 'nft',
  inotifyInstances: 1024,
  inotifyWatches: 524_288,
  freeDisk: 50 * gigabyte,
}
export const engine: EngineFacts = {
  name: 'docker',
  version: '28.2.2',
  operatingSystem: 'Debian GNU/Linux 12 (bookworm)',
  machine: 'laptop',
  kernel: '6.1.0-18-amd64',
  cgroupVersion: '2',
  rootless: false,
  memory: 16 * gigabyte,
  cpus: 4,
}
export const kind: KindFacts = {
  engine,
  image: { reference: 'kindest/node:v1.34.11@sha256:44', isPresent: true, registry: true },
  binary: { path: '/usr/bin/kind', release: 'v0.33.0' },
  cached: false,
  kernel,
  kernelTrouble: undefined,
}
export const facts: Facts = {
  host: {
    system: 'Debian GNU/Linux 12 (bookworm) on x64',
    nodeVersion: 'v20.20.2',
    platform: 'linux',
    wsl: false,
    freeMemory: 8 * gigabyte,
    freeDisk: 50 * gigabyte,
    kubectl: '/usr/bin/kubectl',
  },
  kind,
  embedded: {
    trouble: undefined,
    cached: true,
    confinement: { files: 'landlock', signals: 'landlock', systemCalls: true },
    kernel: undefined,
  },
}
