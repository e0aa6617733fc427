/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The model kernel's scheduler: what Linux 6.12 and later do with tasks of the class sched_ext and when they
 * call the BPF scheduler meanwhile. Classes above are one task per CPU that comes and goes.
 */
#ifndef STEELYARD_MODEL_EXT_H
#define STEELYARD_MODEL_EXT_H

static void enqueue_task(u32 cpu, struct task *t, u64 flags);

static void pin_self(int more)
{
	if (pins_itself && here->self)
		here->self->seen.migration_disabled += more;
}

/* Says what the BPF scheduler is called for meanwhile. */
#define CALL(which, on, whom, call) \
	do { \
		enum call_kind kind_before = here->kind; \
		struct task *subject_before = here->subject; \
		u32 called_before = here->called_on; \
\
		here->kind = (which); \
		here->subject = (whom); \
		here->called_on = (on); \
		point(); \
		pin_self(1); \
		call; \
		pin_self(-1); \
		ASSERT(!here->locks); \
		here->kind = kind_before; \
		here->subject = subject_before; \
		here->called_on = called_before; \
	} while (0)

static void reschedule(struct run_queue *rq)
{
	rq->resched = true;
}

/* Charges who runs. */
static void update_current(struct run_queue *rq)
{
	struct task *t = rq->current;

	if (!is_ext(t))
		return;
	t->seen.scx.slice -= sy_min(t->seen.scx.slice, model_now - t->started_ns);
	t->started_ns = model_now;
}

/* ---- Into queues and out of them ---- */

static struct run_queue *rq_of_local(const struct dsq *q)
{
	return is_line(q) ? NULL : container_of(q, struct run_queue, local);
}

static void insert_task(struct dsq *q, struct task *t, u64 flags)
{
	struct run_queue *rq = rq_of_local(q);

	ASSERT(!t->dsq && is_queued(t));
	if (rq)
		link_task(q, t, flags & (ENQ_HEAD | SCX_ENQ_PREEMPT));
	else
		link_by_time(q, t);
	t->dsq = q;
	t->verdict = 0;
	t->verdict_flags = 0;
	t->state = OPS_NONE;
	if (!rq)
		return;
	if (flags & SCX_ENQ_PREEMPT && t != rq->current && is_ext(rq->current)) {
		rq->current->seen.scx.slice = 0;
		reschedule(rq);
	}
	if (!rq->current)
		reschedule(rq);
}

static void remove_task(struct task *t)
{
	if (t->holding < 0 && t->listed)
		unlink_task(t);
	/* Who is on the way to take it sees that. */
	t->holding = -1;
	t->dsq = NULL;
}

static struct dsq *queue_of_verdict(u64 verdict, u32 cpu)
{
	if (verdict == SCX_DSQ_LOCAL)
		return &rqs[cpu].local;
	if (verdict < SCX_DSQ_LOCAL)
		return line_queue(verdict);
	ASSERT((verdict & SCX_DSQ_LOCAL_ON) == SCX_DSQ_LOCAL_ON);
	cpu = (u32)verdict;
	ASSERT(cpu < cpus);
	return &rqs[cpu].local;
}

static void follow_verdict(u32 cpu, struct task *t, u64 flags)
{
	struct dsq *q = queue_of_verdict(t->verdict, cpu);

	t->verdict_flags |= flags;
	if (is_line(q) || q == &rqs[cpu].local) {
		insert_task(q, t, t->verdict_flags);
		return;
	}
	/* Once the lock of this CPU can be dropped. */
	t->state = OPS_NONE;
	link_task(&rqs[cpu].deferred, t, false);
	rqs[cpu].deferred_due = true;
}

static void ask_where(u32 cpu, struct task *t, u64 flags, bool stays)
{
	struct run_queue *rq = &rqs[cpu];

	ASSERT(is_queued(t) && t->state == OPS_NONE);
	if (stays) {
		insert_task(&rq->local, t, flags);
		return;
	}
	if (!t->verdict && (t->seen.flags & PF_EXITING || (pinned_stay && t->stays))) {
		t->seen.scx.slice = KERNEL_SLICE_NS;
		insert_task(&rq->local, t, flags);
		return;
	}
	if (!t->verdict) {
		t->qseq = rq->qseq++;
		t->state = OPS_QUEUEING;
		CALL(CALL_ENQUEUE, cpu, t, steelyard_enqueue(&t->seen, flags));
		if (!t->verdict) {
			t->state = OPS_QUEUED;
			return;
		}
	}
	follow_verdict(cpu, t, flags);
}

static void enqueue_task(u32 cpu, struct task *t, u64 flags)
{
	bool stays = t->sticky == (s32)cpu || (flags & ENQ_RESTORE && rqs[cpu].current == t);

	t->sticky = -1;
	ASSERT(rqs[cpu].locked && cpu_of(t) == cpu && !is_queued(t));
	t->seen.scx.flags |= SCX_TASK_QUEUED;
	if (!t->migrating) {
		t->waits_ns = model_now;
		t->woken = smooth && flags & SCX_ENQ_WAKEUP ? rqs[cpu].rounds + 1 : 0;
	}
	ask_where(cpu, t, flags, stays);
}

static void take_from_bpf(struct task *t)
{
	ASSERT(t->state == OPS_NONE || t->state == OPS_QUEUED);
	t->state = OPS_NONE;
}

static void dequeue_task(u32 cpu, struct task *t, u64 flags)
{
	ASSERT(rqs[cpu].locked && cpu_of(t) == cpu);
	if (!is_queued(t))
		return;
	take_from_bpf(t);
	if (rqs[cpu].current == t) {
		update_current(&rqs[cpu]);
		CALL(CALL_NONE, cpu, t, steelyard_stopping(&t->seen, false));
	}
	if (!t->migrating)
		CALL(CALL_NONE, cpu, t, steelyard_quiescent(&t->seen, flags));
	t->seen.scx.flags &= ~SCX_TASK_QUEUED;
	t->verdict = 0;
	remove_task(t);
}

/* From the one run queue, which is locked, to the other, which is locked then. */
static void move_between(struct task *t, u32 from, u32 to, u64 flags)
{
	t->migrating = true;
	dequeue_task(from, t, 0);
	t->seen.thread_info.cpu = to;
	unlock_rq(from);
	lock_rq(to);
	ASSERT(may_use(t, to));
	enqueue_task(to, t, flags);
	t->migrating = false;
	if (!rqs[to].current)
		reschedule(&rqs[to]);
}

/* ---- From BPF to a CPU ---- */

/* A task that is wholly this CPU's goes to the local queue of `to`; other CPUs come between. */
static void carry_over(u32 cpu, u32 to, struct task *t, u64 flags)
{
	u32 from = cpu_of(t), held = cpu;

	if (cpu == from && cpu == to) {
		insert_task(&rqs[to].local, t, flags);
		return;
	}
	if (from != to && (t->stays || !may_use(t, to)))
		failed("a task is sent where it may not run", __FILE__, __LINE__);
	t->holding = cpu;
	t->state = OPS_NONE;
	if (held != from) {
		unlock_rq(held);
		lock_rq(from);
		held = from;
	}
	if (t->holding == (s32)cpu) {
		if (from == to) {
			t->holding = -1;
			insert_task(&rqs[to].local, t, flags);
		} else {
			t->sticky = to;
			move_between(t, from, to, flags);
			held = to;
		}
		if (!rqs[to].current)
			reschedule(&rqs[to]);
	}
	if (held != cpu) {
		unlock_rq(held);
		lock_rq(cpu);
	}
}

static void finish_dispatch(u32 cpu, struct task *t, u64 qseq, u64 verdict, u64 flags)
{
	struct dsq *q;

	while (t->state == OPS_QUEUEING)
		wait_for_others();
	if (t->state != OPS_QUEUED || t->qseq != qseq)
		return;
	t->state = OPS_DISPATCHING;
	q = queue_of_verdict(verdict, cpu);
	if (is_line(q))
		insert_task(q, t, flags);
	else
		carry_over(cpu, rq_of_local(q) - rqs, t, flags);
}

static void flush_buffer(u32 cpu)
{
	struct run_queue *rq = &rqs[cpu];
	u32 i;

	for (i = 0; i < rq->buffered; i++)
		finish_dispatch(cpu, rq->buffer[i].task, rq->buffer[i].qseq, rq->buffer[i].dsq,
				rq->buffer[i].flags);
	rq->moved += rq->buffered;
	rq->buffered = 0;
}

/* The first task of the queue that may run here comes to the local queue. */
static bool consume(u32 cpu, const struct dsq *q)
{
	struct task *t;

	for (t = q->first; t; t = t->next) {
		u32 from = cpu_of(t);

		if (from != cpu && (t->stays || !may_use(t, cpu)))
			continue;
		unlink_task(t);
		if (from == cpu) {
			t->dsq = NULL;
			insert_task(&rqs[cpu].local, t, 0);
			return true;
		}
		t->holding = cpu;
		unlock_rq(cpu);
		lock_rq(from);
		if (t->holding == (s32)cpu) {
			t->sticky = cpu;
			move_between(t, from, cpu, 0);
			return true;
		}
		unlock_rq(from);
		lock_rq(cpu);
		return consume(cpu, q);
	}
	return false;
}

bool scx_bpf_dsq_move_to_local(u64 dsq)
{
	u32 cpu = here->called_on;

	ASSERT(here->kind == CALL_DISPATCH);
	flush_buffer(cpu);
	if (!consume(cpu, line_queue(dsq)))
		return false;
	rqs[cpu].moved++;
	return true;
}

/* Tasks that were to go to the local queues of other CPUs go there. */
static void do_deferred(u32 cpu)
{
	struct run_queue *rq = &rqs[cpu];

	rq->deferred_due = false;
	while (rq->deferred.first) {
		struct task *t = rq->deferred.first;
		struct dsq *q = queue_of_verdict(t->verdict, cpu);

		unlink_task(t);
		carry_over(cpu, rq_of_local(q) - rqs, t, t->verdict_flags);
	}
}

u32 scx_bpf_reenqueue_local(void)
{
	struct run_queue *rq = &rqs[here->called_on];
	struct dsq some = { NULL, NULL };
	struct task *t, *next;

	ASSERT(here->kind == CALL_RELEASE && rq->locked);
	for (t = rq->local.first; t; t = next) {
		next = t->next;
		if (t->migration_pending || (pinned_stay && t->stays))
			continue;
		remove_task(t);
		link_task(&some, t, false);
	}
	while ((t = some.first)) {
		unlink_task(t);
		ask_where(rq - rqs, t, ENQ_REENQ, false);
	}
	return 0;
}

/* ---- Who runs ---- */

static bool wants_higher(const struct run_queue *rq)
{
	return rq->rt || rq->stops;
}

/* Whether who ran goes on. */
static bool find_work(u32 cpu, struct task *previous)
{
	struct run_queue *rq = &rqs[cpu];
	u32 round;

	rq->released = false;
	update_current(rq);
	if (is_ext(previous) && is_queued(previous) && previous->seen.scx.slice)
		return true;
	if (rq->local.first)
		return false;
	for (round = 0; round < DISPATCH_LOOPS; round++) {
		rq->moved = 0;
		rq->rounds++;
		dispatches++;
		CALL(CALL_DISPATCH, cpu, NULL,
		     steelyard_dispatch(cpu, is_ext(previous) ? &previous->seen : NULL));
		flush_buffer(cpu);
		if (is_ext(previous) && is_queued(previous) && previous->seen.scx.slice)
			return true;
		if (rq->local.first || !rq->moved)
			return false;
	}
	rq->kicks++;
	return false;
}

static struct task *pick(u32 cpu, struct task *previous)
{
	struct run_queue *rq = &rqs[cpu];
	struct task *next;

	if (wants_higher(rq))
		return &higher_task;
	next = find_work(cpu, previous) ? previous : rq->local.first;
	/* It may have come while the lock was dropped. */
	if (wants_higher(rq))
		return &higher_task;
	if (next && !next->seen.scx.slice)
		next->seen.scx.slice = KERNEL_SLICE_NS;
	return next;
}

static void put_previous(u32 cpu, struct task *t, struct task *next)
{
	struct run_queue *rq = &rqs[cpu];

	update_current(rq);
	if (is_queued(t)) {
		t->waits_ns = model_now;
		t->woken = 0;
		CALL(CALL_NONE, cpu, t, steelyard_stopping(&t->seen, true));
		if (t->seen.scx.slice)
			insert_task(&rq->local, t, ENQ_HEAD);
		else
			ask_where(cpu, t, next ? 0 : ENQ_LAST, false);
	}
	if (next != &higher_task || rq->released)
		return;
	rq->released = true;
	CALL(CALL_RELEASE, cpu, NULL, steelyard_cpu_release(cpu, NULL));
}

static void set_next(u32 cpu, struct task *t)
{
	t->started_ns = model_now;
	if (!is_queued(t))
		return;
	take_from_bpf(t);
	remove_task(t);
	CALL(CALL_NONE, cpu, t, steelyard_running(&t->seen));
}

/* Runs only here from now on, as long as it must not migrate. */
static void pin_if_disabled(u32 cpu, struct task *t)
{
	if (!t->stays || t->seen.cpus_ptr == (const struct cpumask *)t->pinned_mask)
		return;
	memset(t->pinned_mask, 0, sizeof(t->pinned_mask));
	t->pinned_mask[cpu / 64] = 1ULL << cpu % 64;
	if (is_queued(t)) {
		dequeue_task(cpu, t, 0);
		t->seen.cpus_ptr = (const struct cpumask *)t->pinned_mask;
		CALL(CALL_NONE, cpu, t, steelyard_set_cpumask(&t->seen, t->seen.cpus_ptr));
		enqueue_task(cpu, t, ENQ_RESTORE);
	} else {
		t->seen.cpus_ptr = (const struct cpumask *)t->pinned_mask;
		CALL(CALL_NONE, cpu, t, steelyard_set_cpumask(&t->seen, t->seen.cpus_ptr));
	}
}

/* blocks: who runs has nothing more to do. */
static void schedule(u32 cpu, bool blocks)
{
	struct run_queue *rq = &rqs[cpu];
	struct task *previous, *next;

	rq->scheduling = true;
	lock_rq(cpu);
	previous = rq->current;
	here->self = is_ext(previous) ? previous : NULL;
	if (blocks && is_ext(previous))
		dequeue_task(cpu, previous, DEQ_SLEEP);
	next = pick(cpu, previous);
	/* What was asked for meanwhile is done, too. */
	rq->resched = false;
	if (next != previous) {
		if (is_ext(previous))
			put_previous(cpu, previous, next);
		if (next != &higher_task && next)
			set_next(cpu, next);
		rq->current = next;
		rq->idle = false;
		if (next)
			next->on_cpu = true;
		if (is_ext(previous))
			pin_if_disabled(cpu, previous);
		if (previous)
			previous->on_cpu = false;
	}
	rq->idle = !next;
	rq->scheduling = false;
	unlock_rq(cpu);
}

/* ---- What else the kernel does with tasks ---- */

static u32 any_usable(const struct task *t)
{
	u32 cpu, first = below(cpus), i;

	for (i = 0; i < cpus; i++) {
		cpu = (first + i) % cpus;
		if (may_use(t, cpu))
			return cpu;
	}
	failed("a task may run nowhere", __FILE__, __LINE__);
	return 0;
}

static void wake_up(struct task *t, u64 flags)
{
	u32 cpu = cpu_of(t), count = 0, word;

	for (word = 0; word < WORDS; word++)
		count += __builtin_popcountll(((const u64 *)t->seen.cpus_ptr->bits)[word]);
	if (count > 1 && !t->stays)
		CALL(CALL_SELECT, cpu, t, cpu = steelyard_select_cpu(&t->seen, cpu, flags));
	ASSERT(cpu < cpus);
	if (!may_use(t, cpu))
		cpu = any_usable(t);
	t->seen.thread_info.cpu = cpu;
	lock_rq(cpu);
	enqueue_task(cpu, t, flags);
	if (!rqs[cpu].current)
		reschedule(&rqs[cpu]);
	do_deferred(cpu);
	unlock_rq(cpu);
}

/* Its run queue is locked; another is then. */
static u32 move_to_allowed(struct task *t, u32 cpu)
{
	u32 to = any_usable(t);

	if (to == cpu)
		return cpu;
	move_between(t, cpu, to, 0);
	return to;
}

/* The highest class is to move the task, which runs there. */
static void stop_on(struct task *t, u32 cpu)
{
	if (t->migration_pending)
		return;
	t->migration_pending = true;
	t->stops_on = cpu;
	rqs[cpu].stops++;
	reschedule(&rqs[cpu]);
}

/* By the caller's lock of its run queue. */
static u32 change_mask(struct task *t, u32 cpu, const u64 *mask)
{
	bool queued = is_queued(t), runs = rqs[cpu].current == t;

	if (queued)
		dequeue_task(cpu, t, 0);
	memcpy(t->mask, mask, sizeof(t->mask));
	if (!t->stays)
		t->seen.cpus_ptr = (const struct cpumask *)t->mask;
	CALL(CALL_NONE, cpu, t, steelyard_set_cpumask(&t->seen, t->seen.cpus_ptr));
	if (queued)
		enqueue_task(cpu, t, ENQ_RESTORE);
	if (runs && is_ext(t))
		set_next(cpu, t);
	if (may_use(t, cpu) || t->stays)
		return cpu;
	if (runs) {
		stop_on(t, cpu);
	} else if (queued) {
		cpu = move_to_allowed(t, cpu);
	}
	return cpu;
}

/* The highest class moves a task that ran here to where it may. */
static void stop_and_move(u32 cpu, struct task *t)
{
	u32 at;

	t->migration_pending = false;
	rqs[cpu].stops--;
	reschedule(&rqs[cpu]);
	at = lock_task_rq(t);
	if (is_queued(t) && !may_use(t, at) && !t->stays) {
		if (rqs[at].current == t)
			stop_on(t, at);
		else
			at = move_to_allowed(t, at);
	}
	unlock_task_rq(t, at);
}

#endif
