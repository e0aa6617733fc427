/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What several CPUs do at the same time, as fibers of one thread: each goes on until it reaches a point
 * where another CPU may be faster, or a lock that another one holds. The adversary says who goes on.
 */
#ifndef STEELYARD_MODEL_FIBERS_H
#define STEELYARD_MODEL_FIBERS_H

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
#define __sanitizer_start_switch_fiber(fake, stack, bytes) ((void)(fake), (void)(stack), (void)(bytes))
#define __sanitizer_finish_switch_fiber(fake, stack, bytes) ((void)(fake))
#endif

enum {
	FIBERS = 6,
	HELD = 8, /* locks that one holds, at most */
	STACK_BYTES = 512 << 10
};

enum call_kind { /* which of the kernel's functions BPF may call */
		 CALL_NONE,
		 CALL_DUMP,
		 CALL_SELECT,
		 CALL_ENQUEUE,
		 CALL_DISPATCH,
		 CALL_RELEASE
};

struct fiber {
	ucontext_t context;
	void *stack, *fake;
	void (*does)(struct fiber *f);
	bool busy;
	bool waits; /* for another one */
	u32 cpu;
	struct task *task;
	u64 value;
	/* What BPF is in the middle of. */
	enum call_kind kind;
	struct task *subject; /* of a call that hands over one task */
	u32 called_on;
	struct task *self; /* who runs where this is done, or null */
	struct lock *held[HELD]; /* of BPF, by whom it is */
	u32 locks; /* of these, how many */
	/* CPUs that are kicked once this one takes interrupts again, when it is done. */
	u64 kicks[MAX_PCPUS / 64], preempts[MAX_PCPUS / 64];
};

static struct fiber fibers[FIBERS], outside, *here = &outside;
static const void *outside_stack;
static size_t outside_bytes;
static bool calm; /* nobody is interrupted by others */
static bool smooth; /* nothing is late either */
static u32 loops; /* since the last point */

/* setcontext() and getcontext() instead of swapcontext(), whose stack AddressSanitizer would clear. */
static void __noinline switch_fiber(struct fiber *to)
{
	struct fiber *from = here;
	volatile bool back = false;
	bool inside = to != &outside;

	__sanitizer_start_switch_fiber(from->busy || from == &outside ? &from->fake : NULL,
				       inside ? to->stack : outside_stack, inside ? STACK_BYTES : outside_bytes);
	getcontext(&from->context);
	if (!back) {
		back = true;
		here = to;
		setcontext(&to->context);
	}
	__sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
}

static void send_kicks(u64 *kicks, u64 *preempts);

static void run_fiber(void)
{
	__sanitizer_finish_switch_fiber(NULL, &outside_stack, &outside_bytes);
	here->does(here);
	send_kicks(here->kicks, here->preempts);
	here->busy = false;
	switch_fiber(&outside);
}

static void suspend(void)
{
	ASSERT(here != &outside);
	switch_fiber(&outside);
}

/* Other CPUs may be faster. */
static void point(void)
{
	loops = 0;
	if (here != &outside && !calm && !below(6))
		suspend();
}

/* Until another one has done something. */
static void wait_for_others(void)
{
	here->waits = true;
	suspend();
	here->waits = false;
}

/* ---- BPF's own locks ---- */

static void model_lock_taken(struct lock *lock)
{
	u32 i, j;

	ASSERT(lock->state & LOCK_HELD);
	for (i = 0; i < FIBERS; i++)
		for (j = 0; j < fibers[i].locks; j++)
			ASSERT(fibers[i].held[j] != lock);
	ASSERT(here->locks < HELD);
	here->held[here->locks++] = lock;
	point();
}

static void model_lock_given(struct lock *lock)
{
	u32 i = 0;

	while (i < here->locks && here->held[i] != lock)
		i++;
	ASSERT(i < here->locks);
	here->held[i] = here->held[--here->locks];
	point();
}

static void model_lock_waits(void)
{
	ASSERT(here != &outside);
	wait_for_others();
}

static void resume(struct fiber *f)
{
	switch_fiber(f);
}

static void prepare(struct fiber *f)
{
	if (!f->stack)
		f->stack = malloc(STACK_BYTES);
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = STACK_BYTES;
	f->context.uc_link = NULL;
	makecontext(&f->context, run_fiber, 0);
	f->fake = NULL;
}

static struct fiber *free_fiber(void)
{
	struct fiber *f = fibers;

	while (f < fibers + FIBERS && f->busy)
		f++;
	return f < fibers + FIBERS ? f : NULL;
}

/* Whether it was begun: all fibers may be busy. */
static bool start(void (*does)(struct fiber *), u32 cpu, struct task *task, u64 value)
{
	struct fiber *f = free_fiber();

	if (!f)
		return false;
	prepare(f);
	f->does = does;
	f->busy = true;
	f->cpu = cpu;
	f->task = task;
	f->self = NULL;
	f->value = value;
	resume(f);
	return true;
}

/* All go on to their ends. */
static void finish_all(void)
{
	bool was_calm = calm, more = true;
	u32 round, i;

	calm = true;
	for (round = 0; more; round++) {
		u32 first = below(FIBERS);

		ASSERT(round < 1000);
		more = false;
		for (i = 0; i < FIBERS; i++) {
			struct fiber *f = &fibers[(first + i) % FIBERS];

			if (f->busy)
				resume(f);
			more |= f->busy;
		}
	}
	calm = was_calm;
}

#endif
