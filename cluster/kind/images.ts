import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import { $, type ProcessOutput } from '../../host/command.ts'
import { parseImageReference } from '../../host/image-reference.ts'
import { projectRoot } from '../../host/layout.ts'
import type { Progress } from '../../host/progress.ts'
import { accessImage } from '../context/node-access.ts'
import {
  type EngineName,
  engineCommand,
  engineReason,
  fullImageName,
  hasImage,
  registryHas,
  storedReference,
} from './engine.ts'

/** The packages that `make node-image` adds to the image, from the node's own distribution. */
const bakedPackages = ['ipset', 'ipvsadm'] as const

/**
 * Label of a baked image with the image it was built from, so that one for an older kind.yaml is
 * not used.
 */
const baseLabel = 'kube-service-labs.base'
const bakedRepository = 'kube-service-labs/node'

/** The node image that kind.yaml pins. */
export function pinnedImage(): string {
  const config = parse(readFileSync(join(projectRoot, 'kind.yaml'), 'utf8')) as {
    nodes: { image: string }[]
  }
  return config.nodes[0]?.image ?? ''
}

/**
 * The name of the image that is baked from another: our repository, with the tag of the base image.
 */
export function bakedName(base: string): string {
  return `${bakedRepository}:${parseImageReference(base).tag ?? 'latest'}`
}

/**
 * The image that a new cluster's nodes run: `IMAGE`, else the one that `make node-image` baked from
 * the pinned image, else the pinned image, by its name in the engine's store.
 */
export async function nodeImage(engine: EngineName): Promise<string> {
  if (process.env.IMAGE) return process.env.IMAGE
  const pinned = pinnedImage()
  if (await isBakedFrom(engine, pinned)) return bakedName(pinned)
  return (await storedReference(engine, pinned)) ?? pinned
}

async function isBakedFrom(engine: EngineName, base: string): Promise<boolean> {
  const format = `{{index .Config.Labels "${baseLabel}"}}`
  const { exitCode, stdout } =
    await engineCommand()`${engine} image inspect --format ${format} ${bakedName(base)}`
  return exitCode === 0 && stdout.trim() === base
}

/**
 * Builds a node image with ipset and ipvsadm, once, while there is a network; clusters from it need
 * no network for `make tools`. Returns the new image's name.
 * @throws Error with the engine's error when the image can't be built
 */
export async function bakeNodeImage(
  engine: EngineName,
  base: string,
  progress: Progress,
): Promise<string> {
  const name = bakedName(base)
  const recipe = [
    `FROM ${(await storedReference(engine, base)) ?? base}`,
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

const nginx = 'nginx@sha256:6784fb0834aa7dbbe12e3d7471e69c290df3e6ba810dc38b34ae33d3c1c05f7d' // 1.27.5
const netshoot =
  'nicolaka/netshoot@sha256:a20c2531bf35436ed3766cd6cfe89d352b050ccc4d7005ce6400adf97503da1b' // v0.13
const busybox = 'busybox@sha256:9db7b59979c38555a39def84a31fb98b5296952f9e3afd4f6f11f05b07adfab0' // 1.37.0

/**
 * The image to fetch for each name in the labs' manifests if the engine has no image of that name.
 * Digests of multi-platform indexes.
 */
const PINNED: ReadonlyMap<string, string> = new Map([
  ['nginx:latest', nginx],
  ['nginx:1.27', nginx],
  ['nicolaka/netshoot:latest', netshoot],
  ['busybox:1.37', busybox],
])

/** The images in the Pods of the labs (labs/NN-name/manifests). */
export const podImages: readonly string[] = [
  'nginx:latest',
  'nginx:1.27',
  'nicolaka/netshoot:latest',
]

/** podImages, and the image of the node-access Pods. */
const labImages = (): string[] => [...podImages, withTag(accessImage())]

const pullMs = 600_000

const withTag = (image: string) => (/[:@][^/]*$/.test(image) ? image : `${image}:latest`)

/** The name that containerd gives an image of Docker's registry. */
const nameOnNode = (image: string) => fullImageName('podman', image)

/**
 * Fetches the images of the labs that the engine lacks, by their digest, and gives them the names
 * that the Pods use. When the registry does not respond, the rest is skipped.
 * @returns the images that could not be fetched, and the reason for the first
 */
export async function fetchLabImages(
  engine: EngineName,
  progress: Progress,
  images: readonly string[] = labImages(),
): Promise<{ missing: string[]; reason: string }> {
  const present = await Promise.all(images.map((image) => hasImage(engine, image)))
  const lacking = images.filter((_image, index) => !present[index])
  for (const [index, image] of lacking.entries()) {
    const reference = fullImageName(engine, PINNED.get(image) ?? image)
    if (!(await registryHas(engine, reference)))
      return { missing: lacking.slice(index), reason: 'its registry does not respond' }
    progress.start(`Fetching ${image}`)
    const run = engineCommand(pullMs)
    const pulled = await run`${engine} pull ${reference}`
    const named = pulled.exitCode === 0 && PINNED.has(image)
    const { exitCode, stderr } = named
      ? await run`${engine} tag ${reference} ${fullImageName(engine, image)}`
      : pulled
    progress.end(exitCode === 0)
    if (exitCode !== 0) return { missing: lacking.slice(index), reason: engineReason(stderr) }
  }
  return { missing: [], reason: '' }
}

/** A kind cluster into whose nodes images are loaded. */
export interface ImageTarget {
  engine: EngineName
  name: string
  nodes: readonly string[]
  kind(args: string[]): Promise<ProcessOutput>
}

/**
 * Loads the images of the labs that a node lacks from the engine, which fetches them first if
 * necessary, so that no lab waits for a registry. kind compares by the digest of an image's
 * configuration, so each node runs the same one. Images that can't be fetched are reported; the
 * Pods that need them then try to pull them.
 */
export async function loadLabImages(
  { engine, name, nodes, kind }: ImageTarget,
  progress: Progress,
): Promise<void> {
  const onNodes = await Promise.all(nodes.map((node) => imagesOn(engine, node)))
  const wanted = labImages().filter((image) =>
    onNodes.some((names) => names && !names.has(nameOnNode(image))),
  )
  if (wanted.length === 0) return
  const { missing, reason } = await fetchLabImages(engine, progress, wanted)
  const loadable = wanted.filter((image) => !missing.includes(image))
  if (loadable.length > 0) {
    progress.start(`Loading ${loadable.join(', ')} into the nodes`)
    const { exitCode, stderr } = await load(engine, loadable, name, kind)
    progress.end(exitCode === 0, exitCode === 0 ? undefined : engineReason(stderr))
  }
  if (missing.length > 0)
    progress.note(
      `${missing.join(', ')} could not be fetched (${reason}): Pods that need them pull them during a lab. \`make node-image\` fetches them where there is a network.`,
    )
}

/** Names of the images on a node; undefined if they can't be listed. */
async function imagesOn(engine: EngineName, node: string): Promise<Set<string> | undefined> {
  const { exitCode, stdout } =
    await engineCommand()`${engine} exec ${node} ctr --namespace k8s.io images ls -q`
  return exitCode === 0 ? new Set(stdout.split('\n')) : undefined
}

async function load(
  engine: EngineName,
  images: readonly string[],
  name: string,
  kind: ImageTarget['kind'],
) {
  if (engine === 'docker') return kind(['load', 'docker-image', '--name', name, ...images])
  // kind's `load docker-image` supports Docker only.
  const folder = mkdtempSync(join(tmpdir(), 'lab-images-'))
  try {
    const archive = join(folder, 'images.tar')
    const names = images.map((image) => fullImageName(engine, image))
    const run = $({ quiet: true, nothrow: true })
    // An archive of Docker's is loaded as localhost/…, a name that no Pod uses.
    for (const [index, image] of images.entries())
      if (!(await hasImage(engine, names[index] ?? image)))
        await run`${engine} tag ${image} ${names[index]}`
    const saved = await run`${engine} save --multi-image-archive --output ${archive} ${names}`
    return saved.exitCode === 0
      ? await kind(['load', 'image-archive', '--name', name, archive])
      : saved
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
