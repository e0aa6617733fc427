/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sedf
 */
#ifndef STEELYARD_SEDF_H
#define STEELYARD_SEDF_H

#include "../vocabulary.h"

#define SEDF_PARAMETERS(X) \
	X(SEDF_SLICE_NS, "slice_ns", "ns", 1 * SY_US, 10 * SY_S, "longest run", "stub", 30 * SY_MS)

enum sedf_parameter { SEDF_PARAMETERS(SY_PARAMETER_INDEX) SEDF_PARAMETER_COUNT };
_Static_assert((int)SEDF_PARAMETER_COUNT <= SY_PARAMETER_WORDS, "parameters fit");

SY_FN void sedf_vcpu_init(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
}

SY_FN u32 sedf_join(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 sedf_leave(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 sedf_wake(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 sedf_steps(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return SY_STEPS(SY_STEP_LAST_IDLE, SY_STEP_ONE_IDLE, 0, 0);
}

SY_FN u32 sedf_block(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 sedf_yield(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 sedf_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	return 0;
}

SY_FN u32 sedf_vcpu_timer(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u64 sedf_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	return now;
}

SY_FN s64 sedf_lead(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_vcpu *v, const struct sy_vcpu *running, u64 now)
{
	return 0;
}

SY_FN enum sy_verdict sedf_consider(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_vcpu *best, const struct sy_vcpu *candidate, u64 now)
{
	return SY_TAKE;
}

SY_FN void sedf_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c, struct sy_vcpu *v, u64 now)
{
}

SY_FN u64 sedf_slice(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c, const struct sy_domain *d, const struct sy_vcpu *v, const struct sy_vcpu *next, u64 now)
{
	return p->parameter[SEDF_SLICE_NS];
}

#ifdef SY_DESCRIBE
static const struct sy_parameter sedf_parameters[] = { SEDF_PARAMETERS(SY_PARAMETER_DESCRIPTION) };

static const struct sy_description sedf_description = {
	"sedf", "stub", { "xen-4.2" },
	SEDF_PARAMETER_COUNT, sedf_parameters
};
#endif

#endif
