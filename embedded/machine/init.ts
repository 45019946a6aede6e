import { shellWord } from '../../host/shell-word.ts'
import { GUEST_CONFINE } from './placement.ts'

/** Paths, on the host and so in the guest, that the first process needs. */
export interface InitOptions {
  /** Root of the unpacked packages (usr-merged). */
  packages: string
  node: string
  agent: string
}

/** A word of fstab(5), inside quotes of sh. */
const fstabWord = (path: string) =>
  path.replace(/[\s\\'#]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`)

/**
 * The guest's first program. It lays a writable tmpfs over the host's read-only file system, so that nothing written in the
 * guest reaches the host, and then runs the agent; when the agent ends, the kernel does.
 */
export function initScript({ packages, node, agent }: InitOptions): string {
  const tree = shellWord(packages)
  return `#!/bin/sh
set -e
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=linux
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
printf '%s\\n' 'none /mnt/packages hostfs ${fstabWord(packages)}
overlay /mnt/root overlay lowerdir=/mnt/packages:/,upperdir=/mnt/upper,workdir=/mnt/work
proc /mnt/root/proc proc defaults
sysfs /mnt/root/sys sysfs defaults
tmpfs /mnt/root/run tmpfs mode=0755
tmpfs /mnt/root/var/log tmpfs mode=0755
devtmpfs /mnt/root/dev devtmpfs mode=0755
devpts /mnt/root/dev/pts devpts newinstance,ptmxmode=0666,mode=0620,X-mount.mkdir
/mnt/root/dev/pts/ptmx /mnt/root/dev/ptmx none bind
/mnt/root${GUEST_CONFINE} /mnt/root${GUEST_CONFINE} none bind,ro' >/mnt/fstab
mount -a -T /mnt/fstab
cd /mnt/root
# Nobody here waits for the kernel's word of each new device.
[ ! -w sys/kernel/uevent_helper ] || echo >sys/kernel/uevent_helper
# Not only chroot: the kernel finds modprobe, and a Pod with hostPID the guest's files, by the first process.
pivot_root . mnt
exec chroot . /bin/sh -c 'stty -F /dev/ttyS0 raw -echo; "$0" "$1" /dev/ttyS0; echo o >/proc/sysrq-trigger; exec sleep 60' ${shellWord(node)} ${shellWord(agent)}
`
}
