/*
 * Runs instructions that are given in hexadecimal, each with registers that point to a page that does not exist, and prints for each one what
 * the processor says of its page fault ("read", "write"; "none" without one, "illegal" if it has no such instruction) and what
 * fault-access.h says of it. Letters before an instruction: d target and s stack on the missing page, e so that its end would be
 * on the missing page. Without arguments it runs every instruction with its operand at (%rbx), in all encodings, of which fault-access.h says
 * anything, and prints those where the processor says something else, how many it ran, and how many of those the processor lacks or had no fault there.
 */
#include "../../embedded/machine/fault-access.h"

enum {
	SYS_write = 1, SYS_mmap = 9, SYS_munmap = 11, SYS_rt_sigaction = 13, SYS_sigaltstack = 131, SYS_arch_prctl = 158, SYS_exit = 60,
	SIGILL = 4, SIGBUS = 7, SIGSEGV = 11, SA_SIGINFO = 4, SA_RESTORER = 0x04000000, SA_ONSTACK = 0x08000000, SA_NODEFER = 0x40000000,
	PROTECTION = 7, PRIVATE_ANONYMOUS = 0x22, ARCH_SET_FS = 0x1002, FS_OFFSET = 0x40, PAGE = 4096, ALIGNMENT = 0x10000,
	/* struct sigcontext (arch/x86/include/uapi/asm/sigcontext.h) in a ucontext_t, in words */
	CONTEXT = 5, CONTEXT_RSP = CONTEXT + 15, CONTEXT_RIP = CONTEXT + 16, CONTEXT_ERROR = CONTEXT + 19, CONTEXT_TRAP = CONTEXT + 20, CONTEXT_CR2 = CONTEXT + 22,
	PAGE_FAULT_TRAP = 14
};

long call(long number, long a, long b, long c, long d, long e, long f);
void restore(void);
/* Loads the registers of the array, in the order of sigcontext up to %rsp, and jumps to its last word. */
void run(unsigned long *registers);
/* Where run() returns. */
void landed(void);

__asm__(".globl _start\n_start:\n mov %rsp, %rdi\n and $-16, %rsp\n call begin\n"
	".globl call\ncall:\n mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n mov %r8, %r10\n mov %r9, %r8\n"
	" mov 8(%rsp), %r9\n syscall\n ret\n"
	".globl restore\nrestore:\n mov $15, %eax\n syscall\n"
	".globl run\nrun:\n push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n mov %rsp, own_stack\n mov %rdi, %rax\n"
	" mov 128(%rax), %rcx\n mov %rcx, jump_to\n"
	" mov (%rax), %r8\n mov 8(%rax), %r9\n mov 16(%rax), %r10\n mov 24(%rax), %r11\n mov 32(%rax), %r12\n mov 40(%rax), %r13\n"
	" mov 48(%rax), %r14\n mov 56(%rax), %r15\n mov 64(%rax), %rdi\n mov 72(%rax), %rsi\n mov 80(%rax), %rbp\n mov 88(%rax), %rbx\n"
	" mov 96(%rax), %rdx\n mov 112(%rax), %rcx\n mov 120(%rax), %rsp\n mov 104(%rax), %rax\n jmp *jump_to\n"
	".globl landed\nlanded:\n mov own_stack, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");

unsigned long own_stack, jump_to;

/* tcc calls it for the initial value of a structure. */
void *memset(void *area, int value, unsigned long length)
{
	char *byte = area;

	while (length--)
		*byte++ = value;
	return area;
}

/* A page for the instruction, none behind it, and two pages in memory. */
static unsigned char *code, *missing, *memory;
static char signal_stack[8 * PAGE];
static enum { NO_FAULT, PAGE_FAULT, ILLEGAL, OTHER } outcome;
static int is_write;
static unsigned long fault;
static enum access decoded;

/* The words of a sigcontext in the order of user_regs_struct. */
static const unsigned char order[16] = { R8, R9, R10, R11, R12, R13, R14, R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP };

static void on_signal(int signal, void *info, unsigned long *context)
{
	unsigned long registers[REGISTER_WORDS], instruction = context[CONTEXT_RIP];
	int i, count = missing - (unsigned char *)instruction;

	outcome = signal == SIGILL ? ILLEGAL : context[CONTEXT_TRAP] == PAGE_FAULT_TRAP ? PAGE_FAULT : OTHER;
	fault = context[CONTEXT_CR2];
	is_write = context[CONTEXT_ERROR] & 2;
	for (i = 0; i < REGISTER_WORDS; i++)
		registers[i] = 0;
	for (i = 0; i < 16; i++)
		registers[order[i]] = context[CONTEXT + i];
	registers[RIP] = instruction;
	registers[FS_BASE] = FS_OFFSET;
	decoded = access_of((unsigned char *)instruction, count > 16 ? 16 : count > 0 ? count : 0, registers, fault);
	context[CONTEXT_RIP] = (unsigned long)landed;
	context[CONTEXT_RSP] = own_stack;
}

static void print(const char *text)
{
	long length = 0;

	while (text[length])
		length++;
	call(SYS_write, 1, (long)text, length, 0, 0, 0);
}

static int digit(char letter)
{
	return letter <= '9' ? letter - '0' : letter - 'a' + 10;
}

/* The registers before an instruction at `at`, of which only the low bytes are the same every time. */
static void prepare(unsigned long *registers, unsigned char *at, int on_target, int on_stack)
{
	int i;

	for (i = 0; i < 16; i++)
		registers[i] = (unsigned long)missing + 0x40 * (i + 4);
	/* r9, r10: an index; rdx, rax, rcx: numbers; rdi, rsp: memory that exists */
	registers[1] = registers[2] = 0x20;
	registers[12] = registers[13] = 0, registers[14] = 3;
	registers[8] = (unsigned long)(on_target ? missing + 0x200 : memory + 0x200);
	registers[9] = (unsigned long)(on_target ? memory + 0x600 : missing + 0x600);
	registers[15] = (unsigned long)(on_stack ? missing + 0x800 : memory + 0x800);
	registers[16] = (unsigned long)at;
}

/* Jumps to where run() returns. */
static void end(unsigned char *at)
{
	/* jmp *0(%rip) */
	at[0] = 0xff, at[1] = 0x25, *(int *)(at + 2) = 0;
	*(unsigned long *)(at + 6) = (unsigned long)landed;
}

static const char *said(void)
{
	return outcome == ILLEGAL ? "illegal" : outcome == NO_FAULT ? "none" : outcome == OTHER ? "other" : is_write ? "write" : "read";
}

static const char *claimed(enum access access)
{
	return access == ACCESS_WRITE ? "write" : access == ACCESS_READ ? "read" : "unknown";
}

static void try(const char *text)
{
	unsigned long registers[17];
	unsigned char *at = code;
	int i, length = 0, on_target = 0, on_stack = 0, at_end = 0;
	const char *name = text;

	for (; *text == 'd' || *text == 's' || *text == 'e'; text++)
		if (text[1] == ':') {
			on_target |= *text == 'd', on_stack |= *text == 's', at_end |= *text == 'e';
			text++;
		} else
			break;
	while (text[length])
		length++;
	length /= 2;
	/* The last byte is missing. */
	if (at_end)
		at = missing - (length - 1);
	for (i = 0; i < length && at + i < missing; i++)
		at[i] = digit(text[2 * i]) << 4 | digit(text[2 * i + 1]);
	if (!at_end)
		end(at + i);
	prepare(registers, at, on_target, on_stack);
	outcome = NO_FAULT, decoded = ACCESS_UNKNOWN;
	run(registers);
	print(name), print(" "), print(said()), print(" "), print(claimed(decoded)), print("\n");
}

static void print_number(long number)
{
	char text[2] = { '0' + number % 10, 0 };

	if (number > 9)
		print_number(number / 10);
	print(text);
}

static long ran, lacking;

/* Runs the instruction that begins with these bytes, with each of 8 fields and the operand (%rbx), if anything is said of it. */
static void sweep(const unsigned char *bytes, int count)
{
	static const char digits[] = "0123456789abcdef";
	unsigned long registers[17], words[REGISTER_WORDS];
	enum access claim;
	int i, field;
	char text[3] = { 0, 0, 0 };

	prepare(registers, code, 0, 0);
	for (i = 0; i < 16; i++)
		words[order[i]] = registers[i];
	words[RIP] = (unsigned long)code;
	for (field = 0; field < 8; field++) {
		for (i = 0; i < count; i++)
			code[i] = bytes[i];
		code[i++] = field << 3 | 3;
		for (; i < 16; i++)
			code[i] = 0;
		claim = access_of(code, 16, words, registers[11]);
		if (claim == ACCESS_UNKNOWN)
			continue;
		/* Behind the longest immediate value; what comes between is only run after an instruction without a fault. */
		end(code + 16);
		outcome = NO_FAULT;
		run(registers);
		ran++;
		/* A bit that a register counts may be far from the operand, even at an address that can't be. */
		if (outcome == ILLEGAL || outcome == OTHER || (outcome == PAGE_FAULT && !is_in(fault, registers[11], OPERAND))) {
			lacking++;
			continue;
		}
		if (outcome == PAGE_FAULT && !is_write == (claim != ACCESS_WRITE) && decoded == claim)
			continue;
		for (i = 0; i <= count; i++) {
			text[0] = digits[code[i] >> 4], text[1] = digits[code[i] & 15];
			print(text);
		}
		print(" "), print(said()), print(" "), print(claimed(claim)), print("\n");
	}
}

static void sweep_all(void)
{
	static const unsigned char prefixes[6] = { 0, 0x66, 0xf2, 0xf3, 0xf0, 0x48 };
	unsigned char bytes[6];
	int prefix, map, opcode, implied, size, wide, count;

	for (opcode = 0; opcode < 256; opcode++) {
		for (prefix = 0; prefix < 6; prefix++)
			for (map = ONE_BYTE; map <= MAP_0F3A; map++) {
				count = 0;
				if (prefixes[prefix])
					bytes[count++] = prefixes[prefix];
				if (map != ONE_BYTE)
					bytes[count++] = 0x0f;
				if (map > MAP_0F)
					bytes[count++] = map == MAP_0F38 ? 0x38 : 0x3a;
				bytes[count++] = opcode;
				sweep(bytes, count);
			}
		for (map = MAP_0F; map <= MAP_0F3A; map++)
			for (implied = 0; implied < 4; implied++)
				for (wide = 0; wide < 2; wide++)
					for (size = 0; size < 3; size++) {
						/* VEX of two bytes, VEX of three bytes, EVEX */
						bytes[0] = 0xc5, bytes[1] = 0xf8 | (size & 1) << 2 | implied, bytes[2] = opcode;
						if (map == MAP_0F && !wide && size < 2)
							sweep(bytes, 3);
						bytes[0] = 0xc4, bytes[1] = 0xe0 | map, bytes[2] = wide << 7 | 0x78 | (size & 1) << 2 | implied, bytes[3] = opcode;
						if (size < 2)
							sweep(bytes, 4);
						bytes[0] = 0x62, bytes[1] = 0xf0 | map, bytes[2] = wide << 7 | 0x7c | implied, bytes[3] = size << 5 | 8;
						bytes[4] = opcode;
						sweep(bytes, 5);
					}
	}
	print_number(ran), print(" ran "), print_number(lacking), print(" did not count\n");
}

void begin(long *stack)
{
	unsigned long action[4] = { (unsigned long)on_signal, SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_NODEFER, (unsigned long)restore, 0 };
	unsigned long alternative[3] = { (unsigned long)signal_stack, 0, sizeof signal_stack };
	char **arguments = (char **)(stack + 1);
	long count = *stack, area, i;

	/* The low 16 bits of every address are the same each time: a 16-bit register may count bits from the operand. */
	area = call(SYS_mmap, 0, ALIGNMENT + 6 * PAGE, PROTECTION, PRIVATE_ANONYMOUS, -1, 0);
	code = (unsigned char *)((area + ALIGNMENT - 1) & -ALIGNMENT);
	missing = code + PAGE;
	memory = code + 3 * PAGE;
	call(SYS_munmap, area, (long)code - area, 0, 0, 0, 0);
	call(SYS_munmap, (long)missing, PAGE, 0, 0, 0, 0);
	call(SYS_munmap, (long)code + 6 * PAGE, area + ALIGNMENT - (long)code, 0, 0, 0, 0);
	call(SYS_sigaltstack, (long)alternative, 0, 0, 0, 0, 0);
	call(SYS_rt_sigaction, SIGSEGV, (long)action, 0, 8, 0, 0);
	call(SYS_rt_sigaction, SIGILL, (long)action, 0, 8, 0, 0);
	call(SYS_rt_sigaction, SIGBUS, (long)action, 0, 8, 0, 0);
	call(SYS_arch_prctl, ARCH_SET_FS, FS_OFFSET, 0, 0, 0, 0);
	if (count == 1)
		sweep_all();
	for (i = 1; i < count; i++)
		try(arguments[i]);
	call(SYS_exit, 0, 0, 0, 0, 0, 0);
}
