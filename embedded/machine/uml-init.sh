# The first program of a guest on User-Mode Linux, behind lines that set (uml-kernel.ts):
#   packages     root of the unpacked packages (usr-merged); empty if they are all there is
#   copied_packages, copied_host  files below that root, and below the host's, to copy (OFTEN_STARTED in uml-kernel.ts)
#   fstab        the mounts below /mnt
#   foreign      not empty: files of the host's root belong to the user nobody here (uml-kernel.ts)
#   node, agent  the program that runs the agent, and the agent
# It mounts a writable tmpfs over the host's read-only file system, so that the guest cannot write to the host, and then runs the agent; the
# kernel ends with the agent.
set -e
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=linux
# See ONE_CALL in uml-kernel.ts.
export LIBMOUNT_FORCE_MOUNT2=always
[ -z "$foreign" ] || "$packages/usr/lib/uml/confine" --no-new-privs -- mount -o remount,nosuid /
mount -t proc proc /proc
# Requests that io_uring completes later corrupt page tables of User-Mode Linux; libuv 1.45 and later makes them. Kernels before
# 6.6 lack this switch, so programs of Node are also told not to ask.
[ ! -w /proc/sys/kernel/io_uring_disabled ] || echo 2 >/proc/sys/kernel/io_uring_disabled
export UV_USE_IO_URING=0
module=$packages/usr/lib/uml/modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko
LD_LIBRARY_PATH=$packages/usr/lib/x86_64-linux-gnu "$packages/usr/sbin/insmod" "$module"
mount -t tmpfs -o mode=0755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root /mnt/packages
# Without a copy there is the file itself.
cd "$packages/"
[ -z "$copied_packages" ] || cp -L --parents $copied_packages /mnt/upper || :
cd /
[ -z "$copied_host" ] || cp -L --parents $copied_host /mnt/upper || :
# All in one go, for each program that is started here takes longer than what it does.
printf '%s\n' "$fstab" >/mnt/fstab
mount -a -T /mnt/fstab
cd /mnt/root
# The folders that programs of the guest create files in belong to its root nevertheless. No files: overlayfs would copy each, also one that
# may not be read, like a swap file.
[ -z "$foreign" ] || find . -maxdepth 1 -type d -exec chown root:root {} +
# No program here needs the kernel's uevents.
[ ! -w sys/kernel/uevent_helper ] || echo >sys/kernel/uevent_helper
# Not only chroot: the kernel finds modprobe, and a Pod with hostPID the guest's files, by the first process.
pivot_root . mnt
exec chroot . /bin/sh -c 'stty -F /dev/ttyS0 raw -echo; "$0" "$1" /dev/ttyS0; echo o >/proc/sysrq-trigger; exec sleep 60' "$node" "$agent"
