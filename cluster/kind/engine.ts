import { $ } from '../../host/command.ts'
import { scaledMs } from '../../host/wait.ts'

export type EngineName = 'docker' | 'podman'

/** Timeout for testing whether an engine or a registry responds. */
const answerMs = 10_000
/** Timeout of other commands that fetch and build nothing. */
const commandMs = 60_000

/**
 * Runs a command of the engine for its output, on a busy machine up to LAB_TIMEOUT_SCALE times as
 * long; no exit code throws.
 */
export const engineCommand = (timeoutMs = commandMs) =>
  $({
    quiet: true,
    nothrow: true,
    timeout: scaledMs(timeoutMs),
    stdio: ['ignore', 'pipe', 'pipe'],
  })

/**
 * The reason in an engine's error output: not simply the last line, which may only refer to its
 * help, and without the program's name.
 */
export function engineReason(stderr: string): string {
  const lines = stderr
    .split('\n')
    .map((line) => line.trim())
    .filter(
      (line) =>
        line !== '' && !/^(Run '.* --help' for more information|See '.* --help')/.test(line),
    )
  const reason =
    lines.findLast((line) => /^(\w+: )?(Error|ERROR|E:|error)\b/.test(line)) ??
    lines.at(-1) ??
    'no reason was given'
  return reason.replace(/^(docker|podman): /, '').replace(/\.+$/, '')
}

/**
 * The container engine that responds here: Docker before Podman; the client alone is not enough.
 */
export async function containerEngine(): Promise<EngineName | undefined> {
  const commands = { docker: '{{.ServerVersion}}', podman: '{{.Version.Version}}' }
  for (const [engine, format] of Object.entries(commands) as [EngineName, string][]) {
    const { exitCode, stdout } = await engineCommand(answerMs)`${engine} info --format ${format}`
    // A Docker client without a server may print an empty version and still exit with 0.
    if (exitCode === 0 && stdout.trim() !== '') return engine
  }
  return undefined
}

/** Where `docker info` and `podman info` have each fact in their JSON. */
const INFO = {
  docker: {
    version: 'ServerVersion',
    operatingSystem: 'OperatingSystem',
    machine: 'Name',
    kernel: 'KernelVersion',
    cgroupVersion: 'CgroupVersion',
    rootless: 'SecurityOptions',
    memory: 'MemTotal',
    cpus: 'NCPU',
  },
  podman: {
    version: 'version.Version',
    operatingSystem: 'host.distribution.distribution',
    machine: 'host.hostname',
    kernel: 'host.kernel',
    cgroupVersion: 'host.cgroupVersion',
    rootless: 'host.security.rootless',
    memory: 'host.memTotal',
    cpus: 'host.cpus',
  },
}

/**
 * What `docker info` or `podman info`, as JSON, tells of an engine and of the machine it runs on,
 * which may be a virtual one; what is missing is empty, or 0.
 */
export function readEngineInfo(name: EngineName, json: unknown) {
  const text = (fact: keyof typeof INFO.docker) => {
    const inside = (value: unknown, key: string) =>
      value instanceof Object ? Reflect.get(value, key) : undefined
    return String(INFO[name][fact].split('.').reduce(inside, json) ?? '')
  }
  return {
    name,
    version: text('version'),
    /** "Docker Desktop", "Debian GNU/Linux 12 (bookworm)", "fedora" … */
    operatingSystem: text('operatingSystem'),
    /** Its host name distinguishes Colima from Podman machines. */
    machine: text('machine'),
    kernel: text('kernel'),
    cgroupVersion: text('cgroupVersion').replace(/^v/, ''),
    // One of Docker's options, or Podman's yes or no.
    rootless: /rootless|true/.test(text('rootless')),
    memory: Number(text('memory')),
    cpus: Number(text('cpus')),
  }
}

export type EngineFacts = ReturnType<typeof readEngineInfo>

/** An engine's own description; empty if it does not print one as JSON. */
export async function engineInfo(name: EngineName): Promise<EngineFacts> {
  const format = name === 'docker' ? '{{json .}}' : 'json'
  const { stdout } = await engineCommand(answerMs)`${name} info --format ${format}`
  try {
    return readEngineInfo(name, JSON.parse(stdout))
  } catch {
    return readEngineInfo(name, undefined)
  }
}

/**
 * The full name of an image: Podman prompts for the registry when none is named, while kind uses
 * Docker's.
 */
export function fullImageName(engine: EngineName, image: string): string {
  const [first = ''] = image.split('/')
  const namesRegistry = image.includes('/') && (/[.:]/.test(first) || first === 'localhost')
  return engine === 'podman' && !namesRegistry
    ? `docker.io/${image.includes('/') ? '' : 'library/'}${image}`
    : image
}

/**
 * The name of an image in the engine's store: the reference itself, or without its digest, which
 * `docker save` and `docker load` lose. Undefined if the engine does not have it.
 */
export async function storedReference(
  engine: EngineName,
  image: string,
): Promise<string | undefined> {
  const [withoutDigest = image] = image.split('@sha256:')
  for (const name of new Set(
    [image, withoutDigest].flatMap((one) => [one, fullImageName(engine, one)]),
  ))
    if ((await engineCommand(answerMs)`${engine} image inspect ${name}`).exitCode === 0) return name
  return undefined
}

/** True when the engine has this image. */
export async function hasImage(engine: EngineName, image: string): Promise<boolean> {
  return (await storedReference(engine, image)) !== undefined
}

/** True when the image's registry lists it within 10 seconds. Nothing is fetched. */
export async function registryHas(engine: EngineName, image: string): Promise<boolean> {
  return (
    (await engineCommand(answerMs)`${engine} manifest inspect ${fullImageName(engine, image)}`)
      .exitCode === 0
  )
}
