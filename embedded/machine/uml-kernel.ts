import { mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { shellWord } from '../../host/shell-word.ts'
import { confinedCommand, detectConfinement, programFiles, systemFiles } from './confinement.ts'
import { memoryFolder, ownCpu, requireLimits } from './host-resources.ts'
import type { BootOptions, KernelStart } from './kernel.ts'
import { FIRST_PROGRAM, isWholeRoot, kernelProgram } from './kernel-package.ts'
import { fstabWord, GUEST_CONFINE } from './machine.ts'

const INIT = 'init.sh'

/**
 * Initcalls that are not needed here: benchmarks of checksums for disks, which took more than half of the boot time, and the buffers of a
 * file system's journal and of compressed swap. Whenever the kernel maps memory for a module, User-Mode Linux maps all of its virtual
 * memory again, a page at a time (flush_tlb_kernel_vm, 6.1), and those buffers were four fifths of it.
 */
const UNNEEDED_INITCALLS = ['raid6_select_algo', 'calibrate_xor_blocks', 'init_jfs_fs', 'init_zswap']

/** User-Mode Linux with the host's file system as its read-only root (Documentation/virt/uml/user_mode_linux_howto_v2). */
export function umlKernel(options: BootOptions, agent: string): KernelStart {
  const confinement = options.confinement ?? detectConfinement(options.packages)
  const megabytes = options.memoryMegabytes ?? 1024
  requireLimits(megabytes)
  const room = memoryFolder(megabytes)
  const directory = plainPath(options.directory)
  // libmount treats a double quote in mount options as the start of a quoted text.
  const packages = plainPath(realpathSync(options.packages))
  const whole = isWholeRoot(options.packages)
  const init = whole
    ? initScript({ shared: { path: options.directory, source: directory.path }, node: 'node', agent })
    : initScript({ packages: packages.path, node: process.execPath, agent })
  writeFileSync(join(options.directory, INIT), init, { mode: 0o755 })
  const program = kernelProgram(options.packages)
  // A separate folder, because the kernel may write there.
  const memory = mkdtempSync(join(room, 'kube-service-labs-'))
  const allowance = {
    read: [...(whole ? systemFiles() : programFiles()), realpathSync(options.packages), ...(options.readable ?? [])],
    write: [realpathSync(options.directory), memory],
  }
  const cpu = ownCpu()
  const command = [
    ...(cpu === undefined ? [] : ['taskset', '-c', String(cpu)]),
    ...confinedCommand(options.packages, confinement, allowance, program.command),
    ...[`mem=${megabytes}M`, 'rootfstype=hostfs', 'ro'],
    ...(whole
      ? [`rootflags=${packages.path}`, `init=/${FIRST_PROGRAM}`, `cluster=${directory.path}`]
      : ['rootflags=/', `init=${join(directory.path, INIT)}`]),
    // con0=null would open /dev/null for writing, which Landlock forbids, and without its input there is no console.
    ...['con=null', 'con0=fd:0,fd:1', 'ssl=null', 'ssl0=fd:3,fd:4', 'quiet'],
    ...[`initcall_blacklist=${UNNEEDED_INITCALLS.join()}`, 'pty.legacy_count=0'],
    ...[`umid=${options.name}`, `uml_dir=${directory.path}/`],
  ]
  return {
    confinement,
    command,
    cwd: program.directory,
    env: { TMPDIR: memory },
    // The guest's terminal holds 4096 bytes that were not read yet, and throttles its line shortly before. A throttled line of User-Mode
    // Linux (arch/um/drivers/line.c, 6.1) never takes input again once it has swallowed what was under way.
    windowBytes: 3584,
    ownKernel: true,
    layer: (root, upper, work) => ({
      folders: [],
      mounts: [`overlay ${root} overlay lowerdir=/,upperdir=${upper},workdir=${work} 0 0`],
    }),
    // The file is unlinked after it is opened; no other file is created there.
    booted: () => rmSync(memory, { recursive: true, force: true }),
    ended: () => {
      for (const { end } of [directory, packages]) end()
    },
  }
}

/**
 * hostfs takes a path for its option only from mount(2), and libmount 2.39 and later calls fsconfig(2), where 6.12 wants `hostfs=` before
 * it and earlier kernels do not.
 */
const ONE_CALL = 'LIBMOUNT_FORCE_MOUNT2=always'

/** The program at FIRST_PROGRAM. */
export const firstProgram = `#!/bin/sh
${ONE_CALL} mount -t hostfs -o "ro,$cluster" none /mnt && exec /mnt/${INIT}
`
/** Paths in the guest that the first process needs. */
interface InitPaths {
  /** Root of the unpacked packages (usr-merged), which are laid over the host's files; absent: they are all there is. */
  packages?: string
  /** The cluster's folder on the host, and its path for hostfs. The guest has it at the same path. */
  shared?: { path: string; source: string }
  node: string
  agent: string
}

/**
 * The guest's first program. It mounts a writable tmpfs over the host's read-only file system, so that the guest cannot write to the
 * host, and then runs the agent; the kernel ends with the agent.
 */
function initScript({ packages, shared, node, agent }: InitPaths): string {
  const tree = packages === undefined ? '' : shellWord(packages)
  const below = packages === undefined ? '' : `none /mnt/packages hostfs ${fstabWord(packages)}\n`
  const folder =
    shared && `\nnone /mnt/root${fstabWord(shared.path)} hostfs ro,X-mount.mkdir,${fstabWord(shared.source)}`
  return `#!/bin/sh
set -e
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=linux ${ONE_CALL}
mount -t proc proc /proc
# Requests that io_uring completes later corrupt page tables of User-Mode Linux; libuv 1.45 and later makes them. Kernels before
# 6.6 lack this switch, so programs of Node are also told not to ask.
[ ! -w /proc/sys/kernel/io_uring_disabled ] || echo 2 >/proc/sys/kernel/io_uring_disabled
export UV_USE_IO_URING=0
module=${tree}/usr/lib/uml/modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko
LD_LIBRARY_PATH=${tree}/usr/lib/x86_64-linux-gnu ${tree}/usr/sbin/insmod "$module"
mount -t tmpfs -o mode=0755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root /mnt/packages
# hostfs once more, as overlayfs refuses a layer that lies inside another one of the same file system. All in one go, for each
# program that is started here takes longer than what it does.
printf '%s\\n' '${below}overlay /mnt/root overlay lowerdir=${packages === undefined ? '' : '/mnt/packages:'}/,upperdir=/mnt/upper,workdir=/mnt/work
proc /mnt/root/proc proc defaults
sysfs /mnt/root/sys sysfs defaults
tmpfs /mnt/root/run tmpfs mode=0755${folder ?? ''}
tmpfs /mnt/root/var/log tmpfs mode=0755
devtmpfs /mnt/root/dev devtmpfs mode=0755
devpts /mnt/root/dev/pts devpts newinstance,ptmxmode=0666,mode=0620,X-mount.mkdir
/mnt/root/dev/pts/ptmx /mnt/root/dev/ptmx none bind
/mnt/root${GUEST_CONFINE} /mnt/root${GUEST_CONFINE} none bind,ro' >/mnt/fstab
mount -a -T /mnt/fstab
cd /mnt/root
# No program here needs the kernel's uevents.
[ ! -w sys/kernel/uevent_helper ] || echo >sys/kernel/uevent_helper
# Not only chroot: the kernel finds modprobe, and a Pod with hostPID the guest's files, by the first process.
pivot_root . mnt
exec chroot . /bin/sh -c 'stty -F /dev/ttyS0 raw -echo; "$0" "$1" /dev/ttyS0; echo o >/proc/sysrq-trigger; exec sleep 60' ${shellWord(node)} ${shellWord(agent)}
`
}

/** Characters that need no quoting on a kernel's command line, which is split at spaces and quotes. */
const PLAIN = /^[\w./+:@=-]+$/

/** A folder's path for a kernel's command line: its own, or that of a link to it. `end` removes the link. */
function plainPath(folder: string): { path: string; end(): void } {
  if (PLAIN.test(folder)) return { path: folder, end: () => {} }
  const place = mkdtempSync('/tmp/kube-service-labs-')
  const path = join(place, 'here')
  symlinkSync(folder, path)
  return { path, end: () => rmSync(place, { recursive: true, force: true }) }
}
