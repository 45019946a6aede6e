import { shellWord } from '../../shell-word.ts'

/** Paths, on the host and so in the guest, that the first process needs. */
export interface InitOptions {
  /** Root of the unpacked packages (usr-merged). */
  packages: string
  node: string
  agent: string
}

/**
 * The guest's first program. It lays a writable tmpfs over the host's read-only file system, so that nothing written in the
 * guest reaches the host, and then runs the agent; when the agent ends, the kernel does.
 */
export function initScript({ packages, node, agent }: InitOptions): string {
  const tree = shellWord(packages)
  return `#!/bin/sh
set -e
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=linux
mount -t proc proc /proc
module=${tree}/usr/lib/uml/modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko
LD_LIBRARY_PATH=${tree}/usr/lib/x86_64-linux-gnu ${tree}/usr/sbin/insmod "$module"
mount -t tmpfs -o mode=0755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root /mnt/packages
# A mount of its own: overlayfs refuses a layer that lies inside another one of the same file system.
mount -t hostfs -o ${tree} none /mnt/packages
mount -t overlay -o lowerdir=/mnt/packages:/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
mount -t proc proc proc
mount -t sysfs sys sys
mount -t tmpfs -o mode=0755 tmpfs run
mount -t tmpfs -o mode=0755 tmpfs dev
mkdir dev/pts dev/shm run/netns run/lock
for device in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 dev/\${device%:*} c 1 \${device#*:}; done
mknod -m 666 dev/tty c 5 0
mknod -m 600 dev/ttyS0 c 4 64
mknod -m 666 dev/ptmx c 5 2
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
mount --bind dev/pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin; ln -s /proc/self/fd/1 dev/stdout; ln -s /proc/self/fd/2 dev/stderr
mount -t tmpfs -o mode=0755 tmpfs var/log
exec chroot . /bin/sh -c 'stty -F /dev/ttyS0 raw -echo; "$0" "$1" /dev/ttyS0; echo o >/proc/sysrq-trigger; exec sleep 60' ${shellWord(node)} ${shellWord(agent)}
`
}
