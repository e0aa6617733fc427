/* SPDX-License-Identifier: GPL-2.0-only */
/* What the observer knows of each thread, and what it tells of single runs and waits; the loader reads both. */
#ifndef STEELYARD_OBSERVER_H
#define STEELYARD_OBSERVER_H

/* Places for them. A thread has one of PLACES that follow on each other, see place(). */
#define THREAD_BITS 14
#define MAX_THREADS (1 << THREAD_BITS)
#define PLACES 16
/* A power of two: a number is brought into range by a mask. On a larger host two pCPUs share a place. */
#define MAX_PCPUS 1024

enum thread_status {
	THREAD_UNKNOWN,
	THREAD_BLOCKED,
	THREAD_WAITING,
	THREAD_RUNNING,
};

/* Levels of control groups that are looked at. */
#define GROUP_LEVELS 8
#define MAX_GROUPS 4096

/* How a thread is held. */
struct placement {
	u64 group; /* its control group's address; 0: none but the root */
	u64 allowed; /* of the first 64 CPUs; 0: not known */
};

/* By its address. */
struct group {
	u64 parent; /* 0: the root */
	u64 shares; /* 1024 being the usual one */
};

/*
 * seen_ns + gotten_ns + waited_ns + blocked_ns = since_ns, if no window cuts something off. What changes with
 * each wake and run fills the first line of the cache: that it is cold is most of what an event costs.
 */
struct thread {
	s32 tid; /* 0: nobody's place; -1: somebody's, in a moment */
	u32 status;
	u32 cpu; /* number + 1 of the pCPU where it runs or ran last; 0: not seen running */
	u32 waits_at; /* number + 1 of the pCPU where it waits; 0: it does not */
	u64 since_ns; /* of its status */
	u64 gotten_ns;
	u64 waited_ns;
	u64 blocked_ns;
	u64 worst_wait_ns;
	u64 switches;

	u64 seen_ns; /* first */
	u64 migrations;
	u64 preemptions;
	s32 process;
	u32 priority; /* the kernel's number: 100 is niceness -20, what is below real-time */
	struct placement placement;
} __attribute__((aligned(64)));

/* Instead of the number of a pCPU. */
#define WAITED 0xffffffffu

/* A thread ran or waited. */
struct segment {
	u64 start_ns;
	u64 end_ns;
	s32 tid;
	u32 cpu; /* where it ran, or WAITED */
};

/* Somebody who is not watched ran. */
struct other_run {
	struct segment segment;
	char name[16];
	u32 priority; /* the kernel's number: 100 is niceness -20, what is below real-time */
	u32 goes_on; /* 1: it could have run on */
	struct placement placement;
};

/* A thread was woken. */
struct woken {
	u64 time_ns;
	s32 tid;
	s32 waker; /* whose work it was; 0: an interrupt's, or it is not known */
};

#endif
