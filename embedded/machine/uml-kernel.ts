import {
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from '../../host/layout.ts'
import { shellVariables } from '../../host/shell-word.ts'
import {
  confinedCommand,
  detectConfinement,
  programFiles,
  runsInUserNamespace,
  systemFiles,
} from './confinement.ts'
import { GUEST_MEGABYTES, memoryFolder, ownCpu, requireLimits } from './host-resources.ts'
import type { BootOptions, KernelStart } from './kernel.ts'
import { FIRST_PROGRAM, isWholeRoot, kernelProgram, LIBRARIES } from './kernel-package.ts'
import { fstabWord, GUEST_CONFINE } from './machine.ts'

const INIT = 'init.sh'
const INIT_SOURCE = join(projectRoot, 'embedded/machine/uml-init.sh')

/**
 * Initcalls that are not needed here: benchmarks of checksums for disks, which took more than half
 * of the boot time, and the buffers of a file system's journal and of compressed swap. Whenever the
 * kernel maps memory for a module, User-Mode Linux maps all of its virtual memory again, a page at
 * a time (flush_tlb_kernel_vm, 6.1), and those buffers were four fifths of it.
 */
const UNNEEDED_INITCALLS = [
  'raid6_select_algo',
  'calibrate_xor_blocks',
  'init_jfs_fs',
  'init_zswap',
]

/**
 * The programs that are started most often on nodes, and their libraries, where Debian has them.
 * The first process copies those that exist (4 MB) into the guest's memory: a file that is written
 * at once lies there in one piece, and the host maps sixteen of its pages at once. The pages of one
 * that programs read a fault at a time lie scattered, and each is mapped and faults by itself: a
 * program takes a sixth longer.
 */
const OFTEN_STARTED: Record<string, string[]> = {
  'usr/bin/dash': ['ld-linux-x86-64.so.2', 'libc.so.6'],
  'usr/bin/ip': [
    'libbpf.so.1',
    'libbsd.so.0',
    'libcap.so.2',
    'libelf.so.1',
    'libmd.so.0',
    'libz.so.1',
  ],
  'usr/sbin/ipset': ['libipset.so.13', 'libmnl.so.0'],
  'usr/sbin/ipvsadm': ['libnl-3.so.200', 'libnl-genl-3.so.200', 'libpopt.so.0'],
  'usr/sbin/xtables-legacy-multi': ['libip4tc.so.2', 'libip6tc.so.2', 'libxtables.so.12'],
}

/** Those files that a guest finds in its packages, and those that it finds on the host. */
function oftenMapped(packages: string): Record<'packages' | 'host', string[]> {
  const files = Object.entries(OFTEN_STARTED).flatMap(([program, libraries]) => [
    program,
    ...libraries.map((name) => `${LIBRARIES}/${name}`),
  ])
  const own = files.filter((file) => existsSync(join(packages, file)))
  if (isWholeRoot(packages)) return { packages: [], host: own }
  const others = files.filter((file) => !own.includes(file) && existsSync(join('/', file)))
  return { packages: own, host: others }
}

/**
 * User-Mode Linux with the host's file system as its read-only root
 * (Documentation/virt/uml/user_mode_linux_howto_v2). Where files of the host's root belong to
 * the user nobody, a setuid program such as mount would make root of the guest that user. All
 * mounts are therefore without setuid.
 */
export function umlKernel(options: BootOptions, agent: string): KernelStart {
  const confinement = options.confinement ?? detectConfinement(options.packages)
  const megabytes = options.memoryMegabytes ?? GUEST_MEGABYTES
  requireLimits(megabytes)
  const room = memoryFolder(megabytes)
  const directory = plainPath(options.directory)
  // libmount treats a double quote in mount options as the start of a quoted text.
  const packages = plainPath(realpathSync(options.packages))
  const whole = isWholeRoot(options.packages)
  const foreign = runsInUserNamespace(confinement)
  const layerOptions = foreign ? ',nosuid' : ''
  const mounts = [
    ...(whole ? [] : [`none /mnt/packages hostfs ${fstabWord(packages.path)}`]),
    // hostfs once more, as overlayfs refuses a layer that lies inside another one of the same file
    // system.
    `overlay /mnt/root overlay lowerdir=${whole ? '' : '/mnt/packages:'}/,upperdir=/mnt/upper,workdir=/mnt/work${layerOptions}`,
    'proc /mnt/root/proc proc defaults',
    'sysfs /mnt/root/sys sysfs defaults',
    'tmpfs /mnt/root/run tmpfs mode=0755',
    // The guest has the cluster's folder at the same path.
    ...(whole
      ? [
          `none /mnt/root${fstabWord(options.directory)} hostfs ro,X-mount.mkdir,${fstabWord(directory.path)}`,
        ]
      : []),
    'tmpfs /mnt/root/var/log tmpfs mode=0755',
    'devtmpfs /mnt/root/dev devtmpfs mode=0755',
    'devpts /mnt/root/dev/pts devpts newinstance,ptmxmode=0666,mode=0620,X-mount.mkdir',
    '/mnt/root/dev/pts/ptmx /mnt/root/dev/ptmx none bind',
    `/mnt/root${GUEST_CONFINE} /mnt/root${GUEST_CONFINE} none bind,ro`,
  ]
  const copied = oftenMapped(options.packages)
  const init = shellVariables({
    packages: whole ? '' : packages.path,
    copied_packages: copied.packages.join(' '),
    copied_host: copied.host.join(' '),
    foreign: foreign ? 'yes' : '',
    fstab: mounts.join('\n'),
    node: whole ? 'node' : process.execPath,
    agent,
  })
  writeFileSync(
    join(options.directory, INIT),
    `#!/bin/sh\n${init}${readFileSync(INIT_SOURCE, 'utf8')}`,
    {
      mode: 0o755,
    },
  )
  const program = kernelProgram(options.packages)
  // The only folder where the kernel may write. It is removed once the kernel has started, so that
  // root of the guest can fill no disk.
  const memory = mkdtempSync(join(room, 'kube-service-labs-'))
  const allowance = {
    read: [
      ...(whole ? systemFiles() : programFiles()),
      ...[options.packages, options.directory].map((folder) => realpathSync(folder)),
      ...(options.readable ?? []),
    ],
    write: [realpathSync(memory)],
  }
  const cpu = ownCpu()
  const command = [
    ...(cpu === undefined ? [] : ['taskset', '-c', String(cpu)]),
    ...confinedCommand(options.packages, confinement, allowance, program.command),
    `mem=${megabytes}M`,
    'rootfstype=hostfs',
    'ro',
    ...(whole
      ? [`rootflags=${packages.path}`, `init=/${FIRST_PROGRAM}`, `cluster=${directory.path}`]
      : ['rootflags=/', `init=${join(directory.path, INIT)}`]),
    // con0=null would open /dev/null for writing, which Landlock forbids, and without its input
    // there is no console.
    'con=null',
    'con0=fd:0,fd:1',
    'ssl=null',
    'ssl0=fd:3,fd:4',
    'quiet',
    `initcall_blacklist=${UNNEEDED_INITCALLS.join()}`,
    'pty.legacy_count=0',
    `umid=${options.name}`,
    `uml_dir=${memory}/`,
  ]
  return {
    confinement,
    command,
    cwd: program.directory,
    env: { TMPDIR: memory },
    // The guest's terminal holds 4096 bytes that were not read yet, and throttles its line shortly
    // before. A throttled line of User-Mode Linux (arch/um/drivers/line.c, 6.1) never takes input
    // again once it has swallowed what was under way.
    windowBytes: 3584,
    ownKernel: true,
    layer: (root, upper, work) => ({
      folders: [],
      mounts: [
        `overlay ${root} overlay lowerdir=/,upperdir=${upper},workdir=${work}${layerOptions} 0 0`,
      ],
    }),
    // The memory's file is unlinked after it is opened; the others are for a management console
    // that is not used.
    booted: () => rmSync(memory, { recursive: true, force: true }),
    ended: () => {
      for (const { end } of [directory, packages]) end()
    },
  }
}

/**
 * hostfs takes a path for its option only from mount(2), and libmount 2.39 and later calls
 * fsconfig(2), where 6.12 wants `hostfs=` before it and earlier kernels do not.
 */
const ONE_CALL = 'LIBMOUNT_FORCE_MOUNT2=always'

/** The program at FIRST_PROGRAM. */
export const firstProgram = `#!/bin/sh
${ONE_CALL} mount -t hostfs -o "ro,$cluster" none /mnt && exec /mnt/${INIT}
`
/**
 * Characters that need no quoting on a kernel's command line, which is split at spaces and quotes.
 */
const PLAIN = /^[\w./+:@=-]+$/

/**
 * A folder's path for a kernel's command line: its own, or that of a link to it. `end` removes the
 * link.
 */
function plainPath(folder: string): { path: string; end(): void } {
  if (PLAIN.test(folder)) return { path: folder, end: () => {} }
  const place = mkdtempSync('/tmp/kube-service-labs-')
  const path = join(place, 'here')
  symlinkSync(folder, path)
  return { path, end: () => rmSync(place, { recursive: true, force: true }) }
}
