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
/* hrtick_start(): a timer is set for no less. */
#define FAIR_TIMER_LEAST_NS (10 * SY_US)
#define FAIR_NOBODY (~0ULL)
/* Most that is averaged, and as much of runnable vCPUs: x FAIR_ONE it fits 64 bits. */
#define FAIR_LOAD_MAX (1ULL << 43)
#define FAIR_RUNNABLE_MAX (FAIR_ONE << 16)
#define FAIR_LOAD_WAITING (1ULL << 62)

/* A decaying average. */
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

/* Who shares a queue, or what a group has of it: a vCPU or a group, as Linux's struct sched_entity. */
struct fair_entity {
	u64 vruntime; /* in no sums: of a vCPU, relative to the virtual time of those that it left */
	u64 deadline; /* order deadline: virtual runtime at which its slice is consumed; between two queues: relative to vruntime */
	u64 due_ns; /* order deadline, of who saves: its deadline in time */
	s64 lag; /* order deadline: virtual time less vruntime when it left the sums */
	u64 weight; /* among those that it shares with, at least 1 */
	u64 slice_ns; /* order deadline: asked for */
	u64 uncharged; /* run time x FAIR_WEIGHT_UNIT short of 1 ns of virtual time: below weight */
	u32 place; /* enum fair_place */
	u8 group; /* its group's number in the queue, from 1; 0: it shares the queue itself */
	u8 protected; /* 1: run to parity: chosen, slice not consumed */
	u8 saves; /* order deadline: 1: it has savings, and is no part of the queue's virtual time */
};

/* Those who run or wait, and share a queue or what a group has of it. */
struct fair_sums {
	u64 vruntime; /* virtual time */
	u64 remainder;
	u64 weight; /* without those who save */
	u64 saving_weight; /* of those */
	u64 scale; /* of the times that grow with the number of pCPUs */
};

struct fair_vcpu {
	struct fair_entity entity;
	u64 ran_ns; /* since it was chosen */
	u64 last_ran_ns;
	u32 passed_over; /* 1: it spun and was not yielded to the last time; see sy_pass_over() */
	u8 skipped; /* 1: it yields to a sibling: the next choice is for another, if that is fair */
	u8 spins; /* 1: it has not run since its last pause-loop exit */
	struct fair_average runnable; /* in parts of FAIR_ONE */
	struct budget_grant grant;
};

/* Of a domain, or of a group of domains. */
struct fair_domain {
	u64 load; /* flattened: runnable vCPUs x FAIR_ONE; entities: weights in the sums of all queues */
	struct fair_average average; /* of that */
	u64 yielded_to; /* number of the vCPU that was yielded to last */
	struct budget budget;
};

/* What a queue keeps of a domain, or of a group of domains, that is an entity there; see fair_groups.h. */
struct fair_group {
	u64 id; /* of the domain; 0: of none yet */
	struct fair_entity entity;
	struct fair_sums sums; /* of those in it who run or wait here */
	struct fair_average load; /* of their weights */
	u64 told; /* of their weights, what is in the domain's load */
	u64 elsewhere; /* load in other queues, as taken last */
	u64 elsewhere_ns; /* and when */
	u64 members; /* vCPUs and groups of it that belong to this queue, asleep or not */
};

struct fair_queue {
	struct fair_sums sums;
	u64 least_waiting; /* order vruntime: least that waits, or a bit less; or FAIR_NOBODY */
	u64 balance_interval_ns;
	u64 pushed_ns; /* last balance towards idle pCPUs */
	u64 balanced_ns; /* last balance between busy pCPUs */
	u64 timer_ns; /* hrtick: when the first slice after a switch ends */
	struct fair_average load; /* balance_load averaged: of all weights */
	u64 tried_ns; /* likewise: last time that somebody might have been pulled, and nobody has come since; or 0 */
	u32 failed; /* how many times in a row */
	u32 running; /* number of the group whose vCPU was started last, or 0 */
};

struct fair_pcpu {
	u64 idle_since_ns; /* 0: not idle */
	u64 idle_missing_ns; /* average idle time, as what it lacks to the most that is counted */
};

_Static_assert(sizeof(struct fair_vcpu) <= sizeof(((struct sy_vcpu *)0)->state), "vcpu fits");
_Static_assert(sizeof(struct fair_domain) <= sizeof(((struct sy_domain *)0)->state), "domain fits");
_Static_assert(sizeof(struct fair_queue) <= sizeof(((struct sy_queue *)0)->state), "queue fits");
_Static_assert(sizeof(struct fair_group) <= SY_GROUP_WORDS * sizeof(u64), "group fits");
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
static inline u64 fair_grown(const struct sy_policy *p, const struct fair_sums *f, u64 parameter)
{
	return SY_PARAMETER(p, parameter) * f->scale;
}

/*
 * Moves the average on to now, given the value that it tended to. Part kept after x half-lives, x
 * in 0..1: 2^-x within 0.6 %, by the parabola with the right ends and slope at 0.
 */
static inline void fair_average(struct fair_average *a, u64 target, u64 half_life_ns, u64 now)
{
	u64 half_lives, x, keep;

	if (now <= a->updated_ns)
		return;
	target = sy_min(target, FAIR_LOAD_MAX);
	/* It has come there, as that of who never sleeps. */
	if (a->value == target) {
		a->updated_ns = now;
		return;
	}
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

/* ---- Sums ---- */

/* Restores 0 <= remainder < weight; the virtual time becomes the average, rounded down. */
static inline void fair_settle(struct fair_sums *f)
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

/* All their weights. */
static inline u64 fair_sum(const struct fair_sums *f)
{
	return f->weight + f->saving_weight;
}

static inline void fair_add(const struct sy_policy *p, struct fair_sums *f, struct fair_entity *s)
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

static inline void fair_remove(const struct sy_policy *p, struct fair_sums *f, struct fair_entity *s)
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
		f->sums.vruntime = sy_max(f->sums.vruntime, least);
}

/* ---- Weight, slice and lag ---- */

/* Of a domain that is no group: each vCPU has it. */
static inline u64 fair_whole_weight(const struct sy_domain *d)
{
	return sy_clamp(SY_LOAD(d->weight), SY_WEIGHT_MIN, SY_WEIGHT_MAX) * FAIR_WEIGHT_SCALE;
}

static inline bool fair_grouped(const struct sy_domain *d)
{
	return SY_LOAD(d->vcpus) > 1 && !SY_LOAD(d->settings.ungrouped);
}

/* What its average tends to. */
static inline u64 fair_awake(const struct fair_vcpu *s)
{
	return (u64)(s->entity.place != FAIR_ASLEEP) * FAIR_ONE;
}

/* Moves the averages on and gives what part of the domain's weight is this vCPU's. */
static inline u64 fair_flattened_weight(const struct sy_policy *p, struct sy_domain *d, struct fair_vcpu *s, u64 now)
{
	struct fair_domain *fd = fair_domain(d);
	u64 half_life_ns = SY_PARAMETER(p, FAIR_LOAD_HALF_LIFE_NS);
	u64 weight = fair_whole_weight(d);
	u64 others = 0;

	if (!fair_grouped(d))
		return weight;
	fair_average(&fd->average, sy_min(fd->load, FAIR_RUNNABLE_MAX), half_life_ns, now);
	fair_average(&s->runnable, fair_awake(s), half_life_ns, now);
	if (fd->average.value > s->runnable.value)
		others = fd->average.value - s->runnable.value;
	others = sy_min(others, (sy_min(d->vcpus, 1ULL << 16) - 1) * FAIR_ONE);
	return sy_max(weight * FAIR_ONE / (FAIR_ONE + others), 1);
}

/* Order deadline: the slice that the domain asks for, or else the base slice. */
static inline u64 fair_asked_slice_ns(const struct sy_policy *p, const struct fair_sums *f,
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
static inline bool fair_eligible(const struct fair_sums *f, const struct fair_entity *s)
{
	return s->saves || s->vruntime <= f->vruntime;
}

/* Order deadline: its place among those who may run. A deadline in time is before all virtual times. */
static inline u64 fair_due(const struct fair_entity *s)
{
	return s->saves ? s->due_ns : s->deadline;
}

/* Order deadline: what a vCPU takes along when it leaves the sums: two slices or a tick at most, or what it may save. */
static inline s64 fair_lag(const struct sy_policy *p, const struct fair_sums *f,
			   const struct sy_domain *d, const struct fair_entity *s)
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
static inline u64 fair_vruntime_with_lag(const struct fair_sums *f, const struct fair_entity *s,
					 s64 lag)
{
	if (!f->weight)
		return f->vruntime;
	return f->vruntime - (u64)lag - (u64)fair_scaled(lag, s->weight, f->weight);
}

static inline void fair_set_weight(struct fair_entity *s, u64 weight)
{
	s->weight = weight;
	s->uncharged = sy_min(s->uncharged, weight - 1);
}

/*
 * Order deadline, reweigh inflated: where who runs comes to stand when its weight changes, by a fault of Linux 6.13 to 7.1
 * (docs/what-if.md): it is placed as one that comes into the sums, fair_vruntime_with_lag(), while it is in them. Its lag,
 * of a slice and a tick at most, grows each time by its part of the weights.
 */
static inline u64 fair_inflated(const struct sy_policy *p, const struct fair_sums *f, const struct fair_entity *s,
				u64 weight)
{
	s64 limit = (s64)fair_virtual(s->slice_ns + SY_PARAMETER(p, FAIR_TICK_NS), s->weight);
	s64 lag = sy_smin(sy_smax(fair_difference(f->vruntime, s->vruntime), -limit), limit);
	s64 scaled = fair_scaled(lag, s->weight, weight);
	u64 after = f->weight - s->weight + weight;
	/* The new weight moves the average, towards or away from it. */
	s64 shift = weight > s->weight ? -fair_scaled(lag, weight - s->weight, after) :
					 fair_scaled(lag, s->weight - weight, after);

	return f->vruntime + (u64)(shift - scaled - fair_scaled(scaled, weight, after));
}

/* Order deadline: where it comes to stand. */
static inline u64 fair_reweighed(const struct sy_policy *p, const struct fair_sums *f, const struct fair_entity *s, u64 weight)
{
	if (SY_CHOICE(p, FAIR_REWEIGH) == FAIR_REWEIGH_INFLATED) {
		if (s->place == FAIR_RUNNING && f->weight > s->weight)
			return fair_inflated(p, f, s, weight);
	}
	return f->vruntime - (u64)fair_scaled(fair_difference(f->vruntime, s->vruntime), s->weight, weight);
}

/* The weight changes of who is in these sums. Order deadline keeps the lag in CPU time. */
static inline void fair_reweigh(const struct sy_policy *p, struct fair_sums *f, struct fair_entity *s, u64 weight)
{
	u64 vruntime;

	if (weight == s->weight)
		return;
	vruntime = fair_by_deadline(p) ? fair_reweighed(p, f, s, weight) : s->vruntime;
	fair_remove(p, f, s);
	if (fair_by_deadline(p))
		s->deadline = vruntime +
			      (u64)fair_scaled(fair_difference(s->deadline, s->vruntime), s->weight, weight);
	s->vruntime = vruntime;
	fair_set_weight(s, weight);
	fair_add(p, f, s);
}

/*
 * Order deadline: the slice after one that was consumed. It grows by an eighth, since a doubled one is long before a burst
 * of 10 ms ends; with savings it does not, or who runs on them would keep others who have some waiting for it.
 */
static inline u64 fair_next_slice_ns(const struct sy_policy *p, const struct fair_sums *f, const struct sy_domain *d,
				     const struct fair_entity *s)
{
	u64 slice_ns = fair_asked_slice_ns(p, f, d);

	if (SY_LOAD(d->slice_ns) || s->saves)
		return slice_ns;
	return sy_clamp(s->slice_ns + s->slice_ns / 8, slice_ns, slice_ns * SY_PARAMETER(p, FAIR_SLICE_GROWTH));
}

static inline void fair_renew_deadline(struct fair_entity *s, u64 slice_ns, u64 now)
{
	s->slice_ns = slice_ns;
	s->deadline = s->vruntime + fair_virtual(s->slice_ns, s->weight);
	s->due_ns = now + s->slice_ns;
	s->protected = 0;
}

/* ---- Into sums and out of them ---- */

/* It wakes, or is parked no more. */
static inline void fair_enter(const struct sy_policy *p, struct fair_sums *f, const struct sy_domain *d,
			      struct fair_entity *s, u64 weight, u64 now)
{
	u64 credit_ns = fair_grown(p, f, FAIR_LATENCY_NS) / 100 *
			SY_PARAMETER(p, FAIR_SLEEPER_CREDIT_PERCENT);
	u64 weight_before = s->weight;
	s64 lag;

	fair_set_weight(s, weight);
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
	fair_renew_deadline(s, fair_asked_slice_ns(p, f, d), now);
	fair_add(p, f, s);
	s->place = FAIR_WAITING;
}

/* It blocks or is parked. */
static inline void fair_exit(const struct sy_policy *p, struct fair_sums *f, const struct sy_domain *d,
			     struct fair_entity *s)
{
	s->lag = fair_lag(p, f, d, s);
	fair_remove(p, f, s);
	s->saves = 0;
	s->place = FAIR_PARKED;
}

#endif
