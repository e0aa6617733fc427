/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the engine knows of each vCPU, domain, queue and pCPU, and of the host. A host keeps them in
 * tables of its own, zeroed; all are named by their number there. It reads what it likes and writes
 * what is said to be its own.
 */
#ifndef STEELYARD_ENGINE_STATE_H
#define STEELYARD_ENGINE_STATE_H

#include "../steelyard.h"

enum engine_status {
	ENGINE_BLOCKED,
	ENGINE_WAITING, /* for a pCPU, parked or not */
	ENGINE_RUNNING
};

struct engine_vcpu {
	struct sy_vcpu state;
	u64 key; /* place in its queue */
	u64 since_ns; /* when it got its status */
	u64 parked_ns; /* since when it is kept off its queue: parked, or woken if that was later */
	u32 status; /* enum engine_status */
	u32 domain;
	u32 queue;
	u32 ran_on; /* pCPU that it runs or ran on, or SY_NONE */
	u32 move_to; /* pCPU whose queue it goes to when it stops or can, or SY_NONE */
	u8 queued; /* 1: in its queue, under its key */
	u8 parked; /* 1: kept off its queue, runnable or not */
	u8 requeue; /* 1: its parking ended before it had stopped; to its policy it is still parked */
	u8 woken; /* 1: it has not run since it woke */
	u8 saving; /* 1: until engine_saved() nobody can take it, see host_saves() */
	u8 unplaced; /* 1: whom it interrupts is open until then, or until engine_settle_later() */
};

struct engine_domain {
	struct sy_domain state;
	/* For who measures. */
	u64 resets; /* of credit that its vCPUs caused */
	u64 summoned; /* of its vCPUs by a sibling that spins, so often */
};

enum engine_balance_part {
	ENGINE_BALANCE_BEGINS,
	ENGINE_BALANCE_LOOKS, /* at the loads of other queues */
	ENGINE_BALANCE_SEEKS_THERE, /* whom to bring from the one that has most */
	ENGINE_BALANCE_BRINGS,
	ENGINE_BALANCE_SEEKS_HERE, /* whom to give to the one that has least */
	ENGINE_BALANCE_GIVES,
	ENGINE_BALANCE_PLACES /* whom it has moved */
};

/* How far a balance of a queue has come; zero before its first. */
struct engine_balance {
	u64 most_load, least_load; /* found so far */
	u32 most, least; /* queues that have them */
	u32 next, end; /* queues that are still to be looked at */
	u32 vcpu; /* that it has sought out */
	u32 part; /* enum engine_balance_part, the next one */
	u32 number; /* of the balance, from 1 on */
};

/* It serves the pCPUs from first_pcpu on and before end_pcpu that are there, state.pcpus of them. */
struct engine_queue {
	struct sy_queue state;
	struct engine_balance balance; /* which goes on, if one does */
	u32 first_pcpu;
	u32 end_pcpu;
	u32 occupied; /* of its pCPUs, so many */
};

struct engine_pcpu {
	struct sy_pcpu state;
	u64 charged_ns; /* up to when the vCPU that runs here was charged */
	u64 tick_ns; /* between ticks, of the tick that comes */
	u64 turn_end_ns; /* of who runs here, if nothing makes it choose before */
	u64 turn_left_ns; /* what `paused` has left of its turn; of no meaning while nobody runs or is paused, else SY_FOREVER */
	u32 current; /* vCPU that runs here, or SY_NONE */
	u32 queue;
	u32 paused; /* vCPU that ran here until something else came, or SY_NONE */
	u32 vcpus; /* that belong here: their state.pcpu */
	u8 interrupted; /* 1: it is on the way to a choice; the host clears it as that begins */
	u8 occupied; /* 1: something that is no vCPU runs here */
	u8 online; /* 1: it is there */
	u8 lesser; /* 1: sy_is_lesser() runs here, and nothing has interrupted it */
	u8 tick_missed; /* 1: a tick came while it was occupied */
};

/* How far an accounting or a sample of all domains has come; zero at its beginning. */
struct engine_round {
	u32 place; /* of host_next_accounted() */
	u32 visits; /* domain whose vCPUs come next, plus 1; 0: none do */
	u32 visited; /* of host_next_vcpu() there */
	u32 settles; /* 1: all domains are sampled */
};

/*
 * How near pCPUs are to each other: at the distance of the first level of which one group holds both,
 * ENGINE_LEVELS if none does. A group is made of whole ones of the level before; where the host has it otherwise,
 * what is common to a group and to those of all levels after it counts as one. This is the order of Linux's scheduling
 * domains: it cuts a cache at the end of the node (match_llc()), and nodes of one socket are nearer than others.
 */
enum engine_level {
	ENGINE_CORE, /* its hardware threads */
	ENGINE_CACHE, /* who shares the last level of cache */
	ENGINE_NODE, /* of memory (NUMA) */
	ENGINE_SOCKET,
	ENGINE_LEVELS
};

/*
 * One per host. pCPUs are numbered so that those of a group, of any level, follow each other; not each number need
 * have a pCPU that is there.
 */
struct engine {
	struct sy_accounting accounting;
	struct sy_governor governor;
	/* The host's, before engine_begin(). */
	u64 began_ns; /* ticks are in phase with it */
	u32 pcpus; /* numbers of pCPUs are below this, a multiple of the last level */
	u32 level_pcpus[ENGINE_LEVELS]; /* numbers of one group, a multiple of the level before; at least 1 */
	u32 queues;
	/* The engine's. */
	u32 online; /* pCPUs that are there */
	u32 rotor; /* where the search for an idle pCPU in rotation goes on; read and written without a lock */
};

#endif
