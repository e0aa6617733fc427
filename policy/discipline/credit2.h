/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * credit2
 */
#ifndef STEELYARD_CREDIT2_H
#define STEELYARD_CREDIT2_H

#include "../vocabulary.h"

#define CREDIT2_PARAMETERS(X) \
	X(CREDIT2_SLICE_NS, "slice_ns", "ns", 1 * SY_US, 10 * SY_S, "longest run", "stub", 30 * SY_MS, 30 * SY_MS)

enum credit2_parameter { CREDIT2_PARAMETERS(SY_PARAMETER_INDEX) CREDIT2_PARAMETER_COUNT };
_Static_assert((int)CREDIT2_PARAMETER_COUNT <= SY_PARAMETER_WORDS, "parameters fit");

SY_FN enum sy_scope credit2_scope(const struct sy_policy *p)
{
	return SY_SCOPE_SOCKET;
}

SY_FN u64 credit2_queue_pcpus_max(const struct sy_policy *p)
{
	return 16;
}

SY_FN void credit2_queue_init(const struct sy_policy *p, struct sy_queue *q, u64 pcpus)
{
}

SY_FN void credit2_domain_init(const struct sy_policy *p, struct sy_domain *d, u64 now)
{
}

SY_FN void credit2_vcpu_init(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
}

SY_FN u32 credit2_join(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 credit2_leave(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN void credit2_survey_begin(const struct sy_policy *p, struct sy_queue *q)
{
}

SY_FN void credit2_survey_vcpu(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v)
{
}

SY_FN u32 credit2_wake(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 credit2_steps(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return SY_STEPS(SY_STEP_LAST_IDLE, SY_STEP_ONE_IDLE, 0, 0);
}

SY_FN u32 credit2_block(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 credit2_yield(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 credit2_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	return 0;
}

SY_FN u32 credit2_domain_timer(const struct sy_policy *p, struct sy_domain *d, u64 now)
{
	return 0;
}

SY_FN u64 credit2_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return now;
}

SY_FN s64 credit2_lead(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_vcpu *v, const struct sy_vcpu *running, u64 now)
{
	return 0;
}

SY_FN enum sy_verdict credit2_consider(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_vcpu *best, const struct sy_vcpu *candidate, u64 now)
{
	return SY_TAKE;
}

SY_FN u64 credit2_reset_due(const struct sy_policy *p, const struct sy_queue *q, const struct sy_vcpu *v)
{
	return 0;
}

SY_FN u32 credit2_reset(const struct sy_policy *p, struct sy_queue *q, u64 units, u64 now)
{
	return 0;
}

SY_FN void credit2_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c, struct sy_vcpu *v, u64 now)
{
}

SY_FN u64 credit2_slice(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_domain *d, const struct sy_vcpu *v, const struct sy_vcpu *next, u64 now)
{
	return p->parameter[CREDIT2_SLICE_NS];
}

SY_FN u64 credit2_load(const struct sy_policy *p, struct sy_queue *q, u64 now)
{
	return 0;
}

SY_FN s64 credit2_balance_gain(const struct sy_policy *p, const struct sy_queue *from, const struct sy_queue *to, const struct sy_domain *d, const struct sy_vcpu *v, u64 now)
{
	return 0;
}

#ifdef SY_DESCRIBE
static const struct sy_parameter credit2_parameters[] = { CREDIT2_PARAMETERS(SY_PARAMETER_DESCRIPTION) };

static const struct sy_description credit2_description = {
	"credit2", "stub", { "xen-4.5", "xen-4.20" },
	CREDIT2_PARAMETER_COUNT, credit2_parameters
};
#endif

#endif
