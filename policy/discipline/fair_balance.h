/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which vCPU discipline fair moves between two queues: by the weights of the moment, or by averaged loads and Linux's rules;
 * and which a pCPU takes that falls idle. Part of fair.h, which has the parameters.
 */
#ifndef STEELYARD_FAIR_BALANCE_H
#define STEELYARD_FAIR_BALANCE_H

#include "fair_groups.h"

/* Times that a pCPU has found nobody to pull, as far as they count: sd->nr_balance_failed, which has no bound. */
#define FAIR_FAILED_MAX 8u

/* Ran so short a time ago that its cache is worth more than a pCPU now. */
static inline bool fair_hot(const struct sy_policy *p, const struct fair_vcpu *s, u64 now)
{
	return s->last_ran_ns && now - s->last_ran_ns < SY_PARAMETER(p, FAIR_MIGRATION_COST_NS);
}

static inline u64 fair_queue_load(const struct sy_policy *p, const struct fair_queue *f)
{
	return SY_CHOICE(p, FAIR_BALANCE_LOAD) == FAIR_LOAD_AVERAGED ? f->load.value : fair_sum(&f->sums);
}

/* By weight, those where somebody waits above all others, or an idle pCPU might find nobody. */
SY_FN u64 fair_load(const struct sy_policy *p, struct sy_queue *q, u64 now)
{
	u64 load;

	fair_move_on(p, fair_queue(q), now);
	load = sy_min(fair_queue_load(p, fair_queue(q)), FAIR_LOAD_WAITING - 1);
	return q->queued ? FAIR_LOAD_WAITING + load : load;
}

/*
 * By Linux's rules, between busy pCPUs: one pulls, at its tick, who has not run for longest of those whose load is at most
 * half of what the loads differ by, or twice as much for each time that it has found nobody: detach_tasks(). Times in a
 * row are at most twice the interval apart, or the loads were even in between.
 */
static inline s64 fair_pull_gain(const struct sy_policy *p, const struct fair_queue *f, struct fair_queue *t,
				 const struct fair_vcpu *s, u64 difference, u64 now)
{
	u64 interval_ns = sy_min(f->balance_interval_ns, FAIR_RUN_MAX_NS) * SY_PARAMETER(p, FAIR_BUSY_FACTOR);

	if (now - t->balanced_ns >= SY_PARAMETER(p, FAIR_TICK_NS))
		return 0;
	if (t->tried_ns != now) {
		t->failed = t->tried_ns && now - t->tried_ns <= 2 * interval_ns ? t->failed + 1 : 0;
		t->failed = (u32)sy_min(t->failed, FAIR_FAILED_MAX);
		t->tried_ns = now;
	}
	if (fair_vcpu_load(p, f, s) >> t->failed > difference / 2)
		return 0;
	return 1 + (s64)sy_min(now - s->last_ran_ns, SY_FOREVER - 1);
}

/* By how much it evens the loads; at least 1 if it makes them no more uneven. */
SY_FN s64 fair_balance_gain(const struct sy_policy *p, const struct sy_queue *from, struct sy_queue *to,
			    const struct sy_domain *d, const struct sy_vcpu *v, u64 now)
{
	const struct fair_queue *f = fair_queue_const(from);
	struct fair_queue *t = fair_queue(to);
	const struct fair_vcpu *s = fair_vcpu_const(v);
	u64 from_load = sy_min(fair_queue_load(p, f), FAIR_RUN_MAX_NS);
	u64 to_load = sy_min(fair_queue_load(p, t), FAIR_RUN_MAX_NS);
	s64 difference = fair_difference(from_load, to_load), after;
	u64 recent_ns = SY_PARAMETER(p, FAIR_TICK_NS);

	if (s->entity.place != FAIR_WAITING || fair_hot(p, s, now))
		return 0;
	if (from_load * 100 <= to_load * SY_PARAMETER(p, FAIR_IMBALANCE_PERCENT))
		return 0;
	if (SY_CHOICE(p, FAIR_BALANCE_LOAD) == FAIR_LOAD_AVERAGED) {
		if (fair_sum(&t->sums))
			return fair_pull_gain(p, f, t, s, (u64)difference, now);
	} else if (to_load && now - f->balanced_ns >= recent_ns && now - t->balanced_ns >= recent_ns) {
		/* Between busy pCPUs only when either's turn has come, at this tick. */
		return 0;
	}
	after = difference - 2 * (s64)sy_min(fair_vcpu_load(p, f, s), SY_WEIGHT_MAX * FAIR_WEIGHT_SCALE);
	return difference - (after < 0 ? -after : after) + 1;
}

SY_FN bool fair_look_further(const struct sy_policy *p, struct sy_pcpu *c,
			     const struct sy_vcpu *best, u64 now)
{
	struct fair_pcpu *fc = (struct fair_pcpu *)c->state;

	if (best)
		return false;
	if (!fc->idle_since_ns)
		fc->idle_since_ns = now;
	return fc->idle_missing_ns <= SY_PARAMETER(p, FAIR_NEWIDLE_LEAST_NS) ||
	       now - fc->idle_since_ns >= SY_PARAMETER(p, FAIR_NEWIDLE_LEAST_NS);
}

SY_FN enum sy_verdict fair_steal(const struct sy_policy *p, const struct sy_pcpu *c,
				 const struct sy_vcpu *best, const struct sy_queue *from,
				 const struct sy_vcpu *candidate, u64 now)
{
	if (best)
		return SY_STOP;
	return fair_hot(p, fair_vcpu_const(candidate), now) ? SY_SKIP : SY_TAKE;
}

#endif
