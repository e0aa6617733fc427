/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whom a vCPU that was just queued interrupts, and which idle pCPU is nearest to it.
 */
#ifndef STEELYARD_ENGINE_PLACEMENT_H
#define STEELYARD_ENGINE_PLACEMENT_H

#include "queue.h"

/* Whether any pCPU from `from` on and before `end` is idle. */
ENGINE_FN bool engine_any_idle(struct engine *e, u32 from, u32 end)
{
	for (; host_goes_on(e) && from < end; from = (from / 64 + 1) * 64) {
		u64 found = host_idle_pcpus(e, from / 64) >> from % 64;

		if (found)
			return from + (u32)__builtin_ctzll(found) < end;
	}
	return false;
}

/* Sets of pCPUs in which a vCPU looks for a place. */
enum engine_set {
	ENGINE_IDLE,
	ENGINE_IDLE_CORES, /* whose whole core is idle */
	ENGINE_LESSER
};

ENGINE_FN bool engine_core_is_idle(struct engine *e, u32 pcpu)
{
	u32 threads = e->level_pcpus[ENGINE_CORE], first = pcpu - pcpu % threads, i;

	for (i = first; host_goes_on(e) && i < first + threads; i++) {
		if (!engine_is_idle(e, i))
			return false;
	}
	return true;
}

/* The first pCPU of the set, from `from` on and before `end`, that is of this affinity, or SY_NONE. */
ENGINE_FN u32 engine_first_of(struct engine *e, u32 set, u32 vcpu, u32 affinity, u32 from, u32 end)
{
	while (host_goes_on(e) && from < end) {
		u32 word = from / 64;
		u64 found = set == ENGINE_LESSER ? host_lesser_pcpus(e, word) : host_idle_pcpus(e, word);

		if (found)
			found &= engine_pcpus_for(e, vcpu, affinity, word);
		found >>= from % 64;
		if (!found) {
			from = (word + 1) * 64;
			continue;
		}
		from += (u32)__builtin_ctzll(found);
		if (from < end && (set != ENGINE_IDLE_CORES || engine_core_is_idle(e, from)))
			return from;
		from++;
	}
	return SY_NONE;
}

/* The same of idle ones. */
ENGINE_FN u32 engine_idle_for(struct engine *e, u32 vcpu, u32 affinity, u32 from, u32 end)
{
	return engine_first_of(e, ENGINE_IDLE, vcpu, affinity, from, end);
}

/* The one of the set that is nearest to where the vCPU was last, or SY_NONE. */
ENGINE_FN u32 engine_nearest_of(struct engine *e, u32 set, u32 vcpu, u32 affinity, u32 from, u32 end)
{
	u32 last = host_vcpu(e, vcpu)->state.pcpu, pcpus = 1, found;

	do {
		u32 near, near_end;

		pcpus = engine_wider(e, pcpus);
		near = (u32)sy_max(last - last % pcpus, from);
		near_end = (u32)sy_min(last - last % pcpus + pcpus, end);
		found = engine_first_of(e, set, vcpu, affinity, near, near_end);
	} while (host_goes_on(e) && found == SY_NONE && pcpus < e->pcpus);
	return found;
}

/* The one nearest to where the vCPU was last, one whose whole core is idle first; or SY_NONE. */
ENGINE_FN u32 engine_nearest_idle_by(struct engine *e, u32 vcpu, u32 affinity, u32 from, u32 end)
{
	u32 last = host_vcpu(e, vcpu)->state.pcpu, found;

	if (engine_idle_for(e, vcpu, affinity, from, end) == SY_NONE)
		return SY_NONE;
	if (e->level_pcpus[ENGINE_CORE] > 1) {
		found = engine_nearest_of(e, ENGINE_IDLE_CORES, vcpu, affinity, from, end);
		if (found != SY_NONE)
			return found;
	}
	if (last >= from && last < end && engine_is_idle(e, last) &&
	    engine_has(e, vcpu, affinity, last))
		return last;
	return engine_nearest_of(e, ENGINE_IDLE, vcpu, affinity, from, end);
}

ENGINE_CALL u32 engine_nearest_idle(ENGINE, u32 vcpu, u32 from, u32 end)
{
	u32 affinity = engine_first_affinity(e, vcpu), found = SY_NONE;

	for (; found == SY_NONE && affinity < ENGINE_AFFINITIES; affinity++)
		found = engine_nearest_idle_by(e, vcpu, affinity, from, end);
	return found;
}

/* An idle one of the host where the vCPU would rather be than on this pCPU, or SY_NONE. */
ENGINE_HOT u32 engine_better_idle(ENGINE, u32 vcpu, u32 pcpu)
{
	if (!engine_averse(e, vcpu, pcpu))
		return SY_NONE;
	return engine_nearest_idle_by(e, vcpu, ENGINE_SOFT, host_zero(e), e->pcpus);
}

/* Some pCPU of the host that the vCPU may use, an idle one if there is one; or SY_NONE. */
ENGINE_FN u32 engine_any_usable(struct engine *e, u32 vcpu)
{
	u32 found = engine_nearest_idle(e, vcpu, host_zero(e), e->pcpus), word;
	u32 affinity = engine_first_affinity(e, vcpu);

	for (word = host_zero(e); host_goes_on(e) && found == SY_NONE && word < (e->pcpus + 63) / 64; word++) {
		u64 usable = engine_pcpus_for(e, vcpu, affinity, word);

		if (usable)
			found = word * 64 + (u32)__builtin_ctzll(usable);
	}
	return found;
}

/* Something that is no vCPU runs on the pCPU, or no longer does. */
ENGINE_FN void engine_set_occupied(struct engine *e, u32 pcpu, bool occupied)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);

	if (c->occupied == occupied)
		return;
	host_queue(e, c->queue)->occupied += occupied - c->occupied;
	c->occupied = occupied;
}

/*
 * Whether something that is no vCPU runs on each pCPU of its queue that the waiting vCPU may use. How long that goes on
 * nobody knows: it is for any other pCPU with nobody to run, whatever the policy has of other queues.
 */
ENGINE_HOT bool engine_is_shut_out(ENGINE, u32 vcpu)
{
	struct engine_queue *q = host_queue(e, host_vcpu(e, vcpu)->queue);
	u32 pcpu;

	if (!q->occupied)
		return false;
	for (pcpu = q->first_pcpu; host_goes_on(e) && pcpu < q->end_pcpu; pcpu++) {
		if (!host_pcpu(e, pcpu)->occupied && engine_may_use(e, vcpu, pcpu))
			return false;
	}
	return true;
}

/* The next idle pCPU from `begin` on, going round, or SY_NONE. */
ENGINE_FN u32 engine_next_idle(struct engine *e, u32 vcpu, u32 begin, u32 from, u32 end)
{
	u32 middle = (u32)sy_clamp(begin, from, end), found = SY_NONE;
	u32 affinity = engine_first_affinity(e, vcpu);

	for (; found == SY_NONE && affinity < ENGINE_AFFINITIES; affinity++) {
		found = engine_idle_for(e, vcpu, affinity, middle, end);
		if (found == SY_NONE)
			found = engine_idle_for(e, vcpu, affinity, from, middle);
	}
	return found;
}

/* SY_STEP_NEXT_IDLE; plan: with SY_STEPS_AFTER_LAST or not */
ENGINE_FN u32 engine_rotate_idle(struct engine *e, u32 vcpu, u32 plan, u32 from, u32 end)
{
	u32 found;

	if (plan & SY_STEPS_AFTER_LAST)
		return engine_next_idle(e, vcpu, host_vcpu(e, vcpu)->state.pcpu + 1, from, end);
	found = engine_next_idle(e, vcpu, SY_LOAD(e->rotor), from, end);
	if (found != SY_NONE)
		SY_STORE(e->rotor, found + 1);
	return found;
}

/*
 * By how much the waiting vCPU is ahead of who runs on the pCPU; 0 if nobody does, or if that pCPU
 * chooses again anyway.
 */
ENGINE_HOT s64 engine_lead(ENGINE, u32 vcpu, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);

	if (c->current == SY_NONE || c->interrupted)
		return 0;
	engine_charge(e, pcpu, now);
	return sy_lead(host_policy(e), &host_queue(e, c->queue)->state, &c->state,
		       &host_vcpu(e, vcpu)->state, &host_vcpu(e, c->current)->state, now);
}

/* Interrupts the pCPU of the queue where the lead is greatest, of those of this affinity but the vCPU's last. */
ENGINE_FN bool engine_interrupt_least_by(struct engine *e, u32 vcpu, u32 affinity, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	struct engine_queue *q = host_queue(e, v->queue);
	u32 last = v->state.pcpu, best = SY_NONE, pcpu;
	s64 greatest = 0;

	for (pcpu = q->first_pcpu; host_goes_on(e) && pcpu < q->end_pcpu; pcpu++) {
		s64 lead;

		if (pcpu == last || !engine_has(e, vcpu, affinity, pcpu))
			continue;
		lead = engine_lead(e, vcpu, pcpu, now);
		if (lead > greatest) {
			greatest = lead;
			best = pcpu;
		}
	}
	if (best != SY_NONE)
		engine_interrupt(e, best);
	return best != SY_NONE;
}

/* SY_STEP_LEAST */
ENGINE_FN bool engine_interrupt_least(struct engine *e, u32 vcpu, u64 now)
{
	u32 affinity = engine_first_affinity(e, vcpu);

	for (; affinity < ENGINE_AFFINITIES; affinity++) {
		if (engine_interrupt_least_by(e, vcpu, affinity, now))
			return true;
	}
	return false;
}

/* SY_STEP_LAST_LEAD */
ENGINE_FN bool engine_interrupt_last(struct engine *e, u32 vcpu, u32 last, u64 now)
{
	/* Where it would rather be comes before where it was, as in Xen's runq_tickle(). */
	if (engine_averse(e, vcpu, last) && engine_interrupt_least_by(e, vcpu, ENGINE_SOFT, now))
		return true;
	if (engine_lead(e, vcpu, last, now) <= 0)
		return false;
	engine_interrupt(e, last);
	return true;
}

/* SY_STEP_EVICT */
ENGINE_FN bool engine_evict(struct engine *e, u32 vcpu, u32 last, u64 now)
{
	u32 running, to;

	if (engine_idle_for(e, vcpu, ENGINE_HARD, host_zero(e), e->pcpus) != SY_NONE)
		return false;
	if (!engine_any_idle(e, host_zero(e), e->pcpus) || engine_lead(e, vcpu, last, now) <= 0)
		return false;
	running = host_pcpu(e, last)->current;
	to = engine_nearest_idle(e, running, host_zero(e), e->pcpus);
	if (to != SY_NONE)
		host_vcpu(e, running)->move_to = to;
	engine_interrupt(e, last);
	return true;
}

/* What comes of looking for a pCPU, beside one to whose queue, which is held then, the vCPU is to go. */
enum engine_found {
	ENGINE_NOT_FOUND = SY_NONE,
	ENGINE_FOUND = SY_NONE - 1
};

/* The queue of a pCPU for the waiting vCPU was not to be had: another attempt follows. */
ENGINE_FN void engine_put_off(struct engine *e, u32 vcpu)
{
	host_vcpu(e, vcpu)->unplaced = 1;
	host_settle(e, vcpu);
}

/* Interrupts this idle pCPU for the waiting vCPU. */
ENGINE_FN u32 engine_interrupt_there(struct engine *e, u32 vcpu, u32 pcpu)
{
	u32 own = host_vcpu(e, vcpu)->queue, queue = host_queue_at(e, pcpu);

	if (!engine_reach(e, own, queue)) {
		engine_put_off(e, vcpu);
		return ENGINE_NOT_FOUND;
	}
	engine_interrupt(e, pcpu);
	engine_let_go(e, own, queue);
	return ENGINE_FOUND;
}

/* The same if it is of the vCPU's queue, which is to go there else. */
ENGINE_FN u32 engine_reach_there(struct engine *e, u32 vcpu, u32 pcpu)
{
	u32 from = host_vcpu(e, vcpu)->queue, to = host_queue_at(e, pcpu);
	bool stays;

	if (from == to)
		return engine_interrupt_there(e, vcpu, pcpu);
	stays = host_stays(e, vcpu);
	if (!stays && engine_reach(e, from, to))
		return pcpu;
	engine_put_off(e, vcpu);
	return stays ? ENGINE_FOUND : ENGINE_NOT_FOUND;
}

/* SY_STEP_ONE_IDLE and SY_STEP_NEXT_IDLE; from, end: where idle pCPUs count */
ENGINE_HOT u32 engine_interrupt_idle(ENGINE, u32 vcpu, u32 step, u32 from, u32 end)
{
	u32 plan, pcpu;

	if (!engine_any_idle(e, from, end))
		return ENGINE_NOT_FOUND;
	plan = sy_steps(host_policy(e), &host_vcpu(e, vcpu)->state);
	pcpu = step == SY_STEP_ONE_IDLE ? engine_nearest_idle(e, vcpu, from, end) :
					  engine_rotate_idle(e, vcpu, plan, from, end);
	if (pcpu == SY_NONE)
		return ENGINE_NOT_FOUND;
	if (plan & SY_STEPS_PLACE)
		return engine_reach_there(e, vcpu, pcpu);
	return engine_interrupt_there(e, vcpu, pcpu);
}

/* The nearest pCPU that runs a lesser one, or SY_NONE. */
ENGINE_CALL u32 engine_nearest_lesser(ENGINE, u32 vcpu)
{
	u32 affinity = engine_first_affinity(e, vcpu), pcpu = SY_NONE;

	for (; pcpu == SY_NONE && affinity < ENGINE_AFFINITIES; affinity++)
		pcpu = engine_nearest_of(e, ENGINE_LESSER, vcpu, affinity, host_zero(e), e->pcpus);
	return pcpu;
}

/* SY_STEPS_LESSER; where it would not lead it is left. */
ENGINE_FN u32 engine_interrupt_lesser(struct engine *e, u32 vcpu, u64 now)
{
	u32 from = host_vcpu(e, vcpu)->queue, pcpu = engine_nearest_lesser(e, vcpu), found;

	if (pcpu == SY_NONE || host_queue_at(e, pcpu) == from)
		return ENGINE_NOT_FOUND;
	found = engine_reach_there(e, vcpu, pcpu);
	if (found != pcpu || engine_lead(e, vcpu, pcpu, now) > 0)
		return found;
	engine_let_go(e, from, host_queue_at(e, pcpu));
	return ENGINE_NOT_FOUND;
}

/* What is no vCPU makes room for one that has woken on a pCPU of its queue, its last one first. */
ENGINE_CALL bool engine_interrupt_other(ENGINE, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	struct engine_queue *q = host_queue(e, v->queue);
	u32 pcpu = v->state.pcpu, next = q->first_pcpu;

	if (!q->occupied || !v->woken)
		return false;
	do {
		if (host_pcpu(e, pcpu)->occupied && engine_may_use(e, vcpu, pcpu) && host_interrupt_other(e, pcpu, now)) {
			host_notes(e, ENGINE_INTERRUPTS, pcpu, SY_NONE, 0);
			return true;
		}
		pcpu = next++;
	} while (host_goes_on(e) && pcpu < q->end_pcpu);
	return false;
}

/* SY_STEP_ALL_IDLE */
ENGINE_CALL bool engine_interrupt_all_idle(ENGINE, u32 vcpu, u32 from, u32 end)
{
	u32 affinity = engine_first_affinity(e, vcpu), pcpu = SY_NONE, next;

	for (; pcpu == SY_NONE && affinity < ENGINE_AFFINITIES; affinity++) {
		for (next = from; host_goes_on(e) && (next = engine_idle_for(e, vcpu, affinity, next, end)) != SY_NONE;
		     next++) {
			pcpu = next;
			engine_interrupt_there(e, vcpu, pcpu);
		}
	}
	return pcpu != SY_NONE;
}

/* Takes one step of the plan; what comes of it. from, end: where idle pCPUs count */
ENGINE_FN u32 engine_take_step(struct engine *e, u32 vcpu, u32 step, u32 from, u32 end, u64 now)
{
	u32 last = host_vcpu(e, vcpu)->state.pcpu;
	bool found = false;

	switch (step) {
	case SY_STEP_LAST_IDLE:
		found = engine_is_idle(e, last);
		if (found)
			engine_interrupt(e, last);
		break;
	case SY_STEP_LAST_LEAD:
		found = engine_interrupt_last(e, vcpu, last, now);
		break;
	case SY_STEP_ONE_IDLE:
	case SY_STEP_NEXT_IDLE:
		return engine_interrupt_idle(e, vcpu, step, from, end);
	case SY_STEP_ALL_IDLE:
		found = engine_interrupt_all_idle(e, vcpu, from, end);
		break;
	case SY_STEP_LEAST:
		found = engine_interrupt_least(e, vcpu, now);
		break;
	case SY_STEP_EVICT:
		found = engine_evict(e, vcpu, last, now);
		break;
	default:
		break;
	}
	return found ? ENGINE_FOUND : ENGINE_NOT_FOUND;
}

/*
 * Interrupts whom the policy wants to be interrupted for a vCPU that was just queued. One that
 * would rather be elsewhere moves to an idle pCPU there, whatever the plan: if that one only looked
 * it might take another, and the vCPU would wait beside the pCPU that it was on, idle as well. So does one that is
 * shut out.
 */
ENGINE_CALL u32 engine_look_for(ENGINE, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 plan = sy_steps(host_policy(e), &v->state), found = ENGINE_NOT_FOUND;
	u32 steps = plan & ~(SY_STEPS_PLACE | SY_STEPS_QUEUE | SY_STEPS_LESSER | SY_STEPS_AFTER_LAST);
	u32 from = host_zero(e), end = e->pcpus, better = engine_better_idle(e, vcpu, v->state.pcpu);

	if (better == SY_NONE && engine_is_shut_out(e, vcpu))
		better = engine_nearest_idle(e, vcpu, from, end);
	if (better != SY_NONE)
		return engine_reach_there(e, vcpu, better);
	if (plan & SY_STEPS_QUEUE) {
		from = host_queue(e, v->queue)->first_pcpu;
		end = host_queue(e, v->queue)->end_pcpu;
	}
	for (; host_goes_on(e) && steps; steps >>= SY_STEP_BITS) {
		bool also = steps & SY_STEP_ALSO;

		found = engine_take_step(e, vcpu, steps & (SY_STEP_ALSO - 1), from, end, now);
		if (found != ENGINE_NOT_FOUND && !(found == ENGINE_FOUND && also))
			break;
	}
	if (found == ENGINE_NOT_FOUND && plan & SY_STEPS_LESSER)
		found = engine_interrupt_lesser(e, vcpu, now);
	if (found == ENGINE_NOT_FOUND && engine_interrupt_other(e, vcpu, now))
		found = ENGINE_FOUND;
	return found;
}

/* The same, and the vCPU goes where it is to go. Whether it has left its queue. */
ENGINE_FN bool engine_interrupt_for(struct engine *e, u32 vcpu, u64 now)
{
	u32 from = host_vcpu(e, vcpu)->queue, found = engine_look_for(e, vcpu, now);

	if (found == ENGINE_NOT_FOUND || found == ENGINE_FOUND)
		return false;
	engine_interrupt(e, found);
	engine_dequeue(e, vcpu);
	engine_assign(e, vcpu, found, now);
	engine_enqueue(e, vcpu, now);
	engine_let_go(e, from, host_vcpu(e, vcpu)->queue);
	return true;
}

/* What follows once a vCPU has come into its queue or may be in it again. Whether it has left. */
ENGINE_FN bool engine_queue_up(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	engine_enqueue(e, vcpu, now);
	if (!v->saving)
		return engine_interrupt_for(e, vcpu, now);
	v->unplaced = 1;
	return false;
}

/* Whether it has left its queue then. */
ENGINE_FN bool engine_unpark(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (!v->parked)
		return false;
	if (v->status == ENGINE_RUNNING) {
		engine_unpark_running(e, vcpu);
		return false;
	}
	host_notes(e, ENGINE_UNPARKED, v->state.pcpu, vcpu, 0);
	v->parked = 0;
	if (v->status != ENGINE_WAITING)
		return false;
	host_unparks(e, vcpu, now);
	return engine_queue_up(e, vcpu, now);
}

/* What a policy asked for a vCPU, whatever it does; something. Whether it has left its queue. */
ENGINE_CALL bool engine_answer_some(ENGINE, u32 vcpu, u32 requests, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 queue = v->queue;
	bool left = false;

	engine_answer_timers(e, vcpu, requests);
	if (requests & SY_PARK)
		engine_park(e, vcpu, now);
	if (requests & SY_UNPARK)
		left = engine_unpark(e, vcpu, now);
	if (requests & SY_REKEY && !left && v->queued) {
		engine_dequeue(e, vcpu);
		left = engine_queue_up(e, vcpu, now);
	}
	if (requests & SY_RESCHEDULE && !left && v->status == ENGINE_RUNNING)
		engine_interrupt(e, v->ran_on);
	engine_answer_queue(e, queue, requests, now);
	return left;
}

ENGINE_FN bool engine_answer(struct engine *e, u32 vcpu, u32 requests, u64 now)
{
	return requests && engine_answer_some(e, vcpu, requests, now);
}

/* Takes a vCPU that neither runs nor saves into the queue of this pCPU; that and its own are held. Whether it is to wait there. */
ENGINE_FN bool engine_carry(struct engine *e, u32 vcpu, u32 pcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (v->queued)
		engine_dequeue(e, vcpu);
	engine_assign(e, vcpu, pcpu, now);
	return v->status == ENGINE_WAITING && !v->parked;
}

/* The same, and it waits there if it does. Whether it has left its own. */
ENGINE_FN bool engine_move(struct engine *e, u32 vcpu, u32 pcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 from = v->queue;
	bool waits = engine_carry(e, vcpu, pcpu, now), left = v->queue != from;

	if (waits)
		left |= engine_queue_up(e, vcpu, now);
	return left;
}

#endif
