/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time during which nothing is late and whoever can run wants to: nobody starves then. Part of model.c.
 */
#ifndef STEELYARD_MODEL_SMOOTH_H
#define STEELYARD_MODEL_SMOOTH_H

enum {
	SMOOTH_CPUS = 8, /* at most, or it would take too long */
	SMOOTH_EVENTS = 1000,
	WEIGHTS_RATIO = 4 /* of tasks that are no vCPUs */
};

#define TICK_NS (4 * SY_MS)

static u64 no_vcpu_ns[SMOOTH_CPUS]; /* since when one waits and none runs */
static bool waited[SMOOTH_CPUS]; /* one has waited for it since the check before */
static u64 not_beside_idle_ns[MAX_VCPUS]; /* when a vCPU last waited beside no idle pCPU that it may use, or did not wait */

/* When something is due next. */
static u64 next_event_ns(void)
{
	u64 next_ns = model_now + SY_S;
	u32 i;

	for (i = 0; i < armed_count; i++)
		next_ns = sy_min(next_ns, armed[i]->due_ns);
	for_each_cpu(i)
	{
		struct run_queue *rq = &rqs[i];
		u64 end_ns;

		if (!is_ext(rq->current))
			continue;
		end_ns = rq->current->started_ns + sy_min(rq->current->seen.scx.slice, 2 * SY_S);
		next_ns = sy_min(next_ns, (end_ns / TICK_NS + 1) * TICK_NS);
	}
	return sy_max(next_ns, model_now);
}

/* The most that comes between two turns of tasks that are no vCPUs, and between two of vCPUs. */
static u64 turn_ns(u64 slice_ns)
{
	return slice_ns + engine_against_ns(ENGINE_OTHERS_AHEAD_MAX_NS, parts_most) + KERNEL_SLICE_NS + 3 * TICK_NS + SOONEST_NS;
}

static bool waits_beside_idle(u32 vcpu)
{
	const struct engine_vcpu *v = &vcpus[vcpu].engine;

	return thread[vcpu] && v->queued && !v->saving && !put_off(vcpu) &&
	       engine_nearest_idle(&engine, vcpu, 0, engine.pcpus) != SY_NONE;
}

static void check_nobody_waits_beside_idle(void)
{
	u64 most_ns = published ? beside_idle_most_ns(&policy, &engine, vcpus_used - first_vcpu) : SY_FOREVER;
	u32 i;

	for (i = first_vcpu; i < vcpus_used; i++) {
		if (!waits_beside_idle(i))
			not_beside_idle_ns[i] = model_now;
		check(model_now - not_beside_idle_ns[i] <= most_ns, "vCPU %u waits beside an idle pCPU for %llu ns", i,
		      model_now - not_beside_idle_ns[i]);
	}
}

/* One that this pCPU could take. */
static u32 takeable_here(u32 pcpu)
{
	u32 place = 0, vcpu;

	while ((vcpu = host_next_waiting(&engine, pcpus[pcpu].engine.queue, &place)) != SY_NONE)
		if (engine_takeable(&engine, vcpu, pcpu))
			break;
	return vcpu;
}

static void check_nobody_starves(u64 since_ns, u64 slice_ns)
{
	struct task *t;
	u32 i, waiting = 2;

	for_each_task(t)
		waiting += is_queued(t) && (!t->thread.vcpu || is_unasked(t));
	for_each_task(t)
		check(t->thread.vcpu || !is_queued(t) || rqs[cpu_of(t)].current == t ||
			      model_now - sy_max(t->waits_ns, since_ns) <= WEIGHTS_RATIO * waiting * turn_ns(slice_ns),
		      "task %d waits for %llu ns beside %u others", t->seen.pid,
		      model_now - sy_max(t->waits_ns, since_ns), waiting);
	for_each_cpu(i)
	{
		bool runs = rqs[i].there && pcpus[pcpu_of(i)].engine.current != SY_NONE;
		bool waits = rqs[i].there && !runs && takeable_here(pcpu_of(i)) != SY_NONE;

		if (!waits || !waited[i])
			no_vcpu_ns[i] = model_now;
		waited[i] = waits;
		/* credit2 interrupts who leads less on a waking vCPU's last pCPU before it looks for an idle one, and a
		 * ratelimit may let that go on. */
		check(model_now - no_vcpu_ns[i] <= waiting * turn_ns(published ? 0 : slice_ns), "pCPU %u runs no vCPU for %llu ns", i,
		      model_now - no_vcpu_ns[i]);
	}
}

/* Who exits or may not migrate for a moment is soon done with that. */
static void finish_unasked(u32 cpu)
{
	struct task *t = rqs[cpu].current;

	if (!is_ext(t) || !is_never_asked(t))
		return;
	start(t->stays ? do_stays : do_exit, cpu, NULL, 0);
	finish_all();
}

/* Somebody wakes, somebody blocks now and then. */
static void wake_and_block(void)
{
	u32 i;

	calm = true;
	if (!below(4))
		wake_one();
	if (!below(16))
		start(do_block, below(cpus), NULL, 0);
	settle();
	for_each_cpu(i)
		waited[i] &= pcpu_at(pcpu_of(i))->engine.current == SY_NONE;
}

static void pass_smoothly(void)
{
	u64 since_ns = model_now, slice_ns = 0;
	u32 events, i;

	smooth = true;
	for (i = 0; i < MAX_VCPUS; i++)
		not_beside_idle_ns[i] = model_now;
	for_each_cpu(i)
	{
		no_vcpu_ns[i] = model_now;
		rqs[i].rt = 0;
		rqs[i].resched |= rqs[i].there;
	}
	for (events = 0; events < SMOOTH_EVENTS; events++) {
		settle();
		check_all(true);
		for_each_cpu(i)
			slice_ns = sy_max(slice_ns, sy_min(pcpu_at(pcpu_of(i))->slice_ns, TIMER_MAX_NS));
		check_nobody_starves(since_ns, slice_ns);
		check_nobody_waits_beside_idle();
		wake_and_block();
		model_now = next_event_ns();
		for_each_cpu(i)
		{
			if (model_now % TICK_NS == 0)
				start(do_tick, i, NULL, 0);
			finish_unasked(i);
		}
	}
	smooth = false;
}

#endif
