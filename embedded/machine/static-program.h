/*
 * What a static program without a C library begins with: its first instructions, which call begin() with the stack (the number of arguments, the
 * arguments, the environment), system calls, and numbers as text. Included once, behind nothing else.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

long call(long number, long a, long b, long c, long d, long e);

#ifdef __x86_64__
__asm__(".globl _start\n_start:\n mov %rsp, %rdi\n and $-16, %rsp\n call begin\n"
	".globl call\ncall:\n mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n mov %r8, %r10\n"
	" mov %r9, %r8\n xor %r9d, %r9d\n syscall\n ret\n");
#else
/* tcc has no assembler for arm64: the same in the words of the machine. */
void begin(long *stack);
const struct {
	u32 code[4];
	void (*begin)(long *stack);
} _start __attribute__((section(".text"))) = {
	{ 0x910003e0 /* mov x0, sp */, 0x58000061 /* ldr x1, begin */, 0xd61f0020 /* br x1 */, 0xd503201f /* nop */ }, begin
};
static const u32 call_code[] __attribute__((section(".text"))) = {
	0xaa0003e8 /* mov x8, x0 */, 0xaa0103e0 /* mov x0, x1 */, 0xaa0203e1 /* mov x1, x2 */, 0xaa0303e2 /* mov x2, x3 */,
	0xaa0403e3 /* mov x3, x4 */, 0xaa0503e4 /* mov x4, x5 */, 0xd2800005 /* mov x5, #0 */, 0xd4000001 /* svc #0 */, 0xd65f03c0 /* ret */
};
#define call(number, a, b, c, d, e) ((long (*)(long, long, long, long, long, long))call_code)(number, a, b, c, d, e)
#endif

#define ADDRESS(pointer) ((long)(pointer))
#ifdef __x86_64__
enum { SYS_write = 1, SYS_exit = 60 };
#else
enum { SYS_write = 64, SYS_exit = 93 };
#endif

static u64 length(const char *text)
{
	u64 count = 0;

	while (text[count])
		count++;
	return count;
}

static void say(const char *text)
{
	call(SYS_write, 2, ADDRESS(text), length(text), 0, 0);
}

static void number_text(u64 number, char *text)
{
	u64 divisor = 1;

	while (number / divisor > 9)
		divisor *= 10;
	for (; divisor; divisor /= 10)
		*text++ = '0' + number / divisor % 10;
	*text = 0;
}

static u64 number_of(const char *text)
{
	u64 number = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		number = number * 10 + *text - '0';
	return number;
}
