import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { $ } from '../../host/command.ts'
import { projectRoot } from '../../host/layout.ts'
import type { Progress } from '../../host/progress.ts'
import { type EngineName, engineReason, heldReference } from './engine.ts'

/** The packages that `make node-image` adds to the image, from the node's own distribution. */
const bakedPackages = ['ipset', 'ipvsadm'] as const

/** Label of a baked image with the image it was built from, so that one for an older kind.yaml is not used. */
const baseLabel = 'kube-service-labs.base'
const bakedRepository = 'kube-service-labs/node'

/** The node image that kind.yaml pins. */
export function pinnedImage(): string {
  const config = parse(readFileSync(join(projectRoot, 'kind.yaml'), 'utf8')) as { nodes: { image: string }[] }
  return config.nodes[0]?.image ?? ''
}

/** The name of the image that is baked from another: our repository, with the tag of the base image. */
export function bakedName(base: string): string {
  const [bare = ''] = base.split('@')
  const tag = /:([^:/]+)$/.exec(bare)?.[1] ?? 'latest'
  return `${bakedRepository}:${tag}`
}

/**
 * The image that a new cluster's nodes run: `IMAGE`, else the one that `make node-image` baked from the pinned image, else
 * the pinned image, by its name in the engine's store.
 */
export async function nodeImage(engine: EngineName): Promise<string> {
  if (process.env.IMAGE) return process.env.IMAGE
  const pinned = pinnedImage()
  if (await isBakedFrom(engine, pinned)) return bakedName(pinned)
  return (await heldReference(engine, pinned)) ?? pinned
}

async function isBakedFrom(engine: EngineName, base: string): Promise<boolean> {
  const format = `{{index .Config.Labels "${baseLabel}"}}`
  const run = $({ quiet: true, nothrow: true, stdio: ['ignore', 'pipe', 'ignore'] })
  const { exitCode, stdout } = await run`${engine} image inspect --format ${format} ${bakedName(base)}`
  return exitCode === 0 && stdout.trim() === base
}

/**
 * Builds a node image with ipset and ipvsadm, once, while there is a network; clusters from it need no network for `make
 * tools`. Returns the new image's name.
 * @throws Error with the engine's error when the image can't be built
 */
export async function bakeNodeImage(engine: EngineName, base: string, progress: Progress): Promise<string> {
  const name = bakedName(base)
  const recipe = [
    `FROM ${(await heldReference(engine, base)) ?? base}`,
    `RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy ${bakedPackages.join(' ')} && rm -rf /var/lib/apt/lists/*`,
    `LABEL ${baseLabel}=${base}`,
  ]
  progress.start(`Building the node image ${name} with ${bakedPackages.join(' and ')}`)
  const run = $({ quiet: true, nothrow: true, input: `${recipe.join('\n')}\n` })
  const { exitCode, stderr, stdout } = await run`${engine} build --tag ${name} -`
  progress.end(exitCode === 0)
  if (exitCode === 0) return name
  const reason = `${stdout}\n${stderr}`
    .trim()
    .split('\n')
    .findLast((line) => /^(E: |.*error)/i.test(line))
  throw new Error(
    `The node image could not be built (${reason?.trim() ?? engineReason(stderr)}): check the engine's network and run \`make node-image\` again.`,
  )
}
