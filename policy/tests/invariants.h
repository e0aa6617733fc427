/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What must hold on the adversary's host from one thing that happens to the next. Part of adversary.c.
 */
#ifndef STEELYARD_TESTS_INVARIANTS_H
#define STEELYARD_TESTS_INVARIANTS_H

static void check_vcpu(u32 i)
{
	const struct engine_vcpu *v = &vcpus[i];
	const struct sy_domain *d = &domains[v->domain].state;
	bool runs = v->status == ENGINE_RUNNING, waits = v->status == ENGINE_WAITING;
	/* It can still move. */
	bool moves = v->saving && v->move_to != SY_NONE;

	check(v->state.runnable == (runs || waits), "vCPU %u: runnable is %u", i, v->state.runnable);
	check(v->queue == pcpus[v->state.pcpu].queue, "vCPU %u is not in the queue of its pCPU", i);
	check(!runs || pcpus[v->ran_on].current == i, "vCPU %u runs, but not on its pCPU", i);
	check(!runs || pcpus[v->ran_on].interrupted || engine_may_use(&engine, i, v->ran_on),
	      "vCPU %u stays on pCPU %u, which it may not use", i, v->ran_on);
	check(!runs || pcpus[v->ran_on].interrupted || !v->parked, "vCPU %u is parked and runs", i);
	check(!waits || v->queued != v->parked || (v->saving && !v->queued), "vCPU %u waits, but is lost", i);
	check(v->saving || runs || v->move_to == SY_NONE, "vCPU %u does not move", i);
	check(v->saving || !v->unplaced, "vCPU %u interrupts nobody", i);
	check(moves || pcpus[v->state.pcpu].online, "vCPU %u belongs to pCPU %u, which is gone", i,
	      v->state.pcpu);
	check(!runs || pcpus[v->ran_on].interrupted || !v->requeue, "vCPU %u runs on as one that is parked", i);
	check(waits || !v->queued, "vCPU %u is queued, but does not wait", i);
	check(extreme || !waits || !v->parked || v->state.timer_ns || d->timer_ns || account_due_ns,
	      "vCPU %u is parked, and nothing ends it", i);
	check(sy_vcpu_timer_ns(&policy, &v->state) == vcpu_due_ns[i], "vCPU %u: its timer was changed and not told", i);
}

/*
 * PARKED is told of those with work that are kept off a queue, and of nobody else; boosted, of those who come first in
 * their queues.
 */
static void check_class(u32 i)
{
	const struct engine_vcpu *v = &vcpus[i];
	enum sy_class class = sy_class(&policy, &v->state);
	/* Its parking may have ended; its policy hears of it once the context is saved. */
	bool moves = v->saving && v->move_to != SY_NONE;

	check(class < SY_CLASSES && !sy_class_name(class) == (class == SY_CLASS_NONE), "class %d", (int)class);
	check(!v->state.runnable || v->requeue || moves || v->parked == (class == SY_CLASS_PARKED), "vCPU %u is %sparked, of class %d", i,
	      v->parked ? "" : "not ", (int)class);
	check(!sy_boosted(&policy, &v->state) || !v->queued || accounted[i] || !v->key,
	      "vCPU %u is boosted, but comes not first in its queue", i);
}

/* Asked again, the keys of those who wait are in the order of the queue. */
static void check_order(u32 q)
{
	u64 before = 0;
	u32 at;

	for (at = 0; at < waiting_count[q]; at++) {
		u32 i = waiting[q][at];
		struct sy_queue queue = queues[q].state;
		struct sy_domain domain = domains[vcpus[i].domain].state;
		struct sy_vcpu vcpu = vcpus[i].state;
		u64 key;

		if (accounted[i])
			continue;
		key = (sy_key)(&policy, &queue, &domain, &vcpu, now);
		check(key >= before, "vCPU %u waits in place %u with key %llx, now %llx, behind one with %llx", i,
		      at, (unsigned long long)vcpus[i].key, (unsigned long long)key, (unsigned long long)before);
		before = key;
	}
}

static void check_pcpu(u32 i)
{
	const struct engine_pcpu *c = &pcpus[i];
	bool is_idle = idle[i / 64] >> i % 64 & 1;

	check(c->interrupted == interrupted[i], "pCPU %u: an interrupt was lost", i);
	check(is_idle == (c->current == SY_NONE && !interrupted[i] && !c->occupied && c->online),
	      "pCPU %u is %s", i, is_idle ? "taken for idle" : "forgotten");
	check(c->current == SY_NONE || (c->online && !c->occupied), "pCPU %u runs vCPU %u at once", i,
	      c->current);
	check(c->state.busy == (c->current != SY_NONE), "pCPU %u: busy is %u", i, c->state.busy);
	check(c->current == SY_NONE || vcpus[c->current].status == ENGINE_RUNNING,
	      "pCPU %u runs vCPU %u, which does not run", i, c->current);
}

/* Whether a pCPU is on the way to a choice that this vCPU may be. */
static bool awaited(u32 vcpu)
{
	const struct engine_queue *q = &queues[vcpus[vcpu].queue];
	u32 c;

	for (c = q->first_pcpu; c < q->end_pcpu; c++) {
		if (interrupted[c] && pcpus[c].current == SY_NONE && engine_may_use(&engine, vcpu, c))
			return true;
	}
	return false;
}

/* Who asks its last pCPU first may be kept waiting by that one's ratelimit, as in Xen's credit2. */
static bool asks_idle_first(u32 queue)
{
	return queues[queue].state.pcpus == 1 || policy.discipline != SY_CREDIT2 ||
	       policy.parameter[CREDIT2_WAKE] == CREDIT2_WAKE_IDLE_FIRST;
}

/* What a governor keeps of a queue and of its vCPUs goes together, whatever was done with them. */
static void check_micro_slices(u32 q)
{
	u32 place = 0, count = 0, vcpu;

	while ((vcpu = host_next_member(&engine, q, &place)) != SY_NONE) {
		const struct micro_slice_vcpu *mv = micro_slice_vcpu(&vcpus[vcpu].state);

		count += mv->counted;
		check(!mv->due_ns || (vcpu_due_ns[vcpu] && vcpu_due_ns[vcpu] <= mv->due_ns),
		      "vCPU %u: a governor's timer is forgotten", vcpu);
	}
	check(count == micro_slice_queue(&queues[q].state)->sensitive, "queue %u counts %llu of %u", q,
	      (unsigned long long)micro_slice_queue(&queues[q].state)->sensitive, count);
}

static void check_queue(u32 q)
{
	u32 at;

	check(queues[q].state.queued == waiting_count[q], "queue %u counts wrong", q);
	check((waited[q / 64] >> q % 64 & 1) == !!waiting_count[q], "queue %u is forgotten", q);
	for (at = 0; at < waiting_count[q]; at++) {
		u32 i = waiting[q][at], c;
		bool saving = vcpus[i].saving;

		check(vcpus[i].queued && vcpus[i].queue == q, "vCPU %u is in queue %u too", i, q);
		check(!at || vcpus[waiting[q][at - 1]].key <= vcpus[i].key, "queue %u is not in order", q);
		for (c = queues[q].first_pcpu; c < queues[q].end_pcpu; c++)
			check(saving || !engine_is_idle(&engine, c) || !engine_may_use(&engine, i, c) ||
				      awaited(i) || !asks_idle_first(q),
			      "pCPU %u is idle and vCPU %u waits for it", c, i);
	}
}

/* Whom a sample asks to be chosen anew. */
static void check_rescheduled(void)
{
	u32 i;

	for (i = 0; i < engine.pcpus; i++)
		check(pcpus[i].current == SY_NONE || !rescheduled[vcpus[pcpus[i].current].domain] || interrupted[i],
		      "pCPU %u does not choose again after a sample", i);
}

static void check_all(void)
{
	u32 i, runs = 0, queued = 0, busy = 0, waits = 0, online = 0;

	for (i = 0; i < domain_count * domain_vcpus; i++) {
		if (!there[i])
			continue;
		check_vcpu(i);
		check_class(i);
		runs += vcpus[i].status == ENGINE_RUNNING;
		queued += vcpus[i].queued;
	}
	for (i = 0; i < engine.pcpus; i++) {
		check_pcpu(i);
		busy += pcpus[i].current != SY_NONE;
		online += pcpus[i].online;
	}
	for (i = 0; i < engine.queues; i++) {
		check_queue(i);
		check_micro_slices(i);
		if (!governed && !extreme)
			check_order(i);
		waits += waiting_count[i];
	}
	check(engine.accounting.pcpus == online, "%u pCPUs are there, accounting takes %llu", online,
	      (unsigned long long)engine.accounting.pcpus);
	check(runs == busy && queued == waits, "%u run on %u pCPUs, %u wait in %u places", runs, busy,
	      queued, waits);
	for (i = 0; i < domain_count; i++) {
		check(!micro_slice_domain(&domains[i].state)->early, "domain %u: a governor's timer came early", i);
		check(domains[i].state.timer_ns == domain_due_ns[i],
		      "domain %u: its timer was changed and not told", i);
	}
}

#endif
