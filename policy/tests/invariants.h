/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What must hold on the adversary's host from one thing that happens to the next. Part of adversary.c.
 */
#ifndef STEELYARD_TESTS_INVARIANTS_H
#define STEELYARD_TESTS_INVARIANTS_H

#include "beliefs.h"

static void check_vcpu(u32 i)
{
	const struct engine_vcpu *v = &vcpus[i];
	const struct sy_domain *d = &domains[v->domain].state;

	check_beliefs_of_vcpu(i);
	check(extreme || v->status != ENGINE_WAITING || !v->parked || v->state.timer_ns || d->timer_ns || account_due_ns,
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
	bool moves = (v->saving || put_off(i)) && v->move_to != SY_NONE;

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
		/* A slice that became short, or long, counts from the next accounting: the priority alone is of now. */
		if (SY_DISCIPLINE(&policy) == SY_CREDIT && SY_CHOICE(&policy, CREDIT_SHORT_SLICE))
			key = (key + 1) / 2;
		check(key >= before, "vCPU %u waits in place %u with key %llx, now %llx, behind one with %llx", i,
		      at, (unsigned long long)vcpus[i].key, (unsigned long long)key, (unsigned long long)before);
		before = key;
	}
}

/* What a governor keeps of a queue and of its vCPUs goes together, whatever was done with them. */
static void check_micro_slices(u32 q)
{
	u32 place = 0, count = 0, vcpu;

	while ((vcpu = host_next_member(&engine, q, &place)) != SY_NONE) {
		const struct micro_slice_vcpu *mv = micro_slice_vcpu(&vcpus[vcpu].state);

		count += mv->counted;
		check(!mv->early, "vCPU %u: a governor's timer came early", vcpu);
		check(!mv->due_ns || (vcpu_due_ns[vcpu] && vcpu_due_ns[vcpu] <= mv->due_ns),
		      "vCPU %u: a governor's timer is forgotten", vcpu);
	}
	check(count == micro_slice_queue(&queues[q].state)->sensitive, "queue %u counts %llu of %u", q,
	      (unsigned long long)micro_slice_queue(&queues[q].state)->sensitive, count);
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
		check(pcpus[i].interrupted == interrupted[i], "pCPU %u: an interrupt was lost", i);
		check_beliefs_of_pcpu(i);
		busy += pcpus[i].current != SY_NONE;
		online += pcpus[i].online;
	}
	for (i = 0; i < engine.queues; i++) {
		waits += check_beliefs_of_queue(i);
		check_micro_slices(i);
		if (!governed && !extreme)
			check_order(i);
	}
	check(engine.accounting.pcpus == online, "%u pCPUs are there, accounting takes %llu", online,
	      (unsigned long long)engine.accounting.pcpus);
	check(runs == busy && queued == waits, "%u run on %u pCPUs, %u wait in %u places", runs, busy,
	      queued, waits);
	for (i = 0; i < domain_count; i++) {
		check_beliefs_of_domain(i);
		check(domains[i].state.timer_ns == domain_due_ns[i],
		      "domain %u: its timer was changed and not told", i);
	}
}

#endif
