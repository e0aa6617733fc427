/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Caps: a domain's budget of CPU time per period, for disciplines that have no other way to limit
 * a domain. The budget is cap_percent of one pCPU over a period.
 *
 * Each vCPU that runs or waits holds a grant, a part of the budget that nobody else can spend, so
 * that siblings which run at the same time on other pCPUs cannot overspend together. A grant is at
 * most the vCPU's equal part of the budget; when it is spent another is taken, and where nothing
 * is left the vCPU is parked. A vCPU that blocks hands its grant back. What is spent beyond a grant
 * (the host came late) is a debt that the next periods pay.
 *
 * A burst is how much CPU time may be saved from one period to the next: what the domain's cap_burst says, or else the
 * policy, in percent of a budget.
 *
 * Invariants: what is unspent never exceeds one budget and the burst, hence in k periods, from the start of
 * one to the end of another, at most k budgets and the burst are spent, debt aside. The timer of the domain is armed while
 * something is spent, granted or parked; a domain without cap, or asleep with all that it may have, has
 * none. Where a cap goes, each vCPU gives its grant back when it next blocks or leaves.
 *
 * A discipline embeds struct budget in its domain state and struct budget_grant in its vCPU state,
 * calls each function below from its own of the same name, and merges the answers.
 */
#ifndef STEELYARD_BUDGET_H
#define STEELYARD_BUDGET_H

#include "vocabulary.h"

struct budget {
	s64 unspent_ns; /* of this period; below 0: debt */
	u64 granted_ns; /* sum of the grants of all vCPUs */
	u64 period_start_ns;
	u64 period_end_ns;
	u64 cut_ns; /* what the last replenishment left out because the budget was full */
	u64 parked; /* 1 if a vCPU may be parked */
};

struct budget_grant {
	u64 left_ns;
};

/* 65535 pCPUs; a debt is forgiven beyond about 9 years. */
#define BUDGET_CAP_PERCENT_MAX (100ULL * 65535)
#define BUDGET_PERIOD_MAX_NS SY_S
#define BUDGET_BURST_PERCENT_MAX 1000
#define BUDGET_BURST_MAX_NS (1000 * SY_S)
#define BUDGET_DEBT_MAX_NS (1LL << 58)

/* period_ns of 0: the discipline does not honour caps. */
static inline bool budget_capped(const struct sy_domain *d, u64 period_ns)
{
	return SY_LOAD(d->settings.cap_percent) && period_ns;
}

/* Whether a call about a vCPU with this grant may write the budget. */
static inline bool budget_writes(const struct budget_grant *g, const struct sy_domain *d, u64 period_ns)
{
	return g->left_ns || budget_capped(d, period_ns);
}

/* Whether this call is to: of a cap that has come since the host was told no, the vCPU's next call knows. */
static inline bool budget_concerns(const struct sy_domain *d, const struct sy_vcpu *v, u64 period_ns)
{
	return !SY_APART(v) && budget_capped(d, period_ns);
}

static inline u64 budget_period_ns(u64 period_ns)
{
	return sy_clamp(period_ns, SY_US, BUDGET_PERIOD_MAX_NS);
}

/* CPU time per period, at least 1 ns; only for a domain with a cap. */
static inline u64 budget_full_ns(const struct sy_domain *d, u64 period_ns)
{
	u64 cap_percent = sy_min(d->settings.cap_percent, BUDGET_CAP_PERCENT_MAX);

	return sy_max(budget_period_ns(period_ns) * cap_percent / 100, 1);
}

/* An equal part of the budget, rounded up so that a lone vCPU's last grant is not a few ns. */
static inline u64 budget_quantum_ns(const struct sy_domain *d, u64 period_ns)
{
	u64 vcpus = sy_clamp(d->vcpus, 1, 1ULL << 32);

	return (budget_full_ns(d, period_ns) + vcpus - 1) / vcpus;
}

static inline u64 budget_available_ns(const struct budget *b)
{
	return b->unspent_ns > 0 && (u64)b->unspent_ns > b->granted_ns ?
		       (u64)b->unspent_ns - b->granted_ns :
		       0;
}

/* From domain_init. */
SY_FN void budget_init(struct budget *b, const struct sy_domain *d, u64 period_ns, u64 now)
{
	b->unspent_ns = (s64)budget_full_ns(d, period_ns);
	b->granted_ns = 0;
	b->period_start_ns = now;
	b->period_end_ns = now;
	b->cut_ns = 0;
	b->parked = 0;
}

/* From key: who is queued holds a grant, if there is one. */
SY_FN void budget_key(struct budget *b, struct budget_grant *g, const struct sy_domain *d,
		      const struct sy_vcpu *v, u64 period_ns)
{
	if (g->left_ns || !budget_concerns(d, v, period_ns))
		return;
	g->left_ns = sy_min(budget_quantum_ns(d, period_ns), budget_available_ns(b));
	b->granted_ns += g->left_ns;
}

/* Takes a grant if there is none, parks if there is nothing to take, and arms the timer. */
static inline u32 budget_refill(struct budget *b, struct budget_grant *g, struct sy_domain *d,
				const struct sy_vcpu *v, u64 period_ns, u64 now)
{
	u32 request = 0;

	budget_key(b, g, d, v, period_ns);
	if (!g->left_ns) {
		b->parked = 1;
		request |= SY_PARK;
	}
	if (!d->timer_ns) {
		b->period_start_ns = now;
		b->period_end_ns = now + budget_period_ns(period_ns);
		d->timer_ns = b->period_end_ns;
		request |= SY_DOMAIN_TIMER;
	}
	return request;
}

/* From wake: SY_PARK if nothing is left. A vCPU that was parked when it blocked need not stay so. */
SY_FN u32 budget_wake(struct budget *b, struct budget_grant *g, struct sy_domain *d, const struct sy_vcpu *v,
		      u64 period_ns, u64 now)
{
	u32 request;

	if (!budget_concerns(d, v, period_ns))
		return 0;
	request = budget_refill(b, g, d, v, period_ns, now);
	return request & SY_PARK ? request : request | SY_UNPARK;
}

/* From charge. */
SY_FN u32 budget_charge(struct budget *b, struct budget_grant *g, struct sy_domain *d, const struct sy_vcpu *v,
			u64 period_ns, u64 ran_ns, u64 now)
{
	u64 ran_before_ns, spent_ns;

	if (!budget_concerns(d, v, period_ns))
		return 0;
	ran_ns = sy_min(ran_ns, BUDGET_DEBT_MAX_NS);
	spent_ns = sy_min(ran_ns, g->left_ns);
	g->left_ns -= spent_ns;
	b->granted_ns -= spent_ns;

	/*
	 * Time that ran before the last replenishment, charged only now, belongs to the period
	 * that ended there: it is taken from what that replenishment left out.
	 */
	ran_before_ns = now > b->period_start_ns ? now - b->period_start_ns : 0;
	ran_before_ns = ran_ns > ran_before_ns ? ran_ns - ran_before_ns : 0;
	ran_before_ns = sy_min(ran_before_ns, b->cut_ns);
	b->cut_ns -= ran_before_ns;

	b->unspent_ns = sy_smax(b->unspent_ns - (s64)(ran_ns - ran_before_ns), -BUDGET_DEBT_MAX_NS);
	return budget_refill(b, g, d, v, period_ns, now);
}

/* From block, and from leave. Siblings that were parked share what is handed back. */
SY_FN u32 budget_block(struct budget *b, struct budget_grant *g, struct sy_domain *d, const struct sy_vcpu *v,
		       u64 period_ns, u64 now)
{
	if (SY_APART(v) || !budget_writes(g, d, period_ns))
		return 0;
	b->granted_ns -= g->left_ns;
	g->left_ns = 0;
	if (!budget_capped(d, period_ns) || !b->parked || !budget_available_ns(b))
		return 0;
	d->timer_ns = sy_max(now, 1);
	return SY_DOMAIN_TIMER;
}

static inline u64 budget_burst_ns(const struct sy_domain *d, u64 full_ns, u64 burst_percent)
{
	u64 asked_ns = SY_LOAD(d->settings.cap_burst_ns);

	if (asked_ns)
		return sy_min(asked_ns, BUDGET_BURST_MAX_NS);
	return full_ns / 100 * sy_min(burst_percent, BUDGET_BURST_PERCENT_MAX);
}

/* From domain_timer: the period's end, or that siblings handed something back before it. */
SY_FN u32 budget_domain_timer(struct budget *b, struct sy_domain *d, u64 period_ns, u64 burst_percent, u64 now)
{
	u64 full_ns = budget_full_ns(d, period_ns);
	u64 most_ns = full_ns + budget_burst_ns(d, full_ns, burst_percent);

	if (!budget_capped(d, period_ns)) {
		/* The cap has gone since the timer was armed. */
		b->parked = 0;
		d->timer_ns = 0;
		return SY_DOMAIN_TIMER | SY_UNPARK;
	}
	if (now >= b->period_end_ns) {
		s64 unspent_ns = b->unspent_ns + (s64)full_ns;

		b->unspent_ns = sy_smin(unspent_ns, (s64)most_ns);
		b->cut_ns = (u64)(unspent_ns - b->unspent_ns);
		b->period_start_ns = b->period_end_ns;
		b->period_end_ns += budget_period_ns(period_ns);
		if (b->period_end_ns <= now)
			b->period_end_ns = now + budget_period_ns(period_ns);
	}
	if (b->parked || b->granted_ns || b->unspent_ns < (s64)most_ns)
		d->timer_ns = b->period_end_ns;
	else
		d->timer_ns = 0;
	if (!b->parked || !budget_available_ns(b))
		return SY_DOMAIN_TIMER;
	b->parked = 0;
	return SY_DOMAIN_TIMER | SY_UNPARK;
}

/* From slice: longest run that the grant allows. */
SY_FN u64 budget_slice(const struct budget_grant *g, const struct sy_domain *d, u64 period_ns)
{
	return budget_capped(d, period_ns) ? sy_max(g->left_ns, 1) : SY_FOREVER;
}

#endif
