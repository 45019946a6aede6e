import { chmodSync, existsSync, readFileSync } from 'node:fs'
import { arch, platform } from 'node:os'
import { join } from 'node:path'
import { which } from 'zx/core'
import { ensureArtifact, proveArtifact } from '../../host/artifact.ts'
import { offlineRoot, projectRoot } from '../../host/layout.ts'
import type { Progress } from '../../host/progress.ts'
import { runTool } from '../../host/supervised.ts'
import { SystemTrouble } from '../../host/system-trouble.ts'
import { Trouble } from '../../host/trouble.ts'
import type { KernelName } from './kernel.ts'
import { KERNEL, kernelAddition, processor, SHIM, umlTrouble } from './kernel-package.ts'
import { GUEST_CONFINE, GUEST_HTTP_GET } from './machine.ts'
import { type PackageTree, unpackPackages } from './package-tree.ts'

/** The embedded cluster can't run here; the message contains the reason and an alternative. */
export class Unsupported extends Trouble {}

/** A compiler of 290 kB without headers, which every release of Debian and Ubuntu has. */
const COMPILER = 'tcc'

/**
 * Needed at a known path before the system's programs are accessible, or even if they are missing.
 */
const always = ['kmod', COMPILER]

/**
 * Programs that nodes and Pods use, with the packages that contain them if the system lacks them.
 */
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
  return Object.entries(programs).flatMap(([program, packageName]) =>
    isHere(program) ? [] : [packageName],
  )
}

/**
 * Throws Unsupported, in one sentence with the way that works there, where the embedded cluster, or
 * the given kernel, can't run.
 */
export async function requireSupport(kernel?: KernelName): Promise<void> {
  const instead = 'Start Docker or Podman and run `CLUSTER=kind make up` instead.'
  if (platform() !== 'linux')
    throw new Unsupported(
      `The embedded cluster needs Linux, and this is "${platform()}". ${instead}`,
    )
  if (!processor)
    throw new Unsupported(
      `The embedded cluster runs on x86-64 and arm64, and this is "${arch()}". ${instead}`,
    )
  const trouble = kernel === 'uml' ? umlTrouble() : undefined
  if (trouble) throw new Unsupported(`${trouble}.`)
  if (offlineRoot !== undefined) return
  for (const tool of ['apt-get', 'dpkg-deb'])
    if (!(await which(tool, { nothrow: true })))
      throw new Unsupported(
        `The embedded cluster takes its kernel from Debian or Ubuntu packages, and "${tool}" is not installed: use the offline archive, which runs on any Linux (\`make bundle\` on a Debian or Ubuntu writes it), or start Docker or Podman and run \`CLUSTER=kind make up\`.`,
      )
}

const folder = join(projectRoot, 'embedded/machine')

/**
 * The sources in this folder, which use no library, the first of which includes the others, and
 * where a tree of packages has what they are compiled to.
 */
const confine = {
  sources: ['confine.c', 'static-program.h'],
  flags: ['-static'],
  result: GUEST_CONFINE,
}
const httpGet = {
  sources: ['http-get.c', 'static-program.h'],
  flags: ['-static'],
  result: GUEST_HTTP_GET,
}
const shim = {
  sources: ['uml-shim.c', 'fault-access.h'],
  flags: ['-shared', '-fPIC'],
  result: SHIM,
}
const ownPrograms = () => (umlTrouble() ? [confine, httpGet] : [confine, httpGet, shim])

/**
 * Compiles what a kernel of a tree needs beside its packages, once for each state of the sources.
 * They are passed without their folder, because tcc writes the name into a C string, which a quote
 * in the path would end.
 * @throws Error with the compiler's message
 */
async function compileInto(tree: string): Promise<void> {
  const compiler = join(tree, 'usr/bin', COMPILER)
  const compile = ({ sources, flags, result }: typeof confine) =>
    ensureArtifact({
      path: join(tree, result),
      parts: sources.map((source) => readFileSync(join(folder, source), 'utf8')),
      make: async (fresh) => {
        const [source = ''] = sources
        await runTool([compiler, '-nostdlib', ...flags, '-o', fresh, source], folder)
        // Whatever the umask is: root's cluster on the host's kernel runs it as the user nobody.
        chmodSync(fresh, 0o755)
      },
    })
  await Promise.all(ownPrograms().map(compile))
}

/**
 * Unpacks a kernel, what is always needed, and further packages into one tree, and compiles what
 * they lack. Returns its root.
 */
export async function unpackKernel(
  wanted: Omit<PackageTree, 'more'>,
  progress: Progress,
): Promise<string> {
  const more = kernelAddition(wanted.cache)
  const packages = [...(more || umlTrouble() ? [] : [KERNEL]), ...always, ...wanted.packages]
  const tree = await unpackPackages({ ...wanted, packages, more }, progress)
  await compileInto(tree)
  return tree
}

/**
 * The root of the tree with the packages that this system lacks, fetched once. @throws Unsupported,
 * or an Error with apt's last line
 */
export async function ensurePackages(cache: string, progress: Progress): Promise<string> {
  await requireSupport()
  if (offlineRoot !== undefined) return offlineRoot
  return unpackKernel({ cache, name: 'kernel', packages: lacking(), closure: 'missing' }, progress)
}

/**
 * The damage of a tree from which a kernel failed. @throws SystemTrouble if it is an offline
 * archive; another tree is made again
 */
export function provePackages(tree: string): string | undefined {
  const parts = [tree, ...ownPrograms().map(({ result }) => join(tree, result))]
  const damage = parts.map((path) => proveArtifact(path)).find((one) => one !== undefined)
  if (damage && tree === offlineRoot)
    throw new SystemTrouble(
      `"${tree}" is damaged (${damage}): unpack the offline archive again into a new folder.`,
    )
  return damage
}
