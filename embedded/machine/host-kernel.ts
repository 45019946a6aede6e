import { existsSync, lstatSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { shellWord } from '../../host/shell-word.ts'
import { ownFiles, programFolders } from './confinement.ts'
import { requireLimits } from './host-limits.ts'
import type { BootOptions, KernelStart } from './kernel.ts'
import { GUEST_CONFINE } from './placement.ts'

/**
 * Root of this machine changes to this user before any program of the guest runs, because root of the machine can change files of root in
 * /proc/sys and /sys from every namespace.
 */
const NOBODY = 65_534

/** The folder in which the guest's root is set up, in a separate mount namespace. It exists on every Linux (hier(7)). */
const PLACE = '/mnt'

const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty']

/** The folders of programs that are real folders on this machine, and those that are links. */
function programRoots(): { folders: string[]; links: string[] } {
  const there = programFolders.filter((folder) => existsSync(folder))
  const isLink = (folder: string) => lstatSync(folder).isSymbolicLink()
  return { folders: there.filter((folder) => !isLink(folder)), links: there.filter(isLink) }
}

interface Guest {
  packages: string
  node: string
  agent: string
  /** Files that the guest reads at their original paths, besides programs and the publicly readable files of /etc. */
  files: readonly string[]
  /** The id of the guest's root user in the user namespace of this process. */
  uid: number
}

/** Copies files from folders that only the starting user may access. */
function fetchScript({ packages, files, uid }: Guest): string {
  return `set -e
mount -t tmpfs -o mode=0755 tmpfs ${PLACE}
cd ${PLACE}
mkdir -p packages root
mount -o bind,ro ${shellWord(packages)} packages
${files.map((file) => `install -D ${shellWord(file)} root/${shellWord(file)}`).join('\n')}
chown ${uid}:${uid} .
chown -R ${uid}:${uid} root
`
}

/**
 * The guest's root: a tmpfs with copies of small files, and an overlay over each folder of programs. The lower folders are reached through
 * overlayfs only, which never writes to them; no other file of the machine is accessible after the old root is unmounted.
 */
function rootScript({ node, agent }: Guest): string {
  const { folders, links } = programRoots()
  const layers = folders.map((folder) => {
    const lower = [`${PLACE}/packages${folder}`].filter(() => folder === '/usr')
    return `overlay ${PLACE}/root${folder} overlay ${overlay([...lower, folder].join(':'), `${PLACE}/upper${folder}`, `${PLACE}/work${folder}`)}`
  })
  const mounts = [
    ...layers,
    `proc ${PLACE}/root/proc proc nosuid,nodev,noexec`,
    `sysfs ${PLACE}/root/sys sysfs nosuid,nodev,noexec`,
    `tmpfs ${PLACE}/root/run tmpfs mode=0755`,
    // ip -n replaces the sysfs at /sys, which the kernel allows only if another sysfs is visible.
    `sysfs ${PLACE}/root/run/sysfs sysfs X-mount.mkdir`,
    `${PLACE}/root${GUEST_CONFINE} ${PLACE}/root${GUEST_CONFINE} none bind,ro`,
    ...devices.map((name) => `/dev/${name} ${PLACE}/root/dev/${name} none bind`),
    `devpts ${PLACE}/root/dev/pts devpts newinstance,ptmxmode=0666,mode=0620`,
  ]
  const all = (base: string) => folders.map((folder) => base + folder).join(' ')
  return `set -e
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=linux
cd ${PLACE}
# Only a mount can become the root.
mount --bind root root
mkdir -p ${all('upper')} ${all('work')} ${all('root')} root/proc root/sys root/run root/mnt root/root root/tmp root/home root/opt root/var root/dev/pts
chmod 1777 root/tmp
cp -P ${links.join(' ')} root/
# Files that only root of the machine may read are none of the guest's.
cp -r --preserve=mode,links /etc root/ 2>/dev/null || true
cp -r packages/etc packages/var root/
touch ${devices.map((name) => `root/dev/${name}`).join(' ')}
ln -s pts/ptmx root/dev/ptmx
printf '%s\\n' ${mounts.map(shellWord).join(' ')} >fstab
mount -a -T fstab
cd root
pivot_root . mnt
umount -l mnt
# If the legacy tables are not available, as on a kernel without ip_tables loaded, iptables uses nf_tables.
for table in nat filter mangle; do
  chroot . iptables -t $table -S >/dev/null 2>&1 && continue
  for name in iptables ip6tables; do for form in '' -save -restore; do
    ln -sf xtables-nft-multi usr/sbin/$name$form
  done; done
  break
done
exec chroot . ${GUEST_CONFINE} --one-user -- /bin/sh -c '"$0" "$1"; exit' ${shellWord(node)} ${shellWord(agent)}
`
}

const overlay = (lower: string, upper: string, work: string) =>
  `lowerdir=${lower},upperdir=${upper},workdir=${work},userxattr`

/**
 * New namespaces of every kind, in which the caller is root; the first process ends with this one, and all others with the first. The user
 * namespace is created first: files that are created before its ids are mapped, such as /proc/net/ip_tables_names of a network namespace,
 * belong to root of the machine.
 */
const namespaces = [
  ...['unshare', '--user', '--map-root-user'],
  ...['unshare', '--mount', '--net', '--pid', '--uts', '--ipc', '--cgroup', '--fork', '--kill-child'],
]

/** Runs as an ordinary user, even if root of the machine starts it. */
const asUser = () =>
  process.getuid?.() === 0 ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'] : []

/** A command that tests the operations for the root file systems of the guest, nodes and Pods, and fails if one is not possible here. */
export function tryNamespaces(): string[] {
  const { folders } = programRoots()
  const script = `set -e
mount -t tmpfs tmpfs ${PLACE}
cd ${PLACE}
mkdir one work-one two work-two proc sys lower
${folders
  .map(
    (
      folder,
    ) => `mount -t overlay overlay -o ${overlay(`${PLACE}/lower:${folder}`, `${PLACE}/one`, `${PLACE}/work-one`)} lower
mount -t overlay overlay -o ${overlay(`${PLACE}/lower`, `${PLACE}/two`, `${PLACE}/work-two`)} two
umount two lower`,
  )
  .join('\n')}
mount -t proc proc proc
mount -t sysfs sysfs sys`
  return [...asUser(), ...namespaces, 'sh', '-c', script]
}

/** This machine's own kernel, in namespaces of an ordinary user (user_namespaces(7)): the guest is root only of its own objects. */
export function hostKernel(options: BootOptions, agent: string): KernelStart {
  requireLimits(0)
  const { folders } = programRoots()
  const isRoot = process.getuid?.() === 0
  const files = [...ownFiles(), agent, ...(options.readable ?? []).map((file) => realpathSync(file))]
  const guest: Guest = {
    packages: realpathSync(options.packages),
    node: realpathSync(process.execPath),
    agent,
    files: files.filter((file) => !folders.some((folder) => file.startsWith(`${folder}/`))),
    uid: isRoot ? NOBODY : 0,
  }
  const command = isRoot
    ? [
        'unshare',
        '--mount',
        'sh',
        '-c',
        `${fetchScript(guest)}exec "$@"`,
        'sh',
        ...asUser(),
        ...namespaces,
        'sh',
        '-c',
        rootScript(guest),
      ]
    : [...namespaces, 'sh', '-c', fetchScript(guest) + rootScript(guest)]
  return {
    command,
    cwd: '/',
    line: { windowBytes: 1024 * 1024, packed: false },
    // An overlay does not include mounts of its lower layer, so each folder of programs gets a separate overlay.
    ownKernel: false,
    layer: (root, upper, work) => ({
      folders: folders.flatMap((folder) => [join(upper, folder), join(work, folder), join(work, 'root')]),
      mounts: [
        `overlay ${root} overlay ${overlay('/', upper, join(work, 'root'))} 0 0`,
        ...folders.map(
          (folder) => `overlay ${root}${folder} overlay ${overlay(folder, upper + folder, work + folder)} 0 0`,
        ),
      ],
    }),
    booted: () => {},
    ended: () => {},
  }
}
