import { z } from 'zod'
import { $ } from '../../host/command.ts'
import type { EngineName } from '../kind/engine.ts'
import type { EngineFacts } from './facts.ts'

const DockerInfo = z.object({
  ServerVersion: z.string().default(''),
  OperatingSystem: z.string().default(''),
  Name: z.string().default(''),
  KernelVersion: z.string().default(''),
  CgroupVersion: z.string().default('1'),
  SecurityOptions: z.array(z.string()).nullish(),
  MemTotal: z.number().default(0),
  NCPU: z.number().default(0),
})

const PodmanInfo = z.object({
  host: z.object({
    kernel: z.string().default(''),
    hostname: z.string().default(''),
    cgroupVersion: z.string().default(''),
    memTotal: z.number().default(0),
    cpus: z.number().default(0),
    distribution: z
      .object({ distribution: z.string().default('') })
      .partial()
      .default({}),
    security: z
      .object({ rootless: z.boolean().default(false) })
      .partial()
      .default({}),
  }),
  version: z
    .object({ Version: z.string().default('') })
    .partial()
    .default({}),
})

/** Reads what `docker info` or `podman info` print as JSON. Throws ZodError on anything else. */
export function readEngineInfo(name: EngineName, json: unknown): EngineFacts {
  if (name === 'docker') {
    const info = DockerInfo.parse(json)
    return {
      name,
      version: info.ServerVersion,
      operatingSystem: info.OperatingSystem,
      machine: info.Name,
      kernel: info.KernelVersion,
      cgroupVersion: info.CgroupVersion,
      rootless: info.SecurityOptions?.some((one) => one.includes('rootless')) ?? false,
      memory: info.MemTotal,
      cpus: info.NCPU,
    }
  }
  const { host, version } = PodmanInfo.parse(json)
  return {
    name,
    version: version.Version ?? '',
    operatingSystem: host.distribution.distribution ?? '',
    machine: host.hostname,
    kernel: host.kernel,
    cgroupVersion: host.cgroupVersion.replace(/^v/, ''),
    rootless: host.security.rootless ?? false,
    memory: host.memTotal,
    cpus: host.cpus,
  }
}

/** Reads an engine's own description; undefined when it does not respond in a known form. */
export async function engineInfo(name: EngineName): Promise<EngineFacts | undefined> {
  const format = name === 'docker' ? '{{json .}}' : 'json'
  const { exitCode, stdout } = await $({ quiet: true, nothrow: true, timeout: 15_000 })`${name} info --format ${format}`
  if (exitCode !== 0) return undefined
  try {
    return readEngineInfo(name, JSON.parse(stdout))
  } catch {
    return undefined
  }
}
