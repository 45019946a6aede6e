import { existsSync, readFileSync, statfsSync } from 'node:fs'
import { arch, freemem, platform } from 'node:os'
import { join } from 'node:path'
import { which } from 'zx/core'
import {
  CONFINE,
  detectConfinement,
  GUEST_MEGABYTES,
  memoryPlaces,
  requireSupport,
  umlTrouble,
} from '../../embedded/index.ts'
import { cacheFolder, offlineRoot, projectRoot } from '../../host/layout.ts'
import { reasonOf } from '../../host/main.ts'
import type { Progress } from '../../host/progress.ts'
import type { Cluster } from '../driver.ts'
import { EmbeddedCluster } from '../embedded.ts'
import {
  type EngineName,
  engineCommand,
  engineInfo,
  engineReason,
  hasImage,
  registryHas,
} from '../kind/engine.ts'
import { nodeImage } from '../kind/images.ts'
import { KindCluster } from '../kind.ts'
import { missingModulesScript } from '../kube-proxy/module-check.ts'
import { runOnNode } from '../node-script.ts'
import { cachedKind, installedKind, kindPath } from '../programs.ts'
import type { EmbeddedFacts, Facts, HostFacts, KindFacts } from './facts.ts'
import {
  hostKernelFacts,
  type KernelFacts,
  type KernelNeed,
  kernelLacks,
  kernelProbeCommand,
  modulesOf,
  needInWords,
  probeMs,
  readKernelProbe,
} from './kernel-probe.ts'

interface Depth {
  /** Probe the kernel under the engine; else it counts as unknown. */
  kernel: boolean
  /** The cluster exists, so the image of a new one does not matter. */
  exists?: boolean
  /** A new cluster is about to be created: kind is fetched if missing, with progress shown here. */
  creating?: Progress | undefined
}

/**
 * Collects the facts that decide which clusters and labs can run here; `engine` is the one that
 * responds. Downloads nothing but kind, and leaves no process or container.
 */
export async function gatherFacts(
  name: string,
  engine: EngineName | undefined,
  depth: Depth,
): Promise<Facts> {
  const [host, kind, embedded] = await Promise.all([
    hostFacts(),
    kindFacts(name, engine, depth),
    embeddedFacts(name),
  ])
  return { host, kind, embedded }
}

/**
 * The features that a lab needs and the kernel of a running cluster lacks, in words; empty if it
 * lacks none. On a context's nodes modules are only looked for: the probe loads them, which would
 * change the user's cluster.
 */
export async function kernelLackOf(
  cluster: Cluster,
  needs: readonly KernelNeed[] = [],
): Promise<string[]> {
  if (needs.length === 0) return []
  if (cluster.driver === 'context') return modulesLackOf(cluster, needs)
  if (cluster instanceof EmbeddedCluster && cluster.kernel() === 'uml')
    return kernelLacks('embedded', needs)
  const kernel = await kernelOf(cluster)
  return kernel ? kernelLacks(kernel, needs) : []
}

/**
 * The features without modules on some node, as loaded, compiled in, or files that modprobe finds.
 */
async function modulesLackOf(cluster: Cluster, needs: readonly KernelNeed[]): Promise<string[]> {
  const nodes = await cluster.nodes()
  const missing = await Promise.all(nodes.map((node) => missingModules(cluster, node, needs)))
  const isMissing = (need: KernelNeed) =>
    modulesOf(need).some((module) => missing.some((modules) => modules.includes(module)))
  return needs.filter(isMissing).map(needInWords)
}

/**
 * Of the modules of features, those that a node has not. Throws Error with the node's own words if
 * it can't be read.
 */
async function missingModules(
  cluster: Cluster,
  node: string,
  needs: readonly KernelNeed[],
): Promise<string[]> {
  const { exitCode, stdout, stderr } = await runOnNode(cluster, node, missingModulesScript, {
    args: needs.flatMap(modulesOf),
    readOnly: true,
  })
  if (exitCode === 0) return stdout.trim().split('\n')
  const reason = stderr.trim().split('\n').at(-1) || `exit code ${exitCode}`
  throw new Error(`The kernel modules of ${node} could not be listed (${reason}).`)
}

async function hostFacts(): Promise<HostFacts> {
  const { bavail, bsize } = statfsSync(projectRoot)
  return {
    system: systemName(),
    nodeVersion: process.version,
    platform: platform(),
    wsl: /microsoft/i.test(contentOf('/proc/version')),
    freeMemory: freeMemory(),
    freeDisk: bavail * bsize,
    kubectl: (await which('kubectl', { nothrow: true })) ?? undefined,
  }
}

/** A file of this system; empty where there is none. */
const contentOf = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8') : '')

/** The distribution (os-release(5)), or the kernel's name, and the processor. */
function systemName(): string {
  const [, name] = /^PRETTY_NAME="?([^"\n]*)/m.exec(contentOf('/etc/os-release')) ?? []
  return `${name || platform()} on ${arch()}${offlineRoot === undefined ? '' : ', from the offline archive'}`
}

/**
 * Memory that a program can still allocate: the kernel's own estimate (MemAvailable) if there is
 * one, because it counts reclaimable caches.
 */
function freeMemory(): number {
  const [, kilobytes] = /^MemAvailable:\s+(\d+) kB$/m.exec(contentOf('/proc/meminfo')) ?? []
  return kilobytes === undefined ? freemem() : Number(kilobytes) * 1024
}

async function kindFacts(
  name: string,
  engine: EngineName | undefined,
  depth: Depth,
): Promise<KindFacts> {
  const binary = await installedKind()
  const cached = existsSync(cachedKind())
  if (!engine) return { binary, cached }
  const reference = await nodeImage(engine)
  const isPresent = await hasImage(engine, reference)
  const [info, registry, kernel] = await Promise.all([
    engineInfo(engine),
    isPresent || depth.exists || registryHas(engine, reference),
    depth.kernel ? engineKernel(engine, name, isPresent ? reference : undefined) : {},
  ])
  const image = depth.exists ? undefined : { reference, isPresent, registry }
  const { creating } = depth
  const fetches = creating && image && registry && !binary && !cached
  const binaryTrouble = fetches ? await troubleOf(kindPath(creating)) : undefined
  return { binary, cached, engine: info, image, ...kernel, binaryTrouble }
}

const troubleOf = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(() => undefined, reasonOf)

/**
 * The kernel under an engine: probed on a node of a running cluster, else in a temporary container.
 */
async function engineKernel(
  engine: EngineName,
  name: string,
  image: string | undefined,
): Promise<Pick<KindFacts, 'kernel' | 'kernelTrouble'>> {
  const cluster = new KindCluster(name, engine)
  if (await cluster.running()) {
    const kernel = await kernelOf(cluster)
    return kernel ? { kernel } : { kernelTrouble: 'the probe did not finish on a node' }
  }
  const available = image ?? (await anyNodeImage(engine))
  if (!available) return {}
  const options = [
    '--rm',
    '--privileged',
    '--network',
    'none',
    '--volume',
    '/lib/modules:/lib/modules:ro',
  ]
  const [shell = '', ...args] = kernelProbeCommand
  const run = engineCommand()
  const { stdout, stderr } =
    await run`${engine} run ${options} --entrypoint ${shell} ${available} ${args}`
  const kernel = readKernelProbe(stdout)
  return kernel
    ? { kernel }
    : { kernelTrouble: stderr.trim() ? engineReason(stderr) : 'it did not finish in time' }
}

/** Any local node image: each contains the tools that the probe needs. */
async function anyNodeImage(engine: EngineName): Promise<string | undefined> {
  const { stdout } =
    await engineCommand()`${engine} images --format ${'{{.Repository}}:{{.Tag}} {{.ID}}'}`
  const line = stdout
    .split('\n')
    .find((one) => /(^|\/)(kindest|kube-service-labs)\/node:/.test(one))
  return line?.split(' ')[1]
}

async function embeddedFacts(name: string): Promise<EmbeddedFacts> {
  const tree = offlineRoot ?? join(cacheFolder, 'packages', 'kernel')
  const cached = existsSync(tree)
  const trouble = await troubleOf(requireSupport())
  const cluster = new EmbeddedCluster(name)
  const kernel =
    (await cluster.running()) && cluster.kernel() === 'uml' ? await kernelOf(cluster) : undefined
  const confinement = existsSync(join(tree, CONFINE)) ? detectConfinement(tree) : undefined
  const uml = umlTrouble()
  return {
    trouble,
    uml,
    cached,
    confinement,
    memoryPlaces: uml === undefined ? memoryPlaces(GUEST_MEGABYTES) : undefined,
    kernel,
    hostKernel: await hostKernelFacts(cached ? tree : undefined),
  }
}

async function kernelOf(cluster: Cluster): Promise<KernelFacts | undefined> {
  try {
    const [node = ''] = await cluster.nodes()
    return readKernelProbe(
      (await cluster.exec(node, kernelProbeCommand, { timeoutMs: probeMs })).stdout,
    )
  } catch {
    return undefined
  }
}
