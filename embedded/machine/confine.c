/*
 * Runs a program with less than its caller may do: the kernel of the embedded cluster on the host, and containers in its guest.
 * A static program without a C library, because starting one with its libraries takes 15 ms longer in the guest.
 *
 *   confine [OPTION]... [-- PROGRAM [ARGUMENT]...]
 *
 * Without PROGRAM it only tries: exit code 0 when everything asked for works here. Options are carried out in this order:
 *   --close NUMBER       no descriptors from this one on, which the caller inherited
 *   --keyring            a session keyring of its own, instead of the keys of the user who logged in
 *   --processes NUMBER   at most this number of processes and threads of this user in its user namespace; before Linux 5.14, in all of them
 *   --enter PID          share the namespaces, root and working directory of a process
 *   --join FILE          share one namespace (setns(2))
 *   --new KIND           new namespaces for a container (mount, ipc, uts or pid), none of whose processes is left when its first one has ended
 *   --terminal           a new session with the standard input as its terminal: a shell controls jobs only within its process namespace
 *   --hostname NAME      the name of the uts namespace
 *   --root DIR           a mount point as root, with a /proc and /sys of its own
 *   --container          with --root: the devices of a container in its empty /dev, and nothing of the kernel that can be changed
 *   --mounts             every mount read-only but those at and below the folders of --write, and what --apart does
 *   --capabilities MASK  no other capabilities (hexadecimal), now and after any execve
 *   --no-new-privs       nor by setuid files
 *   --apart              a process namespace, so that no signal reaches others
 *   --scoped             Landlock has to forbid signals to others, as it does since Linux 6.12
 *   --landlock           files only as --read and --write say, no TCP
 *   --read PATH          with --landlock: may be read; names of files are visible everywhere
 *   --write DIR          may be changed: plain files, folders and sockets
 *   --one-user           for a user namespace in which one user is mapped: setgroups(2), which no process may call there
 *                        (user_namespaces(7)), succeeds without effect, and ipvsadm gets no generic netlink, which IPVS refuses there
 *   --no-keys            no system calls for keys
 *   --filter             no system calls that change the mode, owner, times or flags of files, mount, watch or lock files, or reach other
 *                        programs
 */
#include "static-program.h"

enum {
	/* Since Linux 5.1 numbers are the same for all processors. */
	SYS_clone3 = 435, SYS_close_range = 436, SYS_io_uring_setup = 425, SYS_io_uring_enter = 426, SYS_open_tree = 428, SYS_move_mount = 429, SYS_fsopen = 430, SYS_fsmount = 432,
	SYS_fspick = 433, SYS_pidfd_getfd = 438, SYS_mount_setattr = 442, SYS_landlock_create_ruleset = 444, SYS_landlock_add_rule = 445,
	SYS_landlock_restrict_self = 446, SYS_fchmodat2 = 452, SYS_setxattrat = 463, SYS_removexattrat = 466, SYS_file_setattr = 469,
#ifdef __x86_64__
	/* arch/x86/entry/syscalls/syscall_64.tbl */
	SYS_close = 3, SYS_rt_sigaction = 13, SYS_ioctl = 16, SYS_pread64 = 17, SYS_getpid = 39, SYS_socket = 41, SYS_connect = 42, SYS_clone = 56, SYS_execve = 59,
	SYS_wait4 = 61, SYS_kill = 62, SYS_chdir = 80, SYS_fchdir = 81, SYS_chmod = 90, SYS_fchmod = 91, SYS_setsid = 112,
	SYS_chown = 92, SYS_fchown = 93, SYS_lchown = 94, SYS_getuid = 102, SYS_getgid = 104, SYS_setgroups = 116, SYS_capget = 125, SYS_capset = 126,
	SYS_utime = 132, SYS_mknod = 133, SYS_pivot_root = 155, SYS_prctl = 157, SYS_chroot = 161, SYS_mount = 165,
	SYS_umount2 = 166, SYS_swapon = 167, SYS_reboot = 169, SYS_sethostname = 170, SYS_init_module = 175, SYS_setxattr = 188,
	SYS_lsetxattr = 189, SYS_fsetxattr = 190, SYS_removexattr = 197, SYS_lremovexattr = 198, SYS_fremovexattr = 199,
	SYS_utimes = 235, SYS_kexec_load = 246, SYS_add_key = 248, SYS_request_key = 249, SYS_keyctl = 250, SYS_openat = 257, SYS_mknodat = 259,
	SYS_fchownat = 260, SYS_futimesat = 261, SYS_symlinkat = 266, SYS_fchmodat = 268, SYS_unshare = 272, SYS_utimensat = 280,
	SYS_open_by_handle_at = 304, SYS_setns = 308, SYS_process_vm_readv = 310, SYS_process_vm_writev = 311,
	SYS_finit_module = 313, SYS_bpf = 321, SYS_userfaultfd = 323,
	SYS_shmget = 29, SYS_shmat = 30, SYS_shmctl = 31, SYS_sendto = 44, SYS_sendmsg = 46, SYS_socketpair = 53, SYS_semget = 64, SYS_semop = 65,
	SYS_semctl = 66, SYS_shmdt = 67, SYS_msgget = 68, SYS_msgsnd = 69, SYS_msgrcv = 70, SYS_msgctl = 71, SYS_fcntl = 72, SYS_flock = 73,
	SYS_setpriority = 141, SYS_sched_setparam = 142, SYS_sched_setscheduler = 144, SYS_sched_setaffinity = 203, SYS_semtimedop = 220,
	SYS_mq_open = 240, SYS_mq_unlink = 241, SYS_ioprio_set = 251, SYS_inotify_init = 253, SYS_inotify_add_watch = 254,
	SYS_migrate_pages = 256, SYS_move_pages = 279, SYS_inotify_init1 = 294, SYS_perf_event_open = 298, SYS_fanotify_init = 300,
	SYS_fanotify_mark = 301, SYS_prlimit64 = 302, SYS_sendmmsg = 307, SYS_kcmp = 312, SYS_sched_setattr = 314,
	AUDIT_ARCH = 0xc000003e /* AUDIT_ARCH_X86_64 */, O_DIRECTORY = 0x10000
#else
	/* include/uapi/asm-generic/unistd.h; the calls that take a path without a folder are not among them */
	SYS_setxattr = 5, SYS_lsetxattr = 6, SYS_fsetxattr = 7, SYS_removexattr = 14, SYS_lremovexattr = 15, SYS_fremovexattr = 16,
	SYS_ioctl = 29, SYS_mknodat = 33, SYS_symlinkat = 36, SYS_umount2 = 39, SYS_mount = 40, SYS_pivot_root = 41, SYS_chdir = 49,
	SYS_fchdir = 50, SYS_chroot = 51, SYS_fchmod = 52, SYS_fchmodat = 53, SYS_fchownat = 54, SYS_fchown = 55, SYS_openat = 56,
	SYS_close = 57, SYS_pread64 = 67, SYS_utimensat = 88, SYS_capget = 90, SYS_capset = 91, SYS_unshare = 97,
	SYS_kexec_load = 104, SYS_init_module = 105, SYS_kill = 129, SYS_rt_sigaction = 134, SYS_reboot = 142, SYS_setsid = 157, SYS_setgroups = 159,
	SYS_sethostname = 161, SYS_prctl = 167, SYS_getpid = 172, SYS_getuid = 174, SYS_getgid = 176, SYS_socket = 198, SYS_connect = 203,
	SYS_add_key = 217, SYS_request_key = 218, SYS_keyctl = 219, SYS_clone = 220, SYS_execve = 221, SYS_swapon = 224, SYS_wait4 = 260,
	SYS_open_by_handle_at = 265, SYS_setns = 268, SYS_process_vm_readv = 270, SYS_process_vm_writev = 271, SYS_finit_module = 273,
	SYS_bpf = 280, SYS_userfaultfd = 282,
	SYS_fcntl = 25, SYS_inotify_init1 = 26, SYS_inotify_add_watch = 27, SYS_ioprio_set = 30, SYS_flock = 32, SYS_sched_setparam = 118,
	SYS_sched_setscheduler = 119, SYS_sched_setaffinity = 122, SYS_setpriority = 140, SYS_mq_open = 180, SYS_mq_unlink = 181,
	SYS_msgget = 186, SYS_msgctl = 187, SYS_msgrcv = 188, SYS_msgsnd = 189, SYS_semget = 190, SYS_semctl = 191, SYS_semtimedop = 192,
	SYS_semop = 193, SYS_shmget = 194, SYS_shmctl = 195, SYS_shmat = 196, SYS_shmdt = 197, SYS_socketpair = 199, SYS_sendto = 206,
	SYS_sendmsg = 211, SYS_migrate_pages = 238, SYS_move_pages = 239, SYS_perf_event_open = 241, SYS_prlimit64 = 261,
	SYS_fanotify_init = 262, SYS_fanotify_mark = 263, SYS_sendmmsg = 269, SYS_kcmp = 272, SYS_sched_setattr = 274,
	AUDIT_ARCH = 0xc00000b7 /* AUDIT_ARCH_AARCH64 */, O_DIRECTORY = 0x4000
#endif
};

#define EPERM 1
#define ENOENT 2
#define EINVAL 22
#define ENOSYS 38
#define TIOCSCTTY 0x540e
#define TIOCNOTTY 0x5422
#define SIGHUP 1
#define SIGKILL 9
#define SIGCHLD 17
#define AT_FDCWD (-100L)

static char **environment;

static int same(const char *one, const char *other)
{
	while (*one && *one == *other)
		one++, other++;
	return *one == *other;
}

/* Ends with the exit code of a command that can't be run (env(1), sh(1)), and says what failed. */
static void fail(const char *what, const char *which, long error)
{
	char number[24];

	number_text(error < 0 ? -error : 0, number);
	say("confine: ");
	say(what);
	say(which);
	say(" failed with error ");
	say(number);
	say("\n");
	call(SYS_exit, error == -ENOENT ? 127 : 126, 0, 0, 0, 0);
}

static void must(long result, const char *what, const char *which)
{
	if (result < 0)
		fail(what, which, result);
}

static long open_file(const char *path, long flags)
{
	return call(SYS_openat, AT_FDCWD, ADDRESS(path), flags, 0666, 0);
}

static char joined[8192];

/* Two paths, one after the other; valid until the next call. */
static const char *join(const char *one, const char *other)
{
	u64 at = 0;

	if (length(one) + length(other) >= sizeof joined)
		fail("path ", one, -36);
	while (*one)
		joined[at++] = *one++;
	while (*other)
		joined[at++] = *other++;
	joined[at] = 0;
	return joined;
}

/* What a shell, make and Node.js pass on without knowing of it: a folder's descriptor opens every file of the folder, and a lock stays held. */
static void close_from(u64 first)
{
	static u64 limits[2];
	u64 last;

	/* Linux 5.9 and later. */
	if (call(SYS_close_range, first, 0xffffffffL, 0, 0, 0) >= 0)
		return;
	must(call(SYS_prlimit64, 0, 7 /* RLIMIT_NOFILE */, 0, ADDRESS(limits), 0), "the number of descriptors", "");
	for (last = limits[0] < 1048576 ? limits[0] : 1048576; first < last; first++)
		call(SYS_close, first, 0, 0, 0, 0);
}

/* Only root of the machine raises the second one, the hard limit, again (do_prlimit of kernel/sys.c). */
static void limit_processes(u64 most)
{
	u64 limits[2];

	must(call(SYS_prlimit64, 0, 6 /* RLIMIT_NPROC */, 0, ADDRESS(limits), 0), "the number of processes", "");
	if (limits[1] < most)
		most = limits[1];
	limits[0] = limits[1] = most;
	must(call(SYS_prlimit64, 0, 6, ADDRESS(limits), 0, 0), "the number of processes", "");
}

/* A kernel without keys, or a filter that forbids them, shows none either. */
static void new_keyring(void)
{
	long result = call(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, 0, 0, 0, 0);

	if (result != -ENOSYS && result != -EPERM)
		must(result, "a session keyring", "");
}

/* -- Namespaces and mounts ------------------------------------------------------------------------------------------------ */

enum {
	O_CREAT = 0x40, O_CLOEXEC = 0x80000, O_PATH = 0x200000,
	CLONE_NEWNS = 0x20000, CLONE_NEWUTS = 0x4000000, CLONE_NEWIPC = 0x8000000, CLONE_NEWUSER = 0x10000000, CLONE_NEWPID = 0x20000000,
	PR_SET_PDEATHSIG = 1, PR_SET_CHILD_SUBREAPER = 36,
	MS_RDONLY = 1, MS_NOSUID = 2, MS_NODEV = 4, MS_NOEXEC = 8, MS_REMOUNT = 32, MS_BIND = 4096, MS_REC = 16384, MS_SLAVE = 1 << 19,
	MNT_DETACH = 2, AT_RECURSIVE = 0x8000
};

static void mount_or_fail(const char *source, const char *target, const char *type, long flags, const char *data)
{
	must(call(SYS_mount, ADDRESS(source), ADDRESS(target), ADDRESS(type), flags, ADDRESS(data)), "mounting ", target);
}

/*
 * Gives up the controlling terminal, so that a new session can have it: to take it from another session needs CAP_SYS_ADMIN outside all user
 * namespaces (tiocsctty of drivers/tty/tty_jobctrl.c). The kernel sends SIGHUP to the session that has it until then.
 */
static void release_terminal(void)
{
	/* struct sigaction of the kernel: its first word is the handler, 1 to ignore the signal, 0 for the default. */
	static u64 action[4];

	action[0] = 1;
	must(call(SYS_rt_sigaction, SIGHUP, ADDRESS(action), 0, 8, 0), "ignoring ", "SIGHUP");
	call(SYS_ioctl, 0, TIOCNOTTY, 0, 0, 0);
	action[0] = 0;
	must(call(SYS_rt_sigaction, SIGHUP, ADDRESS(action), 0, 8, 0), "no longer ignoring ", "SIGHUP");
}

/* A process of another process namespace has to be a child of one that entered it. 0 in the child. */
static long fork_child(void)
{
	long child = call(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	must(child, "fork", "");
	return child;
}

/* Orphans of a container that became children of this process end here, too. */
static int wait_for(long child)
{
	int status = 0;

	while (call(SYS_wait4, -1, ADDRESS(&status), 0, 0, 0) != child)
		;
	return status;
}

/* Ends as a child ended. */
static void end_as(int status)
{
	if (status & 0x7f)
		call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0, 0), status & 0x7f, 0, 0, 0);
	call(SYS_exit, status & 0x7f ? 128 + (status & 0x7f) : (status >> 8) & 0xff, 0, 0, 0, 0);
}

static void enter(const char *pid)
{
	static const char *const spaces[] = { "/ns/ipc", "/ns/uts", "/ns/net", "/ns/pid", "/ns/mnt", 0 };
	char path[64];
	long handles[8], root, directory, child;
	int index;
	u64 at;
	const char *const *space;

	for (at = 0; at < 6; at++)
		path[at] = "/proc/"[at];
	for (; *pid >= '0' && *pid <= '9' && at < 20; at++)
		path[at] = *pid++;
	path[at] = 0;
	for (index = 0, space = spaces; *space; space++, index++)
		must(handles[index] = open_file(join(path, *space), O_CLOEXEC), "opening ", joined);
	must(root = open_file(join(path, "/root"), O_PATH | O_DIRECTORY | O_CLOEXEC), "opening ", joined);
	must(directory = open_file(join(path, "/cwd"), O_PATH | O_DIRECTORY | O_CLOEXEC), "opening ", joined);
	for (index = 0; spaces[index]; index++)
		must(call(SYS_setns, handles[index], 0, 0, 0, 0), "entering ", spaces[index]);
	must(call(SYS_fchdir, root, 0, 0, 0, 0), "entering ", "root");
	must(call(SYS_chroot, ADDRESS("."), 0, 0, 0, 0), "entering ", "root");
	must(call(SYS_fchdir, directory, 0, 0, 0, 0), "entering ", "the working directory");
	child = fork_child();
	if (child)
		end_as(wait_for(child));
}

/* Kills the processes of a list such as "7 12 ", by which the kernel names the children of a process (proc_pid_children(5)). */
static void kill_listed(const char *list, const char *end)
{
	long pid = 0;

	for (; list < end; list++) {
		if (*list != ' ') {
			pid = pid * 10 + *list - '0';
			continue;
		}
		call(SYS_kill, pid, SIGKILL, 0, 0, 0);
		pid = 0;
	}
}

/*
 * Makes the namespaces of a container and returns in its first process. The other one waits, and ends as the first process did: the kernel
 * ends a process namespace with its first process; without one of its own (hostPID), orphans of the container become children of the waiting
 * process, which kills them; in another container's, only the group of the first process is killed.
 */
static void contain(long kinds)
{
	static char list[4096];
	long child, children, count;
	int status;

	must(call(SYS_unshare, kinds, 0, 0, 0, 0), "unshare", "");
	mount_or_fail(0, "/", 0, MS_REC | MS_SLAVE, 0);
	must(children = open_file("/proc/thread-self/children", O_CLOEXEC), "opening ", "the list of children");
	must(call(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper", "");
	child = fork_child();
	if (child == 0) {
		call(SYS_close, children, 0, 0, 0, 0);
		must(call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "pdeathsig", "");
		call(SYS_setsid, 0, 0, 0, 0, 0);
		return;
	}
	status = wait_for(child);
	call(SYS_kill, -child, SIGKILL, 0, 0, 0);
	do {
		count = call(SYS_pread64, children, ADDRESS(list), sizeof list, 0, 0);
		kill_listed(list, list + count);
	} while (call(SYS_wait4, -1, 0, 0, 0, 0) > 0);
	end_as(status);
}

/* What every container has (config-linux.md of the OCI runtime specification, "Default Devices"); the working directory is its root. */
static void make_devices(void)
{
	static const char *const links[] = { "pts/ptmx", "dev/ptmx", "/proc/self/fd", "dev/fd", "/proc/self/fd/0", "dev/stdin",
		"/proc/self/fd/1", "dev/stdout", "/proc/self/fd/2", "dev/stderr", 0 };
	static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", 0 };
	const char *const *name;
	long handle;

	for (name = devices; *name; name++) {
		must(handle = open_file(*name + 1, O_CREAT | O_CLOEXEC), "making ", *name);
		call(SYS_close, handle, 0, 0, 0, 0);
		mount_or_fail(*name, *name + 1, 0, MS_BIND, 0);
	}
	for (name = links; *name; name += 2)
		must(call(SYS_symlinkat, ADDRESS(name[0]), AT_FDCWD, ADDRESS(name[1]), 0, 0), "making ", name[1]);
}

/* What containerd makes read-only or hides, and what User-Mode Linux adds. */
static void cover_kernel(void)
{
	static const char *const fixed[] = { "sys", "proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger", "proc/mconsole",
		"proc/exitcode", 0 };
	static const char *const hidden[] = { "proc/kcore", "proc/keys", "proc/timer_list", "proc/kallsyms", 0 };
	const char *const *path;
	long result;

	for (path = fixed; *path; path++) {
		result = call(SYS_mount, ADDRESS(*path), ADDRESS(*path), 0, MS_BIND | MS_REC, 0);
		if (result == -ENOENT)
			continue;
		must(result, "covering ", *path);
		mount_or_fail(0, *path, 0, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
	}
	for (path = hidden; *path; path++) {
		result = call(SYS_mount, ADDRESS("/dev/null"), ADDRESS(*path), 0, MS_BIND, 0);
		if (result != -ENOENT)
			must(result, "covering ", *path);
	}
}

/* Not only chroot: root leaves such a directory by another chroot (chroot(2)). */
static void change_root(const char *root, int container)
{
	must(call(SYS_chdir, ADDRESS(root), 0, 0, 0, 0), "chdir ", root);
	mount_or_fail("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
	mount_or_fail("sysfs", "sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
	/* With the lines that ps of procps-ng 4.0.2 needs and User-Mode Linux lacks (network/topology.ts). */
	call(SYS_mount, ADDRESS("/run/cpuinfo"), ADDRESS("proc/cpuinfo"), 0, MS_BIND, 0);
	if (container) {
		make_devices();
		cover_kernel();
	}
	must(call(SYS_pivot_root, ADDRESS("."), ADDRESS("."), 0, 0, 0), "pivot_root ", root);
	must(call(SYS_umount2, ADDRESS("."), MNT_DETACH, 0, 0, 0), "leaving ", "the old root");
	must(call(SYS_chdir, ADDRESS("/"), 0, 0, 0, 0), "chdir ", "/");
}

static void write_file(const char *path, const char *text)
{
	long handle = open_file(path, 1 | O_CLOEXEC);

	must(handle, "opening ", path);
	must(call(SYS_write, handle, ADDRESS(text), length(text), 0, 0), "writing ", path);
	/* A mount with a file open for writing can't be made read-only. */
	call(SYS_close, handle, 0, 0, 0, 0);
}

/* One identity, inside as outside. */
static void map_identity(const char *path, u64 id)
{
	char number[24];

	number_text(id, number);
	write_file(path, join(join(join(number, " "), number), " 1"));
}

struct mount_attributes {
	u64 set, clear, propagation, user_namespace;
};

/* Where the caller is not root, in a user namespace. */
static void new_namespaces(long kinds)
{
	u64 uid = call(SYS_getuid, 0, 0, 0, 0, 0), gid = call(SYS_getgid, 0, 0, 0, 0, 0);

	if (call(SYS_unshare, kinds, 0, 0, 0, 0) >= 0)
		return;
	must(call(SYS_unshare, CLONE_NEWUSER | kinds, 0, 0, 0, 0), "a user namespace", "");
	write_file("/proc/self/setgroups", "deny");
	map_identity("/proc/self/uid_map", uid);
	map_identity("/proc/self/gid_map", gid);
}

/*
 * Returns in the second process of the new process namespace; those before wait and end as it does. Not in the first, which ignores its own
 * signals (pid_namespaces(7)): User-Mode Linux ends itself after a panic by SIGABRT, which it repeats until it is gone.
 */
static void enter_process_namespace(void)
{
	long child = fork_child();

	if (child)
		end_as(wait_for(child));
	must(call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "pdeathsig", "");
	child = fork_child();
	if (child)
		end_as(wait_for(child));
}

/* Needs Linux 5.12. */
static void fix_mounts(char **write)
{
	static struct mount_attributes fixed = { MS_RDONLY, 0, 0, 0 }, open = { 0, MS_RDONLY, 0, 0 };
	char **folder;

	mount_or_fail(0, "/", 0, MS_REC | MS_SLAVE, 0);
	for (folder = write; *folder; folder++)
		mount_or_fail(*folder, *folder, 0, MS_BIND | MS_REC, 0);
	must(call(SYS_mount_setattr, AT_FDCWD, ADDRESS("/"), AT_RECURSIVE, ADDRESS(&fixed), sizeof fixed), "fixing ", "/");
	for (folder = write; *folder; folder++)
		must(call(SYS_mount_setattr, AT_FDCWD, ADDRESS(*folder), AT_RECURSIVE, ADDRESS(&open), sizeof open), "opening ",
		     *folder);
}

/* -- Capabilities --------------------------------------------------------------------------------------------------------- */

enum { PR_CAPBSET_DROP = 24, PR_SET_NO_NEW_PRIVS = 38, PR_CAP_AMBIENT = 47, PR_CAP_AMBIENT_CLEAR_ALL = 4, LAST_CAPABILITY = 63 };

struct capabilities {
	u32 effective, permitted, inheritable;
};

static void keep_capabilities(const char *mask_text)
{
	static u32 head[2] = { 0x20080522 /* _LINUX_CAPABILITY_VERSION_3 */, 0 };
	static struct capabilities sets[2];
	u64 mask = 0, number;
	int half;

	for (; *mask_text; mask_text++)
		mask = mask * 16 + (*mask_text <= '9' ? *mask_text - '0' : (*mask_text | 32) - 'a' + 10);
	/* An ordinary user has none to drop. */
	for (number = 0; number <= LAST_CAPABILITY; number++)
		if (!(mask >> number & 1))
			call(SYS_prctl, PR_CAPBSET_DROP, number, 0, 0, 0);
	call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	must(call(SYS_capget, ADDRESS(head), ADDRESS(sets), 0, 0, 0), "capget", "");
	for (half = 0; half < 2; half++) {
		sets[half].permitted &= (u32)(mask >> 32 * half);
		sets[half].effective = sets[half].permitted;
		sets[half].inheritable = 0;
	}
	must(call(SYS_capset, ADDRESS(head), ADDRESS(sets), 0, 0, 0), "capset", "");
}

static void no_new_privileges(void)
{
	must(call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs", "");
}

/* -- Landlock (Documentation/userspace-api/landlock.rst) -------------------------------------------------------------------- */

enum {
	EXECUTE = 1 << 0, WRITE_FILE = 1 << 1, READ_FILE = 1 << 2, READ_DIR = 1 << 3, REMOVE_DIR = 1 << 4, REMOVE_FILE = 1 << 5,
	MAKE_DIR = 1 << 7, MAKE_REG = 1 << 8, MAKE_SOCK = 1 << 9, TRUNCATE = 1 << 14,
	FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE, BIND_AND_CONNECT_TCP = 3, SCOPE_ABSTRACT_UNIX_SOCKET = 1, SCOPE_SIGNAL = 2
};

static u64 handled;

static long landlock_ruleset(u64 files, u64 network, u64 scopes)
{
	static u64 attributes[3];

	attributes[0] = files;
	attributes[1] = network;
	attributes[2] = scopes;
	return call(SYS_landlock_create_ruleset, ADDRESS(attributes), scopes ? 24 : network ? 16 : 8, 0, 0, 0);
}

/* Whether Landlock forbids signals to others: since Linux 6.12. */
static int scopes_signals(void)
{
	long ruleset = landlock_ruleset(0, 0, SCOPE_SIGNAL);

	if (ruleset >= 0)
		call(SYS_close, ruleset, 0, 0, 0, 0);
	return ruleset >= 0;
}

static void allow(long ruleset, const char *path, u64 rights)
{
	static struct {
		u64 rights;
		int handle;
	} __attribute__((packed)) rule;
	long handle = open_file(path, O_PATH | O_CLOEXEC), result;

	if (handle == -ENOENT)
		return;
	must(handle, "opening ", path);
	rule.rights = rights & handled;
	rule.handle = handle;
	result = call(SYS_landlock_add_rule, ruleset, 1 /* LANDLOCK_RULE_PATH_BENEATH */, ADDRESS(&rule), 0, 0);
	if (result == -EINVAL) {
		/* No folder: it takes no rights of folders. */
		rule.rights &= FILE_RIGHTS;
		result = call(SYS_landlock_add_rule, ruleset, 1, ADDRESS(&rule), 0, 0);
	}
	must(result, "allowing ", path);
}

static void landlock(char **read, char **write)
{
	static const u8 rights[] = { 0, 13, 14, 15, 15, 16 };
	long version = call(SYS_landlock_create_ruleset, 0, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */, 0, 0), ruleset;

	must(version, "landlock", "");
	handled = (1UL << rights[version < 5 ? version : 5]) - 1;
	ruleset = landlock_ruleset(handled, version < 4 ? 0 : BIND_AND_CONNECT_TCP,
				   scopes_signals() ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0);
	must(ruleset, "landlock", "");
	allow(ruleset, "/", READ_DIR);
	for (; *read; read++)
		allow(ruleset, *read, EXECUTE | READ_FILE | READ_DIR);
	for (; *write; write++)
		allow(ruleset, *write, READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | REMOVE_FILE | REMOVE_DIR | MAKE_REG | MAKE_DIR | MAKE_SOCK);
	must(call(SYS_landlock_restrict_self, ruleset, 0, 0, 0, 0), "landlock", "");
}

/* -- System calls ---------------------------------------------------------------------------------------------------------- */

enum {
	LOAD = 0x20, AND = 0x54, EQUAL = 0x15, AT_LEAST = 0x35, ANY_BIT = 0x45, RETURN = 0x06, NOT = 0,
	NUMBER = 0, ARCHITECTURE = 4, FIRST_ARGUMENT = 16, SECOND_ARGUMENT = 24, THIRD_ARGUMENT = 32, FIFTH_ARGUMENT = 48,
	RETURN_ERRNO = 0x50000, RETURN_ALLOW = 0x7fff0000, EPROTONOSUPPORT = 93,
	SOCK_STREAM = 1, F_SETLK = 6, F_SETLKW = 7, F_OFD_SETLK = 37, F_OFD_SETLKW = 38, F_SETLEASE = 1024, F_NOTIFY = 1026, AF_NETLINK = 16, NETLINK_GENERIC = 16
};

struct instruction {
	u16 code;
	u8 if_true, if_false;
	u32 value;
};

static struct instruction filter[512];
static struct {
	u16 length;
	struct instruction *code;
} filter_program;

static void emit(u16 code, u8 if_true, u8 if_false, u32 value)
{
	struct instruction *one = &filter[filter_program.length++];

	one->code = code;
	one->if_true = if_true;
	one->if_false = if_false;
	one->value = value;
}

/*
 * What Landlock doesn't know (modes, owners, times and attributes of files; who watches or locks them) and what reaches other programs of
 * this user: limits, priorities, processors, queues and memory of System V and POSIX, sockets. User-Mode Linux needs none of it.
 */
static const u16 denied[] = {
#ifdef __x86_64__
	SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_mknod, SYS_inotify_init,
#endif
	SYS_fchmodat, SYS_fchmodat2, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_setxattrat, SYS_removexattr,
	SYS_lremovexattr, SYS_fremovexattr, SYS_removexattrat, SYS_file_setattr, SYS_mknodat, SYS_mount,
	SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsmount, SYS_fspick,
	SYS_mount_setattr, SYS_unshare, SYS_setns, SYS_swapon, SYS_reboot, SYS_init_module, SYS_finit_module, SYS_kexec_load,
	SYS_bpf, SYS_userfaultfd, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_open_by_handle_at, SYS_process_vm_readv,
	SYS_process_vm_writev, SYS_pidfd_getfd, SYS_io_uring_setup, SYS_io_uring_enter,
	SYS_inotify_init1, SYS_inotify_add_watch, SYS_fanotify_init, SYS_fanotify_mark, SYS_flock,
	SYS_socket, SYS_connect, SYS_sendmsg, SYS_sendmmsg,
	SYS_shmget, SYS_shmat, SYS_shmctl, SYS_shmdt, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl, SYS_msgget, SYS_msgsnd, SYS_msgrcv,
	SYS_msgctl, SYS_mq_open, SYS_mq_unlink,
	SYS_setpriority, SYS_ioprio_set, SYS_sched_setparam, SYS_sched_setscheduler, SYS_sched_setaffinity, SYS_sched_setattr,
	SYS_migrate_pages, SYS_move_pages, SYS_kcmp, SYS_perf_event_open
};

/* Other architectures and the x32 ABI have other numbers. */
static void begin_filter(void)
{
	filter_program.length = 0;
	emit(LOAD, 0, 0, ARCHITECTURE);
	emit(EQUAL, 1, 0, (u32)AUDIT_ARCH);
	emit(RETURN, 0, 0, RETURN_ERRNO | EPERM);
	emit(LOAD, 0, 0, NUMBER);
	emit(AT_LEAST, 0, 1, 0x40000000 /* __X32_SYSCALL_BIT */);
	emit(RETURN, 0, 0, RETURN_ERRNO | EPERM);
}

static void deny(u32 number)
{
	emit(EQUAL, 0, 1, number);
	emit(RETURN, 0, 0, RETURN_ERRNO | EPERM);
}

static void load_filter(void)
{
	filter_program.code = filter;
	must(call(SYS_prctl, 22 /* PR_SET_SECCOMP */, 2 /* SECCOMP_MODE_FILTER */, ADDRESS(&filter_program), 0, 0), "seccomp", "");
}

/*
 * nginx, tcpdump and su give up groups before they become the user that they are already. ipvsadm uses setsockopt(2) if there is no generic
 * netlink: for that, ip_vs asks for the privilege in the user namespace of the network, but for netlink in the initial one (ip_vs_genl_ops).
 */
static void help_one_user(void)
{
	filter_program.length = 0;
	emit(LOAD, 0, 0, ARCHITECTURE);
	emit(EQUAL, 0, 9, (u32)AUDIT_ARCH);
	emit(LOAD, 0, 0, NUMBER);
	emit(EQUAL, 0, 1, SYS_setgroups);
	emit(RETURN, 0, 0, RETURN_ERRNO);
	emit(EQUAL, 0, 5, SYS_socket);
	emit(LOAD, 0, 0, FIRST_ARGUMENT);
	emit(EQUAL, 0, 3, AF_NETLINK);
	emit(LOAD, 0, 0, THIRD_ARGUMENT);
	emit(EQUAL, 0, 1, NETLINK_GENERIC);
	emit(RETURN, 0, 0, RETURN_ERRNO | EPROTONOSUPPORT);
	emit(RETURN, 0, 0, RETURN_ALLOW);
	load_filter();
}

/*
 * A session keyring of one's own is not enough: the keyring of the user, which /proc/keys lists, may be linked by its number from any user
 * namespace (user_keyring_perm in security/keys/process_keys.c), and a process that possesses it can read its keys.
 */
static void deny_keys(void)
{
	begin_filter();
	deny(SYS_add_key);
	deny(SYS_request_key);
	deny(SYS_keyctl);
	emit(RETURN, 0, 0, RETURN_ALLOW);
	load_filter();
}

/* Denies a system call whose argument (its lower 32 bits) passes a test; behind it, the number of the call is loaded again. */
static void deny_if(u32 number, u32 argument, u16 test, u32 value)
{
	emit(EQUAL, 0, 4, number);
	emit(LOAD, 0, 0, argument);
	if (test == NOT)
		emit(EQUAL, 1, 0, value);
	else
		emit(test, 0, 1, value);
	emit(RETURN, 0, 0, RETURN_ERRNO | EPERM);
	emit(LOAD, 0, 0, NUMBER);
}

/*
 * Only requests to terminals and the like, whose numbers have a 'T' (ioctl-number.rst): those of file systems change flags of a file that is
 * open to read, or a folder's subvolumes, and Landlock does not know them.
 */
static void deny_requests_to_files(void)
{
	emit(EQUAL, 0, 5, SYS_ioctl);
	emit(LOAD, 0, 0, SECOND_ARGUMENT);
	emit(AND, 0, 0, 0xff00);
	emit(EQUAL, 1, 0, 'T' << 8);
	emit(RETURN, 0, 0, RETURN_ERRNO | EPERM);
	emit(LOAD, 0, 0, NUMBER);
}

/* CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET */
#define NEW_NAMESPACES 0x7e020000

static void filter_system_calls(void)
{
	u64 index;

	begin_filter();
	for (index = 0; index < sizeof denied / sizeof *denied; index++)
		deny(denied[index]);
	/* User-Mode Linux ends unless it can change the mode of its memory's file: it is told so and nothing happens. */
	emit(EQUAL, 0, 1, SYS_fchmod);
	emit(RETURN, 0, 0, RETURN_ERRNO);
	/* The C library falls back to clone(2), whose flags are no memory that a filter can't read. */
	emit(EQUAL, 0, 1, SYS_clone3);
	emit(RETURN, 0, 0, RETURN_ERRNO | ENOSYS);
	deny_if(SYS_clone, FIRST_ARGUMENT, ANY_BIT, NEW_NAMESPACES);
	/* Its own limits only. */
	deny_if(SYS_prlimit64, FIRST_ARGUMENT, NOT, 0);
	/* Streams of a pair are connected for good; a datagram socket of a pair can send to any path. */
	deny_if(SYS_socketpair, SECOND_ARGUMENT, ANY_BIT, 0xf & ~SOCK_STREAM);
	deny_if(SYS_sendto, FIFTH_ARGUMENT, NOT, 0);
	deny_if(SYS_sendto, FIFTH_ARGUMENT + 4, NOT, 0);
	deny_if(SYS_fcntl, SECOND_ARGUMENT, EQUAL, F_NOTIFY);
	deny_if(SYS_fcntl, SECOND_ARGUMENT, EQUAL, F_SETLEASE);
	deny_if(SYS_fcntl, SECOND_ARGUMENT, EQUAL, F_SETLK);
	deny_if(SYS_fcntl, SECOND_ARGUMENT, EQUAL, F_SETLKW);
	deny_if(SYS_fcntl, SECOND_ARGUMENT, EQUAL, F_OFD_SETLK);
	deny_if(SYS_fcntl, SECOND_ARGUMENT, EQUAL, F_OFD_SETLKW);
	deny_requests_to_files();
	emit(RETURN, 0, 0, RETURN_ALLOW);
	load_filter();
}

/* -- Options and the program ----------------------------------------------------------------------------------------------- */

static void run(char **arguments)
{
	const char *paths = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *name = *arguments;
	char **variable;
	long error = -ENOENT, result;
	u64 at;

	for (at = 0; name[at]; at++)
		if (name[at] == '/') {
			fail("starting ", name, call(SYS_execve, ADDRESS(name), ADDRESS(arguments), ADDRESS(environment), 0, 0));
		}
	for (variable = environment; *variable; variable++)
		if ((*variable)[0] == 'P' && (*variable)[1] == 'A' && (*variable)[2] == 'T' && (*variable)[3] == 'H' && (*variable)[4] == '=')
			paths = *variable + 5;
	while (*paths) {
		char folder[4096];

		for (at = 0; *paths && *paths != ':' && at < sizeof folder - 2; )
			folder[at++] = *paths++;
		folder[at++] = '/';
		folder[at] = 0;
		if (*paths == ':')
			paths++;
		result = call(SYS_execve, ADDRESS(join(folder, name)), ADDRESS(arguments), ADDRESS(environment), 0, 0);
		if (result != -ENOENT)
			error = result;
	}
	fail("starting ", name, error);
}

enum { MOST = 1024 };
static char *readable[MOST], *writable[MOST], *joined_files[MOST];

static long namespace_kind(const char *name)
{
	if (same(name, "mount"))
		return CLONE_NEWNS;
	if (same(name, "ipc"))
		return CLONE_NEWIPC;
	if (same(name, "uts"))
		return CLONE_NEWUTS;
	if (!same(name, "pid"))
		fail("namespace ", name, -EINVAL);
	return CLONE_NEWPID;
}

static void join_namespace(const char *file)
{
	long handle = open_file(file, O_CLOEXEC);

	must(handle, "opening ", file);
	must(call(SYS_setns, handle, 0, 0, 0, 0), "entering ", file);
}

void begin(long *stack)
{
	long count = *stack, reads = 0, writes = 0, joins = 0, kinds = 0;
	char **argument = (char **)(stack + 1);
	const char *pid = 0, *root = 0, *hostname = 0, *capabilities = 0, *option;
	u64 first_closed = 0, processes = 0;
	int keyring = 0, terminal = 0, container = 0, mounts = 0, apart = 0, scoped = 0, lock = 0, filtered = 0, no_new = 0, one_user = 0, no_keys = 0;

	environment = argument + count + 1;
	for (argument++; *argument && **argument == '-'; argument++) {
		option = *argument;
		if (same(option, "--")) {
			argument++;
			break;
		}
		if (same(option, "--mounts"))
			mounts = 1;
		else if (same(option, "--apart"))
			apart = 1;
		else if (same(option, "--scoped"))
			scoped = 1;
		else if (same(option, "--landlock"))
			lock = 1;
		else if (same(option, "--filter"))
			filtered = 1;
		else if (same(option, "--container"))
			container = 1;
		else if (same(option, "--terminal"))
			terminal = 1;
		else if (same(option, "--one-user"))
			one_user = 1;
		else if (same(option, "--no-keys"))
			no_keys = 1;
		else if (same(option, "--no-new-privs"))
			no_new = 1;
		else if (same(option, "--keyring"))
			keyring = 1;
		else if (!*++argument)
			fail("option ", option, -EINVAL);
		else if (same(option, "--read") && reads < MOST - 1)
			readable[reads++] = *argument;
		else if (same(option, "--write") && writes < MOST - 1)
			writable[writes++] = *argument;
		else if (same(option, "--close"))
			first_closed = number_of(*argument);
		else if (same(option, "--processes"))
			processes = number_of(*argument);
		else if (same(option, "--enter"))
			pid = *argument;
		else if (same(option, "--join") && joins < MOST - 1)
			joined_files[joins++] = *argument;
		else if (same(option, "--new"))
			kinds |= namespace_kind(*argument);
		else if (same(option, "--hostname"))
			hostname = *argument;
		else if (same(option, "--root"))
			root = *argument;
		else if (same(option, "--capabilities"))
			capabilities = *argument;
		else
			fail("option ", option, -EINVAL);
	}
	if (first_closed)
		close_from(first_closed);
	if (keyring)
		new_keyring();
	if (processes)
		limit_processes(processes);
	if (terminal)
		release_terminal();
	if (pid)
		enter(pid);
	for (joins = 0; joined_files[joins]; joins++)
		join_namespace(joined_files[joins]);
	if (kinds)
		contain(kinds);
	if (terminal) {
		/* The first process of a container has one already. */
		call(SYS_setsid, 0, 0, 0, 0, 0);
		must(call(SYS_ioctl, 0, TIOCSCTTY, 0, 0, 0), "the controlling terminal", "");
	}
	if (hostname)
		must(call(SYS_sethostname, ADDRESS(hostname), length(hostname), 0, 0, 0), "the host name ", hostname);
	if (root)
		change_root(root, container);
	if (mounts || apart)
		new_namespaces(mounts ? CLONE_NEWNS | CLONE_NEWPID : CLONE_NEWPID);
	if (mounts)
		fix_mounts(writable);
	if (mounts || apart)
		enter_process_namespace();
	if (scoped && !scopes_signals())
		fail("scopes of landlock", "", -ENOSYS);
	if (capabilities)
		keep_capabilities(capabilities);
	if (no_new || lock || filtered)
		no_new_privileges();
	if (lock)
		landlock(readable, writable);
	if (one_user)
		help_one_user();
	if (no_keys)
		deny_keys();
	if (filtered)
		filter_system_calls();
	if (*argument)
		run(argument);
	call(SYS_exit, 0, 0, 0, 0, 0);
}
