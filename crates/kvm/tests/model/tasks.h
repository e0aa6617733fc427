/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The model kernel's tasks, CPUs and queues of tasks, its clock and timers, and what it gives to BPF.
 */
#ifndef STEELYARD_MODEL_TASKS_H
#define STEELYARD_MODEL_TASKS_H

enum {
	CPUS = 384,
	WORDS = CPUS / 64,
	TASKS = 512,
	GROUPS = 12,
	BUFFER = 32, /* tasks that a dispatch may hand over */
	DISPATCH_LOOPS = 32,
	CLOCKS = MAX_PCPUS + MAX_VCPUS + MAX_DOMAINS + 2
};

#define KERNEL_SLICE_NS (20 * SY_MS)
#define ENQ_LAST (1ULL << 41)
#define ENQ_REENQ (1ULL << 40)
#define ENQ_HEAD (1ULL << 4)
#define ENQ_RESTORE 2ULL
#define DEQ_SLEEP 1ULL
#define PF_EXITING 0x00000004

enum ops_state { /* whose the task is */
		 OPS_NONE, /* the kernel's */
		 OPS_QUEUEING,
		 OPS_QUEUED, /* BPF's */
		 OPS_DISPATCHING
};

struct dsq {
	struct task *first, *last;
};

struct task {
	struct task_struct seen; /* by BPF */
	u64 mask[WORDS], pinned_mask[WORDS];
	struct kvm_vcpu vcpu;
	struct thread thread; /* BPF's */
	bool there, is_vcpu, unhashed, dead;
	u32 holders; /* in BPF */
	bool higher; /* in a class above */
	bool pi; /* its pi_lock is held */
	bool migrating, migration_pending, on_cpu;
	bool stays; /* it may not migrate now */
	enum ops_state state;
	u64 qseq;
	s32 holding; /* the CPU that is on the way to take it, or -1 */
	s32 sticky;
	u32 stops_on; /* CPU that is to move it */
	struct dsq *dsq; /* that it is in */
	struct dsq *listed; /* where its links are */
	struct task *next, *previous;
	u64 verdict, verdict_flags; /* where it is to go when it is enqueued; 0: ask */
	u64 started_ns, waits_ns; /* since when it runs and waits */
	u64 woken; /* rounds of its CPU when it woke, plus 1, if that was smooth */
};

struct run_queue {
	bool there, locked, scheduling, resched;
	bool idle; /* for who looks for idle CPUs */
	bool released;
	u32 rt, stops; /* tasks of higher classes that want it */
	struct task *current; /* or null: it idles */
	struct dsq local, deferred;
	bool deferred_due;
	u32 kicks, preempts; /* on the way to it */
	u64 qseq; /* far from other CPUs', and from 0, as when a host has run for long: the kernel takes equal ones for the same */
	struct {
		struct task *task;
		u64 qseq, dsq, flags;
	} buffer[BUFFER];
	u32 buffered, moved;
	u64 rounds; /* how often it looked for work */
};

struct clock {
	struct timer timer;
	int (*callback)(void *, u32 *, struct timer *);
	void *map;
	u32 key, place; /* in `armed`, plus 1 */
	u64 due_ns;
	bool failed; /* the last attempt to set it */
};

static struct task tasks[TASKS], higher_task;
static struct run_queue rqs[CPUS];
static struct task_group groups[GROUPS];
static struct dsq others[MAX_PCPUS]; /* lines */
static struct clock clocks[CLOCKS], *armed[CLOCKS];
static u32 cpus, armed_count, generation;
static u64 model_now;
/* This kernel does not ask BPF about a task that may not migrate now; while BPF runs who runs there may not. */
static bool pinned_stay, pins_itself;

#define for_each_cpu(cpu) for ((cpu) = 0; (cpu) < cpus; (cpu)++)
#define for_each_task(t) \
	for ((t) = tasks; (t) < tasks + TASKS; (t)++) \
		if ((t)->there)

static struct task *task_of(const struct task_struct *p)
{
	return (struct task *)p;
}

static bool is_ext(const struct task *t)
{
	return t && !t->higher;
}

static bool is_queued(const struct task *t)
{
	return t->seen.scx.flags & SCX_TASK_QUEUED;
}

static u32 cpu_of(const struct task *t)
{
	return t->seen.thread_info.cpu;
}

static bool has_bit(const u64 *set, u32 bit)
{
	return set[bit / 64] >> bit % 64 & 1;
}

/* On a CPU that is there. */
static bool may_use(const struct task *t, u32 cpu)
{
	return rqs[cpu].there && has_bit((const u64 *)t->seen.cpus_ptr->bits, cpu);
}

/* ---- Queues of tasks ---- */

static void link_task(struct dsq *q, struct task *t, bool first)
{
	ASSERT(!t->listed);
	t->listed = q;
	t->next = first ? q->first : NULL;
	t->previous = first ? NULL : q->last;
	*(t->next ? &t->next->previous : &q->last) = t;
	*(t->previous ? &t->previous->next : &q->first) = t;
}

/* Behind those that are not later. */
static void link_by_time(struct dsq *q, struct task *t)
{
	struct task *before = q->last, *after;

	ASSERT(!t->listed);
	while (before && (s64)(before->seen.scx.dsq_vtime - t->seen.scx.dsq_vtime) > 0)
		before = before->previous;
	after = before ? before->next : q->first;
	t->listed = q;
	t->next = after;
	t->previous = before;
	*(after ? &after->previous : &q->last) = t;
	*(before ? &before->next : &q->first) = t;
}

static struct dsq *line_queue(u64 dsq)
{
	ASSERT(dsq >= OTHERS_DSQ && dsq - OTHERS_DSQ < lines_count());
	return &others[dsq - OTHERS_DSQ];
}

static bool is_line(const struct dsq *q)
{
	return q >= others && q < others + MAX_PCPUS;
}

static void unlink_task(struct task *t)
{
	ASSERT(t->listed);
	*(t->next ? &t->next->previous : &t->listed->last) = t->previous;
	*(t->previous ? &t->previous->next : &t->listed->first) = t->next;
	t->listed = NULL;
}

/* ---- Locks ---- */

static void lock_rq(u32 cpu)
{
	point();
	while (rqs[cpu].locked)
		wait_for_others();
	rqs[cpu].locked = true;
}

static void unlock_rq(u32 cpu)
{
	ASSERT(rqs[cpu].locked);
	rqs[cpu].locked = false;
}

static void lock_pi(struct task *t)
{
	while (t->pi)
		wait_for_others();
	t->pi = true;
}

/* Its run queue, locked. */
static u32 lock_task_rq(struct task *t)
{
	lock_pi(t);
	for (;;) {
		u32 cpu = cpu_of(t);

		lock_rq(cpu);
		if (cpu_of(t) == cpu && !t->migrating)
			return cpu;
		unlock_rq(cpu);
		wait_for_others();
	}
}

static void unlock_task_rq(struct task *t, u32 cpu)
{
	unlock_rq(cpu);
	t->pi = false;
}

/* ---- Clock and timers ---- */

static inline u64 bpf_ktime_get_ns(void)
{
	if (!calm && !below(4))
		model_now += below(500);
	return model_now;
}

static u32 map_base(const void *map)
{
	if (map == &pcpu_timers)
		return 0;
	if (map == &vcpu_timers)
		return MAX_PCPUS;
	if (map == &domain_timers)
		return MAX_PCPUS + MAX_VCPUS;
	ASSERT(map == &later_timer || map == &round_timer);
	return MAX_PCPUS + MAX_VCPUS + MAX_DOMAINS + (map == &round_timer);
}

/* The map of domains by their processes. */
static struct {
	s32 pid;
	u32 domain;
} kept[MAX_DOMAINS];
static u32 kept_count;

static u32 kept_at(void *map, s32 pid)
{
	u32 i = 0;

	ASSERT(map == &domain_of_pid);
	while (i < kept_count && kept[i].pid != pid)
		i++;
	return i;
}

/* Fails now and then, as for want of memory. */
static inline int model_update(void *map, const void *key, const void *value)
{
	u32 i = kept_at(map, *(const s32 *)key);

	ASSERT(i == kept_count && i < MAX_DOMAINS);
	if (!below(16))
		return -ENOMEM;
	kept[kept_count].pid = *(const s32 *)key;
	kept[kept_count++].domain = *(const u32 *)value;
	return 0;
}

static inline void model_delete(void *map, const void *key)
{
	u32 i = kept_at(map, *(const s32 *)key);

	ASSERT(i < kept_count);
	kept[i] = kept[--kept_count];
}

static inline struct timer *model_timer(void *map, u32 key)
{
	struct clock *c = &clocks[map_base(map) + key];

	c->map = map;
	c->key = key;
	return &c->timer;
}

static struct vcpu_task held_tasks[MAX_VCPUS];

static inline struct task_struct *model_exchange(struct task_struct **task, struct task_struct *p)
{
	struct task_struct *before = *task;

	*task = p;
	return before;
}

static inline void *model_lookup(void *map, const void *key)
{
	u32 i;

	if (map == &vcpu_tasks) {
		point();
		return &held_tasks[*(const u32 *)key];
	}
	if (map != &domain_of_pid)
		return model_timer(map, *(const u32 *)key);
	i = kept_at(map, *(const s32 *)key);
	return i < kept_count ? &kept[i].domain : NULL;
}

static inline int model_set_callback(struct bpf_timer *timer, int (*callback)(void *, u32 *, struct timer *))
{
	((struct clock *)timer)->callback = callback;
	return 0;
}

static void disarm(struct clock *c)
{
	armed[c->place - 1] = armed[--armed_count];
	armed[c->place - 1]->place = c->place;
	c->place = 0;
}

/* Fails now and then, as for want of memory: with interrupts off it takes some in recent kernels (bpf_async_schedule_op()). */
static inline int bpf_timer_start(struct bpf_timer *timer, u64 time_ns, u64 flags)
{
	struct clock *c = (struct clock *)timer;

	ASSERT(c->callback && time_ns <= SY_FOREVER && flags & BPF_F_TIMER_ABS);
	c->failed = !smooth && !below(16);
	if (c->failed)
		return -ENOMEM;
	if (!c->place) {
		armed[armed_count++] = c;
		c->place = armed_count;
	}
	c->due_ns = sy_max(time_ns, model_now);
	return 0;
}

/* ---- What BPF may call ---- */

static inline void bpf_probe_read_kernel(void *to, u32 size, const void *from)
{
	memcpy(to, from, size);
}

static inline void bpf_probe_read_kernel_str(void *to, u32 size, const void *from)
{
	snprintf(to, size, "%s", (const char *)from);
}

static inline struct thread *model_storage(struct task_struct *p, u64 flags)
{
	point();
	return &task_of(p)->thread;
}

void bpf_local_irq_save(unsigned long *flags)
{
	*flags = 0;
}

void bpf_local_irq_restore(unsigned long *flags)
{
	ASSERT(!here->locks);
}

static inline struct task_struct *bpf_get_current_task_btf(void)
{
	return here->self ? &here->self->seen : &higher_task.seen;
}

struct task_struct *bpf_task_acquire(struct task_struct *p)
{
	task_of(p)->holders++;
	return p;
}

void bpf_task_release(struct task_struct *p)
{
	ASSERT(task_of(p)->holders--);
}

s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	point();
	return cpu_of(task_of(p));
}

bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 time_ns)
{
	p->scx.dsq_vtime = time_ns;
	return true;
}

bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	p->scx.slice = slice;
	return true;
}

void scx_bpf_error_bstr(char *format, u64 *data, u32 size)
{
	failed(format, __FILE__, __LINE__);
}

/* As the kernel has it: eight bytes for each value, texts that can be read, at most 12 values, whole lines. */
void scx_bpf_dump_bstr(char *format, u64 *data, u32 size)
{
	const char *at = format;
	u32 values = 0;

	ASSERT(here->kind == CALL_DUMP && !here->locks);
	while ((at = strchr(at, '%'))) {
		ASSERT(!strncmp(at, "%llu", 4) || !strncmp(at, "%lld", 4) || !strncmp(at, "%s", 2));
		ASSERT(values < size / sizeof(u64));
		if (at[1] == 's')
			ASSERT(strlen((const char *)data[values]) < 128);
		values++;
		at++;
	}
	ASSERT(values <= 12 && size == values * sizeof(u64) && format[strlen(format) - 1] == '\n');
}

s32 scx_bpf_create_dsq(u64 id, s32 node)
{
	line_queue(id);
	return 0;
}

s32 scx_bpf_dsq_nr_queued(u64 dsq)
{
	struct task *t = line_queue(dsq)->first;
	s32 count = 0;

	for (; t; t = t->next)
		count++;
	return count;
}

void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	ASSERT(cpu >= 0 && (u32)cpu < cpus && rqs[cpu].there);
	ASSERT(!flags || flags == SCX_KICK_PREEMPT || flags == SCX_KICK_IDLE);
	if (flags == SCX_KICK_IDLE && rqs[cpu].current)
		return;
	(flags & SCX_KICK_PREEMPT ? here->preempts : here->kicks)[cpu / 64] |= 1ULL << cpu % 64;
}

static void send_kicks(u64 *kicks, u64 *preempts)
{
	u32 word;

	for (word = 0; word < WORDS; word++) {
		for (; kicks[word]; kicks[word] &= kicks[word] - 1)
			rqs[word * 64 + __builtin_ctzll(kicks[word])].kicks++;
		for (; preempts[word]; preempts[word] &= preempts[word] - 1)
			rqs[word * 64 + __builtin_ctzll(preempts[word])].preempts++;
	}
}

/* Of a task that is enqueued where it goes; of one that is dispatched it is settled later. */
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
{
	struct task *t = task_of(p);
	struct run_queue *rq = &rqs[here->called_on];

	point();
	ASSERT(dsq);
	p->scx.slice = slice ? slice : p->scx.slice ? p->scx.slice :
						      1;
	if (here->kind == CALL_DISPATCH) {
		ASSERT(rq->buffered < BUFFER);
		rq->buffer[rq->buffered].task = t;
		rq->buffer[rq->buffered].qseq = t->state == OPS_NONE ? 0 : t->qseq;
		rq->buffer[rq->buffered].dsq = dsq;
		rq->buffer[rq->buffered++].flags = flags;
		return;
	}
	ASSERT(here->kind == CALL_SELECT || here->kind == CALL_ENQUEUE);
	ASSERT(here->subject == t && !t->verdict);
	t->verdict = dsq;
	t->verdict_flags = flags;
}

void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 time_ns, u64 flags)
{
	ASSERT(is_line(line_queue(dsq)) && here->kind == CALL_ENQUEUE);
	p->scx.dsq_vtime = time_ns;
	scx_bpf_dsq_insert(p, dsq, slice, flags);
}

bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *how)
{
	scx_bpf_dsq_insert_vtime(p, how->dsq_id, how->slice, how->vtime, how->enq_flags);
	return true;
}

s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags)
{
	u32 first = below(cpus), i;

	point();
	for (i = 0; i < cpus; i++) {
		u32 cpu = (first + i) % cpus;

		if (!rqs[cpu].idle || !has_bit((const u64 *)allowed->bits, cpu))
			continue;
		rqs[cpu].idle = false;
		return cpu;
	}
	return -1;
}

s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 previous, u64 flags, bool *is_idle)
{
	u32 cpu = previous, i;

	ASSERT(here->kind == CALL_SELECT);
	point();
	for (i = 0; i <= cpus; i++, cpu = (previous + i * 7) % cpus) {
		*is_idle = rqs[cpu].idle && may_use(task_of(p), cpu);
		if (*is_idle) {
			rqs[cpu].idle = false;
			return cpu;
		}
	}
	return previous;
}

#endif
