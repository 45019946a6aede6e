/*
 * Fills the floating-point registers %xmm0 to %xmm3, lets something happen, and looks whether they are as before. Compiled by tcc,
 * which uses such registers for floating-point values only. Exits with the number of the case after which they were not.
 */
enum {
	SYS_rt_sigaction = 13, SYS_sched_yield = 24, SYS_setitimer = 38, SYS_fork = 57, SYS_exit = 60, SYS_wait4 = 61,
	SIGALRM = 14, SA_RESTORER = 0x04000000, MICROSECONDS = 2000, PAGE = 4096, PAGES = 400, ROUNDS = 300, TURNS = 20000000
};

long call(long number, long a, long b, long c, long d);
/* vfork(2): the new process has the same memory, in which it must not overwrite where this function returns to. */
long share(void);
void fill(const double *from);
void store(double *to);
void restore(void);

__asm__(".globl _start\n_start:\n and $-16, %rsp\n call begin\n"
	".globl call\ncall:\n mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n mov %r8, %r10\n syscall\n ret\n"
	".globl share\nshare:\n pop %rdx\n mov $58, %eax\n syscall\n push %rdx\n ret\n"
	".globl restore\nrestore:\n mov $15, %eax\n syscall\n"
	".globl fill\nfill:\n movups (%rdi), %xmm0\n movups 16(%rdi), %xmm1\n movups 32(%rdi), %xmm2\n movups 48(%rdi), %xmm3\n ret\n"
	".globl store\nstore:\n movups %xmm0, (%rdi)\n movups %xmm1, 16(%rdi)\n movups %xmm2, 32(%rdi)\n movups %xmm3, 48(%rdi)\n ret\n");

static const double mine[8] = { 1.25, -3.5, 1e100, 4, 5, 6, 7, 8 };
static const double others[8] = { 77, 78, 79, 80, 81, 82, 83, 84 };
static double seen[8];
static volatile char fresh[PAGE * PAGES];
static volatile int rings;

static void expect(const double *values, int number)
{
	const long *one = (const long *)values, *other = (const long *)seen;
	int i;

	store(seen);
	for (i = 0; i < 8; i++)
		if (one[i] != other[i])
			call(SYS_exit, number, 0, 0, 0);
}

static void use_others(int signal)
{
	fill(others);
	rings++;
}

static void ring_every(long microseconds)
{
	long times[4] = { 0, microseconds, 0, microseconds };

	call(SYS_setitimer, 0, (long)times, 0, 0);
}

void begin(void)
{
	long action[4] = { (long)use_others, SA_RESTORER, (long)restore, 0 };
	volatile int turn;
	int round, status = 0;
	long child;

	for (round = 0; round < ROUNDS; round++) {
		fill(mine);
		call(SYS_sched_yield, 0, 0, 0, 0);
		expect(mine, 1);
	}
	for (round = 0; round < PAGES; round++) {
		fill(mine);
		fresh[PAGE * round] = 1;
		expect(mine, 2);
	}
	for (round = 0; round < ROUNDS / 10; round++) {
		fill(mine);
		child = share();
		if (child == 0) {
			fill(others);
			call(SYS_exit, 0, 0, 0, 0);
		}
		expect(mine, 3);
		call(SYS_wait4, child, 0, 0, 0);
	}
	child = call(SYS_fork, 0, 0, 0, 0);
	for (round = 0; round < ROUNDS; round++) {
		fill(child ? mine : others);
		call(SYS_sched_yield, 0, 0, 0, 0);
		expect(child ? mine : others, 4);
	}
	fill(child ? mine : others);
	for (turn = 0; turn < TURNS; turn++)
		;
	expect(child ? mine : others, 5);
	if (!child)
		call(SYS_exit, 0, 0, 0, 0);
	call(SYS_wait4, child, (long)&status, 0, 0);
	if (status)
		call(SYS_exit, 6, 0, 0, 0);
	call(SYS_rt_sigaction, SIGALRM, (long)action, 0, 8);
	ring_every(MICROSECONDS);
	fill(mine);
	while (rings < 20)
		;
	ring_every(0);
	expect(mine, 7);
	call(SYS_exit, 0, 0, 0, 0);
}
