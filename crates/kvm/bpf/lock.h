/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks in the order in which they were asked for. They are our own: the kernel lets no function be called with one of
 * its locks held. Who holds one cannot be interrupted: the kernel's calls come with interrupts off, timers switch them
 * off.
 *
 * Memory. What was done under a lock is seen by who takes it next: in BPF an atomic operation that gives a value orders all
 * before it and all after it, on every architecture; a plain load, and an atomic addition that gives none, order nothing.
 *
 * Order, from the first to the last that is taken: a run queue's of the kernel, the host's, a queue's, a
 * domain's, what all share. Of queues one is waited for, and with that held others are only tried.
 */
#ifndef STEELYARD_LOCK_H
#define STEELYARD_LOCK_H

struct lock {
	union {
		struct {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
			u32 now; /* whose turn it is */
			u32 next; /* turn of who comes next; the upper half of both, or its overflow would change the other */
#else
			u32 next;
			u32 now;
#endif
		};
		u64 both;
	};
};

#define ONE_TURN (1ULL << 32)

/* For a model of the kernel, which watches. */
#ifndef LOCK_TAKEN
#define LOCK_TAKEN(lock)
#define LOCK_GIVEN(lock)
#define LOCK_WAITS(lock)
#endif

/* The kernel takes no constant for a format. */
static char lock_kept[] = "steelyard: somebody keeps a lock";
static u64 nothing;

static __always_inline bool lock_is_mine(struct lock *lock, u32 mine)
{
	return *(volatile u32 *)&lock->now == mine;
}

/*
 * Who holds it may be kept from going on by the host below this one, if there is one: for 250 ms, as long as the kernel
 * lets a program's loops go on. A function of its own: a loop takes stack from each function that has one, and BPF has
 * little.
 */
__weak __noinline int wait_for_lock(struct lock *lock __arg_nonnull, u32 mine)
{
	while (!lock_is_mine(lock, mine) && can_loop)
		LOCK_WAITS(lock);
	/* Ordered, unlike the loop's last look. */
	if (__sync_val_compare_and_swap(&lock->now, mine, mine) != mine)
		scx_bpf_error_bstr(lock_kept, &nothing, 0);
	return 0;
}

static __always_inline void take_lock(struct lock *lock)
{
	struct lock seen = { .both = __sync_fetch_and_add(&lock->both, ONE_TURN) };

	if (seen.now != seen.next)
		wait_for_lock(lock, seen.next);
	LOCK_TAKEN(lock);
}

/* Whether it was free. */
static __always_inline bool try_lock(struct lock *lock)
{
	struct lock seen = { .both = *(volatile u64 *)&lock->both };

	if (seen.next != seen.now ||
	    __sync_val_compare_and_swap(&lock->both, seen.both, seen.both + ONE_TURN) != seen.both)
		return false;
	LOCK_TAKEN(lock);
	return true;
}

/* Only who holds it writes whose turn it is: by an exchange, for its order. */
static __always_inline void give_lock(struct lock *lock)
{
	LOCK_GIVEN(lock);
	__sync_lock_test_and_set(&lock->now, lock->now + 1);
}

#endif
