/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who waits where, and what is done with the policy's answers. An answer about a vCPU that runs is
 * done without looking at another; one about a vCPU that waits may interrupt for it (placement.h).
 */
#ifndef STEELYARD_ENGINE_QUEUE_H
#define STEELYARD_ENGINE_QUEUE_H

#include "host.h"

ENGINE_FN struct sy_domain *engine_domain_of(struct engine *e, const struct engine_vcpu *v)
{
	return &host_domain(e, v->domain)->state;
}

ENGINE_FN struct sy_queue *engine_queue_of(struct engine *e, const struct engine_vcpu *v)
{
	return &host_queue(e, v->queue)->state;
}

ENGINE_FN struct sy_vcpu *engine_state_or_null(struct engine *e, u32 vcpu)
{
	return vcpu == SY_NONE ? 0 : &host_vcpu(e, vcpu)->state;
}

ENGINE_FN bool engine_is_idle(struct engine *e, u32 pcpu)
{
	return host_idle_pcpus(e, pcpu / 64) >> pcpu % 64 & 1;
}

/* ---- Near and far ---- */

/*
 * A search for what is near begins with the pCPUs of a cache, all of them alike, as Linux's select_idle_sibling() does,
 * and then widens: to so many pCPUs from so many, at last to all. What a host does not tell apart is one step.
 */
ENGINE_FN u32 engine_wider(const struct engine *e, u32 pcpus)
{
	if (e->level_pcpus[ENGINE_CACHE] > pcpus)
		return e->level_pcpus[ENGINE_CACHE];
	if (e->level_pcpus[ENGINE_NODE] > pcpus)
		return e->level_pcpus[ENGINE_NODE];
	if (e->level_pcpus[ENGINE_SOCKET] > pcpus)
		return e->level_pcpus[ENGINE_SOCKET];
	return e->pcpus;
}

/* How many pCPUs side by side share a queue, unless sy_queue_pcpus_max() says fewer. */
ENGINE_FN u32 engine_queue_pcpus(struct engine *e)
{
	switch (sy_scope(host_policy(e))) {
	case SY_SCOPE_PCPU:
		return 1;
	case SY_SCOPE_CORE:
		return e->level_pcpus[ENGINE_CORE];
	case SY_SCOPE_SOCKET:
		return e->level_pcpus[ENGINE_SOCKET];
	case SY_SCOPE_NODE:
		return e->level_pcpus[ENGINE_NODE];
	default:
		return e->pcpus;
	}
}

/* ---- Affinity ---- */

/*
 * Soft and hard affinity. Whoever looks for a pCPU for a vCPU looks where that would rather run,
 * then wherever it may; for one that has no preference the first of the two is left out.
 */
enum engine_affinity {
	ENGINE_SOFT,
	ENGINE_HARD,
	ENGINE_AFFINITIES
};

ENGINE_FN u32 engine_first_affinity(struct engine *e, u32 vcpu)
{
	return host_prefers(e, vcpu) ? ENGINE_SOFT : ENGINE_HARD;
}

ENGINE_FN u64 engine_pcpus_for(struct engine *e, u32 vcpu, u32 affinity, u32 word)
{
	return affinity == ENGINE_SOFT ? host_preferred_pcpus(e, vcpu, word) :
					 host_allowed_pcpus(e, vcpu, word);
}

ENGINE_FN bool engine_has(struct engine *e, u32 vcpu, u32 affinity, u32 pcpu)
{
	return engine_pcpus_for(e, vcpu, affinity, pcpu / 64) >> pcpu % 64 & 1;
}

ENGINE_FN bool engine_may_use(struct engine *e, u32 vcpu, u32 pcpu)
{
	return engine_has(e, vcpu, ENGINE_HARD, pcpu);
}

/* Whether the vCPU would rather be elsewhere than on this pCPU. */
ENGINE_FN bool engine_averse(struct engine *e, u32 vcpu, u32 pcpu)
{
	return host_prefers(e, vcpu) && !engine_has(e, vcpu, ENGINE_SOFT, pcpu);
}

/* ---- Locks ---- */

/* What a call into the core says that is given what all share. */
#define ENGINE_WITH_SHARED(e, call) \
	({ \
		__typeof__(call) answer_; \
\
		host_lock_shared(e); \
		answer_ = (call); \
		host_unlock_shared(e); \
		answer_; \
	})

/* The same that is given a domain as well. */
#define ENGINE_WITH_BOTH(e, domain, call) \
	({ \
		__typeof__(call) answer_; \
\
		engine_lock_both(e, domain); \
		answer_ = (call); \
		engine_unlock_both(e, domain); \
		answer_; \
	})

ENGINE_FN void engine_lock_both(struct engine *e, u32 domain)
{
	host_lock_domain(e, domain);
	host_lock_shared(e);
}

ENGINE_FN void engine_unlock_both(struct engine *e, u32 domain)
{
	host_unlock_shared(e);
	host_unlock_domain(e, domain);
}

/*
 * Before a call about this vCPU, whose queue is held: with its domain's lock, if the call may write that, or else apart
 * from it; engine_let_domain_go() comes after. Which of the two, the vCPU remembers: a verifier that follows both ways
 * reads the call once then.
 */
ENGINE_FN void engine_hold_domain(struct engine *e, struct engine_vcpu *v, enum sy_domain_call call)
{
#ifdef HOST_LOCKS
	if (!sy_writes_domain(host_policy(e), engine_domain_of(e, v), &v->state, call)) {
		v->state.apart = 1;
		return;
	}
#endif
	host_lock_domain(e, v->domain);
}

ENGINE_FN void engine_let_domain_go(struct engine *e, struct engine_vcpu *v)
{
	if (SY_APART(&v->state))
		v->state.apart = 0;
	else
		host_unlock_domain(e, v->domain);
}

/* Whether this queue is held now, as the own one or by trying; then engine_let_go() is for it. */
ENGINE_FN bool engine_reach(struct engine *e, u32 own, u32 queue)
{
	return queue == own || host_try_queue(e, queue);
}

ENGINE_FN void engine_let_go(struct engine *e, u32 own, u32 queue)
{
	if (queue != own)
		host_unlock_queue(e, queue);
}

/* What the policy says to a call of SY_DOMAIN_CALLS about a vCPU in its queue. */
#define ENGINE_ASK(call, e, v, ...) \
	({ \
		__typeof__(sy_##call(host_policy(e), engine_queue_of(e, v), engine_domain_of(e, v), &(v)->state, \
				     __VA_ARGS__)) answer_; \
\
		engine_hold_domain(e, v, SY_CALL_##call); \
		answer_ = sy_##call(host_policy(e), engine_queue_of(e, v), engine_domain_of(e, v), &(v)->state, \
				    __VA_ARGS__); \
		engine_let_domain_go(e, v); \
		answer_; \
	})

/* Whether a lesser vCPU runs on the pCPU, which changes seldom, and nowhere without such. */
ENGINE_FN void engine_set_lesser(struct engine *e, u32 pcpu, bool lesser)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);

	if (c->lesser == lesser)
		return;
	c->lesser = lesser;
	host_set_lesser(e, pcpu, lesser);
}

/* Lets a pCPU choose again, after what happens now. It is no longer idle then: somebody is on the
 * way. */
ENGINE_FN void engine_interrupt(struct engine *e, u32 pcpu)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);

	/* What is no vCPU ends by itself, and a choice follows. */
	if (c->interrupted || c->occupied)
		return;
	c->interrupted = 1;
	host_notes(e, ENGINE_INTERRUPTS, pcpu, SY_NONE, 0);
	if (c->current == SY_NONE)
		host_set_idle(e, pcpu, false);
	engine_set_lesser(e, pcpu, false);
	host_interrupt(e, pcpu);
}

/* It has this status from now on. It may come from a queue that knows a later time: its own never goes back. */
ENGINE_FN void engine_turn(struct engine_vcpu *v, u32 status, u64 now)
{
	v->status = status;
	v->since_ns = sy_max(v->since_ns, now);
}

/* ---- In and out of a queue ---- */

ENGINE_HOT int engine_enqueue(ENGINE, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	struct sy_queue *q = engine_queue_of(e, v);

	v->key = ENGINE_ASK(key, e, v, now);
	v->queued = 1;
	host_insert(e, v->queue, vcpu);
	if (!q->queued++)
		host_set_waited(e, v->queue, true);
	return 0;
}

ENGINE_FN void engine_dequeue(struct engine *e, u32 vcpu)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	v->queued = 0;
	host_remove(e, v->queue, vcpu);
	if (!--engine_queue_of(e, v)->queued)
		host_set_waited(e, v->queue, false);
}

ENGINE_FN u32 engine_first_waiting(struct engine *e, u32 queue)
{
	u32 place = 0;

	return host_queue(e, queue)->state.queued ? host_next_waiting(e, queue, &place) : SY_NONE;
}

/* ---- Answers ---- */

ENGINE_FN void engine_survey(struct engine *e, u32 queue)
{
	struct sy_queue *q = &host_queue(e, queue)->state;
	u32 place = 0, vcpu;

	sy_survey_begin(host_policy(e), q);
	while ((vcpu = host_next_member(e, queue, &place)) != SY_NONE) {
		struct engine_vcpu *v = host_vcpu(e, vcpu);

		sy_survey_vcpu(host_policy(e), q, engine_domain_of(e, v), &v->state);
	}
}

ENGINE_FN void engine_resort(struct engine *e, u32 queue, u64 now)
{
	u32 place = 0, vcpu;

	while ((vcpu = host_next_waiting(e, queue, &place)) != SY_NONE) {
		struct engine_vcpu *v = host_vcpu(e, vcpu);

		v->key = ENGINE_ASK(key, e, v, now);
	}
	host_sort(e, queue);
}

/* What a policy asked for a queue. */
ENGINE_CALL int engine_answer_queue(ENGINE, u32 queue, u32 requests, u64 now)
{
	requests &= sy_queue_requests(host_policy(e));
	if (requests & SY_SURVEY)
		engine_survey(e, queue);
	if (requests & SY_RESORT)
		engine_resort(e, queue, now);
	if (requests & SY_BALANCE)
		host_balance(e, queue);
	return 0;
}

ENGINE_FN void engine_answer_timers(struct engine *e, u32 vcpu, u32 requests)
{
	if (requests & SY_TIMER)
		host_vcpu_timer(e, vcpu);
	if (requests & SY_DOMAIN_TIMER)
		host_domain_timer(e, host_vcpu(e, vcpu)->domain);
}

ENGINE_FN void engine_park(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (v->parked)
		return;
	v->parked = 1;
	v->parked_ns = now;
	host_notes(e, ENGINE_PARKED, v->state.pcpu, vcpu, 0);
	if (v->status == ENGINE_RUNNING)
		engine_interrupt(e, v->ran_on);
	else if (v->queued)
		engine_dequeue(e, vcpu);
}

/* The policy counts on a vCPU that it had parked being queued again. */
ENGINE_FN void engine_unpark_running(struct engine *e, u32 vcpu)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (!v->parked)
		return;
	host_notes(e, ENGINE_UNPARKED, v->state.pcpu, vcpu, 0);
	v->requeue = 1;
	v->parked = 0;
}

/* ---- Charging ---- */

/* What a charge of this vCPU, which runs, may ask for (SY_ANSWERS). */
ENGINE_CALL int engine_answer_charge(ENGINE, u32 vcpu, u32 requests, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	engine_answer_timers(e, vcpu, requests);
	if (requests & SY_PARK)
		engine_park(e, vcpu, now);
	if (requests & SY_UNPARK)
		engine_unpark_running(e, vcpu);
	if (requests & SY_RESCHEDULE)
		engine_interrupt(e, v->ran_on);
	if (requests & sy_queue_requests(host_policy(e)) & SY_SURVEY)
		engine_survey(e, v->queue);
	return 0;
}

/* Charges who runs on the pCPU up to now, which is later than the last time; what the policy asked for that one. */
ENGINE_HOT u32 engine_charge_due(ENGINE, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	struct engine_vcpu *v = host_vcpu(e, c->current);
	u64 ran_ns = now - c->charged_ns;

	c->charged_ns = now;
	return ENGINE_ASK(charge, e, v, ran_ns, now);
}

/* Charges who runs on the pCPU up to now; what the policy asks for that one is done, but for this. */
ENGINE_FN void engine_charge_without(struct engine *e, u32 pcpu, u32 left_out, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	u32 requests;

	if (c->current == SY_NONE || now <= c->charged_ns)
		return;
	requests = engine_charge_due(e, pcpu, now) & ~left_out;
	if (requests)
		engine_answer_charge(e, c->current, requests, now);
}

ENGINE_FN void engine_charge(struct engine *e, u32 pcpu, u64 now)
{
	engine_charge_without(e, pcpu, 0, now);
}

/* Charges who runs on the pCPU of a queue of one, whose virtual time must be of now. */
ENGINE_HOT int engine_charge_lone(ENGINE, u32 queue, u64 now)
{
	struct engine_queue *q = host_queue(e, queue);
	u32 pcpu = q->first_pcpu;

	if (q->state.pcpus != 1)
		return 0;
	while (host_goes_on(e) && !host_pcpu(e, pcpu)->online)
		pcpu++;
	engine_charge(e, pcpu, now);
	return 0;
}

/* It has lost its turn where something else took its pCPU: it leaves that one's queue. */
ENGINE_FN void engine_forget(struct engine *e, u32 vcpu)
{
	u32 pcpu = host_vcpu(e, vcpu)->ran_on;

	if (pcpu != SY_NONE && host_queue_at(e, pcpu) == host_vcpu(e, vcpu)->queue &&
	    host_pcpu(e, pcpu)->paused == vcpu)
		host_pcpu(e, pcpu)->paused = SY_NONE;
}

ENGINE_CALL u32 engine_leave(ENGINE, u32 vcpu, u64 now)
{
	return ENGINE_ASK(leave, e, host_vcpu(e, vcpu), now);
}

ENGINE_CALL u32 engine_join(ENGINE, u32 vcpu, u64 now)
{
	return ENGINE_ASK(join, e, host_vcpu(e, vcpu), now);
}

/* It belongs to this pCPU from now on; the queue of that one and its own are held. */
ENGINE_FN void engine_belong_to(struct engine *e, u32 vcpu, u32 pcpu)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (v->state.pcpu == pcpu)
		return;
	host_pcpu(e, v->state.pcpu)->vcpus--;
	host_pcpu(e, pcpu)->vcpus++;
	v->state.pcpu = pcpu;
}

/* Makes a vCPU that neither runs nor waits in a queue belong to the queue of this pCPU; both are held. */
ENGINE_CALL int engine_assign(ENGINE, u32 vcpu, u32 pcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 from = v->queue, to = host_queue_at(e, pcpu), left, joined;

	if (from == to) {
		engine_belong_to(e, vcpu, pcpu);
		return 0;
	}
	engine_charge_lone(e, from, now);
	engine_charge_lone(e, to, now);
	engine_forget(e, vcpu);
	left = engine_leave(e, vcpu, now);
	engine_belong_to(e, vcpu, pcpu);
	v->queue = to;
	host_change_queue(e, vcpu, from, to);
	joined = engine_join(e, vcpu, now);
	engine_answer_queue(e, from, left, now);
	engine_answer_timers(e, vcpu, joined | left);
	engine_answer_queue(e, to, joined | (left & SY_BALANCE), now);
	return 0;
}

#endif
