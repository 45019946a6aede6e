/*
 * User-Mode Linux up to 6.13 sets a process's floating-point registers from a buffer of 2696 bytes (HOST_FP_SIZE in
 * arch/x86/um/user-offsets.c). The host takes only a whole register area (xstateregs_set in arch/x86/kernel/fpu/regset.c), which
 * is longer on processors with AMX, so that there the first process of the guest died at once. This ptrace gives the host the
 * whole area, with what the guest knows nothing of in its initial state.
 */
typedef unsigned long u64;

struct iovec {
	void *base;
	u64 length;
};

enum {
	PTRACE_SETREGSET = 0x4205,
	NT_X86_XSTATE = 0x202,
	/* XSTATE_BV, the first word of the XSAVE header (Intel SDM volume 1, 13.4.2): which components are not initial. */
	XSTATE_BV = 512 / sizeof(u64),
	SMALLEST = 576
};

/* Components up to PKRU (bit 9): all that fit into the buffer of the guest's kernel. */
static const u64 known_components = 0x3ff;

/* The host copies as much of it as its register area is long. */
static char area[65536] __attribute__((aligned(64)));

extern void *dlsym(void *after, const char *name);

long ptrace(long request, long pid, void *address, void *data)
{
	static long (*host)(long, long, void *, void *);
	struct iovec *given = data;
	struct iovec whole = { area, sizeof area };
	u64 word;

	if (!host)
		host = dlsym((void *)-1L /* RTLD_NEXT */, "ptrace");
	if (request != PTRACE_SETREGSET || (u64)address != NT_X86_XSTATE || given->length < SMALLEST || given->length > sizeof area)
		return host(request, pid, address, data);
	for (word = 0; word < given->length / sizeof(u64); word++)
		((u64 *)area)[word] = ((u64 *)given->base)[word];
	((u64 *)area)[XSTATE_BV] &= known_components;
	return host(request, pid, address, &whole);
}

enum {
	MAP_SHARED = 0x01,
	MAP_FIXED = 0x10,
	MADV_DONTFORK = 10,
	/* The guest's memory as a whole is larger. */
	PART_OF_MEMORY = 1 << 20
};

extern int madvise(void *address, u64 length, int advice);

/*
 * The kernel maps each page of its modules and of vmalloc on its own: 600 mappings after its boot, 3,000 after lab 2. Every process of
 * the guest begins as a fork of the kernel's own (start_userspace in arch/um/os-Linux/skas/process.c, up to 6.12), which copied all of
 * them for a process that needs none. Without them lab 2 takes a tenth less processor time.
 */
void *mmap64(void *address, u64 length, int protection, int flags, int file, long offset)
{
	static void *(*host)(void *, u64, int, int, int, long);
	void *mapped;

	if (!host)
		host = dlsym((void *)-1L /* RTLD_NEXT */, "mmap64");
	mapped = host(address, length, protection, flags, file, offset);
	if (mapped == address && (flags & MAP_SHARED) && (flags & MAP_FIXED) && length < PART_OF_MEMORY)
		madvise(mapped, length, MADV_DONTFORK);
	return mapped;
}
