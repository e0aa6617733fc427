/* SPDX-License-Identifier: GPL-2.0-only */
/* What the observer knows of each thread; the loader reads it. */
#ifndef STEELYARD_OBSERVER_H
#define STEELYARD_OBSERVER_H

/* A power of two: an index is brought into range by a mask. */
#define MAX_THREADS 256

enum thread_status {
	THREAD_UNKNOWN,
	THREAD_BLOCKED,
	THREAD_WAITING,
	THREAD_RUNNING,
};

struct thread {
	u64 since_ns; /* of its status */
	u64 gotten_ns;
	u64 waited_ns;
	u64 blocked_ns;
	u64 worst_wait_ns;
	u64 switches;
	u64 migrations;
	s32 pid;
	s32 process;
	u32 status;
	u32 cpu; /* number + 1; 0: not seen running */
};

#endif
