import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { $ } from '../../host/command.ts'
import { projectRoot } from '../../host/layout.ts'
import type { Progress } from '../../host/progress.ts'
import { type EngineName, engineReason, heldReference } from './engine.ts'

/** What `make node-image` bakes into the image, as packages of the node's own distribution. */
const bakedPackages = ['ipset', 'ipvsadm'] as const

/** A baked image names the image it was made from, so that one of an older kind.yaml is not taken for the present one. */
const baseLabel = 'kube-service-labs.base'
const bakedRepository = 'kube-service-labs/node'

/** The node image that kind.yaml pins. */
export function pinnedImage(): string {
  const config = parse(readFileSync(join(projectRoot, 'kind.yaml'), 'utf8')) as { nodes: { image: string }[] }
  return config.nodes[0]?.image ?? ''
}

/** The name of the image that is baked from another: its repository is ours, its tag the other's. */
export function bakedName(base: string): string {
  const [bare = ''] = base.split('@')
  const tag = /:([^:/]+)$/.exec(bare)?.[1] ?? 'latest'
  return `${bakedRepository}:${tag}`
}

/**
 * The image that a new cluster's nodes run: `IMAGE`, else the one that `make node-image` baked from the pinned one, else that,
 * by the name that the engine holds it under.
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
 * Bakes ipset and ipvsadm into a node image, once, where the network allows; clusters made from it need no network for
 * `make tools`. Returns the new image's name.
 * @throws Error with the engine's last word when the image can't be built
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
