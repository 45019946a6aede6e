import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { arch, platform } from 'node:os'
import { join } from 'node:path'
import { $, which } from 'zx/core'
import type { Progress } from '../../driver.ts'
import { oneAtATime } from '../../one-at-a-time.ts'

/** The embedded cluster can't run here; the message says why and what does. */
export class Unsupported extends Error {}

/** Always unpacked: the kernel, and what it needs in a known place before the host's own programs are reachable. */
const always = ['user-mode-linux', 'kmod', 'libzstd1', 'liblzma5', 'libssl3', 'libssl3t64']

/** Programs the nodes and Pods use, with the packages that bring them where the system has none. */
const programs: Record<string, string[]> = {
  'xtables-legacy-multi': [
    ...['iptables', 'libip4tc2', 'libip6tc2', 'libxtables12', 'libnftnl11', 'libnfnetlink0'],
    'libnetfilter-conntrack3',
  ],
  ipset: ['ipset', 'libipset13', 'libmnl0'],
  ipvsadm: ['ipvsadm', 'libnl-3-200', 'libnl-genl-3-200', 'libpopt0'],
  conntrack: ['conntrack', 'libnetfilter-conntrack3', 'libnfnetlink0', 'libmnl0'],
  nginx: ['nginx', 'nginx-light', 'nginx-common', 'libpcre2-8-0'],
  dnsmasq: ['dnsmasq-base', 'libnftables1', 'libidn2-0', 'libnettle8', 'libhogweed6'],
  socat: ['socat', 'libwrap0'],
  tcpdump: ['tcpdump', 'libpcap0.8', 'libpcap0.8t64'],
  dig: [
    'bind9-dnsutils',
    'bind9-libs',
    'bind9-host',
    'libuv1',
    'libmaxminddb0',
    'libjson-c5',
    'libfstrm0',
    'libprotobuf-c1',
    'liblmdb0',
    'libjemalloc2',
  ],
  ping: ['iputils-ping', 'libcap2'],
  curl: ['curl', 'libcurl4', 'libcurl4t64'],
  ip: ['iproute2', 'libbpf1', 'libelf1', 'libelf1t64', 'libmnl0'],
}

const searched = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** Lists, in a finished tree, the packages it was made from. */
const stampName = '.complete'

/** Names of the programs that this system lacks. */
function lacking(): string[] {
  return Object.keys(programs).filter((program) => !searched.some((folder) => existsSync(join(folder, program))))
}

/** Throws Unsupported, in one sentence with the way that works there, where the embedded cluster can't run. */
export async function requireSupport(): Promise<void> {
  const instead = 'Start Docker or Podman and run `CLUSTER=kind make up` instead.'
  if (platform() !== 'linux')
    throw new Unsupported(`The embedded cluster needs Linux, and this is "${platform()}". ${instead}`)
  if (arch() !== 'x64')
    throw new Unsupported(`The embedded kernel is built for x86-64, and this is "${arch()}". ${instead}`)
  for (const tool of ['apt-get', 'dpkg-deb'])
    if (!(await which(tool, { nothrow: true })))
      throw new Unsupported(
        `The embedded cluster takes its kernel from Debian or Ubuntu packages, and "${tool}" is not here. ${instead}`,
      )
}

/**
 * Unpacks what the system lacks under `cache`, without root and without changing the system. Nothing is fetched when the
 * tree is there already.
 * @returns the root of the usr-merged tree that boot.ts lays over the host's programs
 * @throws Unsupported, or an Error with apt's own last line when a download fails
 */
export async function ensurePackages(cache: string, progress: Progress): Promise<string> {
  await requireSupport()
  const wanted = lacking()
  const names = [...always, ...wanted.flatMap((program) => programs[program] ?? [])]
  return unpackPackages(cache, 'kernel', [...new Set(names)], progress)
}

/**
 * Unpacks packages of this Debian or Ubuntu into a tree of their own below `cache`, once: apt works on lists and a
 * download folder of its own. Names that this release does not know are left out, but for the first.
 * @returns the tree's root, usr-merged
 */
export async function unpackPackages(
  cache: string,
  name: string,
  packages: string[],
  progress: Progress,
): Promise<string> {
  const tree = join(cache, 'packages', name)
  if (isComplete(tree, packages)) return tree
  const waiting = () => progress.note('Another command fetches the packages; waiting for it.')
  await oneAtATime(`${tree}.lock`, () => fetchInto(tree, cache, name, packages, progress), waiting)
  return tree
}

function isComplete(tree: string, packages: readonly string[]): boolean {
  const stamp = join(tree, stampName)
  const has = existsSync(stamp) ? readFileSync(stamp, 'utf8').split('\n') : []
  return packages.every((one) => has.includes(one))
}

async function fetchInto(
  tree: string,
  cache: string,
  name: string,
  packages: string[],
  progress: Progress,
): Promise<void> {
  // Whoever worked before us may have done it all.
  if (isComplete(tree, packages)) return
  progress.start(`Fetching ${packages[0]} and what goes with it (once)`)
  try {
    const archives = await download(cache, name, packages, progress)
    await unpack(archives, tree, packages.join('\n'))
    rmSync(archives, { recursive: true, force: true })
  } catch (error) {
    progress.end(false)
    throw error
  }
  progress.end(true)
}

/** Downloads packages with apt's own machinery, into folders of ours. Names unknown to this release are left out. */
async function download(cache: string, name: string, names: string[], progress: Progress): Promise<string> {
  const state = join(cache, 'apt', 'state')
  const archives = join(cache, 'apt', name)
  for (const folder of [join(state, 'lists', 'partial'), join(archives, 'partial')])
    mkdirSync(folder, { recursive: true })
  const own = [
    ...['-o', `Dir::State=${state}`, '-o', 'Dir::State::status=/var/lib/dpkg/status'],
    ...['-o', `Dir::Cache=${join(cache, 'apt')}`, '-o', `Dir::Cache::archives=${archives}`],
    ...['-o', 'Debug::NoLocking=1', '-o', 'APT::Sandbox::User=', '-q'],
  ]
  const run = $({ cwd: archives, quiet: true, nothrow: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const update = await run`apt-get ${own} update`
  if (update.exitCode !== 0) progress.note('The package lists could not be refreshed; trying with those that are here.')
  const known = await run`apt-cache ${own} --no-all-versions show ${names}`
  const available = new Set([...known.stdout.matchAll(/^Package: (\S+)$/gm)].map((match) => match[1]))
  if (!available.has(names[0]))
    throw new Error(
      `apt knows no package "${names[0]}": check the network and /etc/apt/sources.list, then run the same command again.`,
    )
  const fetched = await run`apt-get ${own} download ${names.filter((one) => available.has(one))}`
  if (fetched.exitCode !== 0)
    throw new Error(
      `The packages could not be fetched (${fetched.stderr.trim().split('\n').at(-1)}); run the same command again.`,
    )
  return archives
}

const links: [string, string][] = [
  ...['insmod', 'modprobe', 'rmmod', 'lsmod', 'depmod', 'modinfo'].map((name): [string, string] => [
    `usr/sbin/${name}`,
    '../bin/kmod',
  ]),
  ...['iptables', 'ip6tables'].flatMap((name) =>
    ['', '-save', '-restore'].map((form): [string, string] => [`usr/sbin/${name}${form}`, 'xtables-legacy-multi']),
  ),
]

/**
 * Unpacks into a fresh tree and puts it in place whole. The tree is usr-merged, because a real `sbin/` in an overlay layer
 * would hide the host's `/sbin` link; what alternatives and absolute links would do at installation is done here.
 */
async function unpack(archives: string, tree: string, stamp: string): Promise<void> {
  const fresh = `${tree}-${process.pid}`
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(join(fresh, 'usr'), { recursive: true })
  const run = $({ quiet: true, cwd: fresh })
  for (const archive of readdirSync(archives).filter((name) => name.endsWith('.deb')))
    await run`dpkg-deb --extract ${join(archives, archive)} .`
  for (const folder of ['bin', 'sbin', 'lib', 'lib64'].filter((name) => existsSync(join(fresh, name))))
    await run`mkdir -p usr/${folder} && cp -a ${folder}/. usr/${folder}/ && rm -rf ${folder}`
  for (const [link, target] of links) {
    rmSync(join(fresh, link), { force: true })
    mkdirSync(join(fresh, link, '..'), { recursive: true })
    symlinkSync(target, join(fresh, link))
  }
  const modules = join(fresh, 'usr/lib/uml/modules')
  if (existsSync(modules)) {
    mkdirSync(join(fresh, 'usr/lib/modules'), { recursive: true })
    for (const release of readdirSync(modules))
      symlinkSync(`../uml/modules/${release}`, join(fresh, 'usr/lib/modules', release))
  }
  writeFileSync(join(fresh, stampName), stamp)
  rmSync(tree, { recursive: true, force: true })
  renameSync(fresh, tree)
}
