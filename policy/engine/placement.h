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
	for (; from < end; from = (from / 64 + 1) * 64) {
		u64 found = host_idle_pcpus(e, from / 64) >> from % 64;

		if (found)
			return from + (u32)__builtin_ctzll(found) < end;
	}
	return false;
}

/* The first idle pCPU from `from` on and before `end` that the vCPU may use, or SY_NONE. */
ENGINE_FN u32 engine_idle_for(struct engine *e, u32 vcpu, u32 from, u32 end)
{
	while (from < end) {
		u32 word = from / 64;
		u64 found = host_idle_pcpus(e, word);

		if (found)
			found &= host_allowed_pcpus(e, vcpu, word);
		found >>= from % 64;
		if (found) {
			from += (u32)__builtin_ctzll(found);
			return from < end ? from : SY_NONE;
		}
		from = (word + 1) * 64;
	}
	return SY_NONE;
}

ENGINE_FN bool engine_core_is_idle(struct engine *e, u32 pcpu)
{
	u32 first = pcpu - pcpu % e->threads_per_core, i;

	for (i = first; i < first + e->threads_per_core; i++) {
		if (!engine_is_idle(e, i))
			return false;
	}
	return true;
}

/* The same, of those whose whole core is idle. */
ENGINE_FN u32 engine_idle_core_for(struct engine *e, u32 vcpu, u32 from, u32 end)
{
	u32 pcpu;

	for (; (pcpu = engine_idle_for(e, vcpu, from, end)) != SY_NONE; from = pcpu + 1) {
		if (engine_core_is_idle(e, pcpu))
			return pcpu;
	}
	return SY_NONE;
}

/* The idle pCPU nearest to where the vCPU was last, one whose whole core is idle first; or SY_NONE.
 */
ENGINE_FN u32 engine_nearest_idle(struct engine *e, u32 vcpu, u32 from, u32 end)
{
	u32 any = engine_idle_for(e, vcpu, from, end), last, socket, near, near_end, found;

	if (any == SY_NONE)
		return SY_NONE;
	last = host_vcpu(e, vcpu)->state.pcpu;
	socket = last - last % e->pcpus_per_socket;
	near = (u32)sy_max(socket, from);
	near_end = (u32)sy_min(socket + e->pcpus_per_socket, end);
	if (e->threads_per_core > 1) {
		found = engine_idle_core_for(e, vcpu, near, near_end);
		if (found == SY_NONE)
			found = engine_idle_core_for(e, vcpu, from, end);
		if (found != SY_NONE)
			return found;
	}
	if (last >= from && last < end && engine_is_idle(e, last) && engine_may_use(e, vcpu, last))
		return last;
	found = engine_idle_for(e, vcpu, near, near_end);
	return found == SY_NONE ? any : found;
}

/* Some pCPU of the host that the vCPU may use, an idle one if there is one; or SY_NONE. */
ENGINE_FN u32 engine_any_usable(struct engine *e, u32 vcpu)
{
	u32 found = engine_nearest_idle(e, vcpu, 0, e->pcpus), word;

	for (word = 0; found == SY_NONE && word < (e->pcpus + 63) / 64; word++) {
		u64 allowed = host_allowed_pcpus(e, vcpu, word);

		if (allowed)
			found = word * 64 + (u32)__builtin_ctzll(allowed);
	}
	return found;
}

/* The next idle pCPU in rotation, or SY_NONE. */
ENGINE_FN u32 engine_next_idle(struct engine *e, u32 vcpu, u32 from, u32 end)
{
	u32 middle = (u32)sy_clamp(e->rotor, from, end);
	u32 found = engine_idle_for(e, vcpu, middle, end);

	if (found == SY_NONE)
		found = engine_idle_for(e, vcpu, from, middle);
	if (found != SY_NONE)
		e->rotor = found + 1;
	return found;
}

/*
 * By how much the waiting vCPU is ahead of who runs on the pCPU; 0 if nobody does, or if that pCPU
 * chooses again anyway.
 */
ENGINE_FN s64 engine_lead(struct engine *e, u32 vcpu, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);

	if (c->current == SY_NONE || c->interrupted)
		return 0;
	engine_charge(e, pcpu, now);
	return sy_lead(host_policy(e), &host_queue(e, c->queue)->state, &c->state,
		       &host_vcpu(e, vcpu)->state, &host_vcpu(e, c->current)->state, now);
}

/* SY_STEP_LEAST */
ENGINE_FN bool engine_interrupt_least(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_queue *q = host_queue(e, host_vcpu(e, vcpu)->queue);
	u32 best = SY_NONE, pcpu;
	s64 greatest = 0;

	for (pcpu = q->first_pcpu; pcpu < q->end_pcpu; pcpu++) {
		s64 lead = engine_may_use(e, vcpu, pcpu) ? engine_lead(e, vcpu, pcpu, now) : 0;

		if (lead > greatest) {
			greatest = lead;
			best = pcpu;
		}
	}
	if (best != SY_NONE)
		engine_interrupt(e, best);
	return best != SY_NONE;
}

/* SY_STEP_EVICT */
ENGINE_FN bool engine_evict(struct engine *e, u32 vcpu, u32 last, u64 now)
{
	u32 running, to;

	if (engine_idle_for(e, vcpu, 0, e->pcpus) != SY_NONE)
		return false;
	if (!engine_any_idle(e, 0, e->pcpus) || engine_lead(e, vcpu, last, now) <= 0)
		return false;
	running = host_pcpu(e, last)->current;
	to = engine_nearest_idle(e, running, 0, e->pcpus);
	if (to != SY_NONE)
		host_vcpu(e, running)->move_to = to;
	engine_interrupt(e, last);
	return true;
}

/* SY_STEP_ONE_IDLE and SY_STEP_NEXT_IDLE; from, end: where idle pCPUs count */
ENGINE_FN bool engine_interrupt_idle(struct engine *e, u32 vcpu, u32 kind, u32 plan, u32 from,
				     u32 end, u64 now)
{
	u32 pcpu = kind == SY_STEP_ONE_IDLE ? engine_nearest_idle(e, vcpu, from, end) :
					      engine_next_idle(e, vcpu, from, end);

	if (pcpu == SY_NONE)
		return false;
	engine_interrupt(e, pcpu);
	if (plan & SY_STEPS_PLACE && host_pcpu(e, pcpu)->queue != host_vcpu(e, vcpu)->queue) {
		engine_dequeue(e, vcpu);
		engine_assign(e, vcpu, pcpu, now);
		engine_enqueue(e, vcpu, now);
	}
	return true;
}

/* SY_STEP_ALL_IDLE */
ENGINE_FN bool engine_interrupt_all_idle(struct engine *e, u32 vcpu, u32 from, u32 end)
{
	bool found = false;
	u32 pcpu;

	for (; (pcpu = engine_idle_for(e, vcpu, from, end)) != SY_NONE; from = pcpu + 1) {
		engine_interrupt(e, pcpu);
		found = true;
	}
	return found;
}

/* Takes one step of the plan; whether it found a pCPU. */
ENGINE_FN bool engine_take_step(struct engine *e, u32 vcpu, u32 kind, u32 plan, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	struct engine_queue *q = host_queue(e, v->queue);
	bool within = plan & SY_STEPS_QUEUE;
	u32 from = within ? q->first_pcpu : 0;
	u32 end = within ? q->end_pcpu : e->pcpus;
	u32 last = v->state.pcpu;

	switch (kind) {
	case SY_STEP_LAST_IDLE:
		if (!engine_is_idle(e, last))
			return false;
		break;
	case SY_STEP_LAST_LEAD:
		if (engine_lead(e, vcpu, last, now) <= 0)
			return false;
		break;
	case SY_STEP_ONE_IDLE:
	case SY_STEP_NEXT_IDLE:
		return engine_interrupt_idle(e, vcpu, kind, plan, from, end, now);
	case SY_STEP_ALL_IDLE:
		return engine_interrupt_all_idle(e, vcpu, from, end);
	case SY_STEP_LEAST:
		return engine_interrupt_least(e, vcpu, now);
	case SY_STEP_EVICT:
		return engine_evict(e, vcpu, last, now);
	default:
		return false;
	}
	engine_interrupt(e, last);
	return true;
}

/* Interrupts whom the policy wants to be interrupted for a vCPU that was just queued. */
ENGINE_FN void engine_interrupt_for(struct engine *e, u32 vcpu, u64 now)
{
	u32 plan = sy_steps(host_policy(e), &host_vcpu(e, vcpu)->state);
	u32 steps = plan & ~(SY_STEPS_PLACE | SY_STEPS_QUEUE);

	for (; steps; steps >>= SY_STEP_BITS) {
		u32 kind = steps & (SY_STEP_ALSO - 1);

		if (engine_take_step(e, vcpu, kind, plan, now) && !(steps & SY_STEP_ALSO))
			break;
	}
}

/* What follows once a vCPU has come into its queue or may be in it again. */
ENGINE_FN void engine_queue_up(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	engine_enqueue(e, vcpu, now);
	if (v->saving)
		v->unplaced = 1;
	else
		engine_interrupt_for(e, vcpu, now);
}

ENGINE_FN void engine_unpark(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (!v->parked)
		return;
	if (v->status == ENGINE_RUNNING) {
		engine_unpark_running(v);
		return;
	}
	v->parked = 0;
	if (v->status == ENGINE_WAITING) {
		host_unparks(e, vcpu, now);
		engine_queue_up(e, vcpu, now);
	}
}

/* What a policy asked for a vCPU, whatever it does. */
ENGINE_FN void engine_answer(struct engine *e, u32 vcpu, u32 requests, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (!requests)
		return;
	engine_answer_timers(e, vcpu, requests);
	if (requests & SY_PARK)
		engine_park(e, vcpu, now);
	if (requests & SY_UNPARK)
		engine_unpark(e, vcpu, now);
	if (requests & SY_REKEY && v->queued) {
		engine_dequeue(e, vcpu);
		engine_queue_up(e, vcpu, now);
	}
	if (requests & SY_RESCHEDULE && v->status == ENGINE_RUNNING)
		engine_interrupt(e, v->ran_on);
	engine_answer_queue(e, v->queue, requests, now);
}

#endif
