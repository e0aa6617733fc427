/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a host calls. Each function hands over to the discipline that the
 * policy names; a discipline that has nothing to say to a call is not listed
 * there and gets the default.
 *
 * The life of a vCPU as the host tells it:
 *	sy_vcpu_init, sy_join(queue),
 *	sy_wake, [queued by sy_key], sy_start, sy_charge ..., sy_block, sy_wake ...
 *	sy_leave(queue), v->pcpu set, sy_join(another) whenever its pCPU changes queue,
 *	sy_block if it is runnable, sy_leave(queue), sy_vcpu_destroy.
 * A vCPU belongs to exactly one queue at any time, blocked or not.
 *
 * All this is done by engine/; the numbers are those of engine_choose().
 *
 * How a host chooses on a pCPU, always in this order:
 *	1. sy_charge() for who ran; sy_block() if it has nothing more to do.
 *	2. best = who ran, if still runnable and not parked, else none. Walk the
 *	   queue from the lowest key, leaving out who may not run here, asking
 *	   sy_consider(), until TAKE or STOP; who is to be PREFERred is best then; after
 *	   SKIP_MOVES who ran elsewhere and is not put first need not be asked. If none
 *	   was taken and best is none, the first one that may run here is taken.
 *	3. if sy_look_further(): walk other queues, nearest first, asking
 *	   sy_steal() per candidate, lowest key first, until TAKE; STOP ends the
 *	   walk of that queue only.
 *	4. sy_reset_due(); if not 0: sy_charge() for each vCPU that runs on a pCPU
 *	   of this queue (at most one per pCPU), then sy_reset().
 *	5. who ran and was not chosen is queued by its sy_key(), after its equals;
 *	   an idle pCPU of the same queue then looks at the queue.
 *	6. c->busy and, if another than before was chosen, c->started_ns set; sy_start()
 *	   if the chosen one is not who ran.
 *	7. sy_slice(), with the same now as 6: choose again when that much time has
 *	   passed.
 * Whom a governor puts first (v->first) has key 0 and is taken; who was summoned then runs for a moment.
 * Where something else than a vCPU takes a pCPU for a while, the vCPU that it
 * interrupted is who ran at the next choice, and goes on with what is left of its turn unless
 * sy_lead() is not 0 for who would be taken, or that one is put first. Who waits in a queue of which that has all pCPUs
 * goes to any idle one; a choice looks for such after 3 if it has nobody.
 */
#ifndef STEELYARD_H
#define STEELYARD_H

#include "vocabulary.h"
#include "discipline/sedf.h"
#include "discipline/credit.h"
#include "discipline/credit2.h"
#include "discipline/fair.h"
#include "governor/reset_boost.h"
#include "governor/load_weight.h"
#include "governor/app_slice.h"
#include "governor/boost_credit.h"
#include "governor/cosched.h"
#ifdef SY_GOVERNORS_MORE_HEADER
#include SY_GOVERNORS_MORE_HEADER
#endif

/* From here on symbols, if wanted. What they call stays private to them, and so is inlined. */
#ifdef SY_SYMBOLS
#undef SY_FN
#define SY_FN
#endif

#include "govern.h"

/* ---- Shape: constant for a policy ---- */

/* Which pCPUs share a queue. */
SY_FN enum sy_scope sy_scope(const struct sy_policy *p)
{
	return SY_DISCIPLINE(p) == SY_CREDIT2 ? credit2_scope(p) : SY_SCOPE_PCPU;
}

/* Most pCPUs that one queue may serve; a host splits what is larger. */
SY_FN u64 sy_queue_pcpus_max(const struct sy_policy *p)
{
	return SY_DISCIPLINE(p) == SY_CREDIT2 ? credit2_queue_pcpus_max(p) : SY_NONE;
}

/*
 * What about a queue this policy asks for at all, of SURVEY, RESORT and BALANCE: a host that is built for one policy need
 * not be able to do the rest.
 */
SY_FN u32 sy_queue_requests(const struct sy_policy *p)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT:
		return SY_RESORT;
	case SY_CREDIT2:
		return SY_SURVEY | SY_RESORT | SY_BALANCE;
	case SY_FAIR:
		return SY_BALANCE;
	default:
		return 0;
	}
}

/* Time between two ticks of a pCPU while a vCPU runs on it; 0: no tick. d->tick_ns may shorten it. */
SY_FN u64 sy_tick_ns(const struct sy_policy *p)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT:
		return credit_tick_ns(p);
	case SY_FAIR:
		return fair_tick_ns(p);
	default:
		return 0;
	}
}

/* Time between two accountings of the host; 0: no accounting. */
SY_FN u64 sy_account_ns(const struct sy_policy *p)
{
	return SY_DISCIPLINE(p) == SY_CREDIT ? credit_account_ns(p) : 0;
}

/* Time over which the cap of a domain holds; 0: caps are not heeded. */
SY_FN u64 sy_cap_period_ns(const struct sy_policy *p)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return SY_PARAMETER(p, SEDF_WEIGHT_PERIOD_NS);
	case SY_CREDIT:
		return credit_account_ns(p);
	case SY_CREDIT2:
		return SY_PARAMETER(p, CREDIT2_CAP_PERIOD_NS);
	case SY_FAIR:
		return SY_PARAMETER(p, FAIR_CAP_PERIOD_NS);
	default:
		return 0;
	}
}

/*
 * Whether this call about this vCPU may write the domain; mostly not. The host asks without the domain's lock, then
 * makes the call with it, or else with v->apart set.
 */
SY_FN bool sy_writes_domain(const struct sy_policy *p, const struct sy_domain *d, const struct sy_vcpu *v,
			    enum sy_domain_call call)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT:
		return credit_writes_domain(p, call);
	case SY_CREDIT2:
		return credit2_writes_domain(p, d, v, call);
	case SY_FAIR:
		return fair_writes_domain(p, d, v, call);
	default:
		return false;
	}
}

/* ---- Creation and membership ---- */

SY_FN void sy_accounting_init(const struct sy_policy *p, struct sy_accounting *a, u64 pcpus)
{
	a->pcpus = pcpus;
}

/* pcpus: how many pCPUs the host has; some constants grow with it. */
SY_FN void sy_queue_init(const struct sy_policy *p, struct sy_queue *q, u64 pcpus)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT2:
		credit2_queue_init(p, q, pcpus);
		break;
	case SY_FAIR:
		fair_queue_init(p, q, pcpus);
		break;
	default:
		break;
	}
}

/* The host has set d->id before this. */
SY_FN void sy_domain_init(const struct sy_policy *p, struct sy_domain *d,
			  const struct sy_settings *settings, u64 vcpus, u64 now)
{
	sy_domain_set(d, settings);
	sy_reslice(p, d);
	d->weight = d->settings.weight;
	d->vcpus = vcpus;
	d->timer_ns = 0;
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT2:
		credit2_domain_init(p, d, now);
		break;
	case SY_FAIR:
		fair_domain_init(p, d, now);
		break;
	default:
		break;
	}
}

/* The host has set v->pcpu and v->index before this. */
SY_FN void sy_vcpu_init(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	v->timer_ns = 0;
	v->runnable = 0;
	v->apart = 0;
	v->first = 0;
	v->boost_ns = 0;
	v->asked = (struct sy_reservation){ 0 };
	SY_TELL_GOVERNORS(vcpu_init, p, d, v, now);
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		sedf_vcpu_init(p, d, v, now);
		break;
	case SY_CREDIT:
		credit_vcpu_init(p, d, v, now);
		break;
	case SY_CREDIT2:
		credit2_vcpu_init(p, d, v, now);
		break;
	case SY_FAIR:
		fair_vcpu_init(p, d, v, now);
		break;
	default:
		break;
	}
}

/*
 * The vCPU belongs to this queue from now on. Called for a vCPU that neither
 * runs nor waits in a queue; v->runnable says whether it is about to.
 */
SY_FN u32 sy_join(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		  struct sy_vcpu *v, u64 now)
{
	u32 request = 0;

	SY_ASK_GOVERNORS(join, p, q, d, v, now);
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return request | sedf_join(p, q, d, v, now);
	case SY_CREDIT2:
		return request | credit2_join(p, q, d, v, now);
	case SY_FAIR:
		return request | fair_join(p, q, d, v, now);
	default:
		return request;
	}
}

/* The vCPU belongs to this queue no more. */
SY_FN u32 sy_leave(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		   struct sy_vcpu *v, u64 now)
{
	u32 request = 0;

	SY_ASK_GOVERNORS(leave, p, q, d, v, now);
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return request | sedf_leave(p, q, d, v, now);
	case SY_CREDIT2:
		return request | credit2_leave(p, q, d, v, now);
	case SY_FAIR:
		return request | fair_leave(p, q, d, v, now);
	default:
		return request;
	}
}

/*
 * The vCPU ends; after sy_block(), if it was runnable, and sy_leave(). Its state may be freed then,
 * and that of its domain after its last vCPU's.
 */
SY_FN void sy_vcpu_destroy(const struct sy_policy *p, struct sy_accounting *a, struct sy_domain *d,
			   struct sy_vcpu *v)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT:
		credit_vcpu_destroy(p, a, d, v);
		break;
	default:
		break;
	}
}

/* The answer to SY_SURVEY: begin, then every vCPU that belongs to the queue. */
SY_FN void sy_survey_begin(const struct sy_policy *p, struct sy_queue *q)
{
	if (SY_DISCIPLINE(p) == SY_CREDIT2)
		credit2_survey_begin(p, q);
}

SY_FN void sy_survey_vcpu(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			  struct sy_vcpu *v)
{
	if (SY_DISCIPLINE(p) == SY_CREDIT2)
		credit2_survey_vcpu(p, q, d, v);
}

/* ---- What vCPUs do ---- */

/* A blocked vCPU has work again. Called before it is queued, v->runnable already 1. */
SY_FN u32 sy_wake(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		  struct sy_vcpu *v, u64 now)
{
	u32 request = 0;

	SY_ASK_GOVERNORS(wake, p, q, d, v, now);
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return request | sedf_wake(p, q, d, v, now);
	case SY_CREDIT:
		return request | credit_wake(p, q, d, v, now);
	case SY_CREDIT2:
		return request | credit2_wake(p, q, d, v, now);
	case SY_FAIR:
		return request | fair_wake(p, q, d, v, now);
	default:
		return request;
	}
}

/* Whom to interrupt for a vCPU that was just queued: SY_STEPS() with any SY_STEPS_ bits. */
SY_FN u32 sy_steps(const struct sy_policy *p, const struct sy_vcpu *v)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return sedf_steps(p, v);
	case SY_CREDIT:
		return credit_steps(p, v);
	case SY_CREDIT2:
		return credit2_steps(p, v);
	case SY_FAIR:
		return fair_steps(p, v);
	default:
		return SY_STEPS(SY_STEP_LAST_IDLE, 0, 0, 0);
	}
}

/* Whether this running vCPU is of a kind that gives way to any whose plan has SY_STEPS_LESSER. A hint: sy_lead() decides. */
SY_FN bool sy_is_lesser(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return SY_DISCIPLINE(p) == SY_FAIR && fair_is_lesser(p, v);
}

/* A running vCPU has nothing more to do. It was charged before; v->runnable already 0. */
SY_FN u32 sy_block(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		   struct sy_vcpu *v, u64 now)
{
	u32 request = 0;

	v->first = 0;
	SY_ASK_GOVERNORS(block, p, q, d, v, now);
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return request | sedf_block(p, q, d, v, now);
	case SY_CREDIT2:
		return request | credit2_block(p, q, d, v, now);
	case SY_FAIR:
		return request | fair_block(p, q, d, v, now);
	default:
		return request;
	}
}

/* A running vCPU lets others go first. The host then chooses again. */
SY_FN u32 sy_yield(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		   struct sy_vcpu *v, u64 now)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return sedf_yield(p, q, d, v, now);
	case SY_CREDIT:
		return credit_yield(p, q, d, v, now);
	case SY_CREDIT2:
		return credit2_yield(p, q, d, v, now);
	case SY_FAIR:
		return fair_yield(p, q, d, v, now);
	default:
		return 0;
	}
}

/*
 * A pause-loop exit of a running vCPU, which was charged. The host calls sy_spin(), then as that
 * says sy_rank() and sy_summon() for siblings that wait in a queue and are not parked, each with
 * its own queue, whose pCPU was charged if it has one only, and at the end sy_spun().
 */
SY_FN enum sy_gang sy_spin(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
#define SY_DO(BIT, name, ...) SY_HOOK(BIT, name##_has_spin, return name##_spin(p, d, v, now);)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	switch (SY_DISCIPLINE(p)) {
	case SY_FAIR:
		return fair_spin(p, v);
	default:
		return SY_GANG_NONE;
	}
}

/* Whether the discipline would get back what this waiting vCPU borrows; not if it has had so much more than its part. */
static inline bool sy_may_borrow(const struct sy_policy *p, const struct sy_queue *q,
				 const struct sy_vcpu *v, u64 ahead_ns)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT:
		return credit_may_borrow(v);
	case SY_FAIR:
		return fair_may_borrow(q, v, ahead_ns);
	default:
		return false;
	}
}

/* What summoning it promises; 0: leave it. facts: enum sy_fact; waited_ns: since it ran or woke. */
SY_FN u64 sy_rank(const struct sy_policy *p, const struct sy_queue *q, const struct sy_domain *d,
		  struct sy_vcpu *v, u32 facts, u64 waited_ns, u64 now)
{
#define SY_DO(BIT, name, ...) \
	SY_HOOK(BIT, name##_has_spin, \
		return sy_may_borrow(p, q, v, name##_ahead_ns(p)) ? name##_rank(p, q, d, v, facts, waited_ns, now) : 0;)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	switch (SY_DISCIPLINE(p)) {
	case SY_FAIR:
		return fair_rank(p, d, v, facts);
	default:
		return 0;
	}
}

/* Whether anybody is ever ranked: whoever is not does not need the facts. */
static inline bool sy_ranks(const struct sy_policy *p)
{
	return SY_DISCIPLINE(p) == SY_FAIR || sy_summons(p);
}

/* RESCHEDULE: the pCPU that this waiting vCPU ran on last, or was moved to by REKEY. */
SY_FN u32 sy_summon(const struct sy_policy *p, const struct sy_queue *q, struct sy_domain *d,
		    struct sy_vcpu *v, u64 now)
{
#define SY_DO(BIT, name, ...) SY_HOOK(BIT, name##_has_spin, return name##_summon(p, q, d, v, now);)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	switch (SY_DISCIPLINE(p)) {
	case SY_FAIR:
		return fair_summon(p, q, d, v);
	default:
		return 0;
	}
}

/* What the spinning vCPU itself does, now that so many siblings were summoned. */
SY_FN u32 sy_spun(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		  struct sy_vcpu *v, u32 summoned, u64 now)
{
	u32 request = 0;

#define SY_DO(BIT, name, ...) \
	SY_HOOK(BIT, name##_has_spin, request |= name##_spun(p, q, d, v, summoned, now); \
		if (name##_stays(p)) return request;)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	if (!sy_summons(p) && SY_DISCIPLINE(p) == SY_FAIR)
		return fair_spun(p, q, d, v, summoned, now);
	return sy_yield(p, q, d, v, now) | SY_RESCHEDULE;
}

/*
 * The vCPU has run for ran_ns since it was charged last, or started. Called at every tick, timer and choice, and before
 * a comparison; ran_ns may be 0. For a queue of one pCPU also before another vCPU wakes in, joins or leaves that queue,
 * whose virtual time must be of now. RESCHEDULE means nothing while the pCPU is choosing.
 */
SY_FN u32 sy_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		    struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	u32 request = 0;

	SY_ASK_GOVERNORS(charge, p, q, d, v, ran_ns, now);
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return request | sedf_charge(p, q, d, v, ran_ns, now);
	case SY_CREDIT:
		return request | credit_charge(p, q, d, v, ran_ns, now);
	case SY_CREDIT2:
		return request | credit2_charge(p, q, d, v, ran_ns, now);
	case SY_FAIR:
		return request | fair_charge(p, q, d, v, ran_ns, now);
	default:
		return request;
	}
}

/*
 * sy_vcpu_timer_ns() has passed. The vCPU may be blocked, waiting or running (then it was charged). Whose
 * own time has not passed is not asked.
 */
SY_FN u32 sy_vcpu_timer(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			struct sy_vcpu *v, u64 now)
{
	u32 request = 0;

#define SY_DO(BIT, name, ...) \
	SY_HOOK(BIT, name##_has_timer_ns, u64 timer_ns = name##_timer_ns(v); \
		if (timer_ns && timer_ns <= now) request |= name##_vcpu_timer(p, q, d, v, now);)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	if (sy_governs_timers(p) && (!v->timer_ns || v->timer_ns > now))
		return request;
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return request | sedf_vcpu_timer(p, q, d, v, now);
	case SY_CREDIT:
		return request | credit_vcpu_timer(p, q, d, v, now);
	case SY_FAIR:
		return request | fair_vcpu_timer(p, q, d, v, now);
	}
	return request;
}

/* d->timer_ns has passed. */
SY_FN u32 sy_domain_timer(const struct sy_policy *p, struct sy_domain *d, u64 now)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT2:
		return credit2_domain_timer(p, d, now);
	case SY_FAIR:
		return fair_domain_timer(p, d, now);
	default:
		return 0;
	}
}

/* ---- Who is next, for how long ---- */

/* Place in the queue: lower first. Constant while the vCPU waits, unless REKEY or RESORT says so. */
SY_FN u64 sy_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		 struct sy_vcpu *v, u64 now)
{
	u64 key = 0;

	SY_TELL_GOVERNORS(key, p, q, d, v, now);
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		key = sedf_key(p, q, d, v, now);
		break;
	case SY_CREDIT:
		key = credit_key(p, q, d, v, now);
		break;
	case SY_CREDIT2:
		key = credit2_key(p, q, d, v, now);
		break;
	case SY_FAIR:
		key = fair_key(p, q, d, v, now);
		break;
	default:
		break;
	}
	return v->first ? 0 : key;
}

/*
 * By how much a waiting vCPU is ahead of the one that runs on pCPU c (which
 * was charged): above 0 it preempts that one. Includes what a migration must
 * be worth, if v ran elsewhere last. Unit: the discipline's own.
 */
SY_FN s64 sy_lead(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c,
		  const struct sy_vcpu *v, const struct sy_vcpu *running, u64 now)
{
	if (sy_in_moment(p, running, now))
		return 0;
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return sedf_lead(p, q, c, v, running, now);
	case SY_CREDIT:
		return credit_lead(p, q, c, v, running, now);
	case SY_CREDIT2:
		return credit2_lead(p, q, c, v, running, now);
	case SY_FAIR:
		return fair_lead(p, q, c, v, running, now);
	default:
		return 0;
	}
}

/* Step 2 of a choice. best: who ran and could go on, or null. */
SY_FN enum sy_verdict sy_consider(const struct sy_policy *p, const struct sy_queue *q,
				  const struct sy_pcpu *c, const struct sy_vcpu *best,
				  const struct sy_vcpu *candidate, u64 now)
{
	if (best && sy_in_moment(p, best, now))
		return SY_STOP;
	if (sy_puts_first(p) && candidate->first)
		return SY_TAKE;
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return sedf_consider(p, q, c, best, candidate, now);
	case SY_CREDIT:
		return credit_consider(p, q, c, best, candidate, now);
	case SY_CREDIT2:
		return credit2_consider(p, q, c, best, candidate, now);
	case SY_FAIR:
		return fair_consider(p, q, c, best, candidate, now);
	default:
		return SY_TAKE;
	}
}

/* Step 3: whether to look for work in other queues. best: chosen so far, or null. */
SY_FN bool sy_look_further(const struct sy_policy *p, struct sy_pcpu *c, const struct sy_vcpu *best,
			   u64 now)
{
	if (best && (best->first || sy_in_moment(p, best, now)))
		return false;
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT:
		return credit_look_further(p, c, best, now);
	case SY_FAIR:
		return fair_look_further(p, c, best, now);
	default:
		return false;
	}
}

/* Whether pCPU c takes this candidate from a peer's queue. */
SY_FN enum sy_verdict sy_steal(const struct sy_policy *p, const struct sy_pcpu *c,
			       const struct sy_vcpu *best, const struct sy_queue *from,
			       const struct sy_vcpu *candidate, u64 now)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT:
		return credit_steal(p, c, best, from, candidate, now);
	case SY_FAIR:
		return fair_steal(p, c, best, from, candidate, now);
	default:
		return SY_STOP;
	}
}

/*
 * Step 4: by how many units the queue must be reset because this vCPU was chosen; mostly 0. next: first
 * in the queue, be it the chosen one or not, or null; where it is 0 for null it is so for anybody.
 */
SY_FN u64 sy_reset_due(const struct sy_policy *p, const struct sy_queue *q, const struct sy_vcpu *v,
		       const struct sy_vcpu *next)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT2:
		return credit2_reset_due(p, q, v, next);
	default:
		return 0;
	}
}

/* d: the domain of the vCPU for which the reset is due. */
SY_FN u32 sy_reset(const struct sy_policy *p, struct sy_queue *q, struct sy_governor *g,
		   struct sy_domain *d, u64 units, u64 now)
{
	u32 request = 0;

	SY_ASK_GOVERNORS(reset, p, q, g, d, units, now);
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT2:
		return request | credit2_reset(p, q, units, now);
	default:
		return request;
	}
}

/* Step 6: the vCPU starts on pCPU c. v->pcpu still says where it ran last. */
SY_FN u32 sy_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c,
		   struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	u32 request = 0;

	SY_ASK_GOVERNORS(start, p, q, c, d, v, now);
	v->first = 0;
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		sedf_start(p, q, c, v, now);
		break;
	case SY_CREDIT:
		credit_start(p, q, c, v, now);
		break;
	case SY_CREDIT2:
		credit2_start(p, q, c, v, now);
		break;
	case SY_FAIR:
		fair_start(p, q, c, v, now);
		break;
	default:
		break;
	}
	return request;
}

/*
 * Step 7: ns, at least 1, until the next choice; next: first in the queue, or null. SY_FOREVER: no
 * limit. The queue may note who is next.
 */
SY_FN u64 sy_slice(const struct sy_policy *p, struct sy_queue *q, const struct sy_pcpu *c,
		   const struct sy_domain *d, const struct sy_vcpu *v, const struct sy_vcpu *next, u64 now)
{
	u64 slice_ns = SY_FOREVER;

	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		slice_ns = sedf_slice(p, q, c, d, v, next, now);
		break;
	case SY_CREDIT:
		slice_ns = credit_slice(p, q, c, d, v, next, now);
		break;
	case SY_CREDIT2:
		slice_ns = credit2_slice(p, q, c, d, v, next, now);
		break;
	case SY_FAIR:
		slice_ns = fair_slice(p, q, c, d, v, next, now);
		break;
	default:
		break;
	}
#define SY_DO(BIT, name, ...) \
	SY_HOOK(BIT, name##_has_slice_ns, slice_ns = sy_min(slice_ns, name##_slice_ns(p, q, c, d, v, now));)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	return slice_ns;
}

/* ---- Time that passes ---- */

/* The tick of pCPU c, on which v runs (charged). */
SY_FN u32 sy_tick(const struct sy_policy *p, struct sy_accounting *a, struct sy_queue *q,
		  struct sy_pcpu *c, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT:
		return credit_tick(p, a, q, c, d, v, now);
	case SY_FAIR:
		return fair_tick(p, q, c, d, v, now);
	default:
		return 0;
	}
}

/* Accounting: begin, then per domain, and per vCPU of it where VISIT asks for that, then end. */
SY_FN void sy_account_begin(const struct sy_policy *p, struct sy_accounting *a, u64 now)
{
	if (SY_DISCIPLINE(p) == SY_CREDIT)
		credit_account_begin(p, a, now);
}

SY_FN u32 sy_account_domain(const struct sy_policy *p, struct sy_accounting *a, struct sy_domain *d)
{
	u64 given_ns = 0;

	if (SY_DISCIPLINE(p) != SY_CREDIT)
		return 0;
#define SY_DO(BIT, name, ...) SY_HOOK(BIT, name##_has_given_ns, given_ns += name##_given_ns(p, d, credit_account_ns(p));)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	return credit_account_domain(p, a, d, given_ns);
}

SY_FN u32 sy_account_vcpu(const struct sy_policy *p, struct sy_accounting *a, struct sy_domain *d,
			  struct sy_vcpu *v)
{
	bool saves = false;
	u32 request;

	if (SY_DISCIPLINE(p) != SY_CREDIT)
		return 0;
#define SY_DO(BIT, name, ...) SY_HOOK(BIT, name##_has_room_ns, saves |= name##_room_ns(p, d, v) > 0;)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	request = credit_account_vcpu(p, a, d, v, saves);
#define SY_DO(BIT, name, ...) \
	SY_HOOK(BIT, name##_has_room_ns, if (saves) name##_save(p, d, v, credit_unused_ns(p, a), credit_account_ns(p));)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	if (saves)
		credit_account_boost(p, d, v);
	return request;
}

SY_FN void sy_account_end(const struct sy_policy *p, struct sy_accounting *a)
{
	if (SY_DISCIPLINE(p) == SY_CREDIT)
		credit_account_end(p, a);
}

/*
 * Balance between queues, asked for by SY_BALANCE. The host finds the queue
 * with the greatest sy_load() per pCPU (and the one with the least), then asks
 * sy_balance_gain() for each vCPU that could move between that one and this;
 * it moves the one with the greatest gain above 0.
 */
SY_FN u64 sy_load(const struct sy_policy *p, struct sy_queue *q, u64 now)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT2:
		return credit2_load(p, q, now);
	case SY_FAIR:
		return fair_load(p, q, now);
	default:
		return 0;
	}
}

/* What moving v from one queue to the other is worth; 0 or less: leave it. */
SY_FN s64 sy_balance_gain(const struct sy_policy *p, const struct sy_queue *from, struct sy_queue *to,
			  const struct sy_domain *d, const struct sy_vcpu *v, u64 now)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT2:
		return credit2_balance_gain(p, from, to, d, v, now);
	case SY_FAIR:
		return fair_balance_gain(p, from, to, d, v, now);
	default:
		return 0;
	}
}

/* ---- For who looks on: monitors and tests ---- */

/*
 * What counts in favour of v, less what counts against it. Unit: the discipline's own; sedf: ns left
 * of the slice of this period; credit: credits; credit2: ns of a pCPU at the queue's highest weight;
 * fair: ns of virtual time by which it is behind the queue.
 */
SY_FN s64 sy_credit(const struct sy_policy *p, const struct sy_queue *q, const struct sy_vcpu *v)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return sedf_credit(v);
	case SY_CREDIT:
		return credit_credits(v);
	case SY_CREDIT2:
		return credit2_credit_ns(p, q, v);
	case SY_FAIR:
		return fair_credit(q, v);
	default:
		return 0;
	}
}

/*
 * The class in which the discipline has v. credit2 and fair tell only PARKED apart; who is ahead
 * there, sy_credit() says.
 */
SY_FN enum sy_class sy_class(const struct sy_policy *p, const struct sy_vcpu *v)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_SEDF:
		return sedf_class(v);
	case SY_CREDIT:
		return credit_class(p, v);
	case SY_CREDIT2:
		return credit2_class(v);
	case SY_FAIR:
		return fair_class(v);
	default:
		return SY_CLASS_NONE;
	}
}

/* Whether v comes before its turn: it was summoned and has not started yet, or is in BOOST. */
SY_FN bool sy_boosted(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return v->first || sy_class(p, v) == SY_CLASS_BOOST;
}

#endif
