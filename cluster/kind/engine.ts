import { $ } from '../../host/command.ts'

export type EngineName = 'docker' | 'podman'

/** Longer than this no engine and no registry is waited for when it is only asked whether it is there. */
const answerMs = 10_000

/**
 * Why an engine refused, by what it printed: not its last line, which may only point to its help, and without what it calls
 * itself before the reason.
 */
export function engineReason(stderr: string): string {
  const lines = stderr
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !/^(Run '.* --help' for more information|See '.* --help')/.test(line))
  const told =
    lines.findLast((line) => /^(\w+: )?(Error|ERROR|E:|error)\b/.test(line)) ?? lines.at(-1) ?? 'no reason was given'
  return told.replace(/^(docker|podman): /, '').replace(/\.+$/, '')
}

/** The container engine that answers here: Docker before Podman; the client alone is not enough. */
export async function containerEngine(): Promise<EngineName | undefined> {
  const asks: [EngineName, string][] = [
    ['docker', '{{.ServerVersion}}'],
    ['podman', '{{.Version.Version}}'],
  ]
  for (const [engine, format] of asks) {
    const { exitCode, stdout } = await asked(answerMs)`${engine} info --format ${format}`
    // A Docker client without a server may print an empty version and yet end well.
    if (exitCode === 0 && stdout.trim() !== '') return engine
  }
  return undefined
}

/** A command that is asked for its answer only; zx ends it when the time is up, and no exit code is thrown. */
const asked = (timeout: number) => $({ quiet: true, nothrow: true, timeout, stdio: ['ignore', 'pipe', 'pipe'] })

/** The full name of an image: Podman asks which registry is meant when none is named, and kind then means Docker's. */
export function fullImageName(engine: EngineName, image: string): string {
  const [first = ''] = image.split('/')
  const namesRegistry = image.includes('/') && (/[.:]/.test(first) || first === 'localhost')
  return engine === 'podman' && !namesRegistry ? `docker.io/${image.includes('/') ? '' : 'library/'}${image}` : image
}

/**
 * The name by which the engine holds an image: the reference itself, or without its digest, which an image loses on its way
 * through `docker save` and `docker load`. Undefined when it is not here.
 */
export async function heldReference(engine: EngineName, image: string): Promise<string | undefined> {
  const [withoutDigest = image] = image.split('@sha256:')
  for (const name of new Set([
    image,
    fullImageName(engine, image),
    withoutDigest,
    fullImageName(engine, withoutDigest),
  ]))
    if ((await asked(answerMs)`${engine} image inspect ${name}`).exitCode === 0) return name
  return undefined
}

/** True when the engine holds this image. */
export async function hasImage(engine: EngineName, image: string): Promise<boolean> {
  return (await heldReference(engine, image)) !== undefined
}

/** True when the image's registry answers for it within some seconds. Nothing is fetched. */
export async function registryHas(engine: EngineName, image: string): Promise<boolean> {
  return (await asked(answerMs)`${engine} manifest inspect ${fullImageName(engine, image)}`).exitCode === 0
}
