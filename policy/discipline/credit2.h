/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Credit2, Xen's second general-purpose scheduler (G. Dunlap; default since 4.12).
 *
 * Mechanism: the vCPU with the most credit of a queue runs. The one with the highest weight in the
 * queue burns one credit per ns, the others max_weight / weight times as many; what the division
 * leaves is carried over. When the one chosen has none left, everybody in the queue gets the same
 * amount and is clipped: who sleeps cannot save up more than the carry-over, who runs a lot does
 * so in proportion to its weight. A vCPU that ran on another pCPU must be ahead by the migration
 * resistance to be fetched, and gets a small compensation when it is.
 *
 * Source: xen/common/sched_credit2.c of 4.5, xen/common/sched/credit2.c of 4.17, with the constants
 * of 4.20 (names of functions and constants stand beside the parameters).
 *
 * State. A reset in constant time: the queue keeps the sum of all amounts it ever gave
 * (`given_ns`), and a vCPU the sum up to which its credit is settled. A step of a reset is
 * c -> min(c + amount, limit) with amount > 0, and steps compose into one:
 * min(min(c + a, limit) + b, limit) = min(c + a + b, limit). So settling once, when the vCPU is
 * touched next, gives exactly what a walk over everybody would have given.
 *
 * The key is given_ns - credit: a reset leaves it as it is, so that the host's queue stays sorted.
 * It is out of date only for a waiting vCPU that a reset has clipped. Such a key says "more credit
 * than the limit", which is at least what it has; nobody has more than the limit (burning lowers
 * credit, a reset and the compensation stop at the limit), hence
 *  - against who was queued before or between: both keys moved equally, and clipping is monotonic,
 *    so the order remains right, and equal credits stay first come, first served;
 *  - against who is queued later: its key is at least given_ns - limit, not below the old one, and
 *    equals come later; that is its place.
 * Every 2^62 given the keys start over, and the host is asked to sort the queue anew.
 *
 * max_weight is kept with the number of vCPUs that have it; only when the last of them leaves or
 * changes its weight is a survey asked for.
 *
 * Load of a queue and of a vCPU: vCPUs that run or wait, averaged over about a second with a weight
 * of (time since the last change) / window for the newest value, in fixed point, brought up to date
 * when read or changed.
 *
 * Knobs: weight (followed when the vCPU is charged or wakes), slice_ns (longest run).
 * Signals: the resets.
 *
 * Readings and simplifications:
 *  - 4.5 forgets what the running vCPUs have burnt since their last charge when it resets, and
 *    takes idle for -2^30 credits; here both are as in 4.20, exact and minus infinity.
 *  - The compensation does not lift credit above the limit (it could, by 50 us).
 *  - A cap is strict: a slice ends with the budget even if that is below the shortest run, and a
 *    grant is an equal part of the budget without a lower bound (budget.h). 4.20 rounds both up to
 *    0.5 ms and pays back.
 *  - Where nobody is idle, 4.20 first asks the pCPU that the woken vCPU last ran on, and the others
 *    only if it does not lead there: "idle_first" has that step, too.
 *  - A yield holds for run_min_ns, within which the choice follows that it asks for.
 *  - With the floor of 4.20 weights that differ by more than about 10 lose their proportion: one
 *    shortest run costs the lower one more credit than the floor lets it owe.
 *  - A balance moves one vCPU; Xen also looks for the best pair to swap.
 *  - As in Xen, who waits in one queue does not run on an idle pCPU of another before a balance or its
 *    own next wake moves it there.
 *  - Soft affinity is the host's. Xen's score of a preemption, 10.5 ms of credit more for each of
 *    the two that comes nearer to its own, is not there: where it would rather run any lead counts.
 */
#ifndef STEELYARD_CREDIT2_H
#define STEELYARD_CREDIT2_H

#include "../vocabulary.h"
#include "../budget.h"

/* clang-format off */
#define CREDIT2_PARAMETERS(X) \
	X(CREDIT2_CREDIT_NS, "credit_ns", "ns", 1 * SY_US, 10 * SY_S, \
	  "credit at the start, and unit of a reset", "CSCHED2_CREDIT_INIT", 10 * SY_MS, 10 * SY_MS) \
	X(CREDIT2_CARRYOVER_NS, "carryover_ns", "ns", 0, 10 * SY_S, \
	  "credit above credit_ns that a reset leaves", "CSCHED2_CARRYOVER_MAX", 500 * SY_US, 500 * SY_US) \
	X(CREDIT2_FLOOR_NS, "floor_ns", "ns", 0, 10 * SY_S, \
	  "deepest debt of credit; 0: none", "CSCHED2_CREDIT_MIN, t2c_update()", 0, 10 * SY_MS) \
	X(CREDIT2_RUN_MIN_NS, "run_min_ns", "ns", 1, 10 * SY_S, \
	  "shortest time between two choices", "CSCHED2_MIN_TIMER, csched2_runtime()", 500 * SY_US, 500 * SY_US) \
	X(CREDIT2_RUN_MAX_NS, "run_max_ns", "ns", 1, 10 * SY_S, \
	  "longest time between two choices", "CSCHED2_MAX_TIMER, csched2_runtime()", 2 * SY_MS, 10 * SY_MS) \
	X(CREDIT2_RESET, "reset", "chosen|most_credit", 0, 1, \
	  "whose credit must be used up for a reset: that of the one chosen, or also that of the queue's first", \
	  "csched2_schedule(), top_credit", 0, 1) \
	X(CREDIT2_RESIST_NS, "migration_resistance_ns", "ns", 0, 10 * SY_S, \
	  "credit by which a vCPU from another pCPU must be ahead", "CSCHED2_MIGRATE_RESIST", 500 * SY_US, 500 * SY_US) \
	X(CREDIT2_COMPENSATION_NS, "migration_compensation_ns", "ns", 0, 10 * SY_S, \
	  "credit given to a vCPU that changes its pCPU", "CSCHED2_MIGRATE_COMPENSATION", 50 * SY_US, 50 * SY_US) \
	X(CREDIT2_RATELIMIT_NS, "ratelimit_ns", "ns", 0, 500 * SY_MS, \
	  "a running vCPU is not preempted earlier; 0: no limit", "sched_ratelimit_us, runq_candidate()", 0, 1 * SY_MS) \
	X(CREDIT2_RATELIMIT_TOLERANCE_NS, "ratelimit_tolerance_ns", "ns", 0, 500 * SY_MS, \
	  "a wake interrupts that much before the rate limit ends", "CSCHED2_RATELIMIT_TICKLE_TOLERANCE", 0, 50 * SY_US) \
	X(CREDIT2_WAKE, "wake", "last_first|idle_first", 0, 1, \
	  "interrupted on a wake: its last pCPU if that runs less credit, or an idle one, first", \
	  "runq_tickle()", 0, 1) \
	X(CREDIT2_IDLE, "idle", "next|nearest", 0, 1, \
	  "which idle pCPU: the next in number after its last, or the nearest, one whose whole core is idle first", \
	  "runq_tickle(), smt_idle", 0, 1) \
	X(CREDIT2_YIELD, "yield", "ignored|next_goes_first", 0, 1, \
	  "what a yield does", "csched2_unit_yield(), runq_candidate()", 0, 1) \
	X(CREDIT2_CAP_PERIOD_NS, "cap_period_ns", "ns", 0, 1 * SY_S, \
	  "period of a cap's budget; 0: caps are not honoured", "CSCHED2_BDGT_REPL_PERIOD", 0, 10 * SY_MS) \
	X(CREDIT2_QUEUE, "queue", "pcpu|core|socket|node|all", 0, 4, \
	  "which pCPUs share a queue", "credit2_runqueue=", SY_SCOPE_SOCKET, SY_SCOPE_SOCKET) \
	X(CREDIT2_QUEUE_PCPUS_MAX, "queue_pcpus_max", "pCPUs", 0, 65535, \
	  "most pCPUs of a queue; 0: no limit", "sched_credit2_max_cpus_runqueue=", 0, 16) \
	X(CREDIT2_LOAD_WINDOW_SHIFT, "load_window_shift", "log2 ns", 11, 40, \
	  "window of the load average", "LOADAVG_WINDOW_SHIFT, update_runq_load()", 30, 30) \
	X(CREDIT2_LOAD_START, "load_start_permille", "permille", 0, 1000, \
	  "load of a new vCPU, in busy vCPUs", "csched2_alloc_udata()", 500, 1000) \
	X(CREDIT2_UNDERLOAD_TOLERANCE, "underload_tolerance_permille", "permille", 0, 1000000, \
	  "difference of load, in busy vCPUs, that is left alone while no queue is full", \
	  "credit2_balance_under=0, balance_load()", 1000, 1000) \
	X(CREDIT2_OVERLOAD_TOLERANCE, "overload_tolerance_permille", "permille", 0, 1000000, \
	  "the same where one has more load than pCPUs", "credit2_balance_over=-3, balance_load()", 125, 125)
/* clang-format on */

enum credit2_parameter { CREDIT2_PARAMETERS(SY_PARAMETER_INDEX) CREDIT2_PARAMETER_COUNT };
_Static_assert((int)CREDIT2_PARAMETER_COUNT <= SY_PARAMETER_WORDS, "parameters fit");

enum credit2_reset_by { CREDIT2_RESET_CHOSEN,
			CREDIT2_RESET_MOST_CREDIT };

enum credit2_idle { CREDIT2_IDLE_NEXT,
		    CREDIT2_IDLE_NEAREST };

enum credit2_wake_order { CREDIT2_WAKE_LAST_FIRST,
			  CREDIT2_WAKE_IDLE_FIRST };

struct credit2_load {
	u64 average; /* vCPUs << CREDIT2_LOAD_PRECISION_SHIFT */
	u64 updated; /* time >> CREDIT2_LOAD_GRANULARITY_SHIFT */
};

struct credit2_vcpu {
	s64 credit_ns; /* settled up to given_ns of its queue */
	u64 given_ns;
	u64 yielded_until_ns; /* others go first until then */
	u32 residual; /* what the last burn's division left, below the weight */
	u32 weight; /* under which its queue knows it */
	u32 loads; /* 1 while it counts in `running` of its queue */
	struct credit2_load load;
	struct budget_grant grant;
};

struct credit2_queue {
	u64 given_ns; /* sum of all resets, modulo 2^64 */
	struct credit2_load load;
	u32 running; /* vCPUs that run or wait */
	u32 max_weight; /* at least 1 */
	u32 max_weight_vcpus; /* that have it */
};

struct credit2_domain {
	struct budget budget;
};

_Static_assert(sizeof(struct credit2_vcpu) <= sizeof(((struct sy_vcpu *)0)->state), "fits");
_Static_assert(sizeof(struct credit2_queue) <= sizeof(((struct sy_queue *)0)->state), "fits");
_Static_assert(sizeof(struct credit2_domain) <= sizeof(((struct sy_domain *)0)->state), "fits");

/* As in Xen: fixed point of 18 bits, time in units of about 1 us. */
#define CREDIT2_LOAD_PRECISION_SHIFT 18
#define CREDIT2_LOAD_GRANULARITY_SHIFT 10
/* No credit is below this, floor or not; 36 years. */
#define CREDIT2_DEBT_MAX_NS (1LL << 60)
/* Time charged at once: times a weight it stays below 2^63; 39 hours. */
#define CREDIT2_RAN_MAX_NS (1ULL << 47)
/* Keys start over when given_ns has grown by this. */
#define CREDIT2_KEY_SHIFT 62

static inline struct credit2_vcpu *credit2_vcpu(struct sy_vcpu *v)
{
	return (struct credit2_vcpu *)v->state;
}

static inline const struct credit2_vcpu *credit2_vcpu_const(const struct sy_vcpu *v)
{
	return (const struct credit2_vcpu *)v->state;
}

static inline struct credit2_queue *credit2_queue(struct sy_queue *q)
{
	return (struct credit2_queue *)q->state;
}

static inline const struct credit2_queue *credit2_queue_const(const struct sy_queue *q)
{
	return (const struct credit2_queue *)q->state;
}

static inline struct credit2_domain *credit2_domain(struct sy_domain *d)
{
	return (struct credit2_domain *)d->state;
}

/* A time of the parameters: of at most 10 s, so that sums of signed values do not overflow */
static inline s64 credit2_ns(const struct sy_policy *p, enum credit2_parameter parameter)
{
	return (s64)SY_PARAMETER(p, parameter);
}

/* Unit of a reset, above 0 */
static inline s64 credit2_unit_ns(const struct sy_policy *p)
{
	return credit2_ns(p, CREDIT2_CREDIT_NS);
}

/* Most credit that there is */
static inline s64 credit2_limit_ns(const struct sy_policy *p)
{
	return credit2_unit_ns(p) + credit2_ns(p, CREDIT2_CARRYOVER_NS);
}

static inline u32 credit2_weight(const struct sy_domain *d)
{
	return (u32)sy_clamp(SY_LOAD(d->weight), SY_WEIGHT_MIN, SY_WEIGHT_MAX);
}

/* ---- Credit ---- */

/* Credit of v with all resets of its queue. */
static inline s64 credit2_credit_ns(const struct sy_policy *p, const struct sy_queue *q,
				    const struct sy_vcpu *v)
{
	const struct credit2_vcpu *cv = credit2_vcpu_const(v);
	u64 given_ns = credit2_queue_const(q)->given_ns - cv->given_ns;
	s64 limit_ns;

	if (!given_ns)
		return cv->credit_ns;
	limit_ns = credit2_limit_ns(p);
	/* credit + given < limit, without overflow */
	if (given_ns < (u64)sy_smax(limit_ns - cv->credit_ns, 0))
		return cv->credit_ns + (s64)given_ns;
	return limit_ns;
}

static inline void credit2_settle(const struct sy_policy *p, const struct sy_queue *q,
				  struct sy_vcpu *v)
{
	if (credit2_vcpu(v)->given_ns == credit2_queue_const(q)->given_ns)
		return;
	credit2_vcpu(v)->credit_ns = credit2_credit_ns(p, q, v);
	credit2_vcpu(v)->given_ns = credit2_queue_const(q)->given_ns;
}

/* Of those with work, who counts not in its queue is parked. */
SY_FN enum sy_class credit2_class(const struct sy_vcpu *v)
{
	return v->runnable && !credit2_vcpu_const(v)->loads ? SY_CLASS_PARKED : SY_CLASS_NONE;
}

static inline void credit2_burn(const struct sy_policy *p, const struct sy_queue *q,
				struct sy_vcpu *v, u64 ran_ns)
{
	struct credit2_vcpu *cv = credit2_vcpu(v);
	u64 weight = sy_max(cv->weight, 1);
	u64 product = sy_min(ran_ns, CREDIT2_RAN_MAX_NS) * credit2_queue_const(q)->max_weight +
		      cv->residual;
	u64 burnt_ns = sy_min(product / weight, (u64)CREDIT2_DEBT_MAX_NS);
	s64 floor_ns = credit2_ns(p, CREDIT2_FLOOR_NS);

	cv->residual = (u32)(product % weight);
	cv->credit_ns = sy_smax(cv->credit_ns - (s64)burnt_ns,
				floor_ns ? -floor_ns : -CREDIT2_DEBT_MAX_NS);
}

/* ---- Weight ---- */

static inline void credit2_add_weight(struct credit2_queue *cq, u32 weight)
{
	if (weight > cq->max_weight) {
		cq->max_weight = weight;
		cq->max_weight_vcpus = 0;
	}
	if (weight == cq->max_weight)
		cq->max_weight_vcpus++;
}

/* Answers SY_SURVEY if nobody is known to have the highest weight any more. */
static inline u32 credit2_drop_weight(struct credit2_queue *cq, u32 weight)
{
	if (weight != cq->max_weight || !cq->max_weight_vcpus)
		return 0;
	return --cq->max_weight_vcpus ? 0 : SY_SURVEY;
}

/* A governor may have changed the weight. */
static inline u32 credit2_follow_weight(struct sy_queue *q, const struct sy_domain *d,
					struct sy_vcpu *v)
{
	struct credit2_queue *cq = credit2_queue(q);
	struct credit2_vcpu *cv = credit2_vcpu(v);
	u32 old = cv->weight, weight;

	/* Who has begun has one within bounds. */
	if (SY_LOAD(d->weight) == old)
		return 0;
	weight = credit2_weight(d);
	if (weight == old)
		return 0;
	cv->weight = weight;
	credit2_add_weight(cq, weight);
	return credit2_drop_weight(cq, old);
}

/* ---- Load ---- */

/* A parameter in thousandths of a busy vCPU */
static inline u64 credit2_load_permille(const struct sy_policy *p, enum credit2_parameter parameter)
{
	return (SY_PARAMETER(p, parameter) << CREDIT2_LOAD_PRECISION_SHIFT) / 1000;
}

static inline u64 credit2_load_at(const struct sy_policy *p, const struct credit2_load *load,
				  u64 running, u64 now)
{
	u64 window_shift = SY_PARAMETER(p, CREDIT2_LOAD_WINDOW_SHIFT) - CREDIT2_LOAD_GRANULARITY_SHIFT;
	u64 time = now >> CREDIT2_LOAD_GRANULARITY_SHIFT;
	u64 newest = running << CREDIT2_LOAD_PRECISION_SHIFT;
	u64 passed = time > load->updated ? time - load->updated : 0;

	if (passed >> window_shift)
		return newest;
	return load->average + (passed * newest >> window_shift) -
	       (passed * load->average >> window_shift);
}

static inline void credit2_load_update(const struct sy_policy *p, struct credit2_load *load,
				       u64 running, u64 now)
{
	load->average = credit2_load_at(p, load, running, now);
	load->updated = now >> CREDIT2_LOAD_GRANULARITY_SHIFT;
}

/* From now on v runs or waits (1), or does not (0). */
static inline void credit2_set_loads(const struct sy_policy *p, struct sy_queue *q,
				     struct sy_vcpu *v, u32 loads, u64 now)
{
	struct credit2_queue *cq = credit2_queue(q);
	struct credit2_vcpu *cv = credit2_vcpu(v);

	if (cv->loads == loads)
		return;
	credit2_load_update(p, &cq->load, cq->running, now);
	credit2_load_update(p, &cv->load, cv->loads, now);
	cq->running += loads - cv->loads;
	cv->loads = loads;
}

/* ---- Shape ---- */

/* The budget of a cap, and nothing else. */
SY_FN bool credit2_writes_domain(const struct sy_policy *p, const struct sy_domain *d, const struct sy_vcpu *v,
				 enum sy_domain_call call)
{
	switch (call) {
	case SY_CALL_leave:
	case SY_CALL_wake:
	case SY_CALL_block:
	case SY_CALL_charge:
	case SY_CALL_key:
		return budget_writes(&credit2_vcpu_const(v)->grant, d, SY_PARAMETER(p, CREDIT2_CAP_PERIOD_NS));
	default:
		return false;
	}
}

SY_FN enum sy_scope credit2_scope(const struct sy_policy *p)
{
	return (enum sy_scope)sy_min(SY_CHOICE(p, CREDIT2_QUEUE), SY_SCOPE_ALL);
}

SY_FN u64 credit2_queue_pcpus_max(const struct sy_policy *p)
{
	u64 pcpus = SY_PARAMETER(p, CREDIT2_QUEUE_PCPUS_MAX);

	return pcpus ? pcpus : SY_NONE;
}

/* ---- Creation and membership ---- */

SY_FN void credit2_queue_init(const struct sy_policy *p, struct sy_queue *q, u64 pcpus)
{
	credit2_queue(q)->max_weight = SY_WEIGHT_MIN;
}

SY_FN void credit2_domain_init(const struct sy_policy *p, struct sy_domain *d, u64 now)
{
	budget_init(&credit2_domain(d)->budget, d, SY_PARAMETER(p, CREDIT2_CAP_PERIOD_NS), now);
}

SY_FN void credit2_vcpu_init(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v,
			     u64 now)
{
	struct credit2_vcpu *cv = credit2_vcpu(v);

	cv->credit_ns = credit2_unit_ns(p);
	cv->load.average = credit2_load_permille(p, CREDIT2_LOAD_START);
	cv->load.updated = now >> CREDIT2_LOAD_GRANULARITY_SHIFT;
}

SY_FN u32 credit2_join(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		       struct sy_vcpu *v, u64 now)
{
	struct credit2_queue *cq = credit2_queue(q);
	struct credit2_vcpu *cv = credit2_vcpu(v);

	cv->given_ns = cq->given_ns;
	cv->weight = credit2_weight(d);
	credit2_add_weight(cq, cv->weight);
	/* Its load is expected here from now on. */
	credit2_load_update(p, &cq->load, cq->running, now);
	credit2_load_update(p, &cv->load, cv->loads, now);
	cq->load.average += cv->load.average;
	return 0;
}

SY_FN u32 credit2_leave(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			struct sy_vcpu *v, u64 now)
{
	struct credit2_queue *cq = credit2_queue(q);
	struct credit2_vcpu *cv = credit2_vcpu(v);

	credit2_settle(p, q, v);
	credit2_set_loads(p, q, v, 0, now);
	credit2_load_update(p, &cq->load, cq->running, now);
	credit2_load_update(p, &cv->load, cv->loads, now);
	cq->load.average -= sy_min(cq->load.average, cv->load.average);
	return credit2_drop_weight(cq, cv->weight) |
	       budget_block(&credit2_domain(d)->budget, &cv->grant, d, v,
			    SY_PARAMETER(p, CREDIT2_CAP_PERIOD_NS), now);
}

SY_FN void credit2_survey_begin(const struct sy_policy *p, struct sy_queue *q)
{
	credit2_queue(q)->max_weight = SY_WEIGHT_MIN;
	credit2_queue(q)->max_weight_vcpus = 0;
}

SY_FN void credit2_survey_vcpu(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			       struct sy_vcpu *v)
{
	credit2_vcpu(v)->weight = credit2_weight(d);
	credit2_add_weight(credit2_queue(q), credit2_vcpu(v)->weight);
}

/* ---- What vCPUs do ---- */

SY_FN u32 credit2_wake(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		       struct sy_vcpu *v, u64 now)
{
	return credit2_follow_weight(q, d, v) |
	       budget_wake(&credit2_domain(d)->budget, &credit2_vcpu(v)->grant, d, v,
			   SY_PARAMETER(p, CREDIT2_CAP_PERIOD_NS), now);
}

/* idle_first asks its last pCPU before the others of its queue where it must preempt. */
SY_FN u32 credit2_steps(const struct sy_policy *p, const struct sy_vcpu *v)
{
	bool nearest = SY_CHOICE(p, CREDIT2_IDLE) == CREDIT2_IDLE_NEAREST;
	u32 idle = nearest ? SY_STEP_ONE_IDLE : SY_STEP_NEXT_IDLE;
	u32 flags = nearest ? SY_STEPS_QUEUE : SY_STEPS_QUEUE | SY_STEPS_AFTER_LAST;

	if (SY_CHOICE(p, CREDIT2_WAKE) == CREDIT2_WAKE_IDLE_FIRST)
		return SY_STEPS(idle, SY_STEP_LAST_LEAD, SY_STEP_LEAST, 0) | flags;
	return SY_STEPS(SY_STEP_LAST_IDLE, SY_STEP_LAST_LEAD, idle, SY_STEP_LEAST) | flags;
}

SY_FN u32 credit2_block(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			struct sy_vcpu *v, u64 now)
{
	credit2_set_loads(p, q, v, 0, now);
	return budget_block(&credit2_domain(d)->budget, &credit2_vcpu(v)->grant, d, v,
			    SY_PARAMETER(p, CREDIT2_CAP_PERIOD_NS), now);
}

/* Holds for the choice that follows at once: the next one is at least run_min_ns away. */
SY_FN u32 credit2_yield(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			struct sy_vcpu *v, u64 now)
{
	if (SY_CHOICE(p, CREDIT2_YIELD))
		credit2_vcpu(v)->yielded_until_ns = now + SY_PARAMETER(p, CREDIT2_RUN_MIN_NS);
	return 0;
}

SY_FN u32 credit2_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			 struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	u32 request = credit2_follow_weight(q, d, v);

	credit2_settle(p, q, v);
	credit2_burn(p, q, v, ran_ns);
	request |= budget_charge(&credit2_domain(d)->budget, &credit2_vcpu(v)->grant, d, v,
				 SY_PARAMETER(p, CREDIT2_CAP_PERIOD_NS), ran_ns, now);
	if (request & SY_PARK)
		credit2_set_loads(p, q, v, 0, now);
	return request;
}

SY_FN u32 credit2_domain_timer(const struct sy_policy *p, struct sy_domain *d, u64 now)
{
	return budget_domain_timer(&credit2_domain(d)->budget, d,
				   SY_PARAMETER(p, CREDIT2_CAP_PERIOD_NS), 0, now);
}

/* ---- Who is next, for how long ---- */

SY_FN u64 credit2_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		      struct sy_vcpu *v, u64 now)
{
	u64 given_ns = credit2_queue(q)->given_ns & ((1ULL << CREDIT2_KEY_SHIFT) - 1);

	credit2_settle(p, q, v);
	credit2_set_loads(p, q, v, 1, now);
	budget_key(&credit2_domain(d)->budget, &credit2_vcpu(v)->grant, d, v,
		   SY_PARAMETER(p, CREDIT2_CAP_PERIOD_NS));
	return sy_signed_key((s64)given_ns - credit2_vcpu(v)->credit_ns);
}

/* Time that the vCPU on c is still safe from preemption */
static inline u64 credit2_safe_ns(const struct sy_policy *p, const struct sy_pcpu *c, u64 now)
{
	u64 ran_ns = now > c->started_ns ? now - c->started_ns : 0;
	u64 limit_ns = SY_PARAMETER(p, CREDIT2_RATELIMIT_NS);

	return limit_ns > ran_ns ? limit_ns - ran_ns : 0;
}

/* Credit that v must have more than who runs on c, to come here */
static inline s64 credit2_resist_ns(const struct sy_policy *p, const struct sy_pcpu *c,
				    const struct sy_vcpu *v)
{
	return v->pcpu == c->id ? 0 : credit2_ns(p, CREDIT2_RESIST_NS);
}

SY_FN s64 credit2_lead(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c,
		       const struct sy_vcpu *v, const struct sy_vcpu *running, u64 now)
{
	if (credit2_safe_ns(p, c, now) > SY_PARAMETER(p, CREDIT2_RATELIMIT_TOLERANCE_NS))
		return -1;
	return credit2_credit_ns(p, q, v) - credit2_credit_ns(p, q, running) -
	       credit2_resist_ns(p, c, v);
}

SY_FN enum sy_verdict credit2_consider(const struct sy_policy *p, const struct sy_queue *q,
				       const struct sy_pcpu *c, const struct sy_vcpu *best,
				       const struct sy_vcpu *candidate, u64 now)
{
	s64 lead_ns;
	bool yields;

	if (!best)
		return SY_TAKE;
	yields = now < credit2_vcpu_const(best)->yielded_until_ns;
	lead_ns = credit2_credit_ns(p, q, candidate) - credit2_credit_ns(p, q, best);
	if (!yields && (lead_ns <= 0 || credit2_safe_ns(p, c, now)))
		return SY_STOP;
	/* A yield does not lift the resistance; who comes after has no more credit. */
	if (candidate->pcpu != c->id && lead_ns < credit2_ns(p, CREDIT2_RESIST_NS))
		return SY_SKIP_MOVES;
	return SY_TAKE;
}

/*
 * One unit, or as many as take the one chosen above 0 if it is more than a
 * unit in debt. A debt that has reached the floor may be deeper than it looks.
 * The queue's first may have more credit: who is within the rate limit goes on
 * all the same, and affinity or resistance may pass it over.
 */
SY_FN u64 credit2_reset_due(const struct sy_policy *p, const struct sy_queue *q,
			    const struct sy_vcpu *v, const struct sy_vcpu *next)
{
	s64 debt_ns = -credit2_credit_ns(p, q, v), floor_ns, unit_ns;

	if (debt_ns < 0)
		return 0;
	if (SY_CHOICE(p, CREDIT2_RESET) == CREDIT2_RESET_MOST_CREDIT && next &&
	    credit2_credit_ns(p, q, next) > 0)
		return 0;
	floor_ns = credit2_ns(p, CREDIT2_FLOOR_NS);
	unit_ns = credit2_unit_ns(p);
	if (debt_ns > unit_ns || (floor_ns && debt_ns >= floor_ns))
		return 1 + (u64)debt_ns / (u64)unit_ns;
	return 1;
}

SY_FN u32 credit2_reset(const struct sy_policy *p, struct sy_queue *q, u64 units, u64 now)
{
	struct credit2_queue *cq = credit2_queue(q);
	u64 unit_ns = (u64)credit2_unit_ns(p);
	u64 before_ns = cq->given_ns;

	cq->given_ns += unit_ns * sy_min(units, (1ULL << 61) / unit_ns);
	if (before_ns >> CREDIT2_KEY_SHIFT != cq->given_ns >> CREDIT2_KEY_SHIFT)
		return SY_BALANCE | SY_RESORT;
	return SY_BALANCE;
}

SY_FN void credit2_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c,
			 struct sy_vcpu *v, u64 now)
{
	struct credit2_vcpu *cv = credit2_vcpu(v);

	credit2_settle(p, q, v);
	credit2_set_loads(p, q, v, 1, now);
	if (v->pcpu != c->id)
		cv->credit_ns = sy_smin(cv->credit_ns + credit2_ns(p, CREDIT2_COMPENSATION_NS),
					credit2_limit_ns(p));
	cv->yielded_until_ns = 0;
}

/* Until its credit is that of the next one, or 0 if that one has none, within limits. */
SY_FN u64 credit2_slice(const struct sy_policy *p, const struct sy_queue *q,
			const struct sy_pcpu *c, const struct sy_domain *d, const struct sy_vcpu *v,
			const struct sy_vcpu *next, u64 now)
{
	u64 asked_ns = SY_LOAD(d->slice_ns);
	u64 max_ns = asked_ns ? asked_ns : SY_PARAMETER(p, CREDIT2_RUN_MAX_NS);
	u64 min_ns = sy_max(SY_PARAMETER(p, CREDIT2_RUN_MIN_NS), credit2_safe_ns(p, c, now));
	s64 credit_ns = credit2_credit_ns(p, q, v);
	s64 next_ns = next ? credit2_credit_ns(p, q, next) : 0;
	u64 run_ns;

	credit_ns = sy_smax(credit_ns - sy_smax(next_ns, 0), 0);
	/* at most 2^51 x 2^16 */
	run_ns = sy_min((u64)credit_ns, 1ULL << 47) * credit2_vcpu_const(v)->weight /
		 sy_max(credit2_queue_const(q)->max_weight, 1);
	run_ns = sy_max(sy_min(run_ns, max_ns), sy_max(min_ns, 1));
	return sy_min(run_ns, budget_slice(&credit2_vcpu_const(v)->grant, d,
					   SY_PARAMETER(p, CREDIT2_CAP_PERIOD_NS)));
}

/* ---- Balance ---- */

SY_FN u64 credit2_load(const struct sy_policy *p, struct sy_queue *q, u64 now)
{
	struct credit2_queue *cq = credit2_queue(q);

	credit2_load_update(p, &cq->load, cq->running, now);
	return cq->load.average;
}

/* By how much the difference of load shrinks; 0 if it is within the tolerance. */
SY_FN s64 credit2_balance_gain(const struct sy_policy *p, const struct sy_queue *from,
			       const struct sy_queue *to, const struct sy_domain *d,
			       const struct sy_vcpu *v, u64 now)
{
	const struct credit2_queue *cf = credit2_queue_const(from);
	const struct credit2_queue *ct = credit2_queue_const(to);
	const struct credit2_vcpu *cv = credit2_vcpu_const(v);
	u64 from_load = credit2_load_at(p, &cf->load, cf->running, now);
	u64 to_load = credit2_load_at(p, &ct->load, ct->running, now);
	u64 load = credit2_load_at(p, &cv->load, cv->loads, now);
	u64 full = (u64)(from->pcpus > to->pcpus ? from->pcpus : to->pcpus)
		   << CREDIT2_LOAD_PRECISION_SHIFT;
	enum credit2_parameter tolerance = from_load < full ? CREDIT2_UNDERLOAD_TOLERANCE :
							      CREDIT2_OVERLOAD_TOLERANCE;
	u64 difference = from_load - to_load;

	if (from_load <= to_load || difference < credit2_load_permille(p, tolerance))
		return 0;
	/* |difference - 2 load| < difference if and only if 0 < load < difference */
	if (load >= difference)
		return 0;
	return (s64)sy_min(2 * sy_min(load, difference - load), SY_FOREVER);
}

#ifdef SY_DESCRIBE
static const struct sy_parameter credit2_parameters[] = { CREDIT2_PARAMETERS(
	SY_PARAMETER_DESCRIPTION) };

#define CREDIT2_KNOWN \
	"queues are balanced by their load of about the last second: a vCPU can wait on one socket " \
	"while a pCPU of another is idle"

static const struct sy_description credit2_description = {
	.name = "credit2",
	.help = "Credit2 of Xen: most credit first, burnt by weight, one queue per socket",
	.vintage = { "xen-4.5", "xen-4.20" },
	.parameters = CREDIT2_PARAMETER_COUNT,
	.parameter = credit2_parameters,
	.known = { CREDIT2_KNOWN,
		   CREDIT2_KNOWN "; who wakes sooner than ratelimit_ns after another was chosen waits until that one's run "
				 "ends, for up to run_max_ns" },
};
#endif

#endif
