/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the engine believes goes together, on any host and from one thing that happens to the next. Whoever includes
 * this has an `engine`, the operations of engine/host.h, a check(holds, format, ...) that ends the test, and a
 * put_off(vcpu): whether host_settle() was called and is not answered.
 */
#ifndef STEELYARD_TESTS_BELIEFS_H
#define STEELYARD_TESTS_BELIEFS_H

static void check_beliefs_of_vcpu(u32 i)
{
	const struct engine_vcpu *v = host_vcpu(&engine, i);
	bool runs = v->status == ENGINE_RUNNING, waits = v->status == ENGINE_WAITING;
	const struct engine_pcpu *c = runs ? host_pcpu(&engine, v->ran_on) : 0;
	/* It can still move. */
	bool moves = (v->saving || put_off(i)) && v->move_to != SY_NONE;

	check(v->state.runnable == (runs || waits), "vCPU %u: runnable is %u", i, v->state.runnable);
	check(v->queue == host_pcpu(&engine, v->state.pcpu)->queue, "vCPU %u is not in the queue of its pCPU", i);
	check(!runs || c->current == i, "vCPU %u runs, but not on its pCPU", i);
	check(!runs || c->interrupted || engine_may_use(&engine, i, v->ran_on),
	      "vCPU %u stays on pCPU %u, which it may not use", i, v->ran_on);
	check(!runs || c->interrupted || !v->parked, "vCPU %u is parked and runs", i);
	check(!waits || v->queued != v->parked || (v->saving && !v->queued), "vCPU %u waits, but is lost", i);
	check(moves || runs || v->move_to == SY_NONE, "vCPU %u does not move", i);
	check(v->saving || put_off(i) || !v->unplaced, "vCPU %u interrupts nobody", i);
	check(moves || host_pcpu(&engine, v->state.pcpu)->online, "vCPU %u belongs to pCPU %u, which is gone", i,
	      v->state.pcpu);
	check(!runs || c->interrupted || !v->requeue, "vCPU %u runs on as one that is parked", i);
	check(waits || !v->queued, "vCPU %u is queued, but does not wait", i);
}

static void check_beliefs_of_pcpu(u32 i)
{
	const struct engine_pcpu *c = host_pcpu(&engine, i);
	bool idle = engine_is_idle(&engine, i);

	check(idle == (c->current == SY_NONE && !c->interrupted && !c->occupied && c->online), "pCPU %u is %s", i,
	      idle ? "taken for idle" : "forgotten");
	check((host_lesser_pcpus(&engine, i / 64) >> i % 64 & 1) == c->lesser, "pCPU %u: a lesser one there is not as told", i);
	check(!c->lesser || (c->current != SY_NONE && !c->interrupted && !c->occupied), "pCPU %u is taken for one with a lesser one", i);
	check(c->current == SY_NONE || (c->online && !c->occupied), "pCPU %u runs vCPU %u at once", i, c->current);
	check(c->state.busy == (c->current != SY_NONE), "pCPU %u: busy is %u", i, c->state.busy);
	check(c->current == SY_NONE || host_vcpu(&engine, c->current)->status == ENGINE_RUNNING,
	      "pCPU %u runs vCPU %u, which does not run", i, c->current);
}

/* What the budget of a cap counts as granted, its vCPUs hold, whether the cap is there still or not. */
static void check_beliefs_of_domain(u32 i)
{
	const struct sy_domain *d = &host_domain(&engine, i)->state;
	bool by_credit2 = host_policy(&engine)->discipline == SY_CREDIT2;
	u64 granted_ns, left_ns = 0;
	u32 place = 0, vcpu;

	if (!by_credit2 && host_policy(&engine)->discipline != SY_FAIR)
		return;
	granted_ns = by_credit2 ? ((const struct credit2_domain *)d->state)->budget.granted_ns :
				  ((const struct fair_domain *)d->state)->budget.granted_ns;
	while ((vcpu = host_next_vcpu(&engine, i, &place)) != SY_NONE) {
		const struct sy_vcpu *v = &host_vcpu(&engine, vcpu)->state;

		left_ns += by_credit2 ? credit2_vcpu_const(v)->grant.left_ns : fair_vcpu_const(v)->grant.left_ns;
	}
	check(granted_ns == left_ns, "domain %u has granted %llu ns, its vCPUs have %llu", i, (unsigned long long)granted_ns,
	      (unsigned long long)left_ns);
}

/* Whether a pCPU is on the way to a choice that this vCPU may be. */
static bool awaited(u32 vcpu)
{
	return engine_awaited(&engine, vcpu, host_queue(&engine, host_vcpu(&engine, vcpu)->queue));
}

/* Who asks its last pCPU first may be kept waiting by that one's ratelimit, as in Xen's credit2. */
static bool asks_idle_first(u32 queue)
{
	const struct sy_policy *p = host_policy(&engine);

	return host_queue(&engine, queue)->state.pcpus == 1 || p->discipline != SY_CREDIT2 ||
	       p->parameter[CREDIT2_WAKE] == CREDIT2_WAKE_IDLE_FIRST;
}

/* Who waits and can run in its queue no more than anything runs there waits for no other pCPU. */
static void check_shut_out(u32 vcpu)
{
	const struct engine_vcpu *v = host_vcpu(&engine, vcpu);

	check(v->saving || put_off(vcpu) || !engine_is_shut_out(&engine, vcpu) ||
		      engine_nearest_idle(&engine, vcpu, 0, engine.pcpus) == SY_NONE,
	      "vCPU %u waits where no vCPU can run, beside an idle pCPU", vcpu);
}

/* Each pCPU of the queue counts those that belong to it. */
static void check_members(u32 queue)
{
	static u32 belong[1024];
	const struct engine_queue *q = host_queue(&engine, queue);
	u32 place = 0, c, i;

	for (c = q->first_pcpu; c < q->end_pcpu; c++)
		belong[c] = 0;
	while ((i = host_next_member(&engine, queue, &place)) != SY_NONE)
		belong[host_vcpu(&engine, i)->state.pcpu]++;
	for (c = q->first_pcpu; c < q->end_pcpu; c++)
		check(host_pcpu(&engine, c)->vcpus == belong[c], "%u vCPUs belong to pCPU %u, not %u", belong[c], c,
		      host_pcpu(&engine, c)->vcpus);
}

/* How many wait in the queue. */
static u32 check_beliefs_of_queue(u32 q)
{
	const struct engine_queue *queue = host_queue(&engine, q);
	u32 place = 0, count = 0, occupied = 0, i, c;
	u64 before = 0;

	for (c = queue->first_pcpu; c < queue->end_pcpu; c++)
		occupied += host_pcpu(&engine, c)->occupied;
	check_members(q);
	check(queue->occupied == occupied, "queue %u has %u occupied pCPUs, not %u", q, occupied, queue->occupied);

	while ((i = host_next_waiting(&engine, q, &place)) != SY_NONE) {
		const struct engine_vcpu *v = host_vcpu(&engine, i);

		check(v->queued && v->queue == q, "vCPU %u is in queue %u too", i, q);
		check(before <= v->key, "queue %u is not in order", q);
		before = v->key;
		check(++count <= queue->state.queued, "queue %u holds more than it counts", q);
		check_shut_out(i);
		for (c = queue->first_pcpu; c < queue->end_pcpu; c++)
			check(v->saving || !engine_is_idle(&engine, c) || !engine_may_use(&engine, i, c) ||
				      awaited(i) || put_off(i) || !asks_idle_first(q),
			      "pCPU %u is idle and vCPU %u waits for it", c, i);
	}
	check(queue->state.queued == count, "queue %u counts wrong", q);
	check((host_waited_queues(&engine, q / 64) >> q % 64 & 1) == !!count, "queue %u is forgotten", q);
	return count;
}

#endif
