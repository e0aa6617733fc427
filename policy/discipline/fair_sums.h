/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What discipline fair keeps of vCPUs, domains and queues, and its arithmetic: virtual time, the sums of a queue, weights,
 * slices, lag and deadlines, and how a vCPU comes into the sums and leaves them. Part of fair.h, which says what it means
 * and has the parameters.
 */
#ifndef STEELYARD_FAIR_SUMS_H
#define STEELYARD_FAIR_SUMS_H

/* Parts of one in an average. */
#define FAIR_ONE (1ULL << 20)
/* Weights are x 1024, for precision. At the unit, virtual time passes as real time. */
#define FAIR_WEIGHT_SCALE 1024ULL
#define FAIR_WEIGHT_UNIT (SY_WEIGHT_DEFAULT * FAIR_WEIGHT_SCALE)
/* Longest run, 4.8 hours, that is charged at once: x FAIR_WEIGHT_UNIT it fits a signed 64 bits. */
#define FAIR_RUN_MAX_NS (1ULL << 44)
#define FAIR_VRUNTIME_START (1ULL << 62)
/* Farthest deadline of who yields, from its virtual runtime: x a weight it fits 63 bits. */
#define FAIR_DEADLINE_MAX (1ULL << 36)
/* hrtick_start(): a timer is set for no less. */
#define FAIR_TIMER_LEAST_NS (10 * SY_US)
#define FAIR_NOBODY (~0ULL)
#define FAIR_LOAD_WAITING (1ULL << 62)

/* A decaying average, in parts of FAIR_ONE. */
struct fair_average {
	u64 value;
	u64 updated_ns;
};

enum fair_place {
	FAIR_ASLEEP,
	FAIR_PARKED, /* runnable, but in no queue's sums */
	FAIR_MOVING, /* between two queues */
	FAIR_WAITING, /* from here on in the sums of its queue */
	FAIR_RUNNING
};

struct fair_vcpu {
	u64 vruntime; /* in no queue: relative to the virtual time of the one that it left */
	u64 deadline; /* order deadline: virtual runtime at which its slice is consumed; between two queues: relative to vruntime */
	u64 due_ns; /* order deadline, of who saves: its deadline in time */
	s64 lag; /* order deadline: virtual time less vruntime when it left the sums */
	u64 weight; /* of its part of the domain, at least 1 */
	u64 slice_ns; /* order deadline: asked for */
	u64 uncharged; /* run time x FAIR_WEIGHT_UNIT short of 1 ns of virtual time: below weight */
	u64 ran_ns; /* since it was chosen */
	u64 last_ran_ns;
	u32 place; /* enum fair_place */
	u32 passed_over; /* 1: it spun and was not yielded to the last time; see sy_pass_over() */
	u8 protected; /* 1: run to parity: chosen, slice not consumed */
	u8 skipped; /* 1: it yields to a sibling: the next choice is for another, if that is fair */
	u8 saves; /* order deadline: 1: it has savings, and is no part of the queue's virtual time */
	u8 spins; /* 1: it has not run since its last pause-loop exit */
	struct fair_average runnable;
	struct budget_grant grant;
};

struct fair_domain {
	u64 runnable_vcpus;
	struct fair_average runnable;
	u64 yielded_to; /* number of the vCPU that was yielded to last */
	struct budget budget;
};

struct fair_queue {
	u64 vruntime; /* the queue's virtual time */
	u64 remainder;
	u64 weight; /* sum over who runs or waits, without those who save */
	u64 saving_weight; /* sum over those */
	u64 least_waiting; /* order vruntime: least that waits, or a bit less; or FAIR_NOBODY */
	u64 scale; /* of the times that grow with the number of pCPUs */
	u64 balance_interval_ns;
	u64 pushed_ns; /* last balance towards idle pCPUs */
	u64 balanced_ns; /* last balance between busy pCPUs */
	u64 timer_ns; /* hrtick: when the first slice after a switch ends */
};

struct fair_pcpu {
	u64 idle_since_ns; /* 0: not idle */
	u64 idle_missing_ns; /* average idle time, as what it lacks to the most that is counted */
};

_Static_assert(sizeof(struct fair_vcpu) <= sizeof(((struct sy_vcpu *)0)->state), "vcpu fits");
_Static_assert(sizeof(struct fair_domain) <= sizeof(((struct sy_domain *)0)->state), "domain fits");
_Static_assert(sizeof(struct fair_queue) <= sizeof(((struct sy_queue *)0)->state), "queue fits");
_Static_assert(sizeof(struct fair_pcpu) <= sizeof(((struct sy_pcpu *)0)->state), "pcpu fits");

static inline struct fair_vcpu *fair_vcpu(struct sy_vcpu *v)
{
	return (struct fair_vcpu *)v->state;
}

static inline const struct fair_vcpu *fair_vcpu_const(const struct sy_vcpu *v)
{
	return (const struct fair_vcpu *)v->state;
}

static inline struct fair_domain *fair_domain(struct sy_domain *d)
{
	return (struct fair_domain *)d->state;
}

static inline struct fair_queue *fair_queue(struct sy_queue *q)
{
	return (struct fair_queue *)q->state;
}

static inline const struct fair_queue *fair_queue_const(const struct sy_queue *q)
{
	return (const struct fair_queue *)q->state;
}

static inline bool fair_by_deadline(const struct sy_policy *p)
{
	return SY_CHOICE(p, FAIR_ORDER) == FAIR_BY_DEADLINE;
}

/* ---- Arithmetic ---- */

/* Virtual time in which a vCPU of this weight runs for ns. */
static inline u64 fair_virtual(u64 ns, u64 weight)
{
	return sy_min(ns, FAIR_RUN_MAX_NS) * FAIR_WEIGHT_UNIT / sy_max(weight, 1);
}

/* value x multiplier / divisor, towards 0 */
static inline s64 fair_scaled(s64 value, u64 multiplier, u64 divisor)
{
	if (value < 0)
		return (s64)(0 - sy_divide((0 - (u64)value) * multiplier, divisor));
	return (s64)sy_divide((u64)value * multiplier, divisor);
}

static inline s64 fair_difference(u64 a, u64 b)
{
	return (s64)(a - b);
}

/* A time that grows with the number of pCPUs. */
static inline u64 fair_grown(const struct sy_policy *p, const struct fair_queue *f, u64 parameter)
{
	return sy_min(SY_PARAMETER(p, parameter), FAIR_RUN_MAX_NS) * f->scale;
}

/*
 * Moves the average on to now, given the value that it tended to. Part kept after x half-lives, x
 * in 0..1: 2^-x within 0.6 %, by the parabola with the right ends and slope at 0.
 */
static inline void fair_average(struct fair_average *a, u64 runnable, u64 half_life_ns, u64 now)
{
	u64 target = sy_min(runnable, 1ULL << 16) * FAIR_ONE;
	u64 half_lives, x, keep;

	if (now <= a->updated_ns)
		return;
	half_lives = sy_min(now - a->updated_ns, 1ULL << 43) * FAIR_ONE /
		     sy_clamp(half_life_ns, 1, 1ULL << 43);
	x = half_lives % FAIR_ONE;
	keep = FAIR_ONE - x * (726817 - 202529 * x / FAIR_ONE) / FAIR_ONE;
	keep = half_lives / FAIR_ONE < 20 ? keep >> half_lives / FAIR_ONE : 0;
	if (a->value > target)
		a->value = target + (a->value - target) * keep / FAIR_ONE;
	else
		a->value = target - (target - a->value) * keep / FAIR_ONE;
	a->updated_ns = now;
}

/* ---- The queue's sums ---- */

/* Restores 0 <= remainder < weight; the virtual time becomes the average, rounded down. */
static inline void fair_settle(struct fair_queue *f)
{
	u64 steps;

	if (!f->weight) {
		f->remainder = 0;
	} else if ((s64)f->remainder < 0) {
		steps = (0 - f->remainder - 1) / f->weight + 1;
		f->vruntime -= steps;
		f->remainder += steps * f->weight;
	} else if (f->remainder >= f->weight) {
		steps = f->remainder / f->weight;
		f->vruntime += steps;
		f->remainder -= steps * f->weight;
	}
}

static inline void fair_add(const struct sy_policy *p, struct fair_queue *f, struct fair_vcpu *s)
{
	if (s->saves) {
		f->saving_weight += s->weight;
		return;
	}
	f->weight += s->weight;
	if (fair_by_deadline(p)) {
		f->remainder += s->weight * (s->vruntime - f->vruntime);
		fair_settle(f);
	}
}

static inline void fair_remove(const struct sy_policy *p, struct fair_queue *f, struct fair_vcpu *s)
{
	if (s->saves) {
		f->saving_weight -= s->weight;
		return;
	}
	f->weight -= s->weight;
	if (fair_by_deadline(p)) {
		f->remainder -= s->weight * (s->vruntime - f->vruntime);
		fair_settle(f);
	}
}

/* Order vruntime: the least of who runs (or FAIR_NOBODY) and who waits, never going back. */
static inline void fair_advance(struct fair_queue *f, const struct sy_queue *q, u64 running)
{
	u64 least;

	if (!q->queued)
		f->least_waiting = FAIR_NOBODY;
	least = sy_min(running, f->least_waiting);
	if (least != FAIR_NOBODY)
		f->vruntime = sy_max(f->vruntime, least);
}

/* ---- A vCPU's weight, slice and lag ---- */

/* Of a domain that is no group: each vCPU has it. */
static inline u64 fair_whole_weight(const struct sy_domain *d)
{
	return sy_clamp(SY_LOAD(d->weight), SY_WEIGHT_MIN, SY_WEIGHT_MAX) * FAIR_WEIGHT_SCALE;
}

static inline bool fair_grouped(const struct sy_domain *d)
{
	return SY_LOAD(d->vcpus) > 1 && !SY_LOAD(d->settings.ungrouped);
}

/* Moves the averages on and gives what part of the domain's weight is this vCPU's. */
static inline u64 fair_weight(const struct sy_policy *p, struct sy_domain *d, struct fair_vcpu *s,
			      u64 now)
{
	struct fair_domain *fd = fair_domain(d);
	u64 half_life_ns = SY_PARAMETER(p, FAIR_LOAD_HALF_LIFE_NS);
	u64 weight = fair_whole_weight(d);
	u64 others = 0;

	if (!fair_grouped(d))
		return weight;
	fair_average(&fd->runnable, fd->runnable_vcpus, half_life_ns, now);
	fair_average(&s->runnable, s->place != FAIR_ASLEEP, half_life_ns, now);
	if (fd->runnable.value > s->runnable.value)
		others = fd->runnable.value - s->runnable.value;
	others = sy_min(others, (sy_min(d->vcpus, 1ULL << 16) - 1) * FAIR_ONE);
	return sy_max(weight * FAIR_ONE / (FAIR_ONE + others), 1);
}

/* Order deadline: the slice that the domain asks for, or else the base slice. */
static inline u64 fair_asked_slice_ns(const struct sy_policy *p, const struct fair_queue *f,
				      const struct sy_domain *d)
{
	u64 asked_ns = SY_LOAD(d->slice_ns);

	if (!asked_ns)
		return fair_grown(p, f, FAIR_BASE_SLICE_NS);
	return sy_clamp(asked_ns, SY_PARAMETER(p, FAIR_ASKED_SLICE_MIN_NS),
			SY_PARAMETER(p, FAIR_ASKED_SLICE_MAX_NS));
}

/* Order deadline: most lag that a vCPU saves: siblings that run share what a domain may save. */
static inline s64 fair_saved(const struct sy_policy *p, const struct sy_domain *d)
{
	return (s64)fair_virtual(SY_PARAMETER(p, FAIR_SAVED_NS), fair_whole_weight(d));
}

/* Order deadline: whether it may run: it has savings, or has had no more than its part. */
static inline bool fair_eligible(const struct fair_queue *f, const struct fair_vcpu *s)
{
	return s->saves || s->vruntime <= f->vruntime;
}

/* Order deadline: its place among those who may run. A deadline in time is before all virtual times. */
static inline u64 fair_due(const struct fair_vcpu *s)
{
	return s->saves ? s->due_ns : s->deadline;
}

/* Order deadline: what a vCPU takes along when it leaves the sums: two slices or a tick at most, or what it may save. */
static inline s64 fair_lag(const struct sy_policy *p, const struct fair_queue *f,
			   const struct sy_domain *d, const struct fair_vcpu *s)
{
	s64 lag = fair_difference(f->vruntime, s->vruntime);
	u64 limit_ns = sy_max(2 * s->slice_ns, SY_PARAMETER(p, FAIR_TICK_NS));
	s64 limit = (s64)fair_virtual(limit_ns, s->weight);

	return sy_smin(sy_smax(lag, -limit), sy_smax(limit, fair_saved(p, d)));
}

/*
 * Order deadline: the virtual runtime at which a vCPU that is added has this lag. Adding it moves
 * the average towards it, by weight / (sum + weight); hence lag x (sum + weight) / sum before that.
 * An empty queue has no lag.
 */
static inline u64 fair_vruntime_with_lag(const struct fair_queue *f, const struct fair_vcpu *s,
					 s64 lag)
{
	if (!f->weight)
		return f->vruntime;
	return f->vruntime - (u64)lag - (u64)fair_scaled(lag, s->weight, f->weight);
}

static inline void fair_set_weight(struct fair_vcpu *s, u64 weight)
{
	s->weight = weight;
	s->uncharged = sy_min(s->uncharged, weight - 1);
}

/* A queued vCPU's weight follows the domain's. Order deadline keeps the lag in CPU time. */
static inline void fair_reweigh(const struct sy_policy *p, struct fair_queue *f,
				struct fair_vcpu *s, u64 weight)
{
	u64 vtime = f->vruntime;

	if (weight == s->weight)
		return;
	fair_remove(p, f, s);
	if (fair_by_deadline(p)) {
		s64 until_deadline = fair_difference(s->deadline, s->vruntime);

		s->vruntime = vtime - (u64)fair_scaled(fair_difference(vtime, s->vruntime),
						       s->weight, weight);
		s->deadline = s->vruntime + (u64)fair_scaled(until_deadline, s->weight, weight);
	}
	fair_set_weight(s, weight);
	fair_add(p, f, s);
}

static inline void fair_renew_deadline(const struct sy_policy *p, const struct fair_queue *f,
				       const struct sy_domain *d, struct fair_vcpu *s, u64 now)
{
	s->slice_ns = fair_asked_slice_ns(p, f, d);
	s->deadline = s->vruntime + fair_virtual(s->slice_ns, s->weight);
	s->due_ns = now + s->slice_ns;
	s->protected = 0;
}

/* ---- Into the queue's sums and out of them ---- */

/* It wakes, or is parked no more. */
static inline void fair_enter(const struct sy_policy *p, struct fair_queue *f, struct sy_domain *d,
			      struct fair_vcpu *s, u64 now)
{
	u64 credit_ns = fair_grown(p, f, FAIR_LATENCY_NS) / 100 *
			sy_min(SY_PARAMETER(p, FAIR_SLEEPER_CREDIT_PERCENT), 100);
	u64 weight_before = s->weight;
	s64 lag;

	fair_set_weight(s, fair_weight(p, d, s, now));
	if (!fair_by_deadline(p)) {
		s->vruntime = sy_max(s->vruntime, f->vruntime - credit_ns);
	} else if (SY_PARAMETER(p, FAIR_SAVED_NS) || (s->lag < 0 && SY_CHOICE(p, FAIR_DELAY_DEQUEUE))) {
		/* Bounded in time before it is scaled: it sleeps as long as it likes. */
		lag = sy_smin(fair_difference(f->vruntime, s->vruntime),
			      (s64)fair_virtual(SY_PARAMETER(p, FAIR_SAVED_NS), weight_before));
		lag = sy_smin(fair_scaled(lag, weight_before, s->weight), fair_saved(p, d));
		s->saves = lag > 0;
		s->vruntime = f->vruntime - (u64)lag;
	} else {
		lag = fair_scaled(s->lag, weight_before, s->weight);
		s->vruntime = fair_vruntime_with_lag(f, s, lag);
	}
	fair_renew_deadline(p, f, d, s, now);
	fair_add(p, f, s);
	s->place = FAIR_WAITING;
}

/* It blocks or is parked. */
static inline void fair_exit(const struct sy_policy *p, struct sy_queue *q, const struct sy_domain *d,
			     struct fair_vcpu *s)
{
	struct fair_queue *f = fair_queue(q);

	s->lag = fair_lag(p, f, d, s);
	fair_remove(p, f, s);
	s->saves = 0;
	if (!fair_by_deadline(p))
		fair_advance(f, q, FAIR_NOBODY);
	s->place = FAIR_PARKED;
}

#endif
