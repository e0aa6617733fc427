/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler knows of each vCPU, domain, queue and pCPU. The loader reads these tables in
 * the program's .bss by the same layout (src/status.rs).
 */
#ifndef STEELYARD_STATE_H
#define STEELYARD_STATE_H

/* Powers of two: an index is brought into range by a mask, which the verifier understands. */
#define MAX_VCPUS 1024
#define MAX_DOMAINS 256
#define MAX_PCPUS 256

#define NONE 0xffffffffu

enum status {
	STATUS_FREE, /* of a slot: nobody's */
	STATUS_BLOCKED,
	STATUS_WAITING,
	STATUS_RUNNING,
};

struct vcpu {
	struct sy_vcpu state;
	u64 since_ns; /* of its status */
	u64 gotten_ns;
	u64 waited_ns;
	u64 blocked_ns;
	u64 worst_wait_ns;
	u64 switches;
	u64 migrations;
	u64 preemptions;
	u64 waits; /* that ended */
	u64 late_waits;
	s32 pid; /* of the thread */
	u32 status;
	u32 domain;
	u32 queue;
	u32 ran_on; /* pCPU, or NONE */
	u32 move_to; /* pCPU whose queue it goes to when it is queued next, or NONE */
	u32 queued; /* 1 while it is in, or on its way into, its queue */
	u32 woken; /* 1 from a wake until it is queued */
	u32 preempted; /* 1: it was stopped while it had work, and waits since then */
	u32 rekey_due; /* 1: its place in the queue is not that of its key any more */
};

struct domain {
	struct sy_domain state;
	u64 resets; /* that its vCPUs caused */
	s32 pid; /* of the process; 0: a free slot */
	u32 cgroup_weight; /* cpu.weight that the weight in effect comes from */
	u64 packets; /* that it received; the loader writes it */
	struct sy_sample departed; /* sums of the vCPUs that are gone */
	struct sy_sample sampled; /* sums at the last sample; as interval_ns its time */
	struct sy_sample sums;
};

struct queue {
	struct sy_queue state;
	u64 resets;
	u32 first_pcpu; /* it serves state.pcpus of them from this one on */
	u32 balance_due; /* 1: asked for */
	u32 rekey_due; /* 1: for some vCPU that waits in it */
};

struct pcpu {
	struct sy_pcpu state;
	u64 charged_ns; /* when the vCPU that runs here was charged last */
	u64 slice_end_ns;
	u64 tick_ns; /* between ticks of the vCPU that runs here, or ran last */
	u64 tick_due_ns;
	u32 current; /* vCPU that runs here, or NONE */
	u32 interrupted; /* vCPU that ran here until a task that is no vCPU came, or NONE */
	u32 replaced; /* 1: the last choice was another than who ran */
	u32 queue;
	u32 offline; /* 1: nobody can run here; the kernel ends the scheduler when that changes */
	u32 coming; /* 1 from a choice until who was chosen runs */
	u32 other_runs; /* 1 while a task that is no vCPU runs here */
	u32 other_had_turn; /* 1: it was the other tasks' turn last */
};

#endif
