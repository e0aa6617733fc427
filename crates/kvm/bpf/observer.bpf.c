/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Watches threads whose names begin with "CPU " under whatever scheduler: how long each ran, waited
 * and was blocked, and, where the loader asks for it, each single run and wait, and who else ran
 * where one of them waited, or ran at all. A wait is what the kernel counts as one: from a thread's way into a run
 * queue until it runs.
 *
 * Locking: the lock of a thread's run queue orders what happens to it, and what happens at its pCPU.
 */
#include "kernel.h"
#include "observer.h"

char gpl[] SEC("license") = "GPL";

/* Whether single runs and waits are told of. */
const volatile bool tells = false;
/* How far a CPU's preempt_count, or what holds it, lies behind its run queue, where that is known. */
const volatile bool preempt_count_known = false;
const volatile s64 preempt_count_from_queue = 0;
/* Whether all runs of others are told of, too, not only those where a thread waits. */
u32 tells_others;
/* Times count between these. The loader sets both. */
u64 from_ns;
u64 until_ns = ~0ULL;
/* Segments for which there was no room, threads for which there was none. */
u64 lost;
u64 unwatched;

struct pcpu {
	/* While a thread waits here, or all are told of: since when who runs here does so, the wait's beginning at the earliest. */
	u64 other_since_ns;
	s32 waiting; /* threads that wait here */
	s32 runs; /* who is not watched and has begun to run while all are told of */
	struct placement placement; /* and how it was held then: who ends is moved to the root before it stops */
} __attribute__((aligned(64)));

struct pcpu pcpus[MAX_PCPUS];

/* A table of its own: one of the kernel's costs some more cold lines per event, and a copy to read. */
struct thread threads[MAX_THREADS];

/* Those of threads that were there when it was last looked for them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u64);
	__type(value, struct group);
} groups SEC(".maps");

/* struct segment, struct other_run, struct woken. The loader sets its size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} segments SEC(".maps");

static __always_inline struct pcpu *pcpu_of(u32 cpu)
{
	return &pcpus[cpu & (MAX_PCPUS - 1)];
}

static __always_inline u32 cpu_of(struct task_struct *p)
{
	if (bpf_core_field_exists(p->thread_info.cpu))
		return p->thread_info.cpu;
	return ((struct task_struct___cpu *)p)->cpu;
}

static __always_inline u64 state_of(struct task_struct *p)
{
	if (bpf_core_field_exists(p->__state))
		return p->__state;
	return ((struct task_struct___state *)p)->state;
}

static __always_inline struct placement placement_of(struct task_struct *p)
{
	struct placement placement = {};

	if (bpf_core_field_exists(p->sched_task_group) && p->sched_task_group &&
	    p->sched_task_group->parent)
		placement.group = (u64)p->sched_task_group;
	/* Not cpus_ptr, which changes for moments in which a thread may not migrate. */
	if (bpf_core_field_exists(p->cpus_mask))
		placement.allowed = p->cpus_mask.bits[0];
	return placement;
}

/* Soft interrupts that are served, hard ones, and those that cannot be masked. */
#define IN_INTERRUPT 0x00ff0100

/*
 * Whether this is the work of the current thread, as far as one can know. Where how deep a CPU is in interrupts is a
 * variable of its own, whose address no program is given, it is found from its run queue, which is one too.
 */
static __always_inline bool is_work(struct task_struct *current)
{
	u32 count = IN_INTERRUPT;

	if (bpf_core_field_exists(current->thread_info.preempt_count)) {
		count = current->thread_info.preempt_count;
	} else if (preempt_count_known && bpf_core_field_exists(current->se.cfs_rq) &&
		   bpf_core_field_exists(current->se.cfs_rq->rq)) {
		u64 address = (u64)current->se.cfs_rq->rq + preempt_count_from_queue;

		if (bpf_core_type_exists(struct pcpu_hot))
			address += bpf_core_field_offset(struct pcpu_hot, preempt_count);
		bpf_probe_read_kernel(&count, sizeof(count), (const void *)address);
	}
	return !(count & IN_INTERRUPT);
}

static __always_inline bool is_watched(const char *name)
{
	return name[0] == 'C' && name[1] == 'P' && name[2] == 'U' && name[3] == ' ';
}

/* The i-th where this thread may be. Those of numbers that follow on each other lie apart (Fibonacci hashing). */
static __always_inline struct thread *place(s32 tid, u32 i)
{
	u32 first = ((u32)tid * 2654435769u) >> (32 - THREAD_BITS);

	return &threads[(first + i) & (MAX_THREADS - 1)];
}

static __always_inline struct thread *find(s32 tid)
{
	for (u32 i = 0; i < PLACES; i++) {
		struct thread *t = place(tid, i);

		if (t->tid == tid)
			return t;
	}
	return NULL;
}

/* A place, zeros but for the thread's number, or for what is to stand in its place. */
static __always_inline struct thread *claim(s32 tid, s32 as)
{
	for (u32 i = 0; i < PLACES; i++) {
		struct thread *t = place(tid, i);

		if (!t->tid && !__sync_val_compare_and_swap(&t->tid, 0, as))
			return t;
	}
	__sync_fetch_and_add(&unwatched, 1);
	return NULL;
}

/* Of who is watched; NULL if there is no room. */
static __always_inline struct thread *thread_of(struct task_struct *p)
{
	struct thread *t = find(p->pid);

	if (t)
		return t;
	t = claim(p->pid, p->pid);
	if (t)
		t->process = p->tgid;
	return t;
}

static __always_inline void tell(s32 tid, u32 cpu, u64 start_ns, u64 end_ns)
{
	struct segment *s = bpf_ringbuf_reserve(&segments, sizeof(*s), 0);

	if (!s) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	s->start_ns = start_ns;
	s->end_ns = end_ns;
	s->tid = tid;
	s->cpu = cpu;
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
}

static __always_inline void tell_other(struct task_struct *p, u32 cpu, u64 start_ns, u64 end_ns,
				       bool goes_on)
{
	struct other_run *o = bpf_ringbuf_reserve(&segments, sizeof(*o), 0);

	if (!o) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	o->segment.start_ns = start_ns;
	o->segment.end_ns = end_ns;
	o->segment.tid = p->pid;
	o->segment.cpu = cpu;
	bpf_probe_read_kernel(o->name, sizeof(o->name), p->comm);
	o->priority = p->prio;
	o->goes_on = goes_on;
	o->placement = pcpu_of(cpu)->runs == p->pid ? pcpu_of(cpu)->placement : placement_of(p);
	bpf_ringbuf_submit(o, BPF_RB_NO_WAKEUP);
}

static __always_inline void wait_at(struct thread *t, u32 cpu, u64 now)
{
	struct pcpu *c = pcpu_of(cpu);

	if (!tells)
		return;
	t->waits_at = cpu + 1;
	__sync_fetch_and_add(&c->waiting, 1);
	if (!c->other_since_ns)
		c->other_since_ns = now;
}

static __always_inline void end_wait(struct thread *t)
{
	if (t->waits_at)
		__sync_fetch_and_add(&pcpu_of(t->waits_at - 1)->waiting, -1);
	t->waits_at = 0;
}

/* The place is nobody's. */
static __always_inline void release(struct thread *t)
{
	end_wait(t);
	__builtin_memset(&t->status, 0, sizeof(*t) - __builtin_offsetof(struct thread, status));
	__sync_lock_test_and_set(&t->tid, 0);
}

static __always_inline void forget(struct task_struct *p)
{
	s32 tid = p->pid;

	/* All, should it have got two: see observer_find. */
	for (u32 i = 0; i < PLACES; i++) {
		struct thread *t = place(tid, i);

		if (t->tid == tid)
			release(t);
	}
}

/* From now on it has this status, on or at this pCPU. */
static __always_inline void change(struct task_struct *p, struct thread *t, u32 status, u32 cpu,
				   u64 now)
{
	u64 begin = t->since_ns, end = now;

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
	if (from_ns && now <= until_ns) {
		if (status == THREAD_RUNNING) {
			t->switches++;
			if (t->cpu != cpu + 1 && t->cpu)
				t->migrations++;
			t->cpu = cpu + 1;
		} else if (status == THREAD_WAITING && t->status == THREAD_RUNNING)
			t->preemptions++;
	}
	if (tells) {
		if (t->status == THREAD_WAITING)
			tell(p->pid, WAITED, t->since_ns, now);
		else if (t->status == THREAD_RUNNING)
			tell(p->pid, cpu, t->since_ns, now);
		end_wait(t);
		if (status == THREAD_WAITING)
			wait_at(t, cpu, now);
	}
	if (t->status == THREAD_UNKNOWN)
		t->seen_ns = now;
	t->status = status;
	t->since_ns = now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(observer_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	bool stops = is_watched(prev->comm), starts = is_watched(next->comm);
	u32 cpu = bpf_get_smp_processor_id();
	struct pcpu *c = pcpu_of(cpu);
	struct thread *t;
	u64 now, state;

	if (!stops && !starts &&
	    (!tells || (c->waiting <= 0 && !c->other_since_ns && !tells_others)))
		return 0;
	now = bpf_ktime_get_ns();
	/* Who is woken at this moment has another state, but not 0, until it is woken. */
	state = state_of(prev);
	if (stops) {
		t = thread_of(prev);
		if (t)
			change(prev, t, state && !preempt ? THREAD_BLOCKED : THREAD_WAITING, cpu,
			       now);
		if (state & TASK_DEAD)
			forget(prev);
	} else if (tells && prev->pid && c->other_since_ns)
		tell_other(prev, cpu, c->other_since_ns, now, !state || preempt);
	if (starts) {
		t = thread_of(next);
		if (t) {
			change(next, t, THREAD_RUNNING, cpu, now);
			t->priority = next->prio;
			t->placement = placement_of(next);
		}
	}
	if (tells)
		c->other_since_ns = c->waiting > 0 || tells_others ? now : 0;
	if (tells && tells_others && !starts) {
		c->runs = next->pid;
		c->placement = placement_of(next);
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(observer_wakeup, struct task_struct *p)
{
	struct thread *t;

	if (!is_watched(p->comm))
		return 0;
	t = thread_of(p);
	if (t && t->status <= THREAD_BLOCKED)
		change(p, t, THREAD_WAITING, cpu_of(p), bpf_ktime_get_ns());
	return 0;
}

static __always_inline int tell_woken(struct task_struct *p)
{
	struct task_struct *current;
	struct woken *w;

	if (!tells_others)
		return 0;
	w = bpf_ringbuf_reserve(&segments, sizeof(*w), 0);
	if (!w) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	current = bpf_get_current_task_btf();
	w->time_ns = bpf_ktime_get_ns();
	w->tid = p->pid;
	w->waker = is_work(current) ? current->pid : 0;
	bpf_ringbuf_submit(w, BPF_RB_NO_WAKEUP);
	return 0;
}

/* In the context of who wakes, before it is in a queue. */
SEC("tp_btf/sched_waking")
int BPF_PROG(observer_waking, struct task_struct *p)
{
	return tell_woken(p);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(observer_new, struct task_struct *p)
{
	return tell_woken(p);
}

/* It waits elsewhere from now on. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(observer_migrate, struct task_struct *p, int cpu)
{
	struct thread *t;

	if (!is_watched(p->comm))
		return 0;
	t = thread_of(p);
	if (t && t->status == THREAD_WAITING) {
		end_wait(t);
		wait_at(t, cpu, bpf_ktime_get_ns());
	}
	return 0;
}

/* Who had the name of a vCPU gets another, which may be one again. */
SEC("tp_btf/task_rename")
int BPF_PROG(observer_rename, struct task_struct *p, const char *name)
{
	if (is_watched(p->comm))
		forget(p);
	return 0;
}

static __always_inline void note_groups(struct task_struct *p)
{
	struct task_group *found;

	if (!bpf_core_field_exists(p->sched_task_group))
		return;
	found = p->sched_task_group;
	for (u32 i = 0; i < GROUP_LEVELS && found && found->parent; i++) {
		struct task_group *parent = found->parent;
		struct group group = { .shares = 1024 };
		u64 address = (u64)found;

		if (parent->parent)
			group.parent = (u64)parent;
		if (bpf_core_field_exists(found->shares))
			group.shares = found->shares / 1024;
		bpf_map_update_elem(&groups, &address, &group, BPF_ANY);
		found = parent;
	}
}

/* Who is there already; what happens at the same moment comes first. */
SEC("iter/task")
int observer_find(struct bpf_iter__task *context)
{
	struct task_struct *p = context->task;
	struct thread *t;
	u64 now;

	if (!p)
		return 0;
	if (tells_others)
		note_groups(p);
	if (!is_watched(p->comm) || find(p->pid))
		return 0;
	t = claim(p->pid, -1);
	if (!t)
		return 0;
	now = bpf_ktime_get_ns();
	t->process = p->tgid;
	t->seen_ns = now;
	t->since_ns = now;
	t->status = THREAD_BLOCKED;
	if (p->on_cpu) {
		t->status = THREAD_RUNNING;
		t->cpu = cpu_of(p) + 1;
	} else if (p->on_rq && !state_of(p)) {
		t->status = THREAD_WAITING;
		wait_at(t, cpu_of(p), now);
	}
	/*
	 * What happened to it meanwhile got it a place, and knows better. Only if that happens in the moment
	 * between these two has it two places, of which the first counts.
	 */
	if (find(p->pid))
		release(t);
	else
		__sync_lock_test_and_set(&t->tid, p->pid);
	return 0;
}
