import { $ } from 'zx'

export type EngineName = 'docker' | 'podman'

/** The container engine that answers here: Docker before Podman; the client alone is not enough. */
export async function containerEngine(): Promise<EngineName | undefined> {
  const asks: [EngineName, string][] = [
    ['docker', '{{.ServerVersion}}'],
    ['podman', '{{.Version.Version}}'],
  ]
  for (const [engine, format] of asks) {
    const { exitCode } = await $({ quiet: true, nothrow: true, timeout: 10_000 })`${engine} info --format ${format}`
    if (exitCode === 0) return engine
  }
  return undefined
}

/** True when the engine holds this image, or can fetch it. */
export async function imageReachable(engine: EngineName, image: string): Promise<boolean> {
  const run = $({ quiet: true, nothrow: true, timeout: 600_000, stdio: ['ignore', 'ignore', 'ignore'] })
  const held = await run`${engine} image inspect ${image}`
  if (held.exitCode === 0) return true
  return (await run`${engine} pull ${image}`).exitCode === 0
}
