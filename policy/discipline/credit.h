/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * credit
 */
#ifndef STEELYARD_CREDIT_H
#define STEELYARD_CREDIT_H

#include "../vocabulary.h"

#define CREDIT_PARAMETERS(X) \
	X(CREDIT_SLICE_NS, "slice_ns", "ns", 1 * SY_US, 10 * SY_S, "longest run", "stub", 30 * SY_MS, 30 * SY_MS, 30 * SY_MS, 30 * SY_MS)

enum credit_parameter { CREDIT_PARAMETERS(SY_PARAMETER_INDEX) CREDIT_PARAMETER_COUNT };
_Static_assert((int)CREDIT_PARAMETER_COUNT <= SY_PARAMETER_WORDS, "parameters fit");

SY_FN u64 credit_tick_ns(const struct sy_policy *p)
{
	return 10 * SY_MS;
}

SY_FN u64 credit_account_ns(const struct sy_policy *p)
{
	return 30 * SY_MS;
}

SY_FN void credit_vcpu_init(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
}

SY_FN u32 credit_wake(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 credit_steps(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return SY_STEPS(SY_STEP_LAST_IDLE, SY_STEP_ONE_IDLE, 0, 0);
}

SY_FN u32 credit_yield(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 credit_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	return 0;
}

SY_FN u64 credit_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return now;
}

SY_FN s64 credit_lead(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_vcpu *v, const struct sy_vcpu *running, u64 now)
{
	return 0;
}

SY_FN enum sy_verdict credit_consider(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_vcpu *best, const struct sy_vcpu *candidate, u64 now)
{
	return SY_TAKE;
}

SY_FN bool credit_look_further(const struct sy_policy *p, struct sy_pcpu *c, const struct sy_vcpu *best, u64 now)
{
	return !best;
}

SY_FN enum sy_verdict credit_steal(const struct sy_policy *p, const struct sy_pcpu *c, const struct sy_vcpu *best, const struct sy_queue *from, const struct sy_vcpu *candidate, u64 now)
{
	return best ? SY_STOP : SY_TAKE;
}

SY_FN void credit_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c, struct sy_vcpu *v, u64 now)
{
}

SY_FN u64 credit_slice(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_domain *d, const struct sy_vcpu *v, const struct sy_vcpu *next, u64 now)
{
	return p->parameter[CREDIT_SLICE_NS];
}

SY_FN u32 credit_tick(const struct sy_policy *p, struct sy_accounting *a, struct sy_queue *q, struct sy_pcpu *c, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN void credit_account_begin(const struct sy_policy *p, struct sy_accounting *a, u64 now)
{
}

SY_FN u32 credit_account_domain(const struct sy_policy *p, struct sy_accounting *a, struct sy_domain *d)
{
	return 0;
}

SY_FN u32 credit_account_vcpu(const struct sy_policy *p, struct sy_accounting *a, struct sy_domain *d, struct sy_vcpu *v)
{
	return 0;
}

SY_FN void credit_account_end(const struct sy_policy *p, struct sy_accounting *a)
{
}

#ifdef SY_DESCRIBE
static const struct sy_parameter credit_parameters[] = { CREDIT_PARAMETERS(SY_PARAMETER_DESCRIPTION) };

static const struct sy_description credit_description = {
	"credit", "stub", { "xen-3.3", "xen-4.2", "xen-4.5", "xen-4.20" },
	CREDIT_PARAMETER_COUNT, credit_parameters
};
#endif

#endif
