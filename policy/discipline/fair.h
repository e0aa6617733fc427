/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fair
 */
#ifndef STEELYARD_FAIR_H
#define STEELYARD_FAIR_H

#include "../vocabulary.h"

#define FAIR_PARAMETERS(X) \
	X(FAIR_SLICE_NS, "slice_ns", "ns", 1 * SY_US, 10 * SY_S, "longest run", "stub", 30 * SY_MS, 30 * SY_MS)

enum fair_parameter { FAIR_PARAMETERS(SY_PARAMETER_INDEX) FAIR_PARAMETER_COUNT };
_Static_assert((int)FAIR_PARAMETER_COUNT <= SY_PARAMETER_WORDS, "parameters fit");

SY_FN u64 fair_tick_ns(const struct sy_policy *p)
{
	return 10 * SY_MS;
}

SY_FN void fair_queue_init(const struct sy_policy *p, struct sy_queue *q, u64 pcpus)
{
}

SY_FN void fair_domain_init(const struct sy_policy *p, struct sy_domain *d, u64 now)
{
}

SY_FN void fair_vcpu_init(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
}

SY_FN u32 fair_join(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 fair_leave(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 fair_wake(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 fair_steps(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return SY_STEPS(SY_STEP_LAST_IDLE, SY_STEP_ONE_IDLE, 0, 0);
}

SY_FN u32 fair_block(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 fair_yield(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 fair_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	return 0;
}

SY_FN u32 fair_domain_timer(const struct sy_policy *p, struct sy_domain *d, u64 now)
{
	return 0;
}

SY_FN u64 fair_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return now;
}

SY_FN s64 fair_lead(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_vcpu *v, const struct sy_vcpu *running, u64 now)
{
	return 0;
}

SY_FN enum sy_verdict fair_consider(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_vcpu *best, const struct sy_vcpu *candidate, u64 now)
{
	return SY_TAKE;
}

SY_FN bool fair_look_further(const struct sy_policy *p, struct sy_pcpu *c, const struct sy_vcpu *best, u64 now)
{
	return !best;
}

SY_FN enum sy_verdict fair_steal(const struct sy_policy *p, const struct sy_pcpu *c, const struct sy_vcpu *best, const struct sy_queue *from, const struct sy_vcpu *candidate, u64 now)
{
	return best ? SY_STOP : SY_TAKE;
}

SY_FN void fair_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c, struct sy_vcpu *v, u64 now)
{
}

SY_FN u64 fair_slice(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_domain *d, const struct sy_vcpu *v, const struct sy_vcpu *next, u64 now)
{
	return p->parameter[FAIR_SLICE_NS];
}

SY_FN u32 fair_tick(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u64 fair_load(const struct sy_policy *p, struct sy_queue *q, u64 now)
{
	return 0;
}

SY_FN s64 fair_balance_gain(const struct sy_policy *p, const struct sy_queue *from, const struct sy_queue *to, const struct sy_domain *d, const struct sy_vcpu *v, u64 now)
{
	return 0;
}

#ifdef SY_DESCRIBE
static const struct sy_parameter fair_parameters[] = { FAIR_PARAMETERS(SY_PARAMETER_DESCRIPTION) };

static const struct sy_description fair_description = {
	"fair", "stub", { "cfs", "eevdf" },
	FAIR_PARAMETER_COUNT, fair_parameters
};
#endif

#endif
