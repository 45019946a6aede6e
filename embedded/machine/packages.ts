import { existsSync } from 'node:fs'
import { arch, platform } from 'node:os'
import { join } from 'node:path'
import { which } from 'zx/core'
import { proveArtifact } from '../../host/artifact.ts'
import { offlineRoot } from '../../host/layout.ts'
import type { Progress } from '../../host/progress.ts'
import { SystemTrouble } from '../../host/system-trouble.ts'
import { COMPILER, compileInto, proveCompiled } from './compiled-programs.ts'
import type { KernelName } from './kernel.ts'
import { KERNEL, kernelAddition, processor, umlTrouble } from './kernel-package.ts'
import { unpackPackages } from './package-tree.ts'

/** The embedded cluster can't run here; the message contains the reason and an alternative. */
export class Unsupported extends Error {}

/**
 * Always unpacked, because these programs are needed at a known path, before the system's programs are accessible or even if
 * they are missing.
 */
export const always = ['kmod', COMPILER]

/** Programs that nodes and Pods use, with the packages that contain them if the system lacks them. */
export const programs: Record<string, string> = {
  'xtables-legacy-multi': 'iptables',
  nft: 'nftables',
  ipset: 'ipset',
  ipvsadm: 'ipvsadm',
  conntrack: 'conntrack',
  nginx: 'nginx',
  dnsmasq: 'dnsmasq-base',
  socat: 'socat',
  tcpdump: 'tcpdump',
  dig: 'bind9-dnsutils',
  ping: 'iputils-ping',
  curl: 'curl',
  ip: 'iproute2',
  sysctl: 'procps',
}

const searched = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** Packages of the programs that this system lacks. */
function lacking(): string[] {
  const isHere = (program: string) => searched.some((folder) => existsSync(join(folder, program)))
  return Object.entries(programs).flatMap(([program, packageName]) => (isHere(program) ? [] : [packageName]))
}

/** Throws Unsupported, in one sentence with the way that works there, where the embedded cluster, or the given kernel, can't run. */
export async function requireSupport(kernel?: KernelName): Promise<void> {
  const instead = 'Start Docker or Podman and run `CLUSTER=kind make up` instead.'
  if (platform() !== 'linux')
    throw new Unsupported(`The embedded cluster needs Linux, and this is "${platform()}". ${instead}`)
  if (!processor)
    throw new Unsupported(`The embedded cluster runs on x86-64 and arm64, and this is "${arch()}". ${instead}`)
  const trouble = kernel === 'uml' ? umlTrouble() : undefined
  if (trouble) throw new Unsupported(`${trouble}.`)
  if (offlineRoot !== undefined) return
  for (const tool of ['apt-get', 'dpkg-deb'])
    if (!(await which(tool, { nothrow: true })))
      throw new Unsupported(
        `The embedded cluster takes its kernel from Debian or Ubuntu packages, and "${tool}" is not installed: use the offline archive, which runs on any Linux (\`make bundle\` on a Debian or Ubuntu writes it), or start Docker or Podman and run \`CLUSTER=kind make up\`.`,
      )
}

/**
 * Unpacks missing packages under `cache`, without root and without changing the system. Nothing is fetched if the tree
 * exists.
 * @returns the root of the usr-merged tree that boot.ts overlays on the host's programs
 * @throws Unsupported, or an Error with apt's own last line when a download fails
 */
export async function ensurePackages(cache: string, progress: Progress): Promise<string> {
  await requireSupport()
  if (offlineRoot !== undefined) return offlineRoot
  const more = kernelAddition(cache)
  const names = [...(more || umlTrouble() ? [] : [KERNEL]), ...always, ...lacking()]
  const tree = await unpackPackages({ cache, name: 'kernel', packages: names, closure: 'missing', more }, progress)
  await compileInto(tree)
  return tree
}

/**
 * Verifies every byte of a tree after a kernel from it has failed. The next ensurePackages recreates a damaged tree.
 * @returns the damage, or undefined
 * @throws SystemTrouble if it belongs to an offline archive
 */
export function provePackages(tree: string): string | undefined {
  const damage = proveArtifact(tree) ?? proveCompiled(tree)
  if (damage && tree === offlineRoot)
    throw new SystemTrouble(`"${tree}" is damaged (${damage}): unpack the offline archive again into a new folder.`)
  return damage
}
