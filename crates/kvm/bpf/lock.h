/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks. They are our own: the kernel lets no function be called with one of its locks held. Who holds one cannot be
 * interrupted: the kernel's calls come with interrupts off, timers switch them off.
 *
 * Fairness. A lock that is free is taken by whoever comes. Those who found it held wait in the order in which they came, and
 * the first of them alone looks at it. That one may be kept from running, if this host's CPUs are not its own: so that
 * not all others wait for it then, it is passed, until it has looked LOCK_LOOKS times. Then the lock is reserved for it.
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
	u32 state; /* LOCK_HELD and LOCK_RESERVED; 0: free for whoever comes */
	u32 now; /* whose turn it is to look at it, of those who wait */
	u32 next; /* turn of who waits next */
};

#define LOCK_HELD 1
#define LOCK_RESERVED 2 /* for whose turn it is: nobody else takes it */

/* So often may others be faster. On a processor that is not shared it is 10 us, tens of what is done under a lock. */
#ifndef LOCK_LOOKS
#define LOCK_LOOKS 4096
#endif

/* For a model of the kernel, which watches. */
#ifndef LOCK_TAKEN
#define LOCK_TAKEN(lock)
#define LOCK_GIVEN(lock)
#define LOCK_WAITS(lock)
#endif

/* The kernel takes no constant for a format. */
static char lock_kept[] = "steelyard: somebody keeps a lock";
static u64 nothing;

static __always_inline u32 look_at(u32 *word)
{
	return *(volatile u32 *)word;
}

/* Whether it was free. */
static __always_inline bool try_lock(struct lock *lock)
{
	if (look_at(&lock->state) || __sync_val_compare_and_swap(&lock->state, 0, LOCK_HELD))
		return false;
	LOCK_TAKEN(lock);
	return true;
}

/* By whose turn it is: reserved or not. */
static __always_inline bool lock_is_mine(struct lock *lock)
{
	u32 state = look_at(&lock->state);

	return !(state & LOCK_HELD) && __sync_val_compare_and_swap(&lock->state, state, LOCK_HELD) == state;
}

/*
 * Who holds it may be kept from going on by the host below this one, if there is one: for 250 ms, as long as the kernel
 * lets a program's loops go on. A function of its own: a loop takes stack from each function that has one, and BPF has
 * little.
 */
__weak __noinline int wait_for_lock(struct lock *lock __arg_nonnull)
{
	u32 turn = __sync_fetch_and_add(&lock->next, 1), look;
	bool mine = false;

	while (look_at(&lock->now) != turn && can_loop)
		LOCK_WAITS(lock);
	bpf_for(look, 0, LOCK_LOOKS)
	{
		mine = lock_is_mine(lock);
		if (mine)
			break;
		LOCK_WAITS(lock);
	}
	if (!mine)
		__sync_fetch_and_add(&lock->state, LOCK_RESERVED);
	while (!mine && can_loop) {
		LOCK_WAITS(lock);
		mine = lock_is_mine(lock);
	}
	__sync_fetch_and_add(&lock->now, 1);
	if (!mine)
		scx_bpf_error_bstr(lock_kept, &nothing, 0);
	return 0;
}

static __always_inline void take_lock(struct lock *lock)
{
	if (__sync_val_compare_and_swap(&lock->state, 0, LOCK_HELD))
		wait_for_lock(lock);
	LOCK_TAKEN(lock);
}

/* By a subtraction that gives what was, for its order. */
static __always_inline void give_lock(struct lock *lock)
{
	LOCK_GIVEN(lock);
	__sync_fetch_and_sub(&lock->state, LOCK_HELD);
}

#endif
