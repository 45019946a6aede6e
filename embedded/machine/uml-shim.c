/*
 * User-Mode Linux up to 6.13 sets a process's floating-point registers from a buffer of 2696 bytes (HOST_FP_SIZE in
 * arch/x86/um/user-offsets.c). The host takes only a whole register area (xstateregs_set in arch/x86/kernel/fpu/regset.c), which
 * is longer on processors with AMX, so that there the first process of the guest died at once. This ptrace gives the host the
 * whole area, with what the guest knows nothing of in its initial state.
 */
#include "fault-access.h"

typedef unsigned char u8;
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
extern int memcmp(const void *one, const void *other, u64 length);
extern void *memcpy(void *to, const void *from, u64 length);
extern int *__errno_location(void);
extern long write(int file, const void *text, u64 length);

static long (*host_ptrace)(long request, long pid, void *address, void *data);
static int (*host_waitpid)(int pid, int *status, int options);

static long set_whole_area(long pid, const struct iovec *given)
{
	struct iovec whole = { area, sizeof area };

	memcpy(area, given->base, given->length);
	((u64 *)area)[XSTATE_BV] &= known_components;
	return host_ptrace(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &whole);
}

enum {
	PTRACE_PEEKTEXT = 1,
	PTRACE_PEEKUSER = 3,
	PTRACE_POKEUSER = 6,
	PTRACE_CONT = 7,
	PTRACE_GETREGS = 12,
	PTRACE_SETREGS = 13,
	PTRACE_GETSIGINFO = 0x4202,
	PTRACE_GETREGSET = 0x4204,
	/* Two processes with one place only replace each other. */
	PLACES = 1024,
	LARGEST = 4096
};

/* siginfo_t of a page fault, in words. */
enum {
	SIGSEGV = 11,
	SIGNAL_WORD = 0,
	/* The lower half of it. */
	CODE_WORD = 1,
	ADDRESS_WORD = 2,
	SEGV_MAPERR = 1,
	SEGV_ACCERR = 2,
	/* __USER_CS: 32-bit code has other instructions. */
	CODE_SEGMENT = 0x33
};

/* struct faultinfo (arch/x86/um/shared/sysdep/faultinfo_64.h) */
struct fault_info {
	int error_code;
	u64 address;
	int trap_number;
};

enum {
	PAGE_FAULT = 14,
	/* Bits of its error code: by a write, by a program. */
	BY_WRITE = 2,
	BY_PROGRAM = 4,
	/* How many faults have to be as expected before the first one is answered here, and which of them are compared later. */
	FIRST_COMPARED = 64,
	COMPARED = 512
};

/* What is known of a process on the host that runs a program of the guest. */
static struct process {
	long pid;
	/* Where the guest's kernel maps the page on which its handler of SIGSEGV, in the process, leaves a struct fault_info. */
	volatile struct fault_info *fault_page;
	/* Its registers when it stopped; SIGINFO_KNOWN also of which fault. */
	enum { RUNNING, REGISTERS_KNOWN, SIGINFO_KNOWN } stop;
	u64 general[REGISTER_WORDS];
	int code;
	u64 address;
	/* The last fault that was answered here. */
	u64 answered_instruction, answered_address;
	/* A stop that the guest's kernel waits for, though the process did not run; and what its handler has to find in a compared one. */
	int is_answered;
	enum access expected;
	/* Its floating-point registers; length 0: unknown. */
	u64 length;
	char content[LARGEST];
} processes[PLACES];

/* How much of a register area the host prints into the guest's buffer. */
static u64 printed;

static struct process *process_of(long pid)
{
	return &processes[pid % PLACES];
}

static struct process *begin_process(long pid, void *fault_page)
{
	struct process *process = process_of(pid);

	process->pid = pid;
	process->fault_page = fault_page;
	process->stop = RUNNING;
	process->is_answered = process->expected = process->length = 0;
	process->answered_instruction = process->answered_address = 0;
	return process;
}

static void remember(struct process *process, const void *content)
{
	process->length = printed <= LARGEST ? printed : 0;
	memcpy(process->content, content, process->length);
}

/*
 * Whether a process's floating-point registers stay as they are. PTRACE_CONT without a signal lets it run only code of the guest's
 * kernel (.syscall_stub, for the mapping of pages), which GCC 11 and newer compile without them (-mno-sse in arch/x86/Makefile.um). A
 * signal clears them (handle_signal in arch/x86/kernel/signal.c); all else lets the guest's own program run, or prepares a new one.
 */
static int keeps_registers(long request, const void *signal)
{
	return request == PTRACE_GETREGS || request == PTRACE_SETREGS || request == PTRACE_PEEKUSER ||
	       request == PTRACE_POKEUSER || request == PTRACE_GETSIGINFO || (request == PTRACE_CONT && !signal);
}

/* Reads up to 8 bytes of a program; a word that ends behind a page is read up to that end if there is no next page. Returns how many. */
static int read_text(long pid, u64 address, u8 *text)
{
	int left = PAGE_MASK + 1 - (address & PAGE_MASK), size = sizeof(u64), *error = __errno_location();
	u64 word;

	*error = 0;
	word = host_ptrace(PTRACE_PEEKTEXT, pid, (void *)address, 0);
	if (*error && left < size) {
		*error = 0;
		word = host_ptrace(PTRACE_PEEKTEXT, pid, (void *)(address + left - size), 0) >> (size - left) * 8;
		size = left;
	}
	if (*error)
		return 0;
	memcpy(text, &word, sizeof word);
	return size;
}

static enum access fault_access(const struct process *process)
{
	u8 text[2 * sizeof(u64)];
	u64 instruction = process->general[RIP];
	int count = read_text(process->pid, instruction, text);
	enum access access = access_of(text, count, process->general, process->address);

	if (access == ACCESS_UNKNOWN && count == sizeof(u64)) {
		count += read_text(process->pid, instruction + count, text + count);
		access = access_of(text, count, process->general, process->address);
	}
	return access;
}

/* How many faults were compared; negative once one of them was not as expected. */
static int compared;

/*
 * After a page fault of a program the guest's kernel lets its process run once more, with SIGSEGV, for a handler that writes down
 * what the fault was (get_skas_faultinfo() in arch/um/os-Linux/skas/process.c). The host builds a frame for the signal and clears the
 * floating-point registers, the handler ends with a trap, and the registers have to be set again: two fifths of the time of a fault.
 * All that it learns is where the fault was, which is known, and whether it was a write, which the instruction says. So this writes it
 * down itself, and waitpid() answers that the handler has run.
 *
 * The first faults go the long way and have to be as expected, so that no kernel with another layout gets an answer from here, and
 * later ones now and then. A program gets the same fault again if it was taken for a read and was a write: then the second goes the long way.
 */
static int answer_fault(struct process *process)
{
	static int count;
	u64 instruction = process->general[RIP];
	enum access access;

	if (compared < 0 || !process->fault_page || (process->code != SEGV_MAPERR && process->code != SEGV_ACCERR) ||
	    process->general[CS] != CODE_SEGMENT)
		return 0;
	if (process->answered_instruction == instruction && process->answered_address == process->address) {
		process->answered_instruction = process->answered_address = 0;
		return 0;
	}
	access = fault_access(process);
	if (access == ACCESS_UNKNOWN)
		return 0;
	if (compared < FIRST_COMPARED || ++count % COMPARED == 0) {
		process->expected = access;
		return 0;
	}
	process->fault_page->error_code = BY_PROGRAM | (access == ACCESS_WRITE ? BY_WRITE : 0);
	process->fault_page->address = process->address;
	process->fault_page->trap_number = PAGE_FAULT;
	process->answered_instruction = instruction;
	process->answered_address = process->address;
	process->is_answered = 1;
	return 1;
}

static void compare_fault(struct process *process)
{
	static const char unexpected[] = "uml-shim: a page fault was not as its instruction says; from now on none is answered\n";
	volatile struct fault_info *fault = process->fault_page;
	int is_expected = fault->trap_number == PAGE_FAULT && fault->address == process->address &&
			  !(fault->error_code & BY_WRITE) == (process->expected != ACCESS_WRITE);

	process->expected = ACCESS_UNKNOWN;
	if (!is_expected)
		write(2, unexpected, sizeof unexpected - 1);
	compared = is_expected ? compared + (compared < FIRST_COMPARED) : -1;
}

/*
 * The guest's kernel sets the floating-point registers before each return to a program (userspace() in arch/um/os-Linux/skas/process.c),
 * though mostly they already are what it read at the stop before, and reads them twice at a page fault. The host allocates and maps an
 * area for every such request (vmalloc in xstateregs_set): without the needless ones a system call of the guest takes half the time, and
 * lab 2 a fifth less.
 */
long ptrace(long request, long pid, void *address, void *data)
{
	struct process *process = process_of(pid);
	struct iovec *given = data;
	u64 *words = data;
	long result;

	if (!host_ptrace)
		host_ptrace = dlsym((void *)-1L /* RTLD_NEXT */, "ptrace");
	if (process->pid != pid)
		begin_process(pid, 0);
	if (request == PTRACE_GETREGSET && (u64)address == NT_X86_XSTATE) {
		if (process->length && process->length <= given->length) {
			memcpy(given->base, process->content, process->length);
			given->length = process->length;
			return 0;
		}
		result = host_ptrace(request, pid, address, data);
		if (!result) {
			printed = given->length;
			remember(process, given->base);
		}
		return result;
	}
	if (request == PTRACE_SETREGSET && (u64)address == NT_X86_XSTATE && given->length >= SMALLEST && given->length <= sizeof area) {
		if (process->length && process->length <= given->length && !memcmp(process->content, given->base, process->length))
			return 0;
		process->length = 0;
		result = set_whole_area(pid, given);
		if (!result && printed <= given->length)
			remember(process, given->base);
		return result;
	}
	if (request == PTRACE_CONT && (u64)data == SIGSEGV && process->stop == SIGINFO_KNOWN && answer_fault(process))
		return 0;
	if (!keeps_registers(request, data))
		process->length = 0;
	result = host_ptrace(request, pid, address, data);
	if (request == PTRACE_GETREGS && !result) {
		memcpy(process->general, data, sizeof process->general);
		process->stop = REGISTERS_KNOWN;
	} else if (request == PTRACE_GETSIGINFO && !result && process->stop != RUNNING) {
		process->code = words[CODE_WORD];
		process->address = words[ADDRESS_WORD];
		process->stop = (int)words[SIGNAL_WORD] == SIGSEGV ? SIGINFO_KNOWN : RUNNING;
	} else if (request != PTRACE_PEEKUSER)
		process->stop = RUNNING;
	return result;
}

int waitpid(int pid, int *status, int options)
{
	static const int trapped = 5 /* SIGTRAP */ << 8 | 0x7f;
	struct process *process = process_of(pid > 0 ? pid : 0);
	int result;

	if (!host_waitpid)
		host_waitpid = dlsym((void *)-1L /* RTLD_NEXT */, "waitpid");
	if (pid <= 0 || process->pid != pid)
		return host_waitpid(pid, status, options);
	if (process->is_answered) {
		process->is_answered = 0;
		*status = trapped;
		return pid;
	}
	result = host_waitpid(pid, status, options);
	if (process->expected != ACCESS_UNKNOWN && result == pid && *status == trapped)
		compare_fault(process);
	return result;
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

/* sigaction(2) on x86-64, as the C library passes it. */
struct sigaction {
	void (*handler)(int signal, void *info, void *context);
	u64 mask[16];
	int flags;
	void *restorer;
};

enum {
	/* Where ucontext_t has the registers, in words. */
	REGISTERS = 5,
	GENERAL_REGISTERS = 16,
	/* XA_ZERO_ENTRY (include/linux/xarray.h), and the members of a struct vm_area_struct that are read of it: its start and end. */
	MARKER = 257 << 2 | 2,
	START_AND_END = 2 * sizeof(u64)
};

/* An area without pages. */
static const u64 no_area[2];

static void (*kernel_handler)(int signal, void *info, void *context);

/*
 * A fork that fails after it began to copy memory (a fatal signal, or no memory: dup_mmap in kernel/fork.c since 6.8) leaves a marker
 * among the areas of the new process. exit_mmap stops there, but then flush_tlb_mm of User-Mode Linux (arch/um/kernel/tlb.c)
 * takes the marker for a pointer, and the kernel panicked: "Kernel mode fault at addr 0x40e". Here it reads an area without pages
 * instead. No pointer of the kernel is so low.
 */
static void on_fault(int signal, void *info, void *context)
{
	u64 address = ((u64 *)info)[ADDRESS_WORD];
	u64 *registers = (u64 *)context + REGISTERS;
	int corrected = 0, i;

	if (address >= MARKER && address < MARKER + START_AND_END)
		for (i = 0; i < GENERAL_REGISTERS; i++)
			if (registers[i] == MARKER) {
				registers[i] = (u64)no_area;
				corrected = 1;
			}
	if (!corrected)
		kernel_handler(signal, info, context);
}

int sigaction(int signal, const struct sigaction *given, struct sigaction *previous)
{
	static int (*host)(int, const struct sigaction *, struct sigaction *);
	struct sigaction own;

	if (!host)
		host = dlsym((void *)-1L /* RTLD_NEXT */, "sigaction");
	/* Any other handler is that of a process of the guest, which has no code of this library (userspace_tramp, up to 6.12). */
	if (signal != SIGSEGV || !given || (kernel_handler && given->handler != kernel_handler))
		return host(signal, given, previous);
	kernel_handler = given->handler;
	own = *given;
	own.handler = on_fault;
	return host(signal, &own, previous);
}

enum {
	SIG_SETMASK = 2,
	SIGKILL = 9,
	SIGCHLD = 17,
	PR_SET_PDEATHSIG = 1,
	CLONE_FILES = 0x400,
	CLONE_PARENT = 0x8000,
	WNOHANG = 1,
	WALL = 0x40000000,
	MAP_PRIVATE = 0x02,
	MAP_ANONYMOUS = 0x20,
	READ_AND_WRITE = 3,
	PAGE = 4096,
	STACK = 16 * PAGE,
	SYS_FUTEX = 202,
	FUTEX_WAIT = 0,
	FUTEX_WAKE = 1,
	/* After so long the kernel looks whether its forker still exists. */
	PATIENCE_SECONDS = 2
};

extern long syscall(long number, ...);
extern int sigprocmask(int how, const void *set, void *previous);
extern int sigfillset(void *set);
extern int prctl(int option, ...);
extern int getpid(void);
extern int getppid(void);
extern int munmap(void *address, u64 length);
extern void _exit(int status);

/* One clone(2) that the kernel asks its forker for, and what came of it, in memory that both of them write to. */
static struct order {
	volatile enum { IDLE, ASKED, DONE } state;
	int (*run)(void *argument);
	void *stack;
	int flags;
	void *argument;
	u64 mask[16];
	int result;
	int error;
} *order;

static int (*host_clone)(int (*run)(void *), void *stack, int flags, void *argument, ...);
static void *(*host_mmap)(void *, u64, int, int, int, long);

/* futex(2): returns at once if the state is another one, and early after a signal. `seconds` 0: without end. */
static void wait_while(int state, long seconds)
{
	struct { long seconds, nanoseconds; } end = { seconds, 0 };

	syscall(SYS_FUTEX, &order->state, FUTEX_WAIT, state, seconds ? &end : 0, 0, 0);
}

static void become(int state)
{
	order->state = state;
	syscall(SYS_FUTEX, &order->state, FUTEX_WAKE, 1, 0, 0, 0);
}

/* The kernel has stopped to wait for the new process, so the order is still the same. */
static int begin(void *argument)
{
	sigprocmask(SIG_SETMASK, order->mask, 0);
	return order->run(argument);
}

/* The forker. Its stack, its code and the order are mapped in the kernel, too, so no stack that the kernel has just mapped is at their place. */
static int fork_on_order(void *kernel)
{
	u64 all[16];
	char *page;

	sigfillset(all);
	sigprocmask(SIG_SETMASK, all, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != (int)(u64)kernel)
		_exit(0);
	for (;;) {
		while (order->state != ASKED)
			wait_while(order->state, 0);
		page = (char *)(((u64)order->stack - 1) & ~(u64)(PAGE - 1));
		host_mmap(page, PAGE, READ_AND_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		order->result = host_clone(begin, order->stack, order->flags | CLONE_PARENT, order->argument);
		order->error = *__errno_location();
		munmap(page, PAGE);
		become(DONE);
	}
	return 0;
}

static int start_forker(void)
{
	char *stack;
	int forker;

	host_mmap = dlsym((void *)-1L /* RTLD_NEXT */, "mmap64");
	order = host_mmap(0, PAGE, READ_AND_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	stack = host_mmap(0, STACK, READ_AND_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if ((long)order == -1 || (long)stack == -1)
		return -1;
	forker = host_clone(fork_on_order, stack + STACK, CLONE_FILES | SIGCHLD, (void *)(u64)getpid());
	/* Those that the kernel forks itself need it no more than any other of its pages. */
	madvise(order, PAGE, MADV_DONTFORK);
	return forker;
}

/* `argument` is the page of its stack in the handler of SIGSEGV (stub_stack of start_userspace). */
static int started(int pid, void *argument)
{
	if (pid > 0)
		begin_process(pid, argument);
	return pid;
}

/*
 * Every process of the guest begins as a fork of the kernel (start_userspace, see above). That takes the longer the more the kernel has
 * mapped, even where nothing of it is copied (dup_mmap of the host takes each mapping out of a copy of the list). So a process
 * that was forked from the kernel before it had mapped much, the forker, forks them for it: they are children of the kernel
 * (CLONE_PARENT), which traces them as before. With it, lab 2 takes five sixths of the time. Without it, after it was killed for
 * instance, the kernel forks them itself.
 */
int clone(int (*run)(void *), void *stack, int flags, void *argument, ...)
{
	static int forker, is_gone;

	if (!host_clone)
		host_clone = dlsym((void *)-1L /* RTLD_NEXT */, "clone");
	/* The kernel's helpers share its memory. */
	if (flags != (CLONE_FILES | SIGCHLD))
		return host_clone(run, stack, flags, argument);
	if (!forker && !is_gone)
		forker = start_forker();
	if (forker < 0)
		is_gone = 1;
	if (is_gone)
		return started(host_clone(run, stack, flags, argument), argument);
	order->run = run;
	order->stack = stack;
	order->flags = flags;
	order->argument = argument;
	sigprocmask(SIG_SETMASK, 0, order->mask);
	become(ASKED);
	while (order->state != DONE) {
		wait_while(ASKED, PATIENCE_SECONDS);
		if (order->state != DONE && waitpid(forker, 0, WNOHANG | WALL) == forker) {
			is_gone = 1;
			return started(host_clone(run, stack, flags, argument), argument);
		}
	}
	*__errno_location() = order->error;
	return started(order->result, argument);
}
