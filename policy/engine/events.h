/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What happens on a host, as it is told: vCPUs wake, block, spin; timers and ticks pass;
 * accountings and samples are due; domains and vCPUs begin and end. Who tells of a vCPU or a pCPU holds the lock of
 * its queue; who tells of a domain or of the host holds none (host.h).
 */
#ifndef STEELYARD_ENGINE_EVENTS_H
#define STEELYARD_ENGINE_EVENTS_H

#include "balance.h"

/* ---- Beginning and end ---- */

/* The host has set what is its own in *e. */
ENGINE_FN void engine_begin(struct engine *e)
{
	sy_accounting_init(host_policy(e), &e->accounting, e->pcpus);
}

/*
 * Where the queue ends that begins with this pCPU, the first or where another ends: those of a group share one, as the policy
 * has it, or several where that would be too large.
 */
ENGINE_FN u32 engine_queue_end(struct engine *e, u32 first)
{
	u32 group = engine_queue_pcpus(e), most = (u32)sy_clamp(sy_queue_pcpus_max(host_policy(e)), 1, group);

	return (u32)sy_min(first + most, first - first % group + group);
}

/* The host has set first_pcpu and end_pcpu. Queues begin before their pCPUs. */
ENGINE_FN void engine_queue_begin(struct engine *e, u32 queue)
{
	struct engine_queue *q = host_queue(e, queue);
	u32 pcpu;

	sy_queue_init(host_policy(e), &q->state, e->pcpus);
	for (pcpu = q->first_pcpu; host_goes_on(e) && pcpu < q->end_pcpu; pcpu++) {
		struct engine_pcpu *c = host_pcpu(e, pcpu);

		c->state.id = pcpu;
		c->queue = queue;
		c->current = SY_NONE;
		c->paused = SY_NONE;
	}
}

/* The pCPU, one of a queue that has begun, comes, idle: where anybody can wait by now it is for the
 * host to let it choose. pCPUs begin before the vCPUs that belong to them. */
ENGINE_FN void engine_pcpu_begin(struct engine *e, u32 pcpu)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);

	c->online = 1;
	host_queue(e, c->queue)->state.pcpus++;
	host_lock_shared(e);
	e->accounting.pcpus = ++e->online;
	host_unlock_shared(e);
	host_set_idle(e, pcpu, true);
}

ENGINE_FN void engine_domain_begin(struct engine *e, u32 domain, const struct sy_settings *settings,
				   u64 vcpus, u64 now)
{
	struct sy_domain *d = &host_domain(e, domain)->state;

	d->id = (u64)domain + 1;
	sy_domain_init(host_policy(e), d, settings, vcpus, now);
}

/*
 * A new vCPU, blocked, that belongs to this pCPU. index: its number in its domain. The host then
 * sets the timer that sy_vcpu_timer_ns() asks for.
 */
ENGINE_FN void engine_vcpu_begin(struct engine *e, u32 vcpu, u32 domain, u32 index, u32 pcpu,
				 u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 queue = host_queue_at(e, pcpu), requests;

	engine_turn(v, ENGINE_BLOCKED, now);
	v->domain = domain;
	v->queue = queue;
	v->ran_on = SY_NONE;
	v->move_to = SY_NONE;
	v->state.pcpu = pcpu;
	host_pcpu(e, pcpu)->vcpus++;
	v->state.index = index;
	host_lock_domain(e, domain);
	sy_vcpu_init(host_policy(e), engine_domain_of(e, v), &v->state, now);
	host_unlock_domain(e, domain);
	engine_charge_lone(e, queue, now);
	host_change_queue(e, vcpu, SY_NONE, queue);
	requests = engine_join(e, vcpu, now);
	engine_answer_queue(e, queue, requests, now);
}

/* The vCPU, which is blocked, ends: its state may be freed then. */
ENGINE_FN void engine_vcpu_end(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 left;

	engine_forget(e, vcpu);
	engine_charge_lone(e, v->queue, now);
	host_pcpu(e, v->state.pcpu)->vcpus--;
	left = engine_leave(e, vcpu, now);
	host_change_queue(e, vcpu, v->queue, SY_NONE);
	engine_answer_queue(e, v->queue, left, now);
	engine_answer_timers(e, vcpu, left);
	engine_lock_both(e, v->domain);
	sy_vcpu_destroy(host_policy(e), &e->accounting, engine_domain_of(e, v), &v->state);
	engine_unlock_both(e, v->domain);
}

/* ---- What an administrator asks for ---- */

ENGINE_FN void engine_domain_change(struct engine *e, u32 domain,
				    const struct sy_settings *settings)
{
	engine_lock_both(e, domain);
	sy_domain_change(host_policy(e), &e->governor, &host_domain(e, domain)->state, settings);
	engine_unlock_both(e, domain);
}

ENGINE_FN void engine_vcpu_reserve(struct engine *e, u32 vcpu, const struct sy_reservation *asked)
{
	u32 queue = host_lock_queue_of(e, vcpu);

	sy_vcpu_reserve(host_policy(e), &host_vcpu(e, vcpu)->state, asked);
	host_unlock_queue(e, queue);
}

ENGINE_FN struct sy_reservation engine_vcpu_reserved(struct engine *e, u32 vcpu)
{
	u32 queue = host_lock_queue_of(e, vcpu);
	const struct engine_vcpu *v = host_vcpu(e, vcpu);
	struct sy_reservation reserved;

	sy_vcpu_reserved(host_policy(e), engine_domain_of(e, v), &v->state, &reserved);
	host_unlock_queue(e, queue);
	return reserved;
}

/* Where a new vCPU begins: where fewest belong of the pCPUs where it would rather run, else may;
 * among equals the first. Called with no lock held. */
ENGINE_FN u32 engine_home(struct engine *e, u32 vcpu)
{
	u32 affinity = engine_first_affinity(e, vcpu);
	u32 home = SY_NONE, fewest = SY_NONE, pcpu;

	for (pcpu = host_zero(e); host_goes_on(e) && pcpu < e->pcpus && fewest; pcpu++) {
		u32 belong;

		if (!engine_has(e, vcpu, affinity, pcpu))
			continue;
		host_lock_queue(e, host_queue_at(e, pcpu));
		belong = host_pcpu(e, pcpu)->vcpus;
		host_unlock_queue(e, host_queue_at(e, pcpu));
		if (belong < fewest) {
			fewest = belong;
			home = pcpu;
		}
	}
	return home;
}

/* Where a vCPU belongs by its affinity: where a pCPU is idle if it would rather be there, else
 * where it does, else nearby. */
ENGINE_FN u32 engine_place(struct engine *e, u32 vcpu)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 pcpu = v->state.pcpu, better = engine_better_idle(e, vcpu, pcpu);

	if (better != SY_NONE)
		return better;
	if (!engine_may_use(e, vcpu, pcpu))
		pcpu = engine_usable(e, vcpu, v->queue);
	return pcpu == SY_NONE ? engine_any_usable(e, vcpu) : pcpu;
}

/* The vCPU may use other pCPUs than before, one at least, or prefers others. */
ENGINE_FN void engine_affinity_changed(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 pcpu = engine_place(e, vcpu);

	if (v->status == ENGINE_RUNNING || v->saving) {
		if (v->move_to != SY_NONE && engine_may_use(e, vcpu, v->move_to))
			return;
		v->move_to = SY_NONE;
		if (pcpu == v->state.pcpu)
			return;
		v->move_to = pcpu;
		if (v->status == ENGINE_RUNNING)
			engine_interrupt(e, v->ran_on);
		return;
	}
	/* Where it is as well: what could not take it before may be idle. */
	v->move_to = pcpu;
	engine_move_on(e, vcpu, now);
}

/* Some vCPU that belongs to this pCPU, or SY_NONE. */
ENGINE_FN u32 engine_belongs(struct engine *e, u32 pcpu)
{
	u32 queue = host_pcpu(e, pcpu)->queue, place = 0, vcpu;

	while ((vcpu = host_next_member(e, queue, &place)) != SY_NONE &&
	       host_vcpu(e, vcpu)->state.pcpu != pcpu)
		;
	return vcpu;
}

/*
 * The pCPU, which is occupied and which no vCPU may use any more, goes. Those that belong to it
 * move; none of them is saving, and each may use another. Whether it is gone: not before the queues were to be had
 * that they move to, then it is told again.
 */
ENGINE_FN bool engine_pcpu_end(struct engine *e, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	u32 vcpu, last = SY_NONE;

	if (engine_is_idle(e, pcpu))
		host_set_idle(e, pcpu, false);
	while (host_goes_on(e) && (vcpu = engine_belongs(e, pcpu)) != SY_NONE) {
		if (vcpu == last)
			return false;
		last = vcpu;
		engine_affinity_changed(e, vcpu, now);
	}
	c->online = 0;
	engine_set_occupied(e, pcpu, false);
	c->interrupted = 0;
	c->paused = SY_NONE;
	host_queue(e, c->queue)->state.pcpus--;
	host_lock_shared(e);
	e->accounting.pcpus = --e->online;
	host_unlock_shared(e);
	return true;
}

/* ---- What vCPUs do ---- */

/* A blocked vCPU has work again. */
ENGINE_FN void engine_wake(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	bool was_parked;

	host_notes(e, ENGINE_WAKES, v->state.pcpu, vcpu, 0);
	host_wakes(e, vcpu, now);
	engine_turn(v, ENGINE_WAITING, now);
	engine_charge_lone(e, v->queue, now);
	v->woken = 1;
	v->parked_ns = now;
	v->state.runnable = 1;
	was_parked = v->parked;
	engine_answer(e, vcpu, ENGINE_ASK(wake, e, v, now), now);
	/* One that was parked and no longer is has been queued by that. */
	if (!was_parked && !v->parked)
		engine_queue_up(e, vcpu, now);
}

/* The vCPU that runs on this pCPU has nothing more to do; the pCPU chooses again. */
ENGINE_FN void engine_block(struct engine *e, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	u32 vcpu = c->current, requests;
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	engine_charge(e, pcpu, now);
	v->state.runnable = 0;
	v->move_to = SY_NONE;
	requests = ENGINE_ASK(block, e, v, now);
	engine_vacate(e, c, v, ENGINE_BLOCKED, now);
	engine_answer(e, vcpu, requests, now);
	engine_interrupt(e, pcpu);
}

/* A vCPU that waits has nothing more to do: it is kept from running, or gone. */
ENGINE_FN void engine_sleep(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	engine_charge_lone(e, v->queue, now);
	if (v->queued)
		engine_dequeue(e, vcpu);
	host_stops(e, vcpu, SY_NONE, ENGINE_BLOCKED, now);
	engine_turn(v, ENGINE_BLOCKED, now);
	v->state.runnable = 0;
	engine_answer(e, vcpu, ENGINE_ASK(block, e, v, now), now);
}

/* What host_saves() is about has been done for this vCPU. */
ENGINE_FN void engine_saved(struct engine *e, u32 vcpu, u64 now)
{
	host_vcpu(e, vcpu)->saving = 0;
	engine_settle(e, vcpu, now);
}

/* A pCPU of the queue that was on the way to a choice will not take anybody. */
ENGINE_FN void engine_withdraw(struct engine *e, u32 queue, u64 now)
{
	u32 vcpu = engine_first_waiting(e, queue);

	if (host_queue(e, queue)->state.pcpus > 1)
		engine_pass_on(e, queue);
	else if (vcpu != SY_NONE && !host_vcpu(e, vcpu)->saving)
		engine_interrupt_for(e, vcpu, now);
}

/* Who waits in the queue and is shut out of it goes where a pCPU is idle. */
ENGINE_CALL int engine_disperse(ENGINE, u32 queue, u64 now)
{
	u32 place = 0, vcpu;

	while (engine_any_idle(e, host_zero(e), e->pcpus) && (vcpu = host_next_waiting(e, queue, &place)) != SY_NONE) {
		if (host_vcpu(e, vcpu)->saving || !engine_is_shut_out(e, vcpu))
			continue;
		/* If one leaves, the walk begins anew. */
		if (engine_interrupt_for(e, vcpu, now))
			place = 0;
	}
	return 0;
}

/*
 * Something that is no vCPU runs on the pCPU from now on, whatever was to be chosen. Who ran waits,
 * or goes where a pCPU is idle; if it still waits when that ends, by engine_choose(), it has what was
 * left of its turn.
 */
ENGINE_FN void engine_occupy(struct engine *e, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	u32 vcpu = c->current;
	bool interrupted = c->interrupted;

	host_notes(e, ENGINE_OCCUPIED, pcpu, SY_NONE, 0);
	c->interrupted = 0;
	engine_set_occupied(e, pcpu, true);
	engine_set_lesser(e, pcpu, false);
	if (engine_is_idle(e, pcpu))
		host_set_idle(e, pcpu, false);
	engine_disperse(e, c->queue, now);
	if (vcpu == SY_NONE) {
		if (interrupted)
			engine_withdraw(e, c->queue, now);
		return;
	}
	engine_charge(e, pcpu, now);
	/* Or who is interrupted at the end of each turn would keep all others waiting. */
	c->turn_left_ns = c->turn_end_ns > now ? c->turn_end_ns - now : 0;
	if (c->turn_left_ns)
		c->paused = vcpu;
	host_vcpu(e, vcpu)->unplaced = 1;
	engine_stop(e, pcpu, now);
}

/* The vCPU that runs on this pCPU lets others go first. Where a host cannot tell that from a spin, as Xen, it tells a spin. */
ENGINE_FN void engine_yield(struct engine *e, u32 pcpu, u64 now)
{
	u32 vcpu = host_pcpu(e, pcpu)->current;
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 requests;

	host_notes(e, ENGINE_YIELDS, pcpu, vcpu, 0);
	engine_charge(e, pcpu, now);
	requests = sy_yield(host_policy(e), engine_queue_of(e, v), engine_domain_of(e, v), &v->state, now);
	engine_answer(e, vcpu, requests, now);
	host_pcpu(e, pcpu)->turn_end_ns = now;
	engine_interrupt(e, pcpu);
}

/* What summoning this sibling promises; 0: leave it. */
ENGINE_FN u64 engine_rank(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 facts = (v->woken ? 0 : SY_PREEMPTED) | (host_in_kernel(e, vcpu) ? SY_IN_KERNEL : 0);

	engine_charge_lone(e, v->queue, now);
	return sy_rank(host_policy(e), engine_queue_of(e, v), engine_domain_of(e, v), &v->state, facts,
		       now > v->since_ns ? now - v->since_ns : 0, now);
}

ENGINE_FN void engine_summon_one(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	u32 requests = ENGINE_ASK(summon, e, v, now);

	host_notes(e, ENGINE_SUMMONED, v->state.pcpu, vcpu, 0);
	host_lock_domain(e, v->domain);
	host_domain(e, v->domain)->summoned++;
	host_unlock_domain(e, v->domain);
	if (!engine_answer(e, vcpu, requests, now) && requests & SY_RESCHEDULE)
		engine_interrupt(e, v->state.pcpu);
}

/*
 * The queue of a sibling of a vCPU of this queue, locked, if it waits and is to be had; else SY_NONE. It may have
 * ended meanwhile, and its number be that of another domain's.
 */
ENGINE_FN u32 engine_try_waiting(struct engine *e, u32 own, u32 domain, u32 vcpu)
{
	u32 queue = host_try_queue_of(e, own, vcpu);

	if (queue == SY_NONE || (host_vcpu(e, vcpu)->queued && host_vcpu(e, vcpu)->domain == domain))
		return queue;
	engine_let_go(e, own, queue);
	return SY_NONE;
}

/* What summoning this sibling promises, if it waits. */
ENGINE_CALL u64 engine_rank_waiting(ENGINE, u32 spins, u32 vcpu, u64 now)
{
	u32 own = host_vcpu(e, spins)->queue, queue = engine_try_waiting(e, own, host_vcpu(e, spins)->domain, vcpu);
	u64 rank;

	if (queue == SY_NONE)
		return 0;
	rank = engine_rank(e, vcpu, now);
	engine_let_go(e, own, queue);
	return rank;
}

/* Whether it still waits and is summoned. */
ENGINE_CALL bool engine_summon_waiting(ENGINE, u32 spins, u32 vcpu, u64 now)
{
	u32 own = host_vcpu(e, spins)->queue, queue = engine_try_waiting(e, own, host_vcpu(e, spins)->domain, vcpu);

	if (queue == SY_NONE)
		return false;
	engine_summon_one(e, vcpu, now);
	engine_let_go(e, own, queue);
	return true;
}

/*
 * Summons those siblings of a spinning vCPU that the policy wants; how many. Whose queue is not to be had is left out:
 * it will spin again.
 */
ENGINE_FN u32 engine_summon(struct engine *e, u32 spins, enum sy_gang gang, u64 now)
{
	u32 best = SY_NONE, summoned = host_zero(e), place = 0, vcpu;
	u64 greatest = 0;

	while ((vcpu = host_next_vcpu(e, host_vcpu(e, spins)->domain, &place)) != SY_NONE) {
		u64 rank = engine_rank_waiting(e, spins, vcpu, now);

		if (gang == SY_GANG_ALL && rank)
			summoned += engine_summon_waiting(e, spins, vcpu, now);
		if (rank > greatest) {
			greatest = rank;
			best = vcpu;
		}
	}
	if (gang != SY_GANG_ALL && best != SY_NONE)
		summoned += engine_summon_waiting(e, spins, best, now);
	return summoned;
}

/* A pause-loop exit of the vCPU that runs on this pCPU. */
ENGINE_FN void engine_spin(struct engine *e, u32 pcpu, u64 now)
{
	u32 vcpu = host_pcpu(e, pcpu)->current, summoned = 0;
	struct engine_vcpu *v = host_vcpu(e, vcpu);
	enum sy_gang gang;

	host_notes(e, ENGINE_PAUSE_LOOPS, pcpu, vcpu, 0);
	engine_charge(e, pcpu, now);
	gang = sy_spin(host_policy(e), engine_domain_of(e, v), &v->state, now);
	if (gang != SY_GANG_NONE)
		summoned = engine_summon(e, vcpu, gang, now);
	engine_answer(e, vcpu, ENGINE_ASK(spun, e, v, summoned, now), now);
}

/* ---- Time that passes ---- */

/* The vCPUs of this domain come next in the round. */
ENGINE_FN void engine_round_visits(struct engine_round *round, u32 domain)
{
	round->visits = domain + 1;
	round->visited = 0;
}

/* Where a tick writes the domain it writes the accounting as well. */
ENGINE_FN u32 engine_ask_tick(struct engine *e, struct engine_pcpu *c, struct engine_vcpu *v, u64 now)
{
	u32 requests;

	engine_hold_domain(e, v, SY_CALL_tick);
	if (!SY_APART(&v->state))
		host_lock_shared(e);
	requests = sy_tick(host_policy(e), &e->accounting, engine_queue_of(e, v), &c->state, engine_domain_of(e, v),
			   &v->state, now);
	if (!SY_APART(&v->state))
		host_unlock_shared(e);
	engine_let_domain_go(e, v);
	return requests;
}

/* The tick of this pCPU. It ends while no vCPU runs there. */
ENGINE_FN void engine_tick(struct engine *e, u32 pcpu, u64 now)
{
	struct engine_pcpu *c = host_pcpu(e, pcpu);
	u32 vcpu = c->current, requests;
	struct engine_vcpu *v;

	if (vcpu == SY_NONE) {
		c->tick_missed = c->occupied;
		return;
	}
	v = host_vcpu(e, vcpu);
	c->tick_ns = engine_tick_ns(e, vcpu);
	/* Ticks may be switched off while the host runs. */
	if (c->tick_ns)
		engine_next_tick(e, pcpu, now);
	engine_charge(e, pcpu, now);
	requests = engine_ask_tick(e, c, v, now);
	engine_answer(e, vcpu, requests, now);
	if (engine_better_idle(e, vcpu, pcpu) != SY_NONE)
		engine_interrupt(e, pcpu); /* the choice brings it back */
	else if (requests & SY_REPLACE)
		engine_replace(e, pcpu, vcpu);
}

ENGINE_FN void engine_vcpu_timer(struct engine *e, u32 vcpu, u64 now)
{
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (v->status == ENGINE_RUNNING)
		engine_charge(e, v->ran_on, now);
	engine_answer(e, vcpu, ENGINE_ASK(vcpu_timer, e, v, now), now);
}

/* The domain's timer is due; whether its vCPUs are to be unparked. */
ENGINE_FN bool engine_domain_due(struct engine *e, u32 domain, u64 now)
{
	u32 requests;

	host_lock_domain(e, domain);
	requests = sy_domain_timer(host_policy(e), &host_domain(e, domain)->state, now);
	host_unlock_domain(e, domain);
	if (requests & SY_DOMAIN_TIMER)
		host_domain_timer(e, domain);
	return requests & SY_UNPARK;
}

/* Unparks one of them, the next after *place of host_next_vcpu(); whether more are to come. */
ENGINE_FN bool engine_unpark_some(struct engine *e, u32 domain, u32 *place, u64 now)
{
	u32 vcpu = host_next_vcpu(e, domain, place), queue;

	if (vcpu == SY_NONE)
		return false;
	queue = host_lock_queue_of(e, vcpu);
	if (queue == SY_NONE)
		return true;
	engine_unpark(e, vcpu, now);
	host_unlock_queue(e, queue);
	return true;
}

/*
 * At d->timer_ns of the domain; by a host for which that takes too long at a time, or whose vCPUs may end meanwhile, in the
 * two parts above: who is left out may stay parked for ever.
 */
ENGINE_FN void engine_domain_timer(struct engine *e, u32 domain, u64 now)
{
	u32 place = 0;
	bool more = engine_domain_due(e, domain, now);

	while (more && host_goes_on(e))
		more = engine_unpark_some(e, domain, &place, now);
}

/* Its queue is locked for that alone; one that has ended meanwhile has none. */
ENGINE_FN void engine_account_vcpu(struct engine *e, u32 vcpu, u64 now)
{
	u32 queue = host_lock_queue_of(e, vcpu), requests;
	struct engine_vcpu *v = host_vcpu(e, vcpu);

	if (queue == SY_NONE)
		return;
	requests = ENGINE_WITH_BOTH(e, v->domain,
				    sy_account_vcpu(host_policy(e), &e->accounting, engine_domain_of(e, v), &v->state));
	engine_answer(e, vcpu, requests, now);
	host_unlock_queue(e, queue);
}

ENGINE_FN void engine_account_begin(struct engine *e, u64 now)
{
	host_notes(e, ENGINE_ACCOUNTINGS, host_zero(e), SY_NONE, 0);
	host_lock_shared(e);
	sy_account_begin(host_policy(e), &e->accounting, now);
	host_unlock_shared(e);
}

/* Accounts one domain or one of its vCPUs; whether more are to come. */
ENGINE_FN bool engine_account_some(struct engine *e, struct engine_round *round, u64 now)
{
	u32 next = round->visits ? host_next_vcpu(e, round->visits - 1, &round->visited) : SY_NONE, requests;

	if (next != SY_NONE) {
		engine_account_vcpu(e, next, now);
		return true;
	}
	round->visits = 0;
	next = host_next_accounted(e, &round->place);
	if (next == SY_NONE)
		return false;
	requests = ENGINE_WITH_BOTH(e, next,
				    sy_account_domain(host_policy(e), &e->accounting, &host_domain(e, next)->state));
	if (requests & SY_FIRST)
		host_account_first(e, round->place);
	if (requests & SY_VISIT)
		engine_round_visits(round, next);
	return true;
}

ENGINE_FN void engine_account_end(struct engine *e)
{
	host_lock_shared(e);
	sy_account_end(host_policy(e), &e->accounting);
	host_unlock_shared(e);
}

/*
 * When comes next what comes at intervals, an accounting or samples: when it is due, or sooner if it comes more often by now.
 * due_ns: 0 where it is just done. 0: it comes no more, as a parameter may say.
 */
ENGINE_FN u64 engine_repeats_ns(u64 due_ns, u64 interval_ns, u64 now)
{
	u64 next_ns = now + interval_ns;

	if (!interval_ns)
		return 0;
	return due_ns ? sy_min(due_ns, next_ns) : next_ns;
}

/* Every sy_account_ns(), if that is not 0; by a host for which that takes too long at a time in the three parts above. */
ENGINE_FN void engine_account(struct engine *e, u64 now)
{
	struct engine_round round = { 0 };

	engine_account_begin(e, now);
	while (engine_account_some(e, &round, now) && host_goes_on(e))
		;
	engine_account_end(e);
}

/* If it runs, it is chosen anew, for another slice perhaps. */
ENGINE_FN void engine_reschedule(struct engine *e, u32 vcpu)
{
	u32 queue = host_lock_queue_of(e, vcpu);

	if (queue == SY_NONE)
		return;
	if (host_vcpu(e, vcpu)->status == ENGINE_RUNNING)
		engine_interrupt(e, host_vcpu(e, vcpu)->ran_on);
	host_unlock_queue(e, queue);
}

ENGINE_FN void engine_sample_begin(struct engine *e, u64 now)
{
	host_notes(e, ENGINE_SAMPLES, host_zero(e), SY_NONE, 0);
	host_lock_shared(e);
	sy_sample_begin(host_policy(e), &e->governor, e->online, now);
	host_unlock_shared(e);
}

ENGINE_FN void engine_sample_domain(struct engine *e, u32 domain, u64 now)
{
	struct sy_sample sample;

	host_sample(e, domain, &sample, now);
	engine_lock_both(e, domain);
	sy_sample_domain(host_policy(e), &e->governor, &host_domain(e, domain)->state, &sample);
	engine_unlock_both(e, domain);
}

/* Samples one domain, or settles one once all are sampled, or chooses one of its vCPUs anew; whether more are to come. */
ENGINE_FN bool engine_sample_some(struct engine *e, struct engine_round *round, u64 now)
{
	u32 next = round->visits ? host_next_vcpu(e, round->visits - 1, &round->visited) : SY_NONE, requests;

	if (next != SY_NONE) {
		engine_reschedule(e, next);
		return true;
	}
	round->visits = 0;
	next = host_next_accounted(e, &round->place);
	if (next == SY_NONE) {
		round->place = 0;
		return !round->settles++;
	}
	if (!round->settles) {
		engine_sample_domain(e, next, now);
		return true;
	}
	requests = ENGINE_WITH_BOTH(e, next,
				    sy_sample_settle(host_policy(e), &e->governor, &host_domain(e, next)->state));
	if (requests & SY_RESCHEDULE)
		engine_round_visits(round, next);
	return true;
}

/* Every sy_sample_ns(), if that is not 0; or in the two parts above. */
ENGINE_FN void engine_sample(struct engine *e, u64 now)
{
	struct engine_round round = { 0 };

	engine_sample_begin(e, now);
	while (engine_sample_some(e, &round, now) && host_goes_on(e))
		;
}

#endif
