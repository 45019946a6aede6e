import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { which } from 'zx/core'
import { aptDownload } from '../host/apt-download.ts'
import { ensureArtifact } from '../host/artifact.ts'
import { $ } from '../host/command.ts'
import { cacheFolder } from '../host/layout.ts'
import { Refusal, reasonOf } from '../host/main.ts'
import { programText } from '../host/program-text.ts'
import { silent } from '../host/progress.ts'
import { SystemTrouble } from '../host/system-trouble.ts'
import { consent } from './consent.ts'
import type { Cluster } from './driver.ts'
import { describeBackend, runOnNode } from './node-script.ts'

/**
 * The tools with which the labs read IPVS and its sets; kube-proxy does not install them on the
 * node.
 */
const nodeTools: readonly string[] = ['ipset', 'ipvsadm']

const locate = 'for tool; do command -v "$tool"; done; true'

/** A node without a network must fail fast. */
const fastFailure =
  '-o Acquire::Retries=0 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15'
const installOnNode = (names: readonly string[]) =>
  `export DEBIAN_FRONTEND=noninteractive
apt-get ${fastFailure} update -q && apt-get ${fastFailure} install -qy --no-install-recommends ${names.join(' ')}`

const inbox = '/run/kube-service-labs-packages'

/** Fetches packages for a node on this machine: the files. */
type Fetch = (node: string, names: readonly string[]) => Promise<string[]>

/**
 * Installs ipset and ipvsadm on one node: with the node's own apt, else from packages that this
 * machine's apt fetches for it. Existing tools are not changed. Reports the tools that were
 * missing, their source, and the paths of all.
 * @throws Refusal when neither works
 */
export async function installNodeTools(cluster: Cluster, node: string, fetch: Fetch) {
  const before = await pathsOf(cluster, node)
  const missing = nodeTools.filter((tool) => !before.some((path) => basename(path) === tool))
  if (missing.length === 0) return { installed: [], from: undefined, paths: before }
  const refusal = await fromOwnApt(cluster, node, missing)
  if (refusal !== undefined) await fromHost(cluster, node, missing, refusal, fetch)
  return {
    installed: missing,
    from: refusal === undefined ? "the node's apt" : "this machine's apt",
    paths: await pathsOf(cluster, node),
  }
}

async function pathsOf(cluster: Cluster, node: string): Promise<string[]> {
  const { stdout } = await runOnNode(cluster, node, locate, {
    args: nodeTools,
    timeoutMs: 30_000,
    readOnly: true,
  })
  return stdout.split('\n').filter((line) => line.startsWith('/'))
}

async function fromOwnApt(
  cluster: Cluster,
  node: string,
  names: readonly string[],
): Promise<string | undefined> {
  const { exitCode, stdout, stderr } = await runOnNode(cluster, node, installOnNode(names), {
    timeoutMs: 300_000,
  })
  if (exitCode === 0) return undefined
  if (/apt-get: (command )?not found/.test(stderr)) return 'it has no apt-get'
  const lines = `${stdout}\n${stderr}`.trim().split('\n')
  return (
    lines.find((line) => line.startsWith('E: '))?.replace(/^E: /, '') ??
    lines.at(-1) ??
    `exit code ${exitCode}`
  )
}

async function fromHost(
  cluster: Cluster,
  node: string,
  names: readonly string[],
  refusal: string,
  fetch: Fetch,
): Promise<void> {
  const failed = (reason: string) => {
    const image =
      '`make node-image` builds them into the node image where there is a network, `make down up` uses it.'
    const advice =
      cluster.driver === 'kind' ? image : 'Install them with the package manager of the node.'
    return new Refusal(
      `${names.join(' and ')} can't be installed on ${node}: ${refusal}; ${reason}. ${advice}`,
    )
  }
  const archives = await fetch(node, names).catch((error: unknown) => {
    throw error instanceof SystemTrouble ? error : failed(reasonOf(error))
  })
  for (const archive of archives) {
    const write = ['sh', '-c', `mkdir -p ${inbox} && cat >"$0"`, `${inbox}/${basename(archive)}`]
    const { exitCode, stderr } = await cluster.exec(node, write, { stdin: readFileSync(archive) })
    if (exitCode !== 0) throw failed(`the packages can't be written there (${stderr.trim()})`)
  }
  const install = `dpkg --install ${inbox}/*.deb; code=$?; rm -r ${inbox}; exit $code`
  const { exitCode, stderr } = await runOnNode(cluster, node, install, { timeoutMs: 120_000 })
  if (exitCode !== 0)
    throw failed(`dpkg refuses the packages (${stderr.trim().split('\n').at(-1)})`)
}

/**
 * Installs ipset and ipvsadm on every node that lacks them. Returns a line for each node, which
 * also names the iptables back end. Throws Refusal when they can't be installed.
 */
export async function installToolsEverywhere(cluster: Cluster): Promise<string[]> {
  const nodes = await cluster.nodes()
  await consent(
    cluster,
    `install ipset and ipvsadm on the nodes that lack them (of ${nodes.length})`,
  )
  // All nodes have the same distribution: one fetches for all.
  const fetches = new Map<string, Promise<string[]>>()
  const fetch: Fetch = (node, names) => {
    const fetched = fetches.get(names.join()) ?? fetchForNode(cluster, node, names)
    fetches.set(names.join(), fetched)
    return fetched
  }
  return Promise.all(
    nodes.map(async (node) => {
      const { installed, from, paths } = await installNodeTools(cluster, node, fetch)
      const how =
        from === undefined
          ? 'already installed'
          : `installed ${installed.join(' and ')} from ${from}`
      return `${node}: ${how} (${paths.join(', ')}); ${await describeBackend(cluster, node)}`
    }),
  )
}

const aptFolders = [
  'etc/apt/sources.list',
  'etc/apt/sources.list.d',
  'etc/apt/trusted.gpg.d',
  'etc/apt/keyrings',
  'usr/share/keyrings',
]

const describePackages = programText('cluster/describe-packages.sh')

/**
 * Fetches packages and their missing dependencies for a node: the host's apt works on a copy of the
 * node's sources, keys and package list, so that it selects the same packages and verifies the same
 * signatures as the node's own apt. Nothing on the host is changed, and root is not needed. Fetched
 * packages are kept under \`.cache/node-packages\`.
 * @returns the .deb files
 * @throws Error with a clause when the host has no apt, or apt can't fetch them
 */
export async function fetchForNode(
  cluster: Cluster,
  node: string,
  names: readonly string[],
  cache = cacheFolder,
): Promise<string[]> {
  const { architecture, release, files } = await readNodePackages(cluster, node)
  const key = createHash('sha256')
    .update(`${architecture} ${release} ${names.join()}`)
    .digest('hex')
    .slice(0, 12)
  const folder = join(cache, 'node-packages', key)
  const make = async (fresh: string) => {
    if (!(await which('apt-get', { nothrow: true }))) throw new Error('this machine has no apt-get')
    await download(fresh, files, architecture, names)
  }
  return archivesIn(await ensureArtifact({ path: folder, make }))
}

/** The node's processor and release, and a tar archive of its sources, keys and dpkg's status. */
async function readNodePackages(cluster: Cluster, node: string) {
  const { exitCode, stdout } = await runOnNode(cluster, node, describePackages, {
    args: aptFolders,
    readOnly: true,
  })
  const [architecture = '', release = '', archive = ''] = stdout.split('\n')
  if (exitCode !== 0 || !archive) throw new Error(`${node} has no dpkg to fetch packages for`)
  return { architecture, release, files: Buffer.from(archive, 'base64') }
}

/**
 * Downloads packages for a node into a folder, with apt's settings for the copied files of the
 * node.
 */
async function download(
  folder: string,
  files: Buffer,
  architecture: string,
  names: readonly string[],
): Promise<void> {
  const root = join(folder, 'root')
  mkdirSync(root, { recursive: true })
  const unpacked = await $({ quiet: true, nothrow: true, input: files })`tar -xf - -C ${root}`
  if (unpacked.exitCode !== 0) throw new Error("the node's package lists can't be unpacked")
  for (const file of sourceFiles(root))
    writeFileSync(file, withOwnKeys(readFileSync(file, 'utf8'), root))
  const settings = {
    'Dir::State::status': `${root}/var/lib/dpkg/status`,
    'Dir::Etc::sourcelist': `${root}/etc/apt/sources.list`,
    'Dir::Etc::sourceparts': `${root}/etc/apt/sources.list.d`,
    'Dir::Etc::trusted': '/dev/null',
    'Dir::Etc::trustedparts': `${root}/etc/apt/trusted.gpg.d`,
    'APT::Architecture': architecture,
    'APT::Architectures': architecture,
  }
  const wanted = {
    cache: folder,
    name: 'archives',
    packages: names,
    closure: 'missing',
    settings,
  } as const
  const archives = await aptDownload(wanted, silent).catch((error: unknown) => {
    if (error instanceof SystemTrouble) throw error
    throw new Error(
      `apt on this machine can't fetch them either (${reasonOf(error).replace(/\.$/, '')})`,
    )
  })
  const unknown = names.filter(
    (name) => !readdirSync(archives).some((file) => file.startsWith(`${name}_`)),
  )
  if (unknown.length > 0)
    throw new Error(`the node's package sources have no ${unknown.join(' and ')}`)
  // Only the archives are kept: lists and keys are read from the node each time.
  renameSync(archives, join(folder, 'archives'))
  for (const each of ['root', 'apt']) rmSync(join(folder, each), { recursive: true })
}

function sourceFiles(root: string): string[] {
  const folder = join(root, 'etc/apt/sources.list.d')
  const parts = existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []
  const list = join(root, 'etc/apt/sources.list')
  return existsSync(list) ? [list, ...parts] : parts
}

/** Rewrites the paths of keys on the node to their copies below `root`. */
export function withOwnKeys(sources: string, root: string): string {
  return sources.replace(
    /((?:Signed-By:|signed-by=)\s*)(\/(?:usr\/share|etc\/apt)\/)/gi,
    `$1${root}$2`,
  )
}

function archivesIn(folder: string): string[] {
  const archives = join(folder, 'archives')
  return readdirSync(archives)
    .filter((name) => name.endsWith('.deb'))
    .map((name) => join(archives, name))
}
