/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Watches threads whose names begin with "CPU " under whatever scheduler: how long each ran, waited
 * and was blocked in a window of time, and its longest wait. The tests compare schedulers by it,
 * the kernel's own included, and the scheduler's own figures with it.
 */
#include "kernel.h"
#include "observer.h"

char gpl[] SEC("license") = "GPL";

struct thread threads[MAX_THREADS];
/* Only what lies between counts. The loader sets both. */
u64 from_ns;
u64 until_ns = ~0ULL;

/* Of each thread: the index of its place + 1. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} place SEC(".maps");
u32 places;

static __always_inline struct thread *thread_of(struct task_struct *p)
{
	u32 *index, fresh;

	if (p->comm[0] != 'C' || p->comm[1] != 'P' || p->comm[2] != 'U' || p->comm[3] != ' ')
		return NULL;
	index = bpf_task_storage_get(&place, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!index)
		return NULL;
	if (!*index) {
		fresh = __sync_fetch_and_add(&places, 1);
		if (fresh >= MAX_THREADS)
			return NULL;
		*index = fresh + 1;
		threads[fresh & (MAX_THREADS - 1)].pid = p->pid;
		threads[fresh & (MAX_THREADS - 1)].process = p->tgid;
	}
	return &threads[(*index - 1) & (MAX_THREADS - 1)];
}

/* The runqueue's lock orders what happens to one thread. */
static __always_inline void change(struct thread *t, u32 status)
{
	u64 now = bpf_ktime_get_ns(), begin = t->since_ns, end = now;

	if (begin < from_ns)
		begin = from_ns;
	if (end > until_ns)
		end = until_ns;
	if (from_ns && begin < end) {
		u64 passed_ns = end - begin;

		if (t->status == THREAD_RUNNING)
			t->gotten_ns += passed_ns;
		else if (t->status == THREAD_BLOCKED)
			t->blocked_ns += passed_ns;
		else if (t->status == THREAD_WAITING) {
			t->waited_ns += passed_ns;
			if (passed_ns > t->worst_wait_ns)
				t->worst_wait_ns = passed_ns;
		}
	}
	if (from_ns && now <= until_ns && status == THREAD_RUNNING) {
		u32 cpu = bpf_get_smp_processor_id();

		t->switches++;
		if (t->cpu != cpu + 1 && t->cpu)
			t->migrations++;
		t->cpu = cpu + 1;
	}
	t->status = status;
	t->since_ns = now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(observer_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     u32 prev_state)
{
	struct thread *t = thread_of(prev);

	if (t)
		change(t, prev_state && !preempt ? THREAD_BLOCKED : THREAD_WAITING);
	t = thread_of(next);
	if (t)
		change(t, THREAD_RUNNING);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(observer_wakeup, struct task_struct *p)
{
	struct thread *t = thread_of(p);

	if (t && t->status == THREAD_BLOCKED)
		change(t, THREAD_WAITING);
	return 0;
}
