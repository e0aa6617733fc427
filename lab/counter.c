/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts what a machine's processors execute in the windows that lab/bench-live describes: a
 * plugin of QEMU's code translator, which runs one processor at a time. The machine does not notice: its clock counts the same
 * instructions with or without it.
 *
 * -plugin counter.so,probes=FILE,out=FILE,skip=N,count=N: what is executed after `skip` instructions
 * from the mark on is counted, `count` instructions long. A line of `probes` is one of
 *	mark ADDRESS			executed once, by who prepares the load
 *	begin KIND ADDRESS END		a window begins at the function's entry and ends where it returns or
 *					jumps away for good
 *	continue KIND ADDRESS END	the same, but it belongs to the window of that kind before it
 *	end KIND ADDRESS		a window ends at this function's entry too
 *	locks ADDRESS END		the code of Xen's spin locks: to what it writes with a lock prefix is a lock,
 *					had from when such code is left; a write of two bytes gives it up
 *
 * KIND is choice, wake, timer or interrupt. A window inside another is not part of it. A choice ends
 * all others: the processor may leave for another thread. `out` has a line for each window, how
 * many instructions of each block of code were executed in windows, by kind, and a line for each time that a lock
 * was held: its address, that of the code that had it first, and the instructions until it was given up. After a long one
 * follow the blocks that were executed meanwhile.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is used of QEMU's plugin interface, version 1 ---- */

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
typedef void (*on_translation)(uint64_t plugin, struct qemu_plugin_tb *block);
typedef void (*on_execution)(unsigned int cpu, void *data);
typedef void (*on_access)(unsigned int cpu, uint32_t access, uint64_t address, void *data);
#define WRITES 2 /* which accesses */

extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t plugin, on_translation);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, on_execution, int registers, void *);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int add, void *to, uint64_t amount);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, on_access, int registers, int which, void *);
extern unsigned int qemu_plugin_mem_size_shift(uint32_t access);
extern void qemu_plugin_register_atexit_cb(uint64_t plugin, void (*)(uint64_t plugin, void *), void *);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int qemu_plugin_version = 1;

/* ---- Probes and blocks ---- */

#define PROBES_MAX 64
#define WINDOWS_MAX 8 /* inside each other */
#define HOLDS_MAX 16 /* locks that a processor has at once */
#define HOLD_LONG 3000 /* instructions */
#define TRACED 262144 /* blocks that a processor executed last */
#define PROCESSORS_MAX 64
#define KERNEL_FIRST 0xffff800000000000UL /* no window opens below */

enum what {
	MARK,
	BEGIN,
	CONTINUE,
	END,
	LOCKS,
	WHATS,
};

enum kind {
	CHOICE,
	WAKE,
	TIMER,
	INTERRUPT,
	KINDS,
};

static const char *const what_names[] = { "mark", "begin", "continue", "end", "locks" };
static const char *const kind_names[] = { "choice", "wake", "timer", "interrupt" };

static struct probe {
	enum what what;
	enum kind kind;
	uint64_t address, end;
} probes[PROBES_MAX];
static unsigned int probe_count;

/* Code that is translated together and has one entry. */
struct block {
	struct block *next;
	const struct probe *entered; /* it begins here */
	const struct probe *left; /* its last instruction leaves this function */
	uint64_t address, instructions, executed[KINDS];
	bool locks;
};
static struct block *blocks;

struct window {
	enum kind kind;
	uint64_t instructions;
};

static struct processor {
	struct window open[WINDOWS_MAX]; /* each inside the one before */
	unsigned int depth;
	struct hold {
		uint64_t lock, by, instructions;
		uint64_t first; /* number of the block that it begins with */
	} holds[HOLDS_MAX];
	unsigned int held;
	const struct block *trace[TRACED];
	uint64_t traced;
	uint64_t taken; /* a lock, in code that is not left yet */
} processors[PROCESSORS_MAX];

struct closed {
	struct window window;
	const struct processor *on;
};
static struct closed *closed;
static size_t closed_count, closed_room;
static uint64_t executed, begin = UINT64_MAX, skip, count;
static FILE *out;

static void fail(const char *why)
{
	fprintf(stderr, "counter: %s\n", why);
	exit(1);
}

/* An array that has room for one more. */
static void *with_room(void *array, size_t used, size_t *room, size_t each)
{
	if (used == *room) {
		*room = *room ? 2 * *room : 4096;
		array = realloc(array, *room * each);
		if (!array)
			fail("no memory");
	}
	return array;
}

static void close_innermost(struct processor *on)
{
	closed = with_room(closed, closed_count, &closed_room, sizeof(*closed));
	closed[closed_count++] = (struct closed){ on->open[--on->depth], on };
}

static void close_until(struct processor *on, enum kind kind)
{
	unsigned int at = on->depth;

	while (at && on->open[at - 1].kind != kind)
		at--;
	if (!at)
		return;
	while (on->depth >= at)
		close_innermost(on);
}

static void open_window(struct processor *on, const struct probe *probe)
{
	uint64_t before = 0;
	size_t last = closed_count;

	if (probe->kind == CHOICE && probe->what == BEGIN)
		while (on->depth)
			close_innermost(on);
	if (probe->what == CONTINUE) {
		if (on->depth)
			return; /* called from inside */
		while (last && (closed[last - 1].window.kind != probe->kind || closed[last - 1].on != on))
			last--;
		if (!last)
			return;
		before = closed[last - 1].window.instructions;
		closed[last - 1] = closed[--closed_count];
	}
	if (on->depth == WINDOWS_MAX)
		fail("too many windows inside each other");
	on->open[on->depth++] = (struct window){ probe->kind, before };
}

static bool counting(void)
{
	return executed >= begin && executed - begin < count;
}

static void enter(struct processor *on, const struct probe *probe)
{
	if (probe->what == MARK && begin == UINT64_MAX)
		begin = executed + skip;
	if (!counting())
		return;
	if (probe->what == BEGIN || probe->what == CONTINUE)
		open_window(on, probe);
	else if (probe->what == END)
		close_until(on, probe->kind);
}

static struct processor *processor(unsigned int cpu)
{
	if (cpu >= PROCESSORS_MAX)
		fail("too many processors");
	return &processors[cpu];
}

static void take(unsigned int cpu, uint32_t access, uint64_t lock, void *data)
{
	(void)access, (void)data;
	if (counting())
		processor(cpu)->taken = lock;
}

/* Where the processor keeps this lock; an earlier try to take it had failed if it is there already. */
static struct hold *place_of(struct processor *on, uint64_t lock)
{
	unsigned int at = 0;

	while (at < on->held && on->holds[at].lock != lock)
		at++;
	if (at == HOLDS_MAX)
		fail("too many locks at once");
	if (at == on->held)
		on->held++;
	return &on->holds[at];
}

static void write_held(const struct processor *on, const struct hold *hold)
{
	uint64_t i;

	fprintf(out, "held %#" PRIx64 " %#" PRIx64 " %" PRIu64 "\n", hold->lock, hold->by, hold->instructions);
	if (hold->instructions < HOLD_LONG || on->traced - hold->first > TRACED)
		return;
	for (i = hold->first; i < on->traced; i++)
		fprintf(out, "ran %#" PRIx64 " %" PRIu64 "\n", on->trace[i % TRACED]->address,
			on->trace[i % TRACED]->instructions);
}

static void release(unsigned int cpu, uint32_t access, uint64_t lock, void *data)
{
	struct processor *on = processor(cpu);
	unsigned int at = on->held;

	(void)data;
	if (qemu_plugin_mem_size_shift(access) != 1)
		return;
	while (at && on->holds[at - 1].lock != lock)
		at--;
	if (!at)
		return; /* taken by code that nobody named */
	if (counting())
		write_held(on, &on->holds[at - 1]);
	on->holds[at - 1] = on->holds[--on->held];
}

static void execute(unsigned int cpu, void *data)
{
	struct block *block = data;
	struct processor *on = processor(cpu);
	unsigned int i;

	if (on->taken && !block->locks) {
		*place_of(on, on->taken) = (struct hold){ on->taken, block->address, 0, on->traced };
		on->taken = 0;
	}
	if (on->held)
		on->trace[on->traced++ % TRACED] = block;
	for (i = 0; i < on->held; i++)
		on->holds[i].instructions += block->instructions;
	if (block->entered)
		enter(on, block->entered);
	executed += block->instructions;
	if (!counting())
		return;
	if (on->depth) {
		struct window *innermost = &on->open[on->depth - 1];

		innermost->instructions += block->instructions;
		block->executed[innermost->kind] += block->instructions;
	}
	if (block->left)
		close_until(on, block->left->kind);
}

static const struct probe *probe_at(uint64_t address)
{
	unsigned int i;

	for (i = 0; i < probe_count; i++)
		if (probes[i].address == address && probes[i].what < LOCKS)
			return &probes[i];
	return NULL;
}

/* The function that the instruction returns or jumps from for good. */
static const struct probe *function_left(const struct qemu_plugin_insn *instruction)
{
	const uint8_t *bytes = qemu_plugin_insn_data(instruction);
	size_t size = qemu_plugin_insn_size(instruction);
	uint64_t address = qemu_plugin_insn_vaddr(instruction), to = 0;
	int32_t distance;
	unsigned int i;

	if (size == 5 && bytes[0] == 0xe9) { /* jmp, with retpolines also to a return */
		memcpy(&distance, bytes + 1, sizeof(distance));
		to = address + size + (uint64_t)(int64_t)distance;
	} else if (bytes[0] != 0xc3) { /* ret */
		return NULL;
	}
	for (i = 0; i < probe_count; i++)
		if (address >= probes[i].address && address < probes[i].end && probes[i].what < LOCKS)
			return to >= probes[i].address && to < probes[i].end ? NULL : &probes[i];
	return NULL;
}

static bool of_locks(uint64_t address)
{
	unsigned int i;

	for (i = 0; i < probe_count; i++)
		if (probes[i].what == LOCKS && address >= probes[i].address && address < probes[i].end)
			return true;
	return false;
}

static void watch_locks(const struct qemu_plugin_tb *translated)
{
	size_t i;

	for (i = 0; i < qemu_plugin_tb_n_insns(translated); i++) {
		struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(translated, i);
		bool has_lock_prefix = *(const uint8_t *)qemu_plugin_insn_data(instruction) == 0xf0;

		if (of_locks(qemu_plugin_insn_vaddr(instruction)))
			qemu_plugin_register_vcpu_mem_cb(instruction, has_lock_prefix ? take : release, 0, WRITES, NULL);
	}
}

static void translate(uint64_t plugin, struct qemu_plugin_tb *translated)
{
	size_t instructions = qemu_plugin_tb_n_insns(translated);
	uint64_t address = qemu_plugin_tb_vaddr(translated);
	struct block *block;
	const struct probe *entered, *left;

	(void)plugin;
	entered = probe_at(address);
	left = function_left(qemu_plugin_tb_get_insn(translated, instructions - 1));
	if (!entered && !left && address < KERNEL_FIRST) {
		qemu_plugin_register_vcpu_tb_exec_inline(translated, 0, &executed, instructions);
		return;
	}
	block = calloc(1, sizeof(*block));
	if (!block)
		fail("no memory");
	*block = (struct block){ blocks, entered, left, address, instructions, { 0 }, of_locks(address) };
	blocks = block;
	watch_locks(translated);
	qemu_plugin_register_vcpu_tb_exec_cb(translated, execute, 0, block);
}

/* ---- Begin and end ---- */

static void finish(uint64_t plugin, void *data)
{
	struct block *block;
	unsigned int kind;
	size_t i;

	(void)plugin, (void)data;
	fprintf(out, "complete %d\n", executed >= begin && executed - begin >= count);
	for (i = 0; i < closed_count; i++)
		fprintf(out, "window %s %" PRIu64 "\n", kind_names[closed[i].window.kind],
			closed[i].window.instructions);
	for (block = blocks; block; block = block->next)
		for (kind = 0; kind < KINDS; kind++)
			if (block->executed[kind])
				fprintf(out, "code %s %#" PRIx64 " %" PRIu64 "\n", kind_names[kind],
					block->address, block->executed[kind]);
	fclose(out);
}

static unsigned int index_of(const char *name, const char *const *names, unsigned int names_count)
{
	unsigned int i;

	for (i = 0; i < names_count; i++)
		if (!strcmp(names[i], name))
			return i;
	fail("a word in the probes is wrong");
	return names_count;
}

static void read_probes(const char *path)
{
	FILE *file = fopen(path, "r");
	char what[16], kind[16];

	if (!file)
		fail("probes= names no file");
	while (fscanf(file, "%15s", what) == 1) {
		struct probe *probe = &probes[probe_count++];

		if (probe_count == PROBES_MAX)
			fail("too many probes");
		probe->what = index_of(what, what_names, WHATS);
		if (probe->what != MARK && probe->what < LOCKS) {
			if (fscanf(file, "%15s", kind) != 1)
				fail("a probe has no kind");
			probe->kind = index_of(kind, kind_names, KINDS);
		}
		if (fscanf(file, "%" SCNx64, &probe->address) != 1)
			fail("a probe has no address");
		if (probe->what != MARK && probe->what != END &&
		    fscanf(file, "%" SCNx64, &probe->end) != 1)
			fail("a probe has no end");
	}
	fclose(file);
}

EXPORTED int qemu_plugin_install(uint64_t plugin, const struct qemu_info *info, int argument_count,
				 char **arguments)
{
	int i;

	(void)info;
	for (i = 0; i < argument_count; i++) {
		if (!strncmp(arguments[i], "probes=", 7))
			read_probes(arguments[i] + 7);
		else if (!strncmp(arguments[i], "out=", 4))
			out = fopen(arguments[i] + 4, "w");
		else if (!strncmp(arguments[i], "skip=", 5))
			skip = strtoull(arguments[i] + 5, NULL, 10);
		else if (!strncmp(arguments[i], "count=", 6))
			count = strtoull(arguments[i] + 6, NULL, 10);
		else
			fail("an argument is wrong");
	}
	if (!probe_count || !out || !count)
		fail("probes=, out= and count= are needed");
	qemu_plugin_register_vcpu_tb_trans_cb(plugin, translate);
	qemu_plugin_register_atexit_cb(plugin, finish, NULL);
	return 0;
}
