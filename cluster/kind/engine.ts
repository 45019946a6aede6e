import { $ } from '../../host/command.ts'
import { timeoutScale } from '../../host/wait.ts'
import type { EngineFacts } from '../doctor/facts.ts'

export type EngineName = 'docker' | 'podman'

/** Timeout for testing whether an engine or a registry responds. */
const answerMs = 10_000

/** Runs a command of the engine for its output, on a busy machine up to LAB_TIMEOUT_SCALE times as long; no exit code throws. */
export const engineCommand = (timeoutMs: number) =>
  $({ quiet: true, nothrow: true, timeout: timeoutMs * timeoutScale(), stdio: ['ignore', 'pipe', 'pipe'] })

/**
 * The reason in an engine's error output: not simply the last line, which may only refer to its help, and without the
 * program's name.
 */
export function engineReason(stderr: string): string {
  const lines = stderr
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !/^(Run '.* --help' for more information|See '.* --help')/.test(line))
  const reason =
    lines.findLast((line) => /^(\w+: )?(Error|ERROR|E:|error)\b/.test(line)) ?? lines.at(-1) ?? 'no reason was given'
  return reason.replace(/^(docker|podman): /, '').replace(/\.+$/, '')
}

/** The container engine that responds here: Docker before Podman; the client alone is not enough. */
export async function containerEngine(): Promise<EngineName | undefined> {
  const commands: [EngineName, string][] = [
    ['docker', '{{.ServerVersion}}'],
    ['podman', '{{.Version.Version}}'],
  ]
  for (const [engine, format] of commands) {
    const { exitCode, stdout } = await engineCommand(answerMs)`${engine} info --format ${format}`
    // A Docker client without a server may print an empty version and still exit with 0.
    if (exitCode === 0 && stdout.trim() !== '') return engine
  }
  return undefined
}

/** What is used of the output of `docker info`. */
interface DockerInfo {
  ServerVersion?: string
  OperatingSystem?: string
  Name?: string
  KernelVersion?: string
  CgroupVersion?: string
  SecurityOptions?: string[] | null
  MemTotal?: number
  NCPU?: number
}

/** What is used of the output of `podman info`. */
interface PodmanInfo {
  host?: {
    kernel?: string
    hostname?: string
    cgroupVersion?: string
    memTotal?: number
    cpus?: number
    distribution?: { distribution?: string }
    security?: { rootless?: boolean }
  }
  version?: { Version?: string }
}

/** Reads what `docker info` or `podman info` print as JSON; what is missing is empty. */
export function readEngineInfo(name: EngineName, json: DockerInfo & PodmanInfo): EngineFacts {
  if (name === 'docker')
    return {
      name,
      version: json.ServerVersion ?? '',
      operatingSystem: json.OperatingSystem ?? '',
      machine: json.Name ?? '',
      kernel: json.KernelVersion ?? '',
      cgroupVersion: json.CgroupVersion ?? '1',
      rootless: json.SecurityOptions?.some((one) => one.includes('rootless')) ?? false,
      memory: json.MemTotal ?? 0,
      cpus: json.NCPU ?? 0,
    }
  const { host = {}, version = {} } = json
  return {
    name,
    version: version.Version ?? '',
    operatingSystem: host.distribution?.distribution ?? '',
    machine: host.hostname ?? '',
    kernel: host.kernel ?? '',
    cgroupVersion: host.cgroupVersion?.replace(/^v/, '') ?? '',
    rootless: host.security?.rootless ?? false,
    memory: host.memTotal ?? 0,
    cpus: host.cpus ?? 0,
  }
}

/** An engine's own description; empty if it does not print one as JSON. */
export async function engineInfo(name: EngineName): Promise<EngineFacts> {
  const format = name === 'docker' ? '{{json .}}' : 'json'
  const { stdout } = await engineCommand(answerMs)`${name} info --format ${format}`
  try {
    return readEngineInfo(name, JSON.parse(stdout))
  } catch {
    return { ...readEngineInfo(name, {}), cgroupVersion: '' }
  }
}

/** The full name of an image: Podman prompts for the registry when none is named, while kind uses Docker's. */
export function fullImageName(engine: EngineName, image: string): string {
  const [first = ''] = image.split('/')
  const namesRegistry = image.includes('/') && (/[.:]/.test(first) || first === 'localhost')
  return engine === 'podman' && !namesRegistry ? `docker.io/${image.includes('/') ? '' : 'library/'}${image}` : image
}

/**
 * The name of an image in the engine's store: the reference itself, or without its digest, which `docker save` and `docker
 * load` lose. Undefined if the engine does not have it.
 */
export async function heldReference(engine: EngineName, image: string): Promise<string | undefined> {
  const [withoutDigest = image] = image.split('@sha256:')
  for (const name of new Set([
    image,
    fullImageName(engine, image),
    withoutDigest,
    fullImageName(engine, withoutDigest),
  ]))
    if ((await engineCommand(answerMs)`${engine} image inspect ${name}`).exitCode === 0) return name
  return undefined
}

/** True when the engine has this image. */
export async function hasImage(engine: EngineName, image: string): Promise<boolean> {
  return (await heldReference(engine, image)) !== undefined
}

/** True when the image's registry lists it within 10 seconds. Nothing is fetched. */
export async function registryHas(engine: EngineName, image: string): Promise<boolean> {
  return (await engineCommand(answerMs)`${engine} manifest inspect ${fullImageName(engine, image)}`).exitCode === 0
}
