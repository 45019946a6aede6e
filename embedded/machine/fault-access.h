/*
 * Whether an instruction that caused a page fault wanted to read or to write, by its bytes and the registers. The processor tells the
 * host, but ptrace(2) does not pass it on. The encodings are those of the Intel SDM, volume 2: chapter 2 and appendix A.
 *
 * Only instructions that programs are mostly made of are known, and only an operand at the address of the fault counts.
 * test/embedded/fault-access.c compares all of them with what a processor says.
 */
enum access { ACCESS_UNKNOWN, ACCESS_READ, ACCESS_WRITE };

/* The words of struct user_regs_struct (arch/x86/include/asm/user_64.h), which PTRACE_GETREGS fills. */
enum {
	R15, R14, R13, R12, RBP, RBX, R11, R10, R9, R8, RAX, RCX, RDX, RSI, RDI, ORIG_RAX, RIP, CS, EFLAGS, RSP, SS, FS_BASE, GS_BASE,
	DS, ES, FS, GS, REGISTER_WORDS
};

enum {
	PAGE_MASK = 4095,
	/* The longest operand, and an immediate value behind an address that is relative to the next instruction. */
	OPERAND = 64 + 4,
	LONGEST_INSTRUCTION = 15,
	/* Where instructions are numbered in: one byte, 0F, 0F 38 and 0F 3A. */
	ONE_BYTE = 0, MAP_0F = 1, MAP_0F38 = 2, MAP_0F3A = 3
};

/* The numbers of the general registers in an instruction. */
static const unsigned char general_registers[16] = { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

/* An instruction as far as it was decoded. */
struct instruction {
	const unsigned char *text;
	int count, at;
	/* The prefix F2 or F3; 66, F3 or F2 within VEX and EVEX as 1, 2 or 3. */
	int repeat, implied;
	/* The word with the base of a segment, or 0. */
	int segment;
	/* VEX or EVEX; the size of a vector, by which EVEX counts a distance of one byte. */
	int is_vector, scale;
	int map, opcode;
	/* Bit 3 of the registers of an address. */
	int index_high, base_high;
	/* The field of ModRM that is a register, or continues the opcode. */
	int field;
};

/* Decodes prefixes and opcode. 0 for what is not known, or is longer than the text. */
static int decode_opcode(struct instruction *it)
{
	const unsigned char *text = it->text;
	int rex = 0;

	for (;; it->at++) {
		/* The longest that follows: EVEX, the opcode and ModRM. */
		if (it->at + 6 > it->count)
			return 0;
		switch (text[it->at]) {
		case 0xf2: case 0xf3: it->repeat = text[it->at]; continue;
		case 0x64: it->segment = FS_BASE; continue;
		case 0x65: it->segment = GS_BASE; continue;
		case 0x2e: case 0x3e: case 0x66: case 0xf0: continue;
		}
		break;
	}
	if ((text[it->at] & 0xf0) == 0x40)
		rex = text[it->at++];
	it->index_high = (rex & 2) << 2, it->base_high = (rex & 1) << 3;
	it->opcode = text[it->at++];
	text += it->at;
	switch (it->opcode) {
	case 0xc5:
		it->is_vector = 1, it->map = MAP_0F, it->implied = text[0] & 3, it->opcode = text[1], it->at += 2;
		break;
	case 0xc4:
		it->is_vector = 1, it->map = text[0] & 31, it->implied = text[1] & 3, it->opcode = text[2], it->at += 3;
		it->index_high = text[0] & 0x40 ? 0 : 8, it->base_high = text[0] & 0x20 ? 0 : 8;
		break;
	case 0x62:
		/* A value that is repeated for the whole vector has another scale. */
		if (text[2] & 0x10)
			return 0;
		it->is_vector = 1, it->map = text[0] & 7, it->implied = text[1] & 3, it->opcode = text[3], it->at += 4;
		it->scale = 16 << (text[2] >> 5 & 3);
		it->index_high = text[0] & 0x40 ? 0 : 8, it->base_high = text[0] & 0x20 ? 0 : 8;
		break;
	case 0x0f:
		it->map = text[0] == 0x38 ? MAP_0F38 : text[0] == 0x3a ? MAP_0F3A : MAP_0F;
		it->opcode = it->map == MAP_0F ? text[0] : text[1], it->at += it->map == MAP_0F ? 1 : 2;
		break;
	}
	return 1;
}

/* Decodes ModRM and what follows it. 0 if the operand is none in memory, or the text ends before. */
static int decode_address(struct instruction *it, const unsigned long *registers, unsigned long *address)
{
	const unsigned char *text = it->text;
	int mode, base, index = 4, shift = 0, size;
	long distance = 0;

	if (it->at + 2 > it->count)
		return 0;
	mode = text[it->at] >> 6, it->field = text[it->at] >> 3 & 7, base = text[it->at] & 7, it->at++;
	if (mode == 3)
		return 0;
	size = mode == 1 ? 1 : mode == 2 ? 4 : 0;
	*address = 0;
	if (base == 4) {
		shift = text[it->at] >> 6, index = (text[it->at] >> 3 & 7) | it->index_high, base = text[it->at] & 7, it->at++;
		if (base == 5 && mode == 0)
			size = 4;
		else
			*address = registers[general_registers[base | it->base_high]];
		/* 4 would be the stack pointer. */
		if (index != 4)
			*address += registers[general_registers[index]] << shift;
	} else if (base == 5 && mode == 0) {
		size = 4;
		*address = registers[RIP] + it->at + size;
	} else
		*address = registers[general_registers[base | it->base_high]];
	if (it->at + size > it->count)
		return 0;
	if (size == 1)
		distance = (signed char)text[it->at] * (it->scale ? it->scale : 1);
	else if (size == 4)
		distance = *(const int *)(text + it->at);
	*address += distance + (it->segment ? registers[it->segment] : 0);
	return 1;
}

/* Of an instruction of VEX or EVEX: whole vectors, and parts of them. */
static enum access vector_access(const struct instruction *it)
{
	if (it->map == MAP_0F)
		switch (it->opcode) {
		case 0x11: case 0x13: case 0x17: case 0x29: case 0x2b: case 0x7f: case 0xd6: case 0xe7:
			return ACCESS_WRITE;
		case 0x7e:
			return it->implied == 1 ? ACCESS_WRITE : it->implied == 2 ? ACCESS_READ : ACCESS_UNKNOWN;
		case 0x10: case 0x12: case 0x16: case 0x28: case 0x54: case 0x57: case 0x58: case 0x59: case 0x64: case 0x6c: case 0x6d:
		case 0x6e: case 0x6f: case 0x74: case 0x75: case 0x76: case 0xd4: case 0xda: case 0xdb: case 0xde: case 0xeb: case 0xef:
		case 0xf8: case 0xfe:
			return ACCESS_READ;
		}
	if (it->map == MAP_0F38)
		switch (it->opcode) {
		case 0x00: case 0x18: case 0x29: case 0x58: case 0x59: case 0x78:
			return ACCESS_READ;
		}
	if (it->map == MAP_0F3A)
		switch (it->opcode) {
		case 0x0f: case 0x1e: case 0x1f: case 0x25: case 0x3e: case 0x3f:
			return ACCESS_READ;
		}
	return ACCESS_UNKNOWN;
}

/* Of an instruction of 0F without VEX: SSE, conditional ones, bits, and exchanges. */
static enum access long_access(const struct instruction *it)
{
	if (it->map != MAP_0F)
		return ACCESS_UNKNOWN;
	/* cmov */
	if (it->opcode >= 0x40 && it->opcode < 0x50)
		return ACCESS_READ;
	/* set */
	if (it->opcode >= 0x90 && it->opcode < 0xa0)
		return ACCESS_WRITE;
	switch (it->opcode) {
	case 0x11: case 0x13: case 0x17: case 0x29: case 0x2b: case 0x7f: case 0xab: case 0xb0: case 0xb1: case 0xb3: case 0xbb: case 0xc0:
	case 0xc1: case 0xc3: case 0xd6: case 0xe7:
		return ACCESS_WRITE;
	case 0x7e:
		return it->repeat == 0xf3 ? ACCESS_READ : ACCESS_WRITE;
	case 0xba:
		return it->field == 4 ? ACCESS_READ : it->field > 4 ? ACCESS_WRITE : ACCESS_UNKNOWN;
	case 0xc7:
		return it->field == 1 ? ACCESS_WRITE : ACCESS_UNKNOWN;
	case 0x10: case 0x12: case 0x14: case 0x16: case 0x28: case 0x2a: case 0x2c: case 0x2e: case 0x2f: case 0x51: case 0x54: case 0x57:
	case 0x58: case 0x59: case 0x5c: case 0x5e: case 0x60: case 0x61: case 0x62: case 0x6c: case 0x6e: case 0x6f: case 0x74: case 0x75:
	case 0x76: case 0xa3: case 0xaf: case 0xb6: case 0xb7: case 0xb8: case 0xbc: case 0xbd: case 0xbe: case 0xbf: case 0xd4: case 0xda:
	case 0xdb: case 0xde: case 0xeb: case 0xef: case 0xfa: case 0xfe:
		return ACCESS_READ;
	}
	return ACCESS_UNKNOWN;
}

/* Of an instruction of one byte with ModRM. */
static enum access short_access(const struct instruction *it)
{
	/* add, or, adc, sbb, and, sub, xor, and cmp, which changes nothing */
	if (it->opcode < 0x40 && (it->opcode & 7) < 4)
		return it->opcode & 2 || it->opcode >= 0x38 ? ACCESS_READ : ACCESS_WRITE;
	switch (it->opcode) {
	case 0x86: case 0x87: case 0x88: case 0x89: case 0xc0: case 0xc1: case 0xc6: case 0xc7: case 0xd0: case 0xd1: case 0xd2: case 0xd3:
		return ACCESS_WRITE;
	case 0x63: case 0x69: case 0x6b: case 0x84: case 0x85: case 0x8a: case 0x8b:
		return ACCESS_READ;
	case 0x80: case 0x81: case 0x83:
		return it->field == 7 ? ACCESS_READ : ACCESS_WRITE;
	case 0xf6: case 0xf7:
		return it->field == 2 || it->field == 3 ? ACCESS_WRITE : ACCESS_READ;
	case 0xfe: case 0xff:
		return it->field < 2 ? ACCESS_WRITE : it->opcode == 0xff ? ACCESS_READ : ACCESS_UNKNOWN;
	}
	return ACCESS_UNKNOWN;
}

static int is_in(unsigned long address, unsigned long start, unsigned long length)
{
	return address - start < length;
}

/* Of an instruction without ModRM: what is pushed, popped, called, and strings. */
static enum access implicit_access(const struct instruction *it, const unsigned long *registers, unsigned long address)
{
	int reads, writes;

	switch (it->opcode) {
	case 0x50: case 0x51: case 0x52: case 0x53: case 0x54: case 0x55: case 0x56: case 0x57: case 0x68: case 0x6a: case 0xe8:
		return is_in(address, registers[RSP] - 8, 8) ? ACCESS_WRITE : ACCESS_UNKNOWN;
	case 0x58: case 0x59: case 0x5a: case 0x5b: case 0x5c: case 0x5d: case 0x5e: case 0x5f: case 0xc2: case 0xc3:
		return is_in(address, registers[RSP], 8) ? ACCESS_READ : ACCESS_UNKNOWN;
	case 0xc9:
		return is_in(address, registers[RBP], 8) ? ACCESS_READ : ACCESS_UNKNOWN;
	case 0xaa: case 0xab:
		return is_in(address, registers[RDI], it->repeat ? registers[RCX] * 8 : 8) ? ACCESS_WRITE : ACCESS_UNKNOWN;
	case 0xa4: case 0xa5:
		reads = is_in(address, registers[RSI], OPERAND), writes = is_in(address, registers[RDI], OPERAND);
		return reads == writes ? ACCESS_UNKNOWN : reads ? ACCESS_READ : ACCESS_WRITE;
	}
	return ACCESS_UNKNOWN;
}

/*
 * What the instruction in `text`, of which `count` bytes are known, wanted at `address`. ACCESS_READ also means that it could
 * not be fetched.
 */
static enum access access_of(const unsigned char *text, int count, const unsigned long *registers, unsigned long address)
{
	struct instruction it = { text, count };
	unsigned long operand;
	enum access access;

	/* The next page counts only where the instruction reaches it, and what could be read of it ends there. */
	if (address == registers[RIP] ||
	    (count < LONGEST_INSTRUCTION && address == (registers[RIP] | PAGE_MASK) + 1 && address - registers[RIP] == count))
		return ACCESS_READ;
	if (!decode_opcode(&it))
		return ACCESS_UNKNOWN;
	if (it.map == ONE_BYTE && !it.is_vector) {
		access = implicit_access(&it, registers, address);
		if (access != ACCESS_UNKNOWN)
			return access;
	}
	if (decode_address(&it, registers, &operand) && is_in(address, operand, OPERAND))
		return it.is_vector ? vector_access(&it) : it.map == ONE_BYTE ? short_access(&it) : long_access(&it);
	/* call, by an address in a register or in memory that could be read */
	if (it.map == ONE_BYTE && it.opcode == 0xff && it.field == 2)
		return is_in(address, registers[RSP] - 8, 8) ? ACCESS_WRITE : ACCESS_UNKNOWN;
	return ACCESS_UNKNOWN;
}
