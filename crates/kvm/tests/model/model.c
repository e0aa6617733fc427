/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler for Linux, as it is compiled to BPF, in a model of the kernel (ext.h, tasks.h) under an adversary: 1 to 384
 * CPUs, some of which are not there, any groups, any policy with any parameters and one governor more, kernels from 6.12 on that differ in what they ask and
 * offer. Threads begin, become vCPUs, wake, block, yield, yield to each other, are pinned, may not migrate for a moment, go
 * to a class above, exit and end; the loader tells what is asked of domains and changes parameters, the tables fill up; tasks of higher classes take CPUs;
 * kicks, timers and what a CPU has put off arrive late and in any order, timers cannot be set. CPUs do all this at the same time (fibers.h): one
 * is interrupted by others wherever it neither holds the scheduler's own lock nor works with what a run queue's lock
 * guards, between any two calls that the program makes of the kernel.
 *
 * Checked (checks.h): no thread is lost or in two places, none is sent where it may not run, what the engine believes is
 * what the kernel has, lists, sets, counts, times and timers are right, the lock is free after each call. Once all that is
 * on the way has arrived, nobody waits beside an idle pCPU of its queue, no CPU idles beside its own queue, and no pCPU
 * is forgotten. While nothing is late (smooth.h), neither vCPUs nor other tasks starve. One seed repeats a failure.
 *
 * Not in it: what the verifier says, CPUs that come and go (the kernel ends the scheduler then), core scheduling, the
 * kernel's own faults.
 *
 *	linux-model STEPS SEED...
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

/* Clang's, where it compiles to BPF. */
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wattributes"
#include "../../bpf/kernel.h"

static void failed(const char *what, const char *file, int line);

#define ASSERT(holds) ((holds) ? (void)0 : failed(#holds, __FILE__, __LINE__))
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - __builtin_offsetof(type, member)))

/* What this kernel has. */
static bool model_kvm_is_there, model_exists_scx_bpf_task_set_slice, model_exists_scx_bpf_task_set_dsq_vtime;
static bool model_exists_scx_bpf_reenqueue_local, model_exists___scx_bpf_dsq_insert_vtime;
static bool model_exists_scx_bpf_dump_bstr = true;
static bool model_can_loop(void);
#undef can_loop
#define can_loop model_can_loop()
struct lock;
static void model_lock_taken(struct lock *lock);
static void model_lock_given(struct lock *lock);
static void model_lock_waits(void);
#define LOCK_TAKEN(lock) model_lock_taken(lock)
#define LOCK_GIVEN(lock) model_lock_given(lock)
#define LOCK_WAITS(lock) model_lock_waits()
#define LOCK_LOOKS 2

#define SY_DESCRIBE
#include "tests/more_governors.h"
#include "../../bpf/steelyard.bpf.c"
#undef inline
#include "catalogue.h"
#include "tests/random.h"
#include "tests/beside_idle.h"

enum {
	HOST_STEPS = 10000 /* before another host is drawn */
};

static u64 seed, step, dispatches, reaped;
static u32 tasks_most, parts_most;
static u32 first_vcpu, first_domain; /* numbers below these are somebody else's */
static bool published; /* the parameters are those of the vintage */
static char policy_text[128];

#include "fibers.h"
#include "tasks.h"
#include "ext.h"

static void failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "linux-model: seed %llu, step %llu, %s, %u pCPUs: ", seed, step, policy_text, cpus);
	if (file)
		fprintf(stderr, "%s:%d: ", file, line);
	fprintf(stderr, "%s\n", what);
	exit(1);
}

/* Where the kernel would end the program, something is wrong: a loop, or a lock that is taken twice. */
static bool model_can_loop(void)
{
	ASSERT(loops++ < 8000000);
	return true;
}

static void check(bool holds, const char *format, ...)
{
	char what[256];
	va_list arguments;

	if (holds)
		return;
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	failed(what, NULL, 0);
}

static bool put_off(u32 vcpu)
{
	return bit_of(unsettled_vcpus, vcpu);
}

#include "tests/beliefs.h"
#include "checks.h"

/* ---- What happens, each by a fiber of its own ---- */

static void do_schedule(struct fiber *f)
{
	if (rqs[f->cpu].resched && !rqs[f->cpu].scheduling)
		schedule(f->cpu, false);
}

/* Who runs there, with the lock of its run queue, or null. */
static struct task *hold_current(u32 cpu)
{
	struct run_queue *rq = &rqs[cpu];

	lock_rq(cpu);
	if (!rq->scheduling && is_ext(rq->current) && !rq->current->migrating) {
		here->self = rq->current;
		return rq->current;
	}
	unlock_rq(cpu);
	return NULL;
}

static void do_block(struct fiber *f)
{
	struct task *t = hold_current(f->cpu);

	if (!t)
		return;
	unlock_rq(f->cpu);
	if (!rqs[f->cpu].scheduling && rqs[f->cpu].current == t)
		schedule(f->cpu, true);
}

static void do_yield(struct fiber *f)
{
	struct task *t = hold_current(f->cpu);

	if (!t)
		return;
	update_current(&rqs[f->cpu]);
	CALL(CALL_NONE, f->cpu, t, steelyard_yield(&t->seen, NULL));
	unlock_rq(f->cpu);
	if (!rqs[f->cpu].scheduling)
		schedule(f->cpu, false);
}

/* At a pause-loop exit KVM asks for a sibling to be favoured. Both run queues are locked. */
static void do_yield_to(struct fiber *f)
{
	struct task *from = rqs[f->cpu].current, *to = f->task;
	u32 other = cpu_of(to), first = sy_min(f->cpu, other), second = sy_max(f->cpu, other);
	bool yielded = false;

	lock_rq(first);
	if (second != first)
		lock_rq(second);
	if (!rqs[f->cpu].scheduling && is_ext(from) && rqs[f->cpu].current == from && from != to &&
	    cpu_of(to) == other && is_queued(to) && !to->on_cpu && !to->migrating) {
		update_current(&rqs[f->cpu]);
		CALL(CALL_NONE, f->cpu, from, yielded = steelyard_yield(&from->seen, &to->seen));
		if (yielded && second != first)
			reschedule(&rqs[other]);
	}
	if (second != first)
		unlock_rq(second);
	unlock_rq(first);
	if (yielded && !rqs[f->cpu].scheduling)
		schedule(f->cpu, false);
}

static bool can_wake(const struct task *t)
{
	return t->there && !t->dead && !is_queued(t) && !t->on_cpu && !t->higher && !t->migrating;
}

static void do_wake(struct fiber *f)
{
	struct task *t = f->task;

	lock_pi(t);
	if (can_wake(t))
		wake_up(t, f->value);
	t->pi = false;
}

/* Some CPUs, one that is there at least. */
static void draw_mask(u64 *mask)
{
	u32 kind = below(4), cpu, one = below(cpus);

	while (!rqs[one].there)
		one = (one + 1) % cpus;
	memset(mask, 0, sizeof(u64[WORDS]));
	for_each_cpu(cpu) if (cpu == one || kind < 2 || (kind == 2 && below(2)))
		mask[cpu / 64] |= 1ULL << cpu % 64;
}

static void do_affinity(struct fiber *f)
{
	struct task *t = f->task;
	u64 mask[WORDS];
	u32 cpu;

	draw_mask(mask);
	cpu = lock_task_rq(t);
	if (t->there && !t->dead && !t->higher)
		cpu = change_mask(t, cpu, mask);
	unlock_task_rq(t, cpu);
}

/* It goes to a class above, or comes back once it is blocked. */
static void do_class(struct fiber *f)
{
	struct task *t = f->task;
	u32 cpu = lock_task_rq(t);
	struct run_queue *rq = &rqs[cpu];

	if (t->higher) {
		t->higher = false;
	} else if (t->there && !t->dead && !t->on_cpu && !t->migration_pending && !(t->seen.flags & PF_EXITING)) {
		if (is_queued(t)) {
			rq->rt++;
			reschedule(rq);
		}
		dequeue_task(cpu, t, 0);
		t->higher = true;
	}
	unlock_task_rq(t, cpu);
}

static void do_stop(struct fiber *f)
{
	if (f->task->migration_pending && rqs[f->cpu].current == &higher_task)
		stop_and_move(f->cpu, f->task);
}

/* Any time after it was asked for, from any CPU. */
static void do_kick(struct fiber *f)
{
	struct run_queue *rq = &rqs[f->cpu];

	lock_rq(f->cpu);
	if (f->value && is_ext(rq->current))
		rq->current->seen.scx.slice = 0;
	reschedule(rq);
	unlock_rq(f->cpu);
}

static void do_tick(struct fiber *f)
{
	struct task *t = hold_current(f->cpu);

	if (!t)
		return;
	update_current(&rqs[f->cpu]);
	CALL(CALL_NONE, f->cpu, t, steelyard_tick(&t->seen));
	if (!t->seen.scx.slice)
		reschedule(&rqs[f->cpu]);
	unlock_rq(f->cpu);
}

static void do_deferred_later(struct fiber *f)
{
	lock_rq(f->cpu);
	do_deferred(f->cpu);
	unlock_rq(f->cpu);
}

static void do_timer(struct fiber *f)
{
	struct clock *c = &clocks[f->value];
	u32 key = c->key;

	point();
	c->callback(c->map, &key, &c->timer);
}

/* The loader tells what is asked of a domain; there is one loader. */
static void do_ask(struct fiber *f)
{
	static bool asking;
	u64 before = reaped;
	u32 domain;
	int result;

	if (asking)
		return;
	asking = true;
	asked.pid = f->task->seen.tgid;
	memset(&asked.settings, 0, sizeof(asked.settings));
	asked.settings.weight = 1 + below(SY_WEIGHT_MAX);
	asked.settings.cap_percent = below(2) ? 0 : 1 + below(below(4) ? 400 : SY_PERCENT_MAX);
	asked.settings.cap_burst_ns = below(2) ? 0 : below(SY_S);
	point();
	result = steelyard_ask(NULL);
	domain = domain_of(asked.pid);
	check(result || reaped != before ||
		      !memcmp(&domains[domain].engine.state.settings, &asked.settings, sizeof(asked.settings)),
	      "domain %u was not told", domain);
	asking = false;
}

/* The loader changes a parameter, and others look meanwhile. */
static void do_change(struct fiber *f)
{
	const struct sy_description *description = sy_disciplines[policy.discipline];
	u64 *value = policy.parameter;
	u64 g = below(2 * SY_GOVERNORS), n;

	if (g < SY_GOVERNORS && policy.governors >> g & 1) {
		description = sy_governors[g];
		value = policy.governor_parameter[g];
	}
	n = below(description->parameters);
	/* Choices are constants. */
	if (strchr(description->parameter[n].unit, '|'))
		return;
	value[n] = between(description->parameter[n].minimum, description->parameter[n].maximum);
	point();
	steelyard_follow(NULL);
}

/* The kernel writes down what there is, at any moment. */
static void do_dump(struct fiber *f)
{
	struct task *t = f->task;
	u32 cpu = lock_task_rq(t);

	CALL(CALL_DUMP, cpu, t, steelyard_dump(NULL));
	CALL(CALL_DUMP, cpu, t, steelyard_dump_cpu(NULL, cpu, rqs[cpu].idle));
	if (t->there)
		CALL(CALL_DUMP, cpu, t, steelyard_dump_task(NULL, &t->seen));
	unlock_task_rq(t, cpu);
}

/* A CPU comes online: a thread of the kernel's runs there before that is told. */
static void do_comes(struct fiber *f)
{
	static struct task coming = { .seen.flags = PF_KTHREAD };
	bool goes_on = below(2);

	coming.seen.thread_info.cpu = f->cpu;
	steelyard_running(&coming.seen);
	point();
	steelyard_stopping(&coming.seen, goes_on);
	if (!goes_on)
		steelyard_quiescent(&coming.seen, DEQ_SLEEP);
}

/* A task of a higher class comes or goes. */
static void do_higher(struct fiber *f)
{
	struct run_queue *rq = &rqs[f->cpu];

	lock_rq(f->cpu);
	if (rq->rt && f->value)
		rq->rt--;
	else if (rq->rt < 2 && !f->value)
		rq->rt++;
	reschedule(rq);
	unlock_rq(f->cpu);
}

/* ---- Threads come and go ---- */

static void set_stays(struct task *t, bool stays)
{
	t->stays = stays;
	t->seen.migration_disabled = stays;
}

static void do_fork(struct fiber *f)
{
	struct task *t = f->task;

	lock_pi(t);
	if (can_wake(t))
		wake_up(t, 0);
	t->pi = false;
}

/* It ends; some of it is done later, with others before and between. */
static void do_exit(struct fiber *f)
{
	struct task *t = hold_current(f->cpu);

	if (!t)
		return;
	if (!(t->seen.flags & PF_EXITING)) {
		t->seen.preempt_notifiers.first = NULL;
		set_stays(t, false);
		t->seen.flags |= PF_EXITING;
		unlock_rq(f->cpu);
		return;
	}
	t->dead = !t->unhashed || below(2);
	t->unhashed = true;
	unlock_rq(f->cpu);
	if (t->dead && !rqs[f->cpu].scheduling && rqs[f->cpu].current == t)
		schedule(f->cpu, true);
	else
		t->dead = false;
}

static void do_reap(struct fiber *f)
{
	struct task *t = f->task;
	u32 cpu = lock_task_rq(t);

	if (t->there && t->dead && !t->on_cpu) {
		CALL(CALL_NONE, cpu, t, steelyard_exit_task(&t->seen, NULL));
		ASSERT(!t->holders);
		t->there = false;
		reaped++;
	}
	unlock_task_rq(t, cpu);
}

/* A thread in a free place, not yet awake. */
static void make_task(struct task *t, s32 tgid)
{
	bool is_vcpu = below(4);

	memset(t, 0, sizeof(*t));
	t->there = true;
	t->holding = -1;
	t->sticky = -1;
	t->is_vcpu = is_vcpu;
	t->seen.pid = (t - tasks) + TASKS * ++generation;
	t->seen.tgid = tgid ? tgid : t->seen.pid;
	t->seen.thread_pid = (struct pid *)t;
	snprintf(t->seen.comm, sizeof(t->seen.comm), is_vcpu && (!model_kvm_is_there || below(2)) ? "CPU %u/KVM" : "worker/%u", (u32)below(100));
	t->seen.flags = is_vcpu || below(4) ? 0 : PF_KTHREAD;
	t->seen.scx.slice = KERNEL_SLICE_NS;
	t->seen.scx.weight = 50U << below(3);
	t->seen.sched_task_group = &groups[below(GROUPS)];
	draw_mask(t->mask);
	t->seen.cpus_ptr = (const struct cpumask *)t->mask;
	t->seen.thread_info.cpu = any_usable(t);
	ASSERT(!steelyard_init_task(&t->seen, NULL));
}

/* In the place of one that has ended, if there is one; mostly of a process that is there. */
static void fork_one(void)
{
	struct task *t = &tasks[below(tasks_most)], *parent = &tasks[below(tasks_most)];
	u32 i;

	for (i = 0; i < FIBERS; i++)
		if (t->there || t->pi || t->migration_pending || (fibers[i].busy && fibers[i].task == t))
			return;
	make_task(t, parent->there && below(4) ? parent->seen.tgid : 0);
	start(do_fork, 0, t, 0);
}

/* Who runs may not migrate for a while, or may again. */
static void do_stays(struct fiber *f)
{
	struct task *t = hold_current(f->cpu);
	u32 cpu = f->cpu;
	u64 mask[WORDS];

	if (!t)
		return;
	set_stays(t, !t->stays && !(t->seen.flags & PF_EXITING));
	if (!t->stays && t->seen.cpus_ptr != (const struct cpumask *)t->mask) {
		memcpy(mask, t->mask, sizeof(mask));
		cpu = change_mask(t, cpu, mask);
	}
	unlock_rq(cpu);
}

/* Who runs enters KVM_RUN or leaves it, and its guest changes. */
static void do_kvm(struct fiber *f)
{
	struct task *t = hold_current(f->cpu);

	if (!t)
		return;
	t->vcpu.arch.preempted_in_kernel = below(2);
	if (t->seen.preempt_notifiers.first) {
		t->seen.preempt_notifiers.first = NULL;
	} else if (t->is_vcpu || !below(8)) {
		/* Or it sets one up that another thread is to run. */
		t->seen.preempt_notifiers.first = &t->vcpu.preempt_notifier.link;
		t->vcpu.pid = t->is_vcpu ? t->seen.thread_pid : NULL;
	}
	unlock_rq(f->cpu);
}

/* ---- The adversary ---- */

/* Something that is on its way to this CPU arrives; whether there was anything. */
static bool deliver(u32 cpu)
{
	struct run_queue *rq = &rqs[cpu];
	struct task *t;

	if (rq->deferred_due)
		return start(do_deferred_later, cpu, NULL, 0);
	if (rq->preempts && below(2)) {
		rq->preempts--;
		return start(do_kick, cpu, NULL, 1) || (rq->preempts++, false);
	}
	if (rq->kicks) {
		rq->kicks--;
		return start(do_kick, cpu, NULL, 0) || (rq->kicks++, false);
	}
	for (t = tasks; rq->stops && rq->current == &higher_task && t < tasks + tasks_most; t++) {
		if (t->migration_pending && t->stops_on == cpu)
			return start(do_stop, cpu, t, 0);
	}
	if (rq->resched && !rq->scheduling)
		return start(do_schedule, cpu, NULL, 0);
	return rq->preempts;
}

static bool fire_some(void)
{
	u32 first = below(armed_count + 1), i;

	for (i = 0; i < armed_count; i++) {
		struct clock *c = armed[(first + i) % armed_count];

		if (c->due_ns > model_now)
			continue;
		if (!free_fiber())
			return true;
		disarm(c);
		return start(do_timer, 0, NULL, c - clocks);
	}
	return false;
}

/* Everything that is on the way arrives. */
static void settle(void)
{
	bool more = true;
	u32 round, i;

	calm = true;
	finish_all();
	for (round = 0; more; round++) {
		u32 first = below(cpus);

		check(round < 1000, "it does not settle");
		more = fire_some();
		/* Threads of the kernel run now and then, its watchdog's at least. */
		for (i = 0; later == LATER_FAILED && i < cpus; i++)
			rqs[i].resched |= rqs[i].there && !rqs[i].current;
		for (i = 0; i < cpus; i++) {
			more |= deliver((first + i) % cpus);
			finish_all();
		}
	}
	calm = false;
}

static void wake_one(void)
{
	struct task *t;
	u32 i;

	for (i = 0; i < 8; i++) {
		t = &tasks[below(tasks_most)];
		if (can_wake(t)) {
			start(do_wake, 0, t, below(8) ? SCX_ENQ_WAKEUP : 0);
			break;
		}
	}
}

#include "smooth.h"

/* Of a CPU where somebody runs, if there is one near. */
static u32 busy_cpu(u32 cpu)
{
	u32 i;

	for (i = 0; i < cpus && !is_ext(rqs[cpu].current); i++)
		cpu = (cpu + 1) % cpus;
	return cpu;
}

/* Mostly one that others are busy with. */
static struct task *some_task(void)
{
	struct task *t = &tasks[below(tasks_most)];
	u32 vcpu = SY_NONE, place = 0;

	if (below(2))
		return t;
	vcpu = below(2) ? pcpus[below(pcpus_count)].engine.current : host_next_waiting(&engine, below(engine.queues), &place);
	return vcpu != SY_NONE && task_of_vcpu(vcpu) ? task_of(task_of_vcpu(vcpu)) : t;
}

/* As the loader finds them; what is asked changes while tasks run. */
static void draw_parts(void)
{
	vcpus_parts = below(2) ? ENGINE_PARTS_EQUAL : ENGINE_PARTS_MIN + below(parts_most - ENGINE_PARTS_MIN + 1);
}

static void happen(void)
{
	struct task *t = some_task();
	u32 cpu = below(cpus), busy = busy_cpu(cpu);

	if (!rqs[cpu].there)
		start(do_comes, cpu, NULL, 0);
	while (!rqs[cpu].there)
		cpu = (cpu + 1) % cpus;
	switch (below(32)) {
	case 0:
	case 21:
		start(do_affinity, 0, t, 0);
		break;
	case 1:
		fork_one();
		break;
	case 2:
		if (!below(16))
			start(do_dump, 0, t, 0);
		if (!published && !below(8))
			start(do_change, 0, t, 0);
		start(do_ask, 0, t, 0);
		draw_parts();
		if (domains_used)
			domains[below(domains_used)].samples.packets += magnitude() >> 20;
		if (!below(64) && domains_used) {
			struct engine_samples *samples = &domains[below(domains_used)].samples;

			samples->offered = magnitude();
			samples->offered_at_ns = magnitude();
		}
		break;
	case 3:
		start(do_yield, busy, NULL, 0);
		break;
	case 4:
	case 5:
		start(do_yield_to, busy, t, 0);
		break;
	case 6:
		start(do_tick, busy, NULL, 0);
		break;
	case 7:
		start(do_higher, cpu, NULL, !!below(3));
		break;
	case 8:
		if (!below(4))
			start(do_exit, busy, NULL, 0);
		break;
	case 9:
		if (t->there && t->dead)
			start(do_reap, 0, t, 0);
		else if (!below(4) || t->higher)
			start(do_class, 0, t, 0);
		break;
	case 10:
		start(do_stays, busy, NULL, 0);
		break;
	case 11 ... 12:
		start(do_kvm, busy, NULL, 0);
		break;
	case 13 ... 20:
		start(do_block, busy, NULL, 0);
		break;
	default:
		wake_one();
		break;
	}
}

static void one_step(void)
{
	u32 i, cpu = below(cpus);

	model_now += pause_ns();
	for (i = 0; i < FIBERS; i++)
		if (fibers[i].busy && below(2))
			resume(&fibers[i]);
	if (!below(4))
		fire_some();
	for (i = 0; i < cpus; i++, cpu = (cpu + 1) % cpus)
		if (below(2))
			deliver(cpu);
	for (i = 1 + below(4); i; i--)
		happen();
}

/* ---- A host ---- */

#include "draw.h"

/* As the loader finds it. */
static void forget_all(void)
{
	u32 i;

	memset(vcpus, 0, sizeof(vcpus));
	memset(domains, 0, sizeof(domains));
	memset(queues, 0, sizeof(queues));
	memset(pcpus, 0, sizeof(pcpus));
	memset(&engine, 0, sizeof(engine));
	memset(idle_pcpus, 0, sizeof(idle_pcpus));
	memset(lesser_pcpus, 0, sizeof(lesser_pcpus));
	memset(waited_queues, 0, sizeof(waited_queues));
	memset(present_pcpus, 0, sizeof(present_pcpus));
	memset(unbalanced_queues, 0, sizeof(unbalanced_queues));
	memset(unsettled_vcpus, 0, sizeof(unsettled_vcpus));
	memset(untimed_vcpus, 0, sizeof(untimed_vcpus));
	memset(untimed_domains, 0, sizeof(untimed_domains));
	untimed_round = 0;
	later = LATER_UNSET;
	account_due_ns = sample_due_ns = 0;
	the_round = (struct engine_round){ 0 };
	memset(mask_words, 0, sizeof(mask_words));
	accounted = free_vcpus = free_domains = (struct list){ 0, 0 };
	vcpus_used = domains_used = 0;
	kept_count = 0;
	host_lock = shared_lock = (struct lock){ 0 };
	memset(held_tasks, 0, sizeof(held_tasks));
	memset(tasks, 0, sizeof(tasks));
	memset(rqs, 0, sizeof(rqs));
	for (i = 0; i < CPUS; i++)
		rqs[i].qseq = (u64)(i + 1) << 40;
	memset(groups, 0, sizeof(groups));
	memset(clocks, 0, sizeof(clocks));
	memset(began_pid, 0, sizeof(began_pid));
	memset(others, 0, sizeof(others));
	memset(lines, 0, sizeof(lines));
	armed_count = 0;
}

/* One after the other, each within a group. */
static void check_queues(void)
{
	u32 group = engine_queue_pcpus(&engine), next = 0, i;

	for (i = 0; i < engine.queues; i++) {
		const struct engine_queue *q = &queues[i].engine;

		ASSERT(q->first_pcpu == next && q->end_pcpu > next && q->first_pcpu / group == (q->end_pcpu - 1) / group);
		next = q->end_pcpu;
	}
	ASSERT(next == pcpus_count);
}

static void begin_host(void)
{
	u32 i;

	forget_all();
	model_now = 1 + magnitude() % (1ULL << 59);
	draw_policy();
	draw_kernel();
	calm = true;
	ASSERT(!steelyard_init());
	check_queues();
	first_vcpu = vcpus_used = below(4) ? 0 : MAX_VCPUS - 1 - below(40);
	first_domain = domains_used = below(4) ? 0 : MAX_DOMAINS - 1 - below(20);
	calm = false;
	tasks_most = 1 + below(sy_clamp(cpus * 5, 8, TASKS));
	for (i = 0; i < tasks_most; i++)
		make_task(&tasks[i], i && below(4) ? tasks[below(i)].seen.tgid : 0);
}

static void run_host(u64 steps)
{
	u64 last = step + steps;
	u32 every, cpu;

	begin_host();
	/* Looking at everything takes as long as everything is large. */
	every = 1 + (cpus + tasks_most) / 16;
	while (step++ < last) {
		one_step();
		if (below(every))
			continue;
		finish_all();
		check_all(false);
		if (below(2))
			continue;
		for_each_cpu(cpu) if (rqs[cpu].rt && below(4))
			rqs[cpu]
				.rt = 0,
			rqs[cpu].resched = true;
		settle();
		check_all(true);
		if (cpus <= SMOOTH_CPUS && !below(200))
			pass_smoothly();
	}
	finish_all();
}

int main(int argc, char **argv)
{
	u64 steps = argc > 2 ? strtoull(argv[1], 0, 10) : 0, done;
	int n;

	if (!steps) {
		fprintf(stderr, "usage: linux-model STEPS SEED...\n");
		return 2;
	}
	higher_task.higher = true;
	for (n = 2; n < argc; n++) {
		seed = strtoull(argv[n], 0, 10);
		random_state = seed;
		step = 0;
		dispatches = 0;
		for (done = 0; done < steps; done += HOST_STEPS)
			run_host(sy_min(HOST_STEPS, steps - done));
		printf("linux-model: seed %llu, %llu steps, %llu dispatches\n", seed, steps, dispatches);
	}
	return 0;
}
