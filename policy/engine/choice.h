/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who runs next on a pCPU, and for how long.
 */
#ifndef STEELYARD_ENGINE_CHOICE_H
#define STEELYARD_ENGINE_CHOICE_H

#include "placement.h"

/* Whether this pCPU can take a vCPU that waits. */
ENGINE_FN bool engine_takeable(struct engine *e, u32 vcpu, u32 pcpu)
{
	return !host_vcpu(e, vcpu)->saving && engine_may_use(e, vcpu, pcpu);
}

/*
 * Who can run on: the vCPU that does, or the one that did until something else came and still waits
 * here; or SY_NONE.
 */
ENGINE_FN u32 engine_incumbent(struct engine *e, u32 pcpu)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	u32 vcpu = c->current == SY_NONE ? c->paused : c->current;
	struct engine_vcpu *v;

	if (vcpu == SY_NONE)
		return SY_NONE;
	v = host_vcpu(e, vcpu);
	if (v->parked || v->move_to != SY_NONE)
		return SY_NONE;
	if (c->current != SY_NONE)
		return vcpu;
	return v->queued && !v->woken && v->state.pcpu == pcpu && engine_takeable(e, vcpu, pcpu) ?
		       vcpu :
		       SY_NONE;
}

/*
 * Whether the candidate must leave the rest of its turn to the one that something else interrupted: they are equals.
 * Where none runs, each choice is to the policy the end of a turn, at which equals take turns. Whom a governor puts
 * first waits for no turn, and one that is behind is taken for a reason of the policy's, as a yield is.
 */
ENGINE_FN bool engine_turn_goes_on(struct engine *e, u32 pcpu, u32 best, u32 candidate, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	struct sy_vcpu *v = &host_vcpu(e, candidate)->state;

	return best != SY_NONE && best == c->paused && !v->first &&
	       !sy_lead(host_policy(e), &host_queue(e, c->queue)->state, &c->state, v,
			&host_vcpu(e, best)->state, now);
}

/* Who runs on, or comes from the pCPU's own queue; or SY_NONE. */
ENGINE_HOT u32 engine_choose_here(ENGINE, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	struct sy_queue *q = &host_queue(e, c->queue)->state;
	u32 best = engine_incumbent(e, pcpu), first = SY_NONE, place = 0, vcpu;
	bool none_moves = false;

	while (q->queued && (vcpu = host_next_waiting(e, c->queue, &place)) != SY_NONE) {
		struct sy_vcpu *v = &host_vcpu(e, vcpu)->state;
		enum sy_verdict verdict;

		if (vcpu == best || (none_moves && v->pcpu != pcpu && !v->first) || !engine_takeable(e, vcpu, pcpu))
			continue;
		if (first == SY_NONE)
			first = vcpu;
		verdict = sy_consider(host_policy(e), q, &c->state, engine_state_or_null(e, best), v, now);
		none_moves |= verdict == SY_SKIP_MOVES;
		if (verdict == SY_TAKE)
			return engine_turn_goes_on(e, pcpu, best, vcpu, now) ? best : vcpu;
		if (verdict == SY_PREFER && !engine_turn_goes_on(e, pcpu, best, vcpu, now))
			best = vcpu;
		if (verdict == SY_STOP)
			break;
	}
	return best == SY_NONE ? first : best;
}

/* What a search for somebody in other queues meets with. */
struct engine_search {
	u32 averse; /* the first one who would rather be elsewhere, or SY_NONE */
	u32 averse_queue;
	bool missed; /* a queue was not to be had */
};

/*
 * Who comes from this other queue, which stays held then, or SY_NONE. Who would rather be elsewhere comes if
 * nobody else of all queues does, as in Xen's csched_load_balance().
 */
ENGINE_FN u32 engine_steal_from(struct engine *e, u32 queue, u32 pcpu, u32 chosen,
				struct engine_search *search, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	u32 place = 0, vcpu;

	if (!engine_reach(e, c->queue, queue)) {
		search->missed = true;
		return SY_NONE;
	}
	while ((vcpu = host_next_waiting(e, queue, &place)) != SY_NONE) {
		enum sy_verdict verdict;

		if (!engine_takeable(e, vcpu, pcpu))
			continue;
		verdict = sy_steal(host_policy(e), &c->state, engine_state_or_null(e, chosen),
				   &host_queue(e, queue)->state, &host_vcpu(e, vcpu)->state, now);
		if (verdict == SY_TAKE && !engine_averse(e, vcpu, pcpu))
			return vcpu;
		if (verdict == SY_TAKE && search->averse == SY_NONE) {
			search->averse = vcpu;
			search->averse_queue = queue;
		}
		if (verdict == SY_STOP)
			break;
	}
	engine_let_go(e, c->queue, queue);
	return SY_NONE;
}

/* That one comes, if it still waits; its queue stays held then. */
ENGINE_FN u32 engine_steal_averse(struct engine *e, u32 pcpu, struct engine_search *search)
{
	u32 own = host_queue_at(e, pcpu), vcpu = search->averse, queue;

	if (vcpu == SY_NONE)
		return SY_NONE;
	queue = host_try_queue_of(e, own, vcpu);
	if (queue == search->averse_queue && host_vcpu(e, vcpu)->queued && engine_takeable(e, vcpu, pcpu))
		return vcpu;
	search->missed = true;
	if (queue != SY_NONE)
		engine_let_go(e, own, queue);
	return SY_NONE;
}

/* Who comes from one of the queues from `from` on and before `end`, as by engine_steal_from(). */
ENGINE_FN u32 engine_steal_within(struct engine *e, u32 from, u32 end, u32 pcpu, u32 chosen,
				  struct engine_search *search, u64 now)
{
	while (host_goes_on(e) && from < end) {
		u64 waited = host_waited_queues(e, from / 64) >> from % 64;
		u32 vcpu;

		if (!waited) {
			from = (from / 64 + 1) * 64;
			continue;
		}
		from += (u32)__builtin_ctzll(waited);
		if (from >= end)
			break;
		vcpu = engine_steal_from(e, from, pcpu, chosen, search, now);
		if (vcpu != SY_NONE)
			return vcpu;
		from++;
	}
	return SY_NONE;
}

/*
 * Who comes from another queue, nearest first, of those as near in turn from the next one on, as Xen's
 * csched_load_balance() goes from node to node; or SY_NONE. Its queue is held then. Only queues of one pCPU, which
 * have its number, are stolen from. A pCPU with nobody looks again where it could not.
 */
ENGINE_CALL u32 engine_steal(ENGINE, u32 pcpu, u32 chosen, u64 now)
{
	struct engine_search search = { .averse = SY_NONE };
	u32 pcpus = 1, first = pcpu, end = pcpu + 1, vcpu;

	do {
		u32 wider, wider_end;

		pcpus = engine_wider(e, pcpus);
		wider = pcpu - pcpu % pcpus;
		wider_end = wider + pcpus;
		vcpu = engine_steal_within(e, end, wider_end, pcpu, chosen, &search, now);
		if (vcpu == SY_NONE)
			vcpu = engine_steal_within(e, wider, first, pcpu, chosen, &search, now);
		first = wider;
		end = wider_end;
	} while (host_goes_on(e) && vcpu == SY_NONE && pcpus < e->pcpus);
	if (vcpu == SY_NONE)
		vcpu = engine_steal_averse(e, pcpu, &search);
	if (vcpu == SY_NONE && chosen == SY_NONE && search.missed)
		engine_interrupt(e, pcpu);
	return vcpu;
}

/* One who waits in another queue, which is held, comes to this pCPU's; that one is given back. */
ENGINE_FN void engine_bring(struct engine *e, u32 vcpu, u32 pcpu, u64 now)
{
	u32 from = host_vcpu(e, vcpu)->queue;

	host_notes(e, ENGINE_STOLEN, pcpu, vcpu, from);
	engine_dequeue(e, vcpu);
	engine_assign(e, vcpu, pcpu, now);
	host_unlock_queue(e, from);
}

/* Who comes from another queue in place of the chosen one, or that one. */
ENGINE_FN u32 engine_choose_elsewhere(struct engine *e, u32 pcpu, u32 chosen, u64 now)
{
	u32 stolen;

	if (e->queues == 1 ||
	    !sy_look_further(host_policy(e), &host_pcpu(e, pcpu)->state, engine_state_or_null(e, chosen), now))
		return chosen;
	stolen = engine_steal(e, pcpu, chosen, now);
	if (stolen == SY_NONE)
		return chosen;
	engine_bring(e, stolen, pcpu, now);
	return stolen;
}

/* Who comes from this other queue since it is shut out there, or SY_NONE. */
ENGINE_FN u32 engine_let_in_from(struct engine *e, u32 queue, u32 pcpu, u64 now)
{
	u32 place = 0, vcpu;

	while (host_queue(e, queue)->occupied && (vcpu = host_next_waiting(e, queue, &place)) != SY_NONE) {
		if (!engine_takeable(e, vcpu, pcpu) || !engine_is_shut_out(e, vcpu))
			continue;
		engine_bring(e, vcpu, pcpu, now);
		return vcpu;
	}
	host_unlock_queue(e, queue);
	return SY_NONE;
}

/* The same of any queue; the pCPU looks again where it could not. */
ENGINE_CALL u32 engine_let_in(ENGINE, u32 pcpu, u64 now)
{
	u32 own = host_queue_at(e, pcpu), queue = host_zero(e), vcpu;
	bool missed = false;

	while (host_goes_on(e) && queue < e->queues) {
		u64 waited = host_waited_queues(e, queue / 64) >> queue % 64;

		if (!waited) {
			queue = (queue / 64 + 1) * 64;
			continue;
		}
		queue += (u32)__builtin_ctzll(waited);
		if (queue != own && host_try_queue(e, queue)) {
			vcpu = engine_let_in_from(e, queue, pcpu, now);
			if (vcpu != SY_NONE)
				return vcpu;
		} else if (queue != own) {
			missed = true;
		}
		queue++;
	}
	if (missed)
		engine_interrupt(e, pcpu);
	return SY_NONE;
}

/*
 * The pCPU has nobody: it is idle, or takes who is shut out elsewhere. Idle before it looks: who is shut out from then on
 * sees that it is. A request made while it chose is still on the way.
 */
ENGINE_FN u32 engine_idle(struct engine *e, u32 pcpu, u64 now)
{
	u32 chosen;

	if (!host_pcpu(e, pcpu)->interrupted)
		host_set_idle(e, pcpu, true);
	chosen = engine_let_in(e, pcpu, now);
	if (chosen != SY_NONE && engine_is_idle(e, pcpu))
		host_set_idle(e, pcpu, false);
	return chosen;
}

/* A vCPU of this domain has the queue reset. */
ENGINE_FN u32 engine_reset(struct engine *e, u32 queue, u32 domain, u64 units, u64 now)
{
	bool governs = sy_governs_resets(host_policy(e));
	struct engine_domain *d;
	u32 requests;

	host_lock_domain(e, domain);
	if (governs)
		host_lock_shared(e);
	d = host_domain(e, domain);
	d->resets++;
	requests = sy_reset(host_policy(e), &host_queue(e, queue)->state, &e->governor, &d->state, units, now);
	if (governs)
		host_unlock_shared(e);
	host_unlock_domain(e, domain);
	return requests;
}

ENGINE_FN void engine_reweigh(struct engine *e, u32 domain)
{
	engine_lock_both(e, domain);
	sy_reweigh(host_policy(e), &e->governor, &host_domain(e, domain)->state);
	engine_unlock_both(e, domain);
}

/* Whoever runs on the queue's pCPUs is charged before a reset. */
ENGINE_HOT int engine_reset_if_due(ENGINE, u32 pcpu, u32 chosen, u64 now)
{
	u32 queue = host_pcpu(e, pcpu)->queue, requests, i;
	struct engine_queue *q = host_queue(e, queue);
	struct engine_vcpu *v = host_vcpu(e, chosen);
	u64 units;

	/* Mostly none is due, whoever waits. */
	if (!sy_reset_due(host_policy(e), &q->state, &v->state, 0))
		return 0;
	units = sy_reset_due(host_policy(e), &q->state, &v->state,
			     engine_state_or_null(e, engine_first_waiting(e, queue)));
	if (!units)
		return 0;
	host_notes(e, ENGINE_RESETS, pcpu, chosen, units);
	for (i = q->first_pcpu; host_goes_on(e) && i < q->end_pcpu; i++) {
		if (i != pcpu)
			engine_charge(e, i, now);
	}
	requests = engine_reset(e, queue, v->domain, units, now);
	engine_answer_queue(e, queue, requests, now);
	for (i = 0; host_goes_on(e) && requests & SY_REWEIGH && i < 2; i++) {
		/* Ids are numbers plus one. */
		u64 id = ENGINE_WITH_SHARED(e, e->governor.reweigh[i]);

		if (id && host_has_domain(e, (u32)id - 1))
			engine_reweigh(e, (u32)id - 1);
	}
	return 0;
}

/* No vCPU runs on the pCPU any more. */
ENGINE_FN void engine_vacate(struct engine *e, struct engine_pcpu *c, struct engine_vcpu *v, u32 status, u64 now)
{
	host_stops(e, c->current, c->state.id, status, now);
	engine_turn(v, status, now);
	v->saving = host_saves(e);
	v->requeue = 0;
	c->current = SY_NONE;
	c->state.busy = 0;
}

/* A vCPU that does not run goes to the pCPU that it is to move to. Whether it has left its queue. */
ENGINE_FN bool engine_move_on(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 move_to = v->move_to, from = v->queue, to;
	bool left;

	/* The pCPU may be gone meanwhile. */
	if (!engine_may_use(e, vcpu, move_to))
		move_to = engine_any_usable(e, vcpu);
	to = host_queue_at(e, move_to);
	if ((from != to && host_stays(e, vcpu)) || !engine_reach(e, from, to)) {
		v->move_to = move_to;
		if (v->status == ENGINE_WAITING && !v->parked && !v->queued)
			engine_enqueue(e, vcpu, now);
		host_settle(e, vcpu);
		return false;
	}
	v->move_to = SY_NONE;
	left = engine_move(e, vcpu, move_to, now);
	engine_let_go(e, from, to);
	return left;
}

/*
 * What had to be left until a vCPU that has stopped could be taken by any pCPU, and now can be done: it moves, comes into
 * its queue, or somebody is interrupted for it. Whether it has left its queue.
 */
ENGINE_HOT bool engine_settle(ENGINE, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	bool unplaced = v->unplaced;
	struct engine_queue *q;
	u32 idle;

	v->unplaced = 0;
	if (v->move_to != SY_NONE)
		return engine_move_on(e, vcpu, now);
	if (v->status != ENGINE_WAITING || v->parked)
		return false;
	if (!v->queued)
		return engine_queue_up(e, vcpu, now);
	if (unplaced || engine_is_shut_out(e, vcpu))
		return engine_interrupt_for(e, vcpu, now);
	/* While its context was not saved nobody could take it: its queue's only pCPU may have fallen idle, too. */
	q = host_queue(e, v->queue);
	if (q->state.pcpus < 2 && !host_saves(e))
		return false;
	if (!engine_any_idle(e, q->first_pcpu, q->end_pcpu))
		return false;
	/* Another pCPU of the queue may be idle, or by now this one. */
	idle = sy_steps(host_policy(e), &v->state) & SY_STEPS_AFTER_LAST ?
		       engine_rotate_idle(e, vcpu, SY_STEPS_AFTER_LAST, q->first_pcpu, q->end_pcpu) :
		       engine_nearest_idle(e, vcpu, q->first_pcpu, q->end_pcpu);
	if (idle != SY_NONE)
		engine_interrupt(e, idle);
	return false;
}

/* Another attempt at what host_settle() has put off. */
ENGINE_FN void engine_settle_later(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (v->status != ENGINE_RUNNING && !v->saving && (v->unplaced || v->move_to != SY_NONE))
		engine_settle(e, vcpu, now);
}

/* Whether the pCPU is on the way to a choice, with nobody to go on. */
ENGINE_FN bool engine_is_claimed(const struct engine_pcpu *c)
{
	return c->interrupted && c->current == SY_NONE;
}

/* Who ran waits again, or is parked, or moves. */
ENGINE_FN void engine_stop(struct engine *e, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	u32 vcpu = c->current;
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 move_to = v->move_to;

	engine_vacate(e, c, v, ENGINE_WAITING, now);
	if (!v->parked && move_to == SY_NONE)
		engine_enqueue(e, vcpu, now);
	if (host_saves(e))
		return;
	if (engine_settle(e, vcpu, now))
		return;
	/* Where it was to go nobody is on the way to it, and this pCPU, which may take it, has chosen without it. */
	if (move_to != SY_NONE && v->queued &&
	    engine_may_use(e, vcpu, pcpu) && !engine_is_claimed(host_pcpu(e, v->state.pcpu)))
		engine_interrupt(e, pcpu);
}

/* Time between ticks while this vCPU runs. */
ENGINE_FN u64 engine_tick_ns(struct engine *e, u32 vcpu)
{
	u64 tick_ns = sy_tick_ns(host_policy(e)), own_ns;

	if (!tick_ns)
		return 0;
	own_ns = SY_LOAD(engine_domain_of(e, host_vcpu(e, vcpu))->tick_ns);
	return own_ns ? sy_min(tick_ns, own_ns) : tick_ns;
}

/*
 * pCPUs tick in turn, not all at once, and none when accounting and slices that are multiples of a
 * tick end: who pays for a tick would hang on the order at that instant.
 */
ENGINE_FN void engine_next_tick(struct engine *e, u32 pcpu, u64 now)
{
	u64 tick_ns = host_pcpu(e, pcpu)->tick_ns,
	    phase_ns = tick_ns * (2 * (u64)pcpu + 1) / (2 * (u64)e->pcpus);

	host_tick(e, pcpu, now + tick_ns - (now - e->began_ns + tick_ns - phase_ns) % tick_ns);
}

/* Who begins has the tick that found something else than a vCPU there, and those to come. */
ENGINE_FN void engine_start_tick(struct engine *e, u32 pcpu, u32 vcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	u64 tick_ns = engine_tick_ns(e, vcpu);

	if (!tick_ns || (host_ticks(e, pcpu) && c->tick_ns == tick_ns))
		return;
	c->tick_ns = tick_ns;
	if (c->tick_missed)
		host_tick(e, pcpu, now);
	else
		engine_next_tick(e, pcpu, now);
	c->tick_missed = 0;
}

/* The chosen one starts. */
ENGINE_HOT int engine_start(ENGINE, u32 pcpu, u32 vcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 requests;

	c->state.busy = 1;
	/* Who goes on where something else came between has not started anew, or a rate limit would never end. */
	if (vcpu != c->paused)
		c->state.started_ns = now;
	c->charged_ns = now;
	requests = sy_start(host_policy(e), engine_queue_of(e, v), &c->state, engine_domain_of(e, v), &v->state, now);
	engine_belong_to(e, vcpu, pcpu);
	host_starts(e, vcpu, pcpu, now);
	c->current = vcpu;
	if (v->ran_on != pcpu)
		engine_forget(e, vcpu);
	c->paused = SY_NONE;
	v->ran_on = pcpu;
	engine_turn(v, ENGINE_RUNNING, now);
	v->woken = 0;
	/* What was put off is past. */
	v->unplaced = 0;
	v->move_to = SY_NONE;
	engine_answer_timers(e, vcpu, requests);
	engine_start_tick(e, pcpu, vcpu, now);
	return 0;
}

ENGINE_HOT u64 engine_slice_ns(ENGINE, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	struct engine_vcpu *v = host_vcpu(e, c->current);
	struct sy_vcpu *next = engine_state_or_null(e, engine_first_waiting(e, c->queue));
	u64 slice_ns = sy_slice(host_policy(e), &host_queue(e, c->queue)->state, &c->state, engine_domain_of(e, v),
				&v->state, next, now);

	return sy_max(slice_ns, 1);
}

/* How many pCPUs of its queue that the waiting vCPU may use are claimed. */
ENGINE_FN u32 engine_awaited(struct engine *e, u32 vcpu, const struct engine_queue *q)
{
	u32 awaited = host_zero(e), pcpu;

	for (pcpu = q->first_pcpu; host_goes_on(e) && pcpu < q->end_pcpu; pcpu++) {
		struct engine_pcpu *c = host_pcpu(e, pcpu);

		awaited += engine_is_claimed(c) && engine_may_use(e, vcpu, pcpu);
	}
	return awaited;
}

/*
 * An idle pCPU has taken somebody, who need not be the one that it was interrupted for. Whoever may
 * now be left over, since those before it in the queue can take all pCPUs that are on the way to
 * it, gets another idle one.
 */
ENGINE_HOT int engine_pass_on(ENGINE, u32 queue)
{
	struct engine_queue *q = host_queue(e, queue);
	u32 first = q->first_pcpu, end = q->end_pcpu, place = 0, before = host_zero(e), vcpu;

	if (!q->state.queued)
		return 0;
	while (engine_any_idle(e, first, end) &&
	       (vcpu = host_next_waiting(e, queue, &place)) != SY_NONE) {
		u32 idle = engine_nearest_idle(e, vcpu, first, end);

		if (idle != SY_NONE && !host_vcpu(e, vcpu)->saving &&
		    engine_awaited(e, vcpu, q) <= before)
			engine_interrupt(e, idle);
		before++;
	}
	return 0;
}

/*
 * Who ran goes where it would rather be, if a pCPU is idle there, as Xen's credit2 has it within a
 * queue (soft_aff_preempt in runq_candidate()).
 */
ENGINE_FN void engine_bring_back(struct engine *e, u32 pcpu, u32 ran)
{
	u32 better = ran == SY_NONE ? SY_NONE : engine_better_idle(e, ran, pcpu);

	if (better != SY_NONE)
		host_vcpu(e, ran)->move_to = better;
}

/*
 * The pCPU chooses: who runs from now on is in c->current. For how long, until it must choose
 * again; SY_FOREVER if nobody runs. The numbers are the steps at the head of steelyard.h.
 */
ENGINE_FN u64 engine_choose(struct engine *e, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	u32 ran = c->current, chosen;
	u64 slice_ns;

	host_notes(e, ENGINE_CHOICES, pcpu, SY_NONE, 0);
	engine_set_occupied(e, pcpu, false);
	/* 1. Asking again for a choice means nothing while choosing. */
	engine_charge_without(e, pcpu, SY_RESCHEDULE, now);
	engine_bring_back(e, pcpu, ran);
	if (ran != SY_NONE && host_vcpu(e, ran)->requeue && !host_vcpu(e, ran)->parked &&
	    host_vcpu(e, ran)->move_to == SY_NONE) {
		engine_stop(e, pcpu, now);
		ran = SY_NONE;
	}
	/* 2, 3 */
	chosen = engine_choose_here(e, pcpu, now);
	chosen = engine_choose_elsewhere(e, pcpu, chosen, now);
	if (chosen == SY_NONE && ran != SY_NONE) {
		engine_stop(e, pcpu, now);
		ran = SY_NONE;
	}
	if (chosen == SY_NONE)
		chosen = engine_idle(e, pcpu, now);
	/* 4 */
	if (chosen != SY_NONE)
		engine_reset_if_due(e, pcpu, chosen, now);
	/* 5, 6 */
	if (chosen != ran) {
		if (chosen != c->paused)
			c->turn_left_ns = SY_FOREVER;
		if (chosen != SY_NONE && host_vcpu(e, chosen)->queued)
			engine_dequeue(e, chosen);
		if (ran != SY_NONE)
			engine_stop(e, pcpu, now);
		if (chosen != SY_NONE)
			engine_start(e, pcpu, chosen, now);
		if (ran == SY_NONE && chosen != SY_NONE)
			engine_pass_on(e, c->queue);
	}
	c->paused = SY_NONE;
	/* 7 */
	engine_set_lesser(e, pcpu, chosen != SY_NONE && !c->interrupted && sy_is_lesser(host_policy(e), &host_vcpu(e, chosen)->state));
	if (chosen == SY_NONE) {
		host_notes(e, ENGINE_IDLED, pcpu, SY_NONE, 0);
		return SY_FOREVER;
	}
	if (chosen == ran)
		host_notes(e, ENGINE_KEPT, pcpu, chosen, 0);
	slice_ns = sy_min(engine_slice_ns(e, pcpu, now), c->turn_left_ns);
	c->turn_left_ns = SY_FOREVER;
	c->turn_end_ns = now + slice_ns;
	return slice_ns;
}

#endif
