/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler knows of each vCPU, domain, queue and pCPU beside what the engine does. The loader
 * reads these tables in the program's .bss by the same layout (src/status.rs).
 */
#ifndef STEELYARD_STATE_H
#define STEELYARD_STATE_H

#include "lock.h"

/* Powers of two: an index is brought into range by a mask, which the verifier understands. */
#define MAX_VCPUS 16384
#define MAX_DOMAINS 4096
#define MAX_PCPUS 1024
/* Instead of a pCPU's number: the CPU was not online as the scheduler was loaded. */
#define NO_PCPU 0xffff
#define PCPU_WORDS (MAX_PCPUS / 64)
#define VCPU_WORDS (MAX_VCPUS / 64)

/* Both name what they link by its number plus 1; 0: none. */
struct link {
	u32 next;
	u32 previous;
};

struct list {
	u32 first;
	u32 last;
};

/* Kinds of lists: those that a vCPU is in, and those of domains. */
enum {
	IN_WAITING, /* of its queue, lowest key first */
	IN_QUEUE, /* all that belong there; or, of a free slot, among the free ones */
	IN_DOMAIN,
	VCPU_LISTS,
	OF_DOMAINS = VCPU_LISTS
};

/* Each begins a line of the cache of its own. */
#define OWN_LINE __attribute__((aligned(64)))

struct vcpu {
	struct engine_vcpu engine;
	struct engine_met met;
	u64 timer_ns; /* when its timer is due; 0: it is not */
	u64 armed_ns; /* when it fires; 0: it does not */
	struct link links[VCPU_LISTS];
	u32 belongs; /* to the queue of this number plus 1, 0: to none; it changes with both queues' locks held */
	s32 pid; /* of the thread; 0: a free slot */
	u32 unasked; /* 1: its thread was taken off with work to do, and enqueue() has not been called since */
	u64 allowed[PCPU_WORDS]; /* pCPUs that it may use */
} OWN_LINE;

/* A thread of the host's, as other tasks have it too. */
struct thread {
	u32 vcpu; /* its number plus 1; 0: it is none */
	u32 runs_guest; /* 1: a tick has found it at that */
	struct engine_other other;
};

struct domain {
	struct lock lock;
	struct engine_domain engine;
	u64 timer_ns; /* when its timer is due; 0: it is not */
	u64 armed_ns; /* when it fires; 0: it does not */
	u32 unparks; /* 1: its vCPUs are being unparked, by one after the other with the host's lock held */
	u32 unparked; /* of host_next_vcpu(), the last that was */
	struct list vcpus;
	struct link link; /* in the order in which accounting visits domains, or among the free ones */
	s32 pid; /* of the process; 0: a free slot */
	struct engine_samples samples; /* packets and what is offered: by the loader */
} OWN_LINE;

struct queue {
	struct lock lock;
	u64 time_ns; /* of the last call with the lock held */
	struct engine_queue engine;
	struct list waiting;
	struct list members;
} OWN_LINE;

struct pcpu {
	struct engine_pcpu engine;
	u64 slice_ns; /* that the last choice gave */
	u64 slice_end_ns;
	u64 tick_due_ns; /* 0: no tick is due */
	u64 armed_ns; /* when its timer fires; 0: it does not */
	u32 offline; /* 1: no CPU that is online has this number; the kernel ends the scheduler when that changes */
	struct engine_turns others;
	u64 counts[ENGINE_COUNT_KINDS]; /* so far */
} OWN_LINE;

#endif
