// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every call of steelyard.h, as a kernel or hypervisor would instantiate it:
 * no libc, all helpers inlined, the arguments behind one pointer since BPF
 * passes at most five. scripts/core-check compiles this for each target.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;
#define true 1
#define false 0

#define SY_FN static inline __attribute__((always_inline, unused))
#include "more_governors.h"
#include "../steelyard.h"

struct arguments {
	const struct sy_policy *p;
	struct sy_accounting *a;
	struct sy_governor *g;
	struct sy_queue *q;
	struct sy_queue *other;
	struct sy_pcpu *c;
	struct sy_domain *d;
	struct sy_vcpu *v;
	const struct sy_vcpu *than;
	const struct sy_settings *settings;
	struct sy_reservation *reservation;
	const struct sy_sample *sample;
	u64 value;
	u64 now;
};

/* One function each, so that BPF's limit of 512 bytes of stack holds for each call alone. */
#define CALL(name, ...) \
	u64 call_##name(const struct arguments *x) \
	{ \
		return (u64)sy_##name(__VA_ARGS__); \
	}

#define CALL_VOID(name, ...) \
	void call_##name(const struct arguments *x) \
	{ \
		sy_##name(__VA_ARGS__); \
	}

CALL(scope, x->p)
CALL(queue_pcpus_max, x->p)
CALL(queue_requests, x->p)
CALL(tick_ns, x->p)
CALL(cap_period_ns, x->p)
CALL(reserves, x->p)
CALL(account_ns, x->p)
CALL(writes_domain, x->p, x->d, x->v, (enum sy_domain_call)x->value)
CALL_VOID(accounting_init, x->p, x->a, x->value)
CALL_VOID(queue_init, x->p, x->q, x->value)
CALL_VOID(domain_init, x->p, x->d, x->settings, x->value, x->now)
CALL_VOID(vcpu_init, x->p, x->d, x->v, x->now)
CALL_VOID(vcpu_destroy, x->p, x->a, x->d, x->v)
CALL_VOID(reweigh, x->p, x->g, x->d)
CALL_VOID(domain_change, x->p, x->g, x->d, x->settings)
CALL_VOID(vcpu_reserve, x->p, x->v, x->reservation)
CALL_VOID(vcpu_reserved, x->p, x->d, x->v, x->reservation)
CALL(join, x->p, x->q, x->d, x->v, x->now)
CALL(leave, x->p, x->q, x->d, x->v, x->now)
CALL_VOID(survey_begin, x->p, x->q)
CALL_VOID(survey_vcpu, x->p, x->q, x->d, x->v)
CALL(wake, x->p, x->q, x->d, x->v, x->now)
CALL(steps, x->p, x->v)
CALL(is_lesser, x->p, x->v)
CALL(block, x->p, x->q, x->d, x->v, x->now)
CALL(yield, x->p, x->q, x->d, x->v, x->now)
CALL(spin, x->p, x->d, x->v, x->now)
CALL(rank, x->p, x->q, x->d, x->v, (u32)x->value, x->value, x->now)
CALL(summon, x->p, x->q, x->d, x->v, x->now)
CALL(spun, x->p, x->q, x->d, x->v, (u32)x->value, x->now)
CALL(charge, x->p, x->q, x->d, x->v, x->value, x->now)
CALL(vcpu_timer_ns, x->p, x->v)
CALL(vcpu_timer, x->p, x->q, x->d, x->v, x->now)
CALL(domain_timer, x->p, x->d, x->now)
CALL(key, x->p, x->q, x->d, x->v, x->now)
CALL(lead, x->p, x->q, x->c, x->v, x->than, x->now)
CALL(consider, x->p, x->q, x->c, x->than, x->v, x->now)
CALL(look_further, x->p, x->c, x->than, x->now)
CALL(steal, x->p, x->c, x->than, x->q, x->v, x->now)
CALL(reset_due, x->p, x->q, x->v, x->than)
CALL(reset, x->p, x->q, x->g, x->d, x->value, x->now)
CALL(start, x->p, x->q, x->c, x->d, x->v, x->now)
CALL(slice, x->p, x->q, x->c, x->d, x->v, x->than, x->now)
CALL(tick, x->p, x->a, x->q, x->c, x->d, x->v, x->now)
CALL_VOID(account_begin, x->p, x->a, x->now)
CALL(account_domain, x->p, x->a, x->d)
CALL(account_vcpu, x->p, x->a, x->d, x->v)
CALL_VOID(account_end, x->p, x->a)
CALL(sample_ns, x->p)
CALL(late_ns, x->p)
CALL(wants_packets, x->p)
CALL(wants_offered, x->p)
CALL_VOID(sample_begin, x->p, x->g, x->value, x->now)
CALL_VOID(sample_domain, x->p, x->g, x->d, x->sample)
CALL(sample_settle, x->p, x->g, x->d)
CALL(load, x->p, x->q, x->now)
CALL(balance_gain, x->p, x->q, x->other, x->d, x->v, x->now)
CALL(credit, x->p, x->q, x->v)
CALL(class, x->p, x->v)
CALL(boosted, x->p, x->v)
