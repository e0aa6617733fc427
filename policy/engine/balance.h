/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Moving vCPUs that did not ask for it: between queues by their loads, and to less shared pCPUs.
 */
#ifndef STEELYARD_ENGINE_BALANCE_H
#define STEELYARD_ENGINE_BALANCE_H

#include "choice.h"

/* Balances of a queue of one pCPU of which one looks at the whole host. */
#define ENGINE_BALANCES_FAR 8

/* Load per pCPU. */
ENGINE_FN u64 engine_load(struct engine *e, u32 queue, u64 now)
{
	struct sy_queue *q = &host_queue(e, queue)->state;

	return sy_load(host_policy(e), q, now) / sy_max(q->pcpus, 1);
}

/* Whether a pCPU of the queue runs vCPUs, or could. */
ENGINE_FN bool engine_has_room(struct engine *e, u32 queue)
{
	return host_queue(e, queue)->occupied < host_queue(e, queue)->state.pcpus;
}

/* Beside a load: of a queue that has no room. */
#define ENGINE_NO_ROOM (1ULL << 63)

/* The same of another queue than the own one; SY_FOREVER: it has no pCPU, or is not to be had. */
ENGINE_CALL u64 engine_load_elsewhere(ENGINE, u32 own, u32 queue, u64 now)
{
	u64 load = SY_FOREVER;

	if (!engine_reach(e, own, queue))
		return load;
	if (host_queue(e, queue)->state.pcpus)
		load = engine_load(e, queue, now) | (engine_has_room(e, queue) ? 0 : ENGINE_NO_ROOM);
	engine_let_go(e, own, queue);
	return load;
}

/* Some pCPU of the queue that the vCPU may use, an idle one if there is one; or SY_NONE. */
ENGINE_FN u32 engine_usable(struct engine *e, u32 vcpu, u32 queue)
{
	struct engine_queue *q = host_queue(e, queue);
	u32 first = engine_first_affinity(e, vcpu), affinity, pcpu;

	for (affinity = first; affinity < ENGINE_AFFINITIES; affinity++) {
		pcpu = engine_idle_for(e, vcpu, affinity, q->first_pcpu, q->end_pcpu);
		if (pcpu != SY_NONE)
			return pcpu;
	}
	for (affinity = first; affinity < ENGINE_AFFINITIES; affinity++) {
		for (pcpu = q->first_pcpu; host_goes_on(e) && pcpu < q->end_pcpu; pcpu++) {
			if (engine_has(e, vcpu, affinity, pcpu))
				return pcpu;
		}
	}
	return SY_NONE;
}

/* Whether the vCPU would rather run on some pCPU of the queue, or has no preference. */
ENGINE_FN bool engine_prefers_queue(struct engine *e, u32 vcpu, u32 queue)
{
	struct engine_queue *q = host_queue(e, queue);
	u32 pcpu = q->first_pcpu;

	while (host_goes_on(e) && pcpu < q->end_pcpu && engine_averse(e, vcpu, pcpu))
		pcpu++;
	return pcpu < q->end_pcpu;
}

/* What it is worth that this vCPU moves; nothing where it is on the move already. */
ENGINE_FN s64 engine_gain(struct engine *e, u32 vcpu, u32 from, u32 to, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (v->move_to != SY_NONE || v->saving)
		return 0;
	return sy_balance_gain(host_policy(e), &host_queue(e, from)->state, &host_queue(e, to)->state,
			       engine_domain_of(e, v), &v->state, now);
}

/*
 * Who is worth most to move, or SY_NONE. Who would leave a queue that it prefers for one that it
 * does not goes if nobody else would and somebody waits there: balance and preference would send it
 * to and fro. Xen's credit2 balances by hard affinity alone (unit_is_migrateable()).
 */
ENGINE_CALL u32 engine_best_to_move(ENGINE, u32 from, u32 to, u64 now)
{
	u32 best = SY_NONE, best_leaving = SY_NONE, place = 0, vcpu;
	s64 greatest = 0, greatest_leaving = 0;

	while ((vcpu = host_next_member(e, from, &place)) != SY_NONE) {
		s64 gain = engine_gain(e, vcpu, from, to, now);
		bool leaves;

		if (gain <= 0)
			continue;
		leaves = !engine_prefers_queue(e, vcpu, to) && engine_prefers_queue(e, vcpu, from);
		if (gain <= (leaves ? greatest_leaving : greatest) || engine_usable(e, vcpu, to) == SY_NONE)
			continue;
		if (leaves) {
			greatest_leaving = gain;
			best_leaving = vcpu;
		} else {
			greatest = gain;
			best = vcpu;
		}
	}
	return best == SY_NONE && host_queue(e, from)->state.queued ? best_leaving : best;
}

/*
 * How far the balance of this number of a queue of one pCPU looks: at so many. Those of a cache are looked at every
 * time, and wider groups more rarely the wider they are: the interval of Linux's scheduling domains is their size
 * (sd_init() in kernel/sched/topology.c).
 */
ENGINE_FN u32 engine_balanced_pcpus(struct engine *e, u32 balance)
{
	u32 cache = e->level_pcpus[ENGINE_CACHE], pcpus = cache, wider = cache;

	if (!(balance % ENGINE_BALANCES_FAR))
		return e->pcpus;
	while (host_goes_on(e) && wider < e->level_pcpus[ENGINE_SOCKET]) {
		wider = engine_wider(e, wider);
		if (!(balance % sy_min(wider / cache, ENGINE_BALANCES_FAR)))
			pcpus = wider;
	}
	return pcpus;
}

/* A balance looks at so many queues at a time. */
#define ENGINE_BALANCE_QUEUES 8

/* Which queues the balance that begins is to look at; none where a policy wants no balance. */
ENGINE_FN void engine_balance_begin(struct engine *e, u32 queue, u64 now)
{
	struct engine_queue *q = host_queue(e, queue);
	struct engine_balance *b = &q->balance;

	b->most_load = b->least_load = engine_load(e, queue, now);
	b->most = b->least = queue;
	b->next = host_zero(e);
	b->end = sy_queue_requests(host_policy(e)) & SY_BALANCE ? e->queues : 0;
	if (b->end == e->pcpus) {
		u32 pcpus = engine_balanced_pcpus(e, ++b->number);

		b->next = queue - queue % pcpus;
		b->end = b->next + pcpus;
	}
}

/* Looks at some of them. */
ENGINE_FN void engine_balance_look(struct engine *e, u32 queue, u64 now)
{
	struct engine_balance *b = &host_queue(e, queue)->balance;
	u32 end = (u32)sy_min(b->end, b->next + ENGINE_BALANCE_QUEUES), other;

	for (other = b->next; host_goes_on(e) && other < end; other++) {
		/* One that is not to be had is left out, as in Xen's balance_load(). */
		u64 load = engine_load_elsewhere(e, queue, other, now);

		if ((load & ~ENGINE_NO_ROOM) > b->most_load && load != SY_FOREVER) {
			b->most_load = load & ~ENGINE_NO_ROOM;
			b->most = other;
		}
		if (load < b->least_load) {
			b->least_load = load;
			b->least = other;
		}
	}
	b->next = end;
}

/* Who is worth most to move, or SY_NONE; one of the queues is the own one, and the other may not be to be had. */
ENGINE_FN u32 engine_balance_seek(struct engine *e, u32 own, u32 from, u32 to, u64 now)
{
	u32 other = from == own ? to : from, vcpu;

	if (from == to || !engine_reach(e, own, other))
		return SY_NONE;
	vcpu = engine_best_to_move(e, from, to, now);
	engine_let_go(e, own, other);
	return vcpu;
}

/* Moves that one if it is still worth it; both are held. Whether it goes; whom it interrupts then is open. */
ENGINE_CALL bool engine_balance_vcpu(ENGINE, u32 vcpu, u32 to, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 from = v->queue, pcpu;

	if (engine_gain(e, vcpu, from, to, now) <= 0)
		return false;
	pcpu = engine_usable(e, vcpu, to);
	if (pcpu == SY_NONE)
		return false;
	host_notes(e, ENGINE_MOVED, pcpu, vcpu, from);
	if (v->status == ENGINE_RUNNING) {
		v->move_to = pcpu;
		engine_interrupt(e, v->ran_on);
		return true;
	}
	if (engine_carry(e, vcpu, pcpu, now)) {
		engine_enqueue(e, vcpu, now);
		engine_put_off(e, vcpu);
	}
	return true;
}

/* The same in a later part than it was sought in, by when it may have left or ended. */
ENGINE_FN bool engine_balance_move(struct engine *e, u32 own, u32 from, u32 to, u64 now)
{
	u32 vcpu = host_queue(e, own)->balance.vcpu, queue = host_try_queue_of(e, own, vcpu);
	bool moves;

	if (queue == SY_NONE)
		return false;
	moves = queue == from && engine_reach(e, own, to);
	if (moves) {
		moves = engine_balance_vcpu(e, vcpu, to, now);
		engine_let_go(e, own, to);
	}
	engine_let_go(e, own, queue);
	return moves;
}

/* And places it where it has come to; a host to which that is not to be had now has been asked to do it later. */
ENGINE_FN void engine_balance_place(struct engine *e, u32 own, u64 now)
{
	u32 vcpu = host_queue(e, own)->balance.vcpu, queue = host_try_queue_of(e, own, vcpu);

	if (queue == SY_NONE)
		return;
	engine_settle_later(e, vcpu, now);
	engine_let_go(e, own, queue);
}

/*
 * The answer to SY_BALANCE. Moves the vCPU that is worth most, if any, between this queue and the
 * most or the least loaded one of the host, or of the pCPUs near to it where every pCPU has its own queue; to none where
 * something that is no vCPU runs on all pCPUs. This does one part of it; whether more are to come. Between parts the
 * host may give the queue's lock up.
 */
ENGINE_FN bool engine_balance_some(struct engine *e, u32 queue, u64 now)
{
	struct engine_balance *b = &host_queue(e, queue)->balance;
	bool more = true;

	switch (b->part) {
	case ENGINE_BALANCE_BEGINS:
		engine_balance_begin(e, queue, now);
		b->part = ENGINE_BALANCE_LOOKS;
		break;
	case ENGINE_BALANCE_LOOKS:
		engine_balance_look(e, queue, now);
		if (b->next >= b->end)
			b->part = engine_has_room(e, queue) ? ENGINE_BALANCE_SEEKS_THERE : ENGINE_BALANCE_SEEKS_HERE;
		break;
	case ENGINE_BALANCE_SEEKS_THERE:
		b->vcpu = engine_balance_seek(e, queue, b->most, queue, now);
		b->part = b->vcpu == SY_NONE ? ENGINE_BALANCE_SEEKS_HERE : ENGINE_BALANCE_BRINGS;
		break;
	case ENGINE_BALANCE_BRINGS:
		b->part = engine_balance_move(e, queue, b->most, queue, now) ? ENGINE_BALANCE_PLACES :
									       ENGINE_BALANCE_SEEKS_HERE;
		break;
	case ENGINE_BALANCE_SEEKS_HERE:
		b->vcpu = engine_balance_seek(e, queue, queue, b->least, now);
		more = b->vcpu != SY_NONE;
		b->part = more ? ENGINE_BALANCE_GIVES : ENGINE_BALANCE_BEGINS;
		break;
	case ENGINE_BALANCE_GIVES:
		more = engine_balance_move(e, queue, queue, b->least, now);
		b->part = more ? ENGINE_BALANCE_PLACES : ENGINE_BALANCE_BEGINS;
		break;
	default:
		engine_balance_place(e, queue, now);
		more = false;
		b->part = ENGINE_BALANCE_BEGINS;
		break;
	}
	return more;
}

/* All parts of one. */
ENGINE_FN void engine_balance(struct engine *e, u32 queue, u64 now)
{
	while (engine_balance_some(e, queue, now) && host_goes_on(e))
		;
}

/*
 * The answer to SY_REPLACE. Moves a running vCPU to an idle pCPU, if there is one: to any if
 * another waits for this one, to one whose whole core is idle if the core here is shared; not for
 * that alone from where it would rather be to where it would not.
 */
ENGINE_FN void engine_replace(struct engine *e, u32 pcpu, u32 vcpu)
{
	u32 queue = host_queue_at(e, pcpu);
	bool awaited = host_queue(e, queue)->state.queued, shared = false;
	bool leaves;
	u32 threads = e->level_pcpus[ENGINE_CORE], first = pcpu - pcpu % threads, to, i;

	for (i = first; host_goes_on(e) && i < first + threads; i++) {
		if (!engine_reach(e, queue, host_queue_at(e, i)))
			continue;
		shared |= i != pcpu && host_pcpu(e, i)->current != SY_NONE;
		engine_let_go(e, queue, host_queue_at(e, i));
	}
	if (!awaited && !shared)
		return;
	to = engine_nearest_idle(e, vcpu, host_zero(e), e->pcpus);
	if (to == SY_NONE)
		return;
	leaves = engine_averse(e, vcpu, to) && !engine_averse(e, vcpu, pcpu);
	if (!awaited && (leaves || !engine_core_is_idle(e, to)))
		return;
	host_notes(e, ENGINE_REPLACED, pcpu, vcpu, 0);
	host_vcpu(e, vcpu)->move_to = to;
	engine_interrupt(e, pcpu);
}

#endif
