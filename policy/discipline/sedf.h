/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Xen's SEDF: simple earliest deadline first.
 *
 * Mechanism: each vCPU may run for slice_ns in every period_ns; among those with slice left the
 * one whose period ends first runs. Spare time goes, in quanta: first one each to those that blocked
 * and so lost what was left of their slice (a claim), the one that lost the most of its period
 * ahead, whether or not they have extra_time; then to vCPUs with extra_time in proportion to their
 * utilisation or weight. A vCPU stays on its pCPU. With extra_time 1 a domain is work-conserving
 * (WC), with 0 not (NWC).
 *
 * Source: Xen 4.2, xen/common/sched_sedf.c (in Xen 2.0 to 4.5). 4.5 schedules alike: it only deals
 * a domain's vCPUs out over more pCPUs.
 *
 * State: per vCPU its reservation, deadline, what it used in this period, its place in spare
 * time and its claim to be made good; per queue what its vCPUs reserve by slice and by weight,
 * and the virtual time of spare time. v->timer_ns is the start of the next period while the vCPU
 * is runnable.
 *
 * Signals: timers. Knobs: d->weight, read when a period starts.
 *
 * Reservation of a vCPU, from the first that applies:
 *  - slice asked, for it alone or for its domain: that, per period_ns or else weight_period_ns;
 *  - weight: its part, among the vCPUs of its queue, of weight_period_ns less weight_safety_ns
 *    and less what the others reserve by slice; scaled to period_ns if that was asked.
 * A cap limits what slice and spare time give together: in each period no more than the cap's part of
 * it, divided by the domain's vCPUs.
 *
 * Readings
 *  - Xen's SEDF knows no cap: who asked for less than a pCPU got a slice and no extra_time. Here a
 *    cap is a limit, as elsewhere: it reserves nothing, so that it takes nothing from others.
 *  - Xen serves a weight with extra_time and without period from spare time alone; here it also
 *    has its reservation, so that weights order latency too, and spare time follows the weight.
 *  - Who blocks in spare time pays for the rest of its quantum, as in Xen, and a claim, a turn of at most a
 *    quantum (since Xen 3.0.3), is gone. Who is interrupted pays for what it used and keeps the rest of its
 *    claim; in Xen that ends the turn as well. The claim of a capped vCPU is no longer than what it lost.
 *  - Xen leaves the pCPU idle when a period starts within less than a quantum; here spare time
 *    is used until then.
 *  - short_block: Xen takes what was left of the slice away and the vCPU waits for its next
 *    period (lost); the alternative lets it go on (kept), which can make others miss deadlines.
 *  - The first period starts with the first wake. Slices by weight follow who joins or leaves
 *    from each vCPU's next period on.
 *  - Latency hints and the periods that shrink with them are left out: nothing sets them.
 *  - An overloaded vCPU that misses its deadline starts a new period; Xen looks for that only at
 *    the head of the queue.
 */
#ifndef STEELYARD_SEDF_H
#define STEELYARD_SEDF_H

#include "../vocabulary.h"

#define SEDF_SOURCE "xen/common/sched_sedf.c "

#define SEDF_PARAMETERS(X) \
	X(SEDF_PERIOD_MIN_NS, "period_min_ns", "ns", SY_US, SY_S, \
	  "shortest period", SEDF_SOURCE "PERIOD_MIN", 10 * SY_US) \
	X(SEDF_PERIOD_MAX_NS, "period_max_ns", "ns", SY_MS, 100 * SY_S, \
	  "longest period", SEDF_SOURCE "PERIOD_MAX", 10 * SY_S) \
	X(SEDF_SLICE_MIN_NS, "slice_min_ns", "ns", SY_US, SY_S, \
	  "shortest slice", SEDF_SOURCE "SLICE_MIN", 5 * SY_US) \
	X(SEDF_WEIGHT_PERIOD_NS, "weight_period_ns", "ns", SY_MS, SY_S, \
	  "period where none was asked", SEDF_SOURCE "WEIGHT_PERIOD", 100 * SY_MS) \
	X(SEDF_WEIGHT_SAFETY_NS, "weight_safety_ns", "ns", 0, SY_S, \
	  "part of weight_period_ns that is not handed out by weight", \
	  SEDF_SOURCE "WEIGHT_SAFETY", 5 * SY_MS) \
	X(SEDF_EXTRA_QUANTUM_NS, "extra_quantum_ns", "ns", SY_US, SY_S, \
	  "longest run in spare time", SEDF_SOURCE "EXTRA_QUANTUM", 500 * SY_US) \
	X(SEDF_SHORT_BLOCK, "short_block", "lost|kept", 0, 1, \
	  "what becomes of a slice when its vCPU blocks and wakes within the period", \
	  SEDF_SOURCE "unblock_short_extra_support()", SEDF_SHORT_BLOCK_LOST)

enum {
	SEDF_SHORT_BLOCK_LOST,
	SEDF_SHORT_BLOCK_KEPT,
};

enum sedf_parameter { SEDF_PARAMETERS(SY_PARAMETER_INDEX) SEDF_PARAMETER_COUNT };
_Static_assert((int)SEDF_PARAMETER_COUNT <= SY_PARAMETER_WORDS, "parameters fit");

/*
 * Keys: a class in the top two bits, below it the deadline, the score of the claim, or the place in
 * spare time.
 */
#define SEDF_CLASS_SHIFT 62
#define SEDF_RESERVED 0ULL
#define SEDF_CLAIM 1ULL
#define SEDF_SPARE 2ULL
#define SEDF_LOW_MAX ((1ULL << SEDF_CLASS_SHIFT) - 1)

/* Fixed point of scores: at full utilisation spare time of one quantum costs this much. */
#define SEDF_SCORE_ONE 1024ULL
/* The weight that counts as full utilisation in spare time; Xen: extraweight. */
#define SEDF_WEIGHT_ONE 128ULL

struct sedf_vcpu {
	u64 period_ns;
	u64 slice_ns;
	u64 deadline_ns; /* end of this or, the slice being used, the next period; 0: never woke */
	u64 used_ns; /* of the slice, in the period that ends at the deadline */
	u64 spare_place; /* virtual time; lower first */
	u64 spare_score; /* what a quantum of spare time costs */
	u64 turn_ns; /* of the quantum of spare time under way */
	u64 spare_ns; /* spare time that a period allows; 0: none, SY_FOREVER: all there is */
	u64 spare_left_ns; /* of that, in the period under way */
	u64 claim_score; /* lower first */
	u64 claim_ns; /* what is left of the claim */
	u64 counted_slice_ns; /* in the queue's reserved_ns */
	u64 counted_weight; /* in the queue's weight */
	u8 reserved; /* in a period that has started, with slice left */
	u8 running;
	u8 parked;
};

struct sedf_queue {
	u64 weight; /* of its vCPUs with a reservation by weight */
	u64 reserved_ns; /* by the others, per weight_period_ns */
	u64 spare_time; /* place of who used spare time last */
};

_Static_assert(sizeof(struct sedf_vcpu) <= SY_VCPU_WORDS * sizeof(u64), "state fits");
_Static_assert(sizeof(struct sedf_queue) <= SY_QUEUE_WORDS * sizeof(u64), "state fits");

static inline struct sedf_vcpu *sedf_vcpu(struct sy_vcpu *v)
{
	return (struct sedf_vcpu *)v->state;
}

static inline const struct sedf_vcpu *sedf_vcpu_const(const struct sy_vcpu *v)
{
	return (const struct sedf_vcpu *)v->state;
}

static inline struct sedf_queue *sedf_queue(struct sy_queue *q)
{
	return (struct sedf_queue *)q->state;
}

static inline u64 sedf_quantum_ns(const struct sy_policy *p)
{
	return SY_PARAMETER(p, SEDF_EXTRA_QUANTUM_NS);
}

/* When the period starts that ends at the deadline. */
static inline u64 sedf_period_start_ns(const struct sedf_vcpu *sv)
{
	return sv->deadline_ns - sy_min(sv->period_ns, sv->deadline_ns);
}

static inline u64 sedf_later_ns(u64 time_ns, u64 by_ns)
{
	return sy_min(time_ns, SEDF_LOW_MAX) +
	       sy_min(by_ns, SEDF_LOW_MAX - sy_min(time_ns, SEDF_LOW_MAX));
}

static inline void sedf_uncount(struct sedf_queue *sq, struct sedf_vcpu *sv)
{
	sq->weight -= sv->counted_weight;
	sq->reserved_ns -= sv->counted_slice_ns;
	sv->counted_weight = 0;
	sv->counted_slice_ns = 0;
}

/* Each vCPU's part of the cap in a period; SY_FOREVER: no cap. */
static inline u64 sedf_cap_ns(const struct sy_domain *d, u64 period_ns)
{
	u64 cap_percent = sy_min(SY_LOAD(d->settings.cap_percent), 100ULL * SY_WEIGHT_MAX);

	if (!cap_percent)
		return SY_FOREVER;
	return sy_max(period_ns * cap_percent / (100 * sy_clamp(SY_LOAD(d->vcpus), 1, SY_WEIGHT_MAX)), 1);
}

/* What is asked: for this vCPU, else for its domain. */
static inline struct sy_reservation sedf_asked(const struct sy_domain *d, const struct sy_vcpu *v)
{
	struct sy_reservation asked = v->asked;

	if (!asked.slice_ns) {
		asked.period_ns = SY_LOAD(d->settings.period_ns);
		asked.slice_ns = SY_LOAD(d->settings.reserved_ns);
		asked.extra_time = SY_LOAD(d->settings.extra_time);
	}
	return asked;
}

/* Works the reservation out anew from what was asked and from who else reserves on this queue. */
static inline void sedf_reserve(const struct sy_policy *p, struct sedf_queue *sq,
				const struct sy_domain *d, struct sy_vcpu *v)
{
	const struct sy_reservation asked = sedf_asked(d, v);
	struct sedf_vcpu *sv = sedf_vcpu(v);
	u64 weight_period_ns = SY_PARAMETER(p, SEDF_WEIGHT_PERIOD_NS);
	u64 period_max_ns = SY_PARAMETER(p, SEDF_PERIOD_MAX_NS);
	u64 period_min_ns = sy_min(SY_PARAMETER(p, SEDF_PERIOD_MIN_NS), period_max_ns);
	u64 weight = sy_clamp(SY_LOAD(d->weight), SY_WEIGHT_MIN, SY_WEIGHT_MAX);
	u64 period_ns = asked.period_ns ? asked.period_ns : weight_period_ns;
	u64 slice_ns = asked.slice_ns, cap_ns;

	period_ns = sy_clamp(period_ns, period_min_ns, period_max_ns);
	cap_ns = sedf_cap_ns(d, period_ns);
	sedf_uncount(sq, sv);
	if (slice_ns) {
		slice_ns = sy_min(slice_ns, cap_ns);
		sv->counted_slice_ns = weight_period_ns * sy_min(slice_ns, period_ns) / period_ns;
		sq->reserved_ns += sv->counted_slice_ns;
	} else {
		u64 taken_ns = sq->reserved_ns + SY_PARAMETER(p, SEDF_WEIGHT_SAFETY_NS);
		u64 left_ns = weight_period_ns - sy_min(taken_ns, weight_period_ns);

		sv->counted_weight = weight;
		sq->weight += weight;
		slice_ns = sy_divide(left_ns * weight, sq->weight);
		/* Scaled to the period in two parts, so that no product exceeds 64 bits. */
		slice_ns = slice_ns * (period_ns / weight_period_ns) +
			   slice_ns * (period_ns % weight_period_ns) / weight_period_ns;
		slice_ns = sy_min(slice_ns, cap_ns);
	}
	sv->period_ns = period_ns;
	sv->slice_ns = sy_clamp(slice_ns, sy_min(SY_PARAMETER(p, SEDF_SLICE_MIN_NS), period_ns),
				period_ns);
	sv->spare_ns = 0;
	if (asked.extra_time)
		sv->spare_ns = cap_ns < SY_FOREVER ? cap_ns - sy_min(sv->slice_ns, cap_ns) : SY_FOREVER;
	sv->spare_left_ns = sy_min(sv->spare_left_ns, sv->spare_ns);
	sv->spare_score = sv->counted_weight ? SEDF_SCORE_ONE * SEDF_WEIGHT_ONE / weight :
					       SEDF_SCORE_ONE * sv->period_ns / sv->slice_ns;
}

SY_FN void sedf_vcpu_init(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v,
			  u64 now)
{
}

SY_FN u32 sedf_join(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		    struct sy_vcpu *v, u64 now)
{
	struct sedf_vcpu *sv = sedf_vcpu(v);

	sedf_reserve(p, sedf_queue(q), d, v);
	sv->spare_place = sedf_queue(q)->spare_time;
	return 0;
}

SY_FN u32 sedf_leave(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		     struct sy_vcpu *v, u64 now)
{
	sedf_uncount(sedf_queue(q), sedf_vcpu(v));
	return 0;
}

/*
 * A period runs until its deadline or is yet to start: arms the timer for what comes next and parks
 * or unparks. The vCPU is runnable.
 */
static inline u32 sedf_settle(struct sy_vcpu *v, u64 now)
{
	struct sedf_vcpu *sv = sedf_vcpu(v);
	u64 start_ns = sedf_period_start_ns(sv);
	u8 parked;

	sv->reserved = start_ns <= now;
	v->timer_ns = sv->reserved ? sv->deadline_ns : start_ns;
	parked = !sv->reserved && !sv->claim_ns && !sv->spare_left_ns;
	if (parked == sv->parked)
		return SY_TIMER;
	sv->parked = parked;
	return SY_TIMER | (parked ? SY_PARK : SY_UNPARK);
}

/* The next period is this one, with a fresh slice; spare time is that of the period under way. */
static inline void sedf_plan_period(const struct sy_policy *p, struct sy_queue *q,
				    struct sy_domain *d, struct sy_vcpu *v, u64 start_ns)
{
	struct sedf_vcpu *sv = sedf_vcpu(v);

	sedf_reserve(p, sedf_queue(q), d, v);
	sv->deadline_ns = sedf_later_ns(start_ns, sv->period_ns);
	sv->used_ns = 0;
}

/* The same, and it is under way. */
static inline void sedf_start_period(const struct sy_policy *p, struct sy_queue *q,
				     struct sy_domain *d, struct sy_vcpu *v, u64 start_ns)
{
	struct sedf_vcpu *sv = sedf_vcpu(v);

	sedf_plan_period(p, q, d, v, start_ns);
	sv->spare_left_ns = sv->spare_ns;
}

SY_FN u32 sedf_wake(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		    struct sy_vcpu *v, u64 now)
{
	struct sedf_vcpu *sv = sedf_vcpu(v);

	sv->spare_place = sy_max(sv->spare_place, sedf_queue(q)->spare_time);
	if (now >= sv->deadline_ns) {
		/* A long block. */
		sv->claim_ns = 0;
		sedf_start_period(p, q, d, v, now);
	} else if (now >= sedf_period_start_ns(sv) &&
		   SY_CHOICE(p, SEDF_SHORT_BLOCK) != SEDF_SHORT_BLOCK_KEPT) {
		u64 lost_ns = sv->slice_ns - sy_min(sv->used_ns, sv->slice_ns);

		if (lost_ns) {
			sv->claim_ns = sedf_quantum_ns(p);
			if (sedf_cap_ns(d, sv->period_ns) < SY_FOREVER)
				sv->claim_ns = sy_min(sv->claim_ns, lost_ns);
			sv->claim_score = SEDF_SCORE_ONE * sv->period_ns / lost_ns;
		}
		sedf_plan_period(p, q, d, v, sv->deadline_ns);
	}
	return sedf_settle(v, now);
}

/* It does not leave its pCPU. */
SY_FN u32 sedf_steps(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return SY_STEPS(SY_STEP_LAST_IDLE, SY_STEP_LAST_LEAD, 0, 0);
}

/* For so much spare time. */
static inline void sedf_pay(const struct sy_policy *p, struct sedf_vcpu *sv, u64 ran_ns)
{
	sv->spare_place += sv->spare_score * sy_min(ran_ns, SY_S) / sedf_quantum_ns(p);
	sv->spare_place = sy_min(sv->spare_place, SEDF_LOW_MAX);
}

SY_FN u32 sedf_block(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		     struct sy_vcpu *v, u64 now)
{
	struct sedf_vcpu *sv = sedf_vcpu(v);

	if (sv->running && !sv->reserved) {
		if (!sv->claim_ns && sv->turn_ns)
			sedf_pay(p, sv, sedf_quantum_ns(p) - sy_min(sv->turn_ns, sedf_quantum_ns(p)));
		sv->claim_ns = 0;
	}
	sv->running = 0;
	v->timer_ns = 0;
	return SY_TIMER;
}

/* Deadlines do not wait: the earliest goes on. */
SY_FN u32 sedf_yield(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		     struct sy_vcpu *v, u64 now)
{
	return 0;
}

SY_FN u32 sedf_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		      struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	struct sedf_vcpu *sv = sedf_vcpu(v);
	u64 periods;

	if (!sv->reserved) {
		struct sedf_queue *sq = sedf_queue(q);

		if (sv->claim_ns) {
			sv->claim_ns -= sy_min(sv->claim_ns, ran_ns);
		} else {
			if (sv->spare_ns < SY_FOREVER)
				sv->spare_left_ns -= sy_min(sv->spare_left_ns, ran_ns);
			sq->spare_time = sy_max(sq->spare_time, sv->spare_place);
			sv->turn_ns = (sv->turn_ns + sy_min(ran_ns, SY_S)) % sedf_quantum_ns(p);
			sedf_pay(p, sv, ran_ns);
		}
		return sv->claim_ns || sv->spare_left_ns ? 0 : sedf_settle(v, now);
	}
	sv->used_ns += sy_min(ran_ns, SEDF_LOW_MAX);
	if (sv->used_ns < sv->slice_ns)
		return 0;

	/* What ran beyond the slice counts in the periods to come. */
	periods = sv->used_ns / sv->slice_ns;
	ran_ns = sv->used_ns % sv->slice_ns;
	sedf_plan_period(
		p, q, d, v,
		sedf_later_ns(sv->deadline_ns, sy_min(periods - 1, 1ULL << 20) * sv->period_ns));
	sv->used_ns = sy_min(ran_ns, sv->slice_ns - 1);
	return sedf_settle(v, now);
}

/* A period starts, or ends with slice left because others had earlier deadlines. */
SY_FN u32 sedf_vcpu_timer(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			  struct sy_vcpu *v, u64 now)
{
	struct sedf_vcpu *sv = sedf_vcpu(v);

	if (!v->runnable || now < v->timer_ns)
		return 0;
	if (sv->reserved) {
		u64 late_ns = now - sy_min(sv->deadline_ns, now);

		sedf_start_period(p, q, d, v, now - late_ns % sv->period_ns);
	} else {
		u64 used_ns = sv->used_ns;

		sedf_start_period(p, q, d, v, sedf_period_start_ns(sv));
		sv->used_ns = sy_min(used_ns, sv->slice_ns - 1);
	}
	return sedf_settle(v, now) | (sv->running ? SY_RESCHEDULE : SY_REKEY);
}

/* What was asked counts from the next period on; what the weight gives is as it was last worked out. */
static inline struct sy_reservation sedf_reserved(const struct sy_domain *d, const struct sy_vcpu *v)
{
	const struct sedf_vcpu *sv = sedf_vcpu_const(v);
	struct sy_reservation reserved = sedf_asked(d, v);

	if (!reserved.period_ns)
		reserved.period_ns = sv->period_ns;
	if (!reserved.slice_ns)
		reserved.slice_ns = sv->slice_ns;
	reserved.slice_ns = sy_min(reserved.slice_ns, reserved.period_ns);
	return reserved;
}

SY_FN s64 sedf_credit(const struct sy_vcpu *v)
{
	const struct sedf_vcpu *sv = sedf_vcpu_const(v);

	return sv->reserved ? (s64)(sv->slice_ns - sy_min(sv->used_ns, sv->slice_ns)) : 0;
}

/* Who is blocked is in none: its next wake decides. */
SY_FN enum sy_class sedf_class(const struct sy_vcpu *v)
{
	const struct sedf_vcpu *sv = sedf_vcpu_const(v);

	if (!v->runnable)
		return SY_CLASS_NONE;
	if (sv->parked)
		return SY_CLASS_PARKED;
	if (sv->reserved)
		return SY_CLASS_RESERVED;
	return sv->claim_ns ? SY_CLASS_CLAIM : SY_CLASS_EXTRA;
}

/* ---- Who is next, for how long ---- */

static inline u64 sedf_order(const struct sedf_vcpu *sv)
{
	if (sv->reserved)
		return SEDF_RESERVED << SEDF_CLASS_SHIFT | sy_min(sv->deadline_ns, SEDF_LOW_MAX);
	if (sv->claim_ns)
		return SEDF_CLAIM << SEDF_CLASS_SHIFT | sy_min(sv->claim_score, SEDF_LOW_MAX);
	return SEDF_SPARE << SEDF_CLASS_SHIFT | sv->spare_place;
}

static inline bool sedf_in_spare_time(u64 order)
{
	return order >> SEDF_CLASS_SHIFT == SEDF_SPARE;
}

SY_FN u64 sedf_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		   struct sy_vcpu *v, u64 now)
{
	sedf_vcpu(v)->running = 0;
	return sedf_order(sedf_vcpu(v));
}

/* In spare time nobody interrupts a quantum for another's. Unit: none, only the sign counts. */
SY_FN s64 sedf_lead(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c,
		    const struct sy_vcpu *v, const struct sy_vcpu *running, u64 now)
{
	u64 waits = sedf_order(sedf_vcpu_const(v));
	u64 runs = sedf_order(sedf_vcpu_const(running));

	if (waits == runs || (sedf_in_spare_time(waits) && sedf_in_spare_time(runs)))
		return 0;
	return waits < runs ? 1 : -1;
}

/* Who ran goes on among equal deadlines, and behind its equals in spare time. */
SY_FN enum sy_verdict sedf_consider(const struct sy_policy *p, const struct sy_queue *q,
				    const struct sy_pcpu *c, const struct sy_vcpu *best,
				    const struct sy_vcpu *candidate, u64 now)
{
	u64 waits, ran;

	if (!best)
		return SY_TAKE;
	waits = sedf_order(sedf_vcpu_const(candidate));
	ran = sedf_order(sedf_vcpu_const(best));
	if (waits == ran)
		return sedf_in_spare_time(ran) ? SY_TAKE : SY_STOP;
	return waits < ran ? SY_TAKE : SY_STOP;
}

SY_FN void sedf_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c,
		      struct sy_vcpu *v, u64 now)
{
	struct sedf_vcpu *sv = sedf_vcpu(v);

	sv->running = 1;
	sv->turn_ns = 0;
}

SY_FN u64 sedf_slice(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c,
		     const struct sy_domain *d, const struct sy_vcpu *v, const struct sy_vcpu *next,
		     u64 now)
{
	const struct sedf_vcpu *sv = sedf_vcpu_const(v);

	if (sv->reserved)
		return sv->slice_ns - sy_min(sv->used_ns, sv->slice_ns - 1);
	if (sv->claim_ns)
		return sv->claim_ns;
	return sy_clamp(sedf_quantum_ns(p), 1, sy_max(sv->spare_left_ns, 1));
}

#ifdef SY_DESCRIBE
static const struct sy_parameter sedf_parameters[] = { SEDF_PARAMETERS(SY_PARAMETER_DESCRIPTION) };

static const struct sy_description sedf_description = {
	.name = "sedf",
	.help = "Xen's SEDF: earliest deadline first over reservations, spare time by quanta",
	.vintage = { "xen-4.2" },
	.parameters = SEDF_PARAMETER_COUNT,
	.parameter = sedf_parameters,
	.known = { "a vCPU stays on its pCPU and waits there while others are idle" },
};
#endif

#endif
