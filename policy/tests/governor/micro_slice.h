/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * micro-slice: who answers packets runs in short slices, and more often. For tests only: it has a hook wherever one
 * can be asked for something, and state of every kind but the host's.
 *
 * Mechanism: a domain that receives packets is latency-sensitive. Its vCPUs run for a micro slice at a time; whoever
 * waits a period after it started comes first in its queue, once. Where several of them share a queue each one's
 * period is so much longer.
 *
 * Source: after Xu, Gamage, Rao, Kangarlou, Kompella, Xu, "vSlicer: Latency-Aware Virtual Machine Scheduling via
 * Differentiated-Frequency CPU Slicing", HPDC 2012; there an administrator says which domains are latency-sensitive.
 *
 * State: of a domain, whether it is latency-sensitive; of a vCPU, what is left of its micro slice, when it comes
 * first, whether it waits in its queue, and how it counts there; of a queue, how many latency-sensitive ones it has.
 *
 * Signals: packets; joins, wakes, starts and charges. Knobs: v->first, the slice of a vCPU.
 */
#ifndef STEELYARD_TESTS_MICRO_SLICE_H
#define STEELYARD_TESTS_MICRO_SLICE_H

#include "../../vocabulary.h"

/* clang-format off */
#define MICRO_SLICE_PARAMETERS(X) \
	X(MICRO_SLICE_SLICE_NS, "slice_ns", "ns", 1, SY_S, "the micro slice", "Xu et al. 2012", 5 * SY_MS) \
	X(MICRO_SLICE_PERIOD_NS, "period_ns", "ns", 1, SY_S, \
	  "after so long since its start whoever waits comes first", "Xu et al. 2012", 30 * SY_MS) \
	X(MICRO_SLICE_INTERVAL_NS, "interval_ns", "ns", SY_MS, 60 * SY_S, \
	  "time between two judgements of a domain", "ours", SY_S) \
	X(MICRO_SLICE_PACKETS, "packets", "count", 0, 1000000, \
	  "a domain that receives more of them in an interval is latency-sensitive", "ours", 30)
/* clang-format on */

enum micro_slice_parameter { MICRO_SLICE_PARAMETERS(SY_PARAMETER_INDEX) MICRO_SLICE_PARAMETER_COUNT };
_Static_assert((int)MICRO_SLICE_PARAMETER_COUNT <= SY_GOVERNOR_PARAMETER_WORDS, "parameters fit");

struct micro_slice_domain {
	u64 sensitive; /* 1 if it is */
	u64 changed; /* 1: by the last sample */
};

struct micro_slice_vcpu {
	u64 due_ns; /* when it comes first; 0: never */
	u64 left_ns; /* of its micro slice */
	u16 counted; /* 1: it is latency-sensitive, and its queue counts it */
	u16 waiting; /* 1: in its queue, or kept off it */
	u32 early; /* calls of its timer before its time: none */
};

struct micro_slice_queue {
	u64 sensitive; /* how many that belong to it are */
};

SY_GOVERNOR_FITS(SY_MICRO_SLICE_DOMAIN_AT, struct micro_slice_domain);
SY_GOVERNOR_FITS(SY_MICRO_SLICE_VCPU_AT, struct micro_slice_vcpu);
SY_GOVERNOR_FITS(SY_MICRO_SLICE_QUEUE_AT, struct micro_slice_queue);

static inline struct micro_slice_domain *micro_slice_domain(struct sy_domain *d)
{
	return (struct micro_slice_domain *)(d->governor + SY_MICRO_SLICE_DOMAIN_AT);
}

static inline struct micro_slice_vcpu *micro_slice_vcpu(struct sy_vcpu *v)
{
	return (struct micro_slice_vcpu *)(v->governor + SY_MICRO_SLICE_VCPU_AT);
}

static inline const struct micro_slice_vcpu *micro_slice_vcpu_const(const struct sy_vcpu *v)
{
	return (const struct micro_slice_vcpu *)(v->governor + SY_MICRO_SLICE_VCPU_AT);
}

static inline struct micro_slice_queue *micro_slice_queue(struct sy_queue *q)
{
	return (struct micro_slice_queue *)(q->governor + SY_MICRO_SLICE_QUEUE_AT);
}

static inline u64 micro_slice_parameter(const struct sy_policy *p, enum micro_slice_parameter name)
{
	return sy_max(p->governor_parameter[SY_MICRO_SLICE][name], 1);
}

/* ---- Samples ---- */

SY_FN u64 micro_slice_sample_ns(const struct sy_policy *p)
{
	return micro_slice_parameter(p, MICRO_SLICE_INTERVAL_NS);
}

/* Other governors may want samples more often; packets per interval are still the same rate. */
SY_FN void micro_slice_sample_domain(const struct sy_policy *p, struct sy_governor *g, struct sy_domain *d,
				     const struct sy_sample *sample)
{
	struct micro_slice_domain *md = micro_slice_domain(d);
	u64 packets = sy_min(sample->packets, 1ULL << 20) * 1024;
	u64 part = sy_clamp(sample->interval_ns / (micro_slice_sample_ns(p) / 1024 + 1), 1, 1024);
	bool sensitive = packets / part > micro_slice_parameter(p, MICRO_SLICE_PACKETS);

	md->changed = sensitive != md->sensitive;
	SY_STORE(md->sensitive, sensitive);
}

SY_FN u32 micro_slice_sample_settle(const struct sy_policy *p, struct sy_governor *g, struct sy_domain *d)
{
	return micro_slice_domain(d)->changed ? SY_RESCHEDULE : 0;
}

/* ---- What vCPUs do ---- */

static inline void micro_slice_count(struct sy_queue *q, struct sy_vcpu *v, bool counts)
{
	struct micro_slice_vcpu *mv = micro_slice_vcpu(v);

	micro_slice_queue(q)->sensitive += (u64)counts - mv->counted;
	mv->counted = counts;
}

static inline u32 micro_slice_set(struct sy_vcpu *v, u64 due_ns)
{
	struct micro_slice_vcpu *mv = micro_slice_vcpu(v);
	bool same = mv->due_ns == due_ns;

	mv->due_ns = due_ns;
	return same ? 0 : SY_TIMER;
}

SY_FN u32 micro_slice_join(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			   struct sy_vcpu *v, u64 now)
{
	micro_slice_count(q, v, SY_LOAD(micro_slice_domain(d)->sensitive));
	return 0;
}

/* It may not wait in the next one. */
SY_FN u32 micro_slice_leave(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			    struct sy_vcpu *v, u64 now)
{
	micro_slice_count(q, v, false);
	return micro_slice_set(v, 0);
}

SY_FN u32 micro_slice_wake(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			   struct sy_vcpu *v, u64 now)
{
	micro_slice_count(q, v, SY_LOAD(micro_slice_domain(d)->sensitive));
	return 0;
}

SY_FN u32 micro_slice_block(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			    struct sy_vcpu *v, u64 now)
{
	micro_slice_vcpu(v)->waiting = 0;
	return micro_slice_set(v, 0);
}

SY_FN void micro_slice_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			   struct sy_vcpu *v, u64 now)
{
	micro_slice_vcpu(v)->waiting = 1;
}

SY_FN u32 micro_slice_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c,
			    struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	struct micro_slice_vcpu *mv = micro_slice_vcpu(v);
	u64 turns = sy_clamp(micro_slice_queue(q)->sensitive, 1, 1ULL << 20);

	mv->waiting = 0;
	mv->left_ns = micro_slice_parameter(p, MICRO_SLICE_SLICE_NS);
	micro_slice_count(q, v, SY_LOAD(micro_slice_domain(d)->sensitive));
	return micro_slice_set(v, mv->counted ? now + turns * micro_slice_parameter(p, MICRO_SLICE_PERIOD_NS) : 0);
}

/* After a micro slice the next begins, if nobody else is chosen. */
SY_FN u32 micro_slice_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			     struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	struct micro_slice_vcpu *mv = micro_slice_vcpu(v);

	mv->left_ns = ran_ns < mv->left_ns ? mv->left_ns - ran_ns :
					     micro_slice_parameter(p, MICRO_SLICE_SLICE_NS);
	return 0;
}

SY_FN u64 micro_slice_slice_ns(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c,
			       const struct sy_domain *d, const struct sy_vcpu *v, u64 now)
{
	const struct micro_slice_vcpu *mv = micro_slice_vcpu_const(v);

	return mv->counted ? sy_max(mv->left_ns, 1) : SY_FOREVER;
}

/* ---- Its timer ---- */

SY_FN u64 micro_slice_timer_ns(const struct sy_vcpu *v)
{
	return micro_slice_vcpu_const(v)->due_ns;
}

SY_FN u32 micro_slice_vcpu_timer(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
				 struct sy_vcpu *v, u64 now)
{
	micro_slice_vcpu(v)->early += micro_slice_timer_ns(v) > now;
	v->first |= micro_slice_vcpu(v)->waiting;
	return micro_slice_set(v, 0) | (v->first ? SY_REKEY : 0);
}

#define micro_slice_has_sample_ns 1
#define micro_slice_has_packets 1
#define micro_slice_has_sample_domain 1
#define micro_slice_has_sample_settle 1
#define micro_slice_has_join 1
#define micro_slice_has_leave 1
#define micro_slice_has_wake 1
#define micro_slice_has_block 1
#define micro_slice_has_key 1
#define micro_slice_has_start 1
#define micro_slice_has_charge 1
#define micro_slice_has_slice_ns 1
#define micro_slice_has_timer_ns 1
#define micro_slice_has_first 1

#ifdef SY_DESCRIBE
static const struct sy_parameter micro_slice_parameters[] = { MICRO_SLICE_PARAMETERS(
	SY_PARAMETER_DESCRIPTION) };

static const struct sy_description micro_slice_description = {
	.name = "micro-slice",
	.help = "who answers packets runs in short slices, and more often",
	.parameters = MICRO_SLICE_PARAMETER_COUNT,
	.parameter = micro_slice_parameters,
	.disciplines = 1 << SY_SEDF | 1 << SY_CREDIT | 1 << SY_CREDIT2 | 1 << SY_FAIR,
};
#endif

#endif
