/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler uses of the Linux kernel: only the fields and functions that it touches. Each
 * access is relocated to the running kernel's layout when the program is loaded (CO-RE), so that
 * this needs no kernel's headers and one build serves all kernels.
 */
#ifndef STEELYARD_KERNEL_H
#define STEELYARD_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* Names that libbpf's headers want. */
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_RB_NO_WAKEUP = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_F_TIMER_ABS = 1,
	BPF_F_TIMER_CPU_PIN = 2,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/*
 * True until the loop has gone on for so long that the kernel ends it (250 ms where it counts time, else
 * eight million rounds): to the verifier, which cannot know how long a list is, loops end by that.
 */
#define can_loop \
	({ \
		__label__ ends, goes_on; \
		bool loops = true; \
		asm volatile goto("may_goto %l[ends]" :: \
					  : \
				  : ends); \
		goto goes_on; \
	ends: \
		loops = false; \
	goes_on:; \
		loops; \
	})

#define CLOCK_MONOTONIC 1
#define ENOMEM 12
#define ESRCH 3
#define PF_KTHREAD 0x00200000
#define TASK_DEAD 0x80
#define TASK_COMM_LEN 16
#define CGROUP_WEIGHT_DFL 100

/* The kernel's own copies: part of the interface between BPF and kernel. */
struct bpf_spin_lock {
	u32 val;
};

struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct scx_init_task_args;
struct scx_cpu_release_args;
struct scx_dump_ctx;

struct cpumask {
	unsigned long bits[1];
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

/* Of the module kvm. */
struct preempt_notifier {
	struct hlist_node link;
};

struct kvm_vcpu_arch {
	bool preempted_in_kernel;
};

struct pid;

struct kvm_vcpu {
	struct preempt_notifier preempt_notifier;
	struct pid *pid; /* of the thread that was in KVM_RUN last */
	struct kvm_vcpu_arch arch;
};

struct scx_task_group {
	u32 weight;
};

struct task_group {
	struct task_group *parent;
	unsigned long shares; /* 1024 times as many as the number, on 64 bits */
	struct scx_task_group scx;
};

/* By value, as the kernel has it. */
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

struct sched_ext_entity {
	u32 flags;
	u32 weight; /* of the niceness; 100 is usual */
	u64 slice;
	u64 dsq_vtime; /* of who was in a queue that is ordered by time */
};

/* From 6.2 to 6.14 of x86. */
struct pcpu_hot {
	int preempt_count;
};

struct rq {
	u32 nr_running;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct thread_info {
	u32 cpu;
	/* Of some architectures; of others it is a variable of each CPU. */
	u32 preempt_count;
};

struct task_struct {
	struct thread_info thread_info;
	u32 __state;
	/* Signed before 7.2 and shorter from then on: only what is unsigned is read in either. */
	u32 on_cpu;
	u32 on_rq;
	u32 flags;
	s32 pid;
	s32 tgid;
	s32 prio;
	char comm[TASK_COMM_LEN];
	const struct cpumask *cpus_ptr;
	struct cpumask cpus_mask;
	struct sched_entity se;
	u16 migration_disabled;
	struct pid *thread_pid;
	struct hlist_head preempt_notifiers;
	struct task_group *sched_task_group;
	struct sched_ext_entity scx;
};

/* Before 5.16 the CPU, before 5.14 the state lay elsewhere. */
struct task_struct___cpu {
	u32 cpu;
};

struct task_struct___state {
	long state;
};

struct bpf_iter__task {
	struct task_struct *task;
};

struct scx_exit_task_args {
	bool cancelled;
};

enum scx_exit_kind {
	SCX_EXIT_NONE,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
	char *dump;
};

#pragma clang attribute pop

/* The operations that this scheduler has; libbpf finds each member by its name. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*tick)(struct task_struct *p);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	u64 flags;
	u64 hotplug_seq;
	u32 timeout_ms;
	char name[128];
};

/* Values that the kernel's interface fixes. */
#define SCX_DSQ_LOCAL 0x8000000000000002ULL
#define SCX_DSQ_LOCAL_ON 0xc000000000000000ULL
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_KICK_IDLE 1ULL /* only who idles */
#define SCX_KICK_PREEMPT 2ULL
#define SCX_OPS_ENQ_LAST 2ULL
#define SCX_TASK_QUEUED 1U

s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
			   bool *is_idle) __ksym;
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym;
bool scx_bpf_dsq_move_to_local(u64 dsq_id) __ksym;
s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
void scx_bpf_error_bstr(char *format, u64 *data, u32 data__sz) __ksym;
void scx_bpf_dump_bstr(char *format, u64 *data, u32 data__sz) __ksym __weak;
u32 scx_bpf_reenqueue_local(void) __ksym __weak;
struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
void bpf_local_irq_save(unsigned long *flags) __ksym;
void bpf_local_irq_restore(unsigned long *flags) __ksym;
/* Since 6.19; before that the fields are written. */
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;
bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 time_ns) __ksym __weak;
/* The first since 6.19, for the second. */
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;
void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) __ksym __weak;
s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags) __ksym;

#endif
