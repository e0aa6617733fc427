/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Xen's Credit scheduler.
 *
 * Mechanism: each pCPU has a queue of three priorities, BOOST before UNDER before OVER, first
 * come first served within one. Who runs pays credits for the time it runs; once per accounting
 * the host's time is handed out as credits to the domains that are active, in proportion to
 * their weights, and who has credits left is UNDER, who has not OVER. Who wakes with credits
 * left is BOOST until the first tick that finds it running. A pCPU about to run nothing better
 * than OVER looks for better work in other queues.
 *
 * Source: Xen, xen/common/sched_credit.c (3.3.0, 4.2, 4.5) and xen/common/sched/credit.c (4.20).
 * The vintage xen-3.3-fujitsu is 3.3 with the first improvement of Nishiguchi, "Evaluation and
 * improvement of credit scheduler for client virtualization", Xen Summit Tokyo, November 2008.
 *
 * State: per vCPU credits, priority, whether it is on the active list, parked, yielding; per
 * domain how many of its vCPUs are active; per host the weight of what is active and the balance
 * of credits after the last accounting; per queue which accounting it was sorted after; per pCPU
 * when it may steal next. A vCPU becomes active when a tick finds it running and leaves when it
 * has saved more than one accounting's credits.
 *
 * Signals: ticks, accounting. Knobs: d->weight, d->slice_ns (0: slice_ns), d->tick_ns; v->boost_ns,
 * time that it runs in BOOST and does not pay for; d->account_ns, at which each active vCPU of the
 * domain is accounted by its own timer: it gets its part of what the host's accounting has given it,
 * in proportion to the time, and is judged by it (priority, cap). What it gets from one accounting of
 * the host to the next is the same, so shares are.
 *
 * Parameters that tell the vintages apart: debit, credits_per_ms, overflow, level, boost_slice_ns,
 * weight_per, ratelimit*, yield, wake, steal_*.
 *
 * Readings
 *  - Xen moves a domain that was held at its peak to the head of its list if one before it took
 *    less than it could have, so that in the next accounting those after it get what it leaves:
 *    SY_FIRST. A host that visits in a fixed order instead loses what late domains leave over.
 *  - Exact debit: Xen keeps the part of a credit twice while a vCPU runs on (in start_time and
 *    in residual); here it is carried once.
 *  - A vCPU that no tick ever finds running is never active, hence never judged, in all
 *    vintages: the exact debit catches who dodges ticks as soon as one tick has found it.
 *  - A yield lets the head of the queue go first, whatever its priority. Who waits after a yield also lets one that is
 *    OVER go first, once, until the queue is sorted, as in Xen's __runq_insert(); a BOOST does not so for one UNDER.
 *  - A yield that nobody took up is forgotten at the next tick.
 *  - overflow: the talk says that a vCPU above its upper bound keeps its credit: all of it, or as much
 *    as the bound. As in 3.3 it is no longer active, unless a governor has use for what is above.
 *  - level: each active vCPU gets the mean of its domain's, rounded down, so that all have the same
 *    priority, as the talk says. Of boost by name it says nothing; without it (yes) one of a domain may be
 *    BOOST, and another not.
 *  - boost_end: who has spent its boost is UNDER, as the talk has it, or what it was before.
 *  - Published so, too: once levelled, who shares a pCPU with a domain in credit can starve. Two
 *    busy vCPUs on another pCPU use what the domain is given, all are OVER, and a pCPU that steals
 *    takes only who is strictly better.
 *  - Soft affinity and NUMA nodes are the host's: it walks peers, nearest first, and takes last who
 *    would rather be elsewhere.
 *  - After a short slice a vCPU waits behind its equals like any; short_slice before lets one with
 *    credits go before them, to run several times where they run once (Zhao et al. 2014, section 5).
 *    For those that wait a new slice counts from the next accounting.
 *  - A change of weight counts from the next tick or accounting that meets the domain.
 */
#ifndef STEELYARD_CREDIT_H
#define STEELYARD_CREDIT_H

#include "../vocabulary.h"

#define CREDIT_SOURCE "xen/common/sched/credit.c "
#define CREDIT_FUJITSU "Nishiguchi 2008, first improvement"

#define CREDIT_PARAMETERS(X) \
	X(CREDIT_SLICE_NS, "slice_ns", "ns", SY_MS, SY_S, \
	  "longest run, and time between accountings", CREDIT_SOURCE "CSCHED_DEFAULT_TSLICE_MS", \
	  30 * SY_MS, 30 * SY_MS, 30 * SY_MS, 30 * SY_MS, 30 * SY_MS) \
	X(CREDIT_TICKS_PER_SLICE, "ticks_per_slice", "count", 1, 1000, \
	  "ticks of a pCPU per slice_ns", CREDIT_SOURCE "CSCHED_TICKS_PER_TSLICE", \
	  3, 3, 3, 3, 3) \
	X(CREDIT_CREDITS_PER_MS, "credits_per_ms", "credits/ms", 1, 1000, \
	  "price of 1 ms of a pCPU", \
	  CREDIT_SOURCE "CSCHED_CREDITS_PER_MSEC; 3.3: CSCHED_CREDITS_PER_TICK", \
	  10, 1000, 10, 10, 10) \
	X(CREDIT_DEBIT, "debit", "flat|exact", 0, 1, \
	  "who runs at a tick pays for a whole tick, or everyone for the time it ran", \
	  CREDIT_SOURCE "csched_vcpu_acct(); burn_credits()", \
	  CREDIT_DEBIT_FLAT, CREDIT_DEBIT_EXACT, CREDIT_DEBIT_EXACT, CREDIT_DEBIT_EXACT, \
	  CREDIT_DEBIT_EXACT) \
	X(CREDIT_OVERFLOW, "overflow", "zero|half|bound|all", 0, 3, \
	  "what remains of credits above one accounting's: nothing, half of all, one accounting's, or all", \
	  CREDIT_SOURCE "csched_acct(); " CREDIT_FUJITSU, \
	  CREDIT_OVERFLOW_ZERO, CREDIT_OVERFLOW_ALL, CREDIT_OVERFLOW_HALF, CREDIT_OVERFLOW_HALF, \
	  CREDIT_OVERFLOW_HALF) \
	X(CREDIT_WEIGHT_PER, "weight_per", "domain|vcpu", 0, 1, \
	  "whether weight counts once per domain or once per active vCPU", \
	  CREDIT_SOURCE "__csched_vcpu_acct_start()", \
	  CREDIT_WEIGHT_PER_DOMAIN, CREDIT_WEIGHT_PER_DOMAIN, CREDIT_WEIGHT_PER_VCPU, \
	  CREDIT_WEIGHT_PER_VCPU, CREDIT_WEIGHT_PER_VCPU) \
	X(CREDIT_RATELIMIT_NS, "ratelimit_ns", "ns", 0, SY_S, \
	  "a vCPU that started less than this ago is not preempted, at most slice_ns", \
	  "xen/common/sched/core.c SCHED_DEFAULT_RATELIMIT_US", \
	  0, 0, SY_MS, SY_MS, SY_MS) \
	X(CREDIT_RATELIMIT_SLICE, "ratelimit_slice", "whole|rest", 0, 1, \
	  "who was not preempted because of the ratelimit runs on for all of it, or for its rest", \
	  CREDIT_SOURCE "csched_schedule()", \
	  CREDIT_RATELIMIT_SLICE_WHOLE, CREDIT_RATELIMIT_SLICE_WHOLE, \
	  CREDIT_RATELIMIT_SLICE_WHOLE, CREDIT_RATELIMIT_SLICE_WHOLE, CREDIT_RATELIMIT_SLICE_REST) \
	X(CREDIT_RATELIMIT_YIELD, "ratelimit_yield", "kept|lifted", 0, 1, \
	  "whether a yield lifts the ratelimit", CREDIT_SOURCE "csched_schedule()", \
	  CREDIT_RATELIMIT_YIELD_KEPT, CREDIT_RATELIMIT_YIELD_KEPT, \
	  CREDIT_RATELIMIT_YIELD_KEPT, CREDIT_RATELIMIT_YIELD_KEPT, CREDIT_RATELIMIT_YIELD_LIFTED) \
	X(CREDIT_YIELD, "yield", "behind_equals|behind_lower", 0, 1, \
	  "whom a vCPU that yields lets go first: its equals, or also one of lower priority", \
	  CREDIT_SOURCE "__runq_insert()", \
	  CREDIT_YIELD_BEHIND_EQUALS, CREDIT_YIELD_BEHIND_EQUALS, CREDIT_YIELD_BEHIND_LOWER, \
	  CREDIT_YIELD_BEHIND_LOWER, CREDIT_YIELD_BEHIND_LOWER) \
	X(CREDIT_WAKE, "wake", "all_idle|one_idle|idle_first", 0, 2, \
	  "whom a wake interrupts if the last pCPU is busy: " \
	  "that one if lower priority runs there, and all idle ones; likewise and one idle one; " \
	  "or one idle one, else that one", \
	  CREDIT_SOURCE "__runq_tickle()", \
	  CREDIT_WAKE_ALL_IDLE, CREDIT_WAKE_ALL_IDLE, CREDIT_WAKE_ONE_IDLE, \
	  CREDIT_WAKE_IDLE_FIRST, CREDIT_WAKE_IDLE_FIRST) \
	X(CREDIT_STEAL_INTERVAL_NS, "steal_interval_ns", "ns", 0, SY_S, \
	  "time between two looks of a pCPU into other queues while it has work of its own", \
	  CREDIT_SOURCE "load_balance_ratelimit", \
	  0, 0, 0, 0, SY_MS) \
	X(CREDIT_STEAL_YIELDED, "steal_yielded", "no|yes", 0, 1, \
	  "whether a vCPU that yielded and waits since may be stolen", \
	  CREDIT_SOURCE "csched_runq_steal()", \
	  1, 1, 1, 1, 0) \
	X(CREDIT_MIGRATION_DELAY_NS, "migration_delay_ns", "ns", 0, SY_S, \
	  "a vCPU that ran less than this ago is cache-hot and not stolen", \
	  CREDIT_SOURCE "vcpu_migration_delay_us", \
	  0, 0, 0, 0, 0) \
	X(CREDIT_LEVEL, "level", "no|yes|with_boost", 0, 2, \
	  "whether the active vCPUs of a domain have their credits levelled before accounting; also their boost", \
	  CREDIT_FUJITSU, CREDIT_LEVEL_NO, CREDIT_LEVEL_WITH_BOOST, CREDIT_LEVEL_NO, CREDIT_LEVEL_NO, \
	  CREDIT_LEVEL_NO) \
	X(CREDIT_BOOST_SLICE_NS, "boost_slice_ns", "ns", 0, SY_S, \
	  "longest run in BOOST; 0: slice_ns", CREDIT_FUJITSU, 0, 2 * SY_MS, 0, 0, 0) \
	X(CREDIT_BOOST_END, "boost_end", "before|under", 0, 1, \
	  "what a vCPU is that has spent its boost: what it was before, or UNDER", \
	  "Nishiguchi 2008, second improvement", CREDIT_BOOST_END_UNDER, CREDIT_BOOST_END_UNDER, \
	  CREDIT_BOOST_END_UNDER, CREDIT_BOOST_END_UNDER, CREDIT_BOOST_END_UNDER) \
	X(CREDIT_SHORT_SLICE, "short_slice", "behind|before", 0, 1, \
	  "whether UNDER with a slice shorter than slice_ns waits behind its equals or before them", \
	  CREDIT_SOURCE "__runq_insert(); before: Zhao et al. 2014, section 5", \
	  CREDIT_SHORT_SLICE_BEHIND, CREDIT_SHORT_SLICE_BEHIND, CREDIT_SHORT_SLICE_BEHIND, \
	  CREDIT_SHORT_SLICE_BEHIND, CREDIT_SHORT_SLICE_BEHIND)

/* clang-format off */
/* The choices, in the order of their names above. */
enum { CREDIT_DEBIT_FLAT, CREDIT_DEBIT_EXACT };
enum { CREDIT_OVERFLOW_ZERO, CREDIT_OVERFLOW_HALF, CREDIT_OVERFLOW_BOUND, CREDIT_OVERFLOW_ALL };
enum { CREDIT_WEIGHT_PER_DOMAIN, CREDIT_WEIGHT_PER_VCPU };
enum { CREDIT_RATELIMIT_SLICE_WHOLE, CREDIT_RATELIMIT_SLICE_REST };
enum { CREDIT_RATELIMIT_YIELD_KEPT, CREDIT_RATELIMIT_YIELD_LIFTED };
enum { CREDIT_YIELD_BEHIND_EQUALS, CREDIT_YIELD_BEHIND_LOWER };
enum { CREDIT_WAKE_ALL_IDLE, CREDIT_WAKE_ONE_IDLE, CREDIT_WAKE_IDLE_FIRST };
enum { CREDIT_LEVEL_NO, CREDIT_LEVEL_YES, CREDIT_LEVEL_WITH_BOOST };
enum { CREDIT_BOOST_END_BEFORE, CREDIT_BOOST_END_UNDER };
enum { CREDIT_SHORT_SLICE_BEHIND, CREDIT_SHORT_SLICE_BEFORE };
/* clang-format on */

enum credit_parameter { CREDIT_PARAMETERS(SY_PARAMETER_INDEX) CREDIT_PARAMETER_COUNT };
_Static_assert((int)CREDIT_PARAMETER_COUNT <= SY_PARAMETER_WORDS, "parameters fit");

/* Priorities, and keys by them. */
#define CREDIT_BOOST 0
#define CREDIT_UNDER 1
#define CREDIT_OVER 2

/*
 * Credits and weights that are multiplied stay below this, so that products fit 64 bits. Beyond it
 * (7 million pCPUs, 32768 active vCPUs of the highest weight in a domain) shares are not exact.
 */
#define CREDIT_LIMIT (1ULL << 31)

/* A debt deeper than this is not told apart: the next accounting lifts it to the floor anyway. */
#define CREDIT_DEEPEST (-(1LL << 40))
/* Nor are more credits, of who keeps all. */
#define CREDIT_HIGHEST (1LL << 40)

struct credit_vcpu {
	s64 credits;
	s64 counted; /* what its domain's sum has of them */
	u64 counted_boost_ns; /* likewise of its boost */
	u64 residual; /* what the exact debit has not charged yet; unit: ns x credits per ms */
	u64 charged_ns; /* when it ran last */
	u64 accounted_ns; /* the last accounting of the host */
	u64 share; /* credits that it gets until the next one */
	u64 given; /* what its own accountings gave it of those */
	u64 cap_share; /* what its cap leaves it of them; CREDIT_LIMIT: no cap */
	u64 yielded_ns; /* when it yielded, if it has not started since; or 0 */
	u32 priority;
	u8 active; /* earns credits */
	u8 parked;
	u8 running;
};

struct credit_domain {
	u64 active_vcpus;
	u64 weight; /* that the host's total counts */
	/* Sums over its active vCPUs, of each as it was counted last: exact where levelled. */
	s64 credits;
	u64 boost_ns;
};

struct credit_queue {
	u64 sorted; /* value of accountings when it was sorted last, or CREDIT_UNSORTED */
	u64 let_ns; /* when one that is OVER started here last, or it was sorted */
};

#define CREDIT_UNSORTED (~0ULL)

struct credit_pcpu {
	u64 steal_ns; /* not earlier, while it has work of its own */
};

struct credit_accounting {
	u64 weight; /* of all that is active; kept up to date between accountings */
	s64 balance; /* sum of credits of the vCPUs that the last accounting visited */
	u64 accountings; /* how many handed out credits */
	/* During one accounting: */
	u64 credit_total;
	u64 weight_total;
	u64 weight_left; /* of domains still to come */
	u64 shortage; /* by how much the last balance was below 0 */
	u64 below_peak; /* 1 once a domain could have taken more than its share */
	/* From its domain to the vCPUs: */
	u64 share; /* credits for each active vCPU */
	u64 cap_share; /* each one's part of the cap */
	s64 level; /* mean credits of its active vCPUs, rounded down */
	u64 level_boost_ns; /* and mean boost */
	/* To the vCPUs: */
	u64 now;
	/* From a vCPU to a governor: */
	u64 unused; /* credits that it had above one accounting's */
};

_Static_assert(sizeof(struct credit_vcpu) <= SY_VCPU_WORDS * sizeof(u64), "state fits");
_Static_assert(sizeof(struct credit_domain) <= SY_DOMAIN_WORDS * sizeof(u64), "state fits");
_Static_assert(sizeof(struct credit_queue) <= SY_QUEUE_WORDS * sizeof(u64), "state fits");
_Static_assert(sizeof(struct credit_pcpu) <= SY_PCPU_WORDS * sizeof(u64), "state fits");
_Static_assert(sizeof(struct credit_accounting) <= SY_ACCOUNTING_WORDS * sizeof(u64), "state fits");

static inline struct credit_vcpu *credit_vcpu(struct sy_vcpu *v)
{
	return (struct credit_vcpu *)v->state;
}

static inline const struct credit_vcpu *credit_vcpu_const(const struct sy_vcpu *v)
{
	return (const struct credit_vcpu *)v->state;
}

static inline struct credit_domain *credit_domain(struct sy_domain *d)
{
	return (struct credit_domain *)d->state;
}

static inline struct credit_accounting *credit_accounting(struct sy_accounting *a)
{
	return (struct credit_accounting *)a->state;
}

static inline u64 credit_divide_up(u64 value, u64 divisor)
{
	return divisor ? (value + divisor - 1) / divisor : 0;
}

/* The sum of credits, for which who levels wants every change; a tick counts who runs among the active ones. */
SY_FN bool credit_writes_domain(const struct sy_policy *p, enum sy_domain_call call)
{
	return call == SY_CALL_tick ||
	       ((call == SY_CALL_charge || call == SY_CALL_vcpu_timer) && SY_CHOICE(p, CREDIT_LEVEL));
}

SY_FN u64 credit_tick_ns(const struct sy_policy *p)
{
	return SY_PARAMETER(p, CREDIT_SLICE_NS) / SY_PARAMETER(p, CREDIT_TICKS_PER_SLICE);
}

SY_FN u64 credit_account_ns(const struct sy_policy *p)
{
	return SY_PARAMETER(p, CREDIT_SLICE_NS);
}

/* Time between a vCPU's own accountings; 0: it has those of the host. */
static inline u64 credit_own_account_ns(const struct sy_policy *p, const struct sy_domain *d)
{
	u64 own_ns = SY_LOAD(d->account_ns);

	return own_ns < credit_account_ns(p) ? own_ns : 0;
}

/* What a pCPU is worth per accounting; a vCPU saves no more, and owes no more after one. */
static inline u64 credit_per_accounting(const struct sy_policy *p)
{
	return SY_PARAMETER(p, CREDIT_CREDITS_PER_MS) * credit_account_ns(p) / SY_MS;
}

SY_FN void credit_vcpu_init(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v,
			    u64 now)
{
	credit_vcpu(v)->priority = CREDIT_UNDER;
}

SY_FN u32 credit_wake(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		      struct sy_vcpu *v, u64 now)
{
	struct credit_vcpu *cv = credit_vcpu(v);

	cv->running = 0;
	cv->yielded_ns = 0;
	if (cv->priority == CREDIT_UNDER && !cv->parked)
		cv->priority = CREDIT_BOOST;
	return 0;
}

SY_FN u32 credit_steps(const struct sy_policy *p, const struct sy_vcpu *v)
{
	switch (SY_CHOICE(p, CREDIT_WAKE)) {
	case CREDIT_WAKE_ALL_IDLE:
		return SY_STEPS(SY_STEP_LAST_IDLE, SY_STEP_LAST_LEAD | SY_STEP_ALSO,
				SY_STEP_ALL_IDLE, 0);
	case CREDIT_WAKE_ONE_IDLE:
		return SY_STEPS(SY_STEP_LAST_IDLE, SY_STEP_LAST_LEAD | SY_STEP_ALSO,
				SY_STEP_NEXT_IDLE, 0);
	default:
		return SY_STEPS(SY_STEP_LAST_IDLE, SY_STEP_NEXT_IDLE, SY_STEP_EVICT,
				SY_STEP_LAST_LEAD);
	}
}

SY_FN u32 credit_yield(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		       struct sy_vcpu *v, u64 now)
{
	credit_vcpu(v)->yielded_ns = sy_max(now, 1);
	return 0;
}

static inline void credit_count(const struct sy_policy *p, struct credit_domain *cd, struct sy_vcpu *v)
{
	struct credit_vcpu *cv = credit_vcpu(v);
	s64 counts = cv->active ? cv->credits : 0;
	u64 counts_boost_ns = cv->active ? v->boost_ns : 0;

	cd->credits += counts - cv->counted;
	cv->counted = counts;
	if (SY_CHOICE(p, CREDIT_LEVEL) != CREDIT_LEVEL_WITH_BOOST)
		return;
	cd->boost_ns += counts_boost_ns - cv->counted_boost_ns;
	cv->counted_boost_ns = counts_boost_ns;
}

static inline void credit_pay(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v, u64 credits)
{
	struct credit_vcpu *cv = credit_vcpu(v);

	cv->credits = sy_smax(cv->credits - (s64)credits, CREDIT_DEEPEST);
	if (SY_CHOICE(p, CREDIT_LEVEL) && !SY_APART(v))
		credit_count(p, credit_domain(d), v);
}

/* A credit's worth or more. */
static inline bool credit_has_boost(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return v->boost_ns && v->boost_ns * SY_PARAMETER(p, CREDIT_CREDITS_PER_MS) >= SY_MS;
}

/* In effect. */
static inline u32 credit_priority(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return credit_has_boost(p, v) ? CREDIT_BOOST : credit_vcpu_const(v)->priority;
}

/* What is left to pay of a time after the vCPU's boost. */
static inline u64 credit_spend_boost(const struct sy_policy *p, struct sy_vcpu *v, u64 ran_ns)
{
	u64 spent_ns = sy_min(ran_ns, v->boost_ns);
	bool had_boost;

	if (!spent_ns)
		return ran_ns;
	had_boost = credit_has_boost(p, v);
	v->boost_ns -= spent_ns;
	if (had_boost && !credit_has_boost(p, v) &&
	    SY_CHOICE(p, CREDIT_BOOST_END) == CREDIT_BOOST_END_UNDER)
		credit_vcpu(v)->priority = CREDIT_UNDER;
	return ran_ns - spent_ns;
}

SY_FN u32 credit_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	struct credit_vcpu *cv = credit_vcpu(v);

	cv->charged_ns = now;
	if (SY_CHOICE(p, CREDIT_DEBIT) == CREDIT_DEBIT_EXACT) {
		u64 owed = sy_min(credit_spend_boost(p, v, ran_ns), 1ULL << 50) * SY_PARAMETER(p, CREDIT_CREDITS_PER_MS) +
			   cv->residual;

		cv->residual = owed % SY_MS;
		credit_pay(p, d, v, owed / SY_MS);
	}
	return 0;
}

SY_FN s64 credit_credits(const struct sy_vcpu *v)
{
	return credit_vcpu_const(v)->credits;
}

SY_FN enum sy_class credit_class(const struct sy_policy *p, const struct sy_vcpu *v)
{
	if (credit_vcpu_const(v)->parked)
		return SY_CLASS_PARKED;
	switch (credit_priority(p, v)) {
	case CREDIT_BOOST:
		return SY_CLASS_BOOST;
	case CREDIT_UNDER:
		return SY_CLASS_UNDER;
	default:
		return SY_CLASS_OVER;
	}
}

/* Debt is forgiven below the floor, so only who has credit left may be summoned out of turn. */
static inline bool credit_may_borrow(const struct sy_vcpu *v)
{
	return credit_credits(v) >= 0;
}

/* ---- Who is next, for how long ---- */

/* The priority; where short slices go before others' there is a place before UNDER. */
SY_FN u64 credit_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		     struct sy_vcpu *v, u64 now)
{
	u64 slice_ns = SY_LOAD(d->slice_ns), priority = credit_priority(p, v);

	credit_vcpu(v)->running = 0;
	if (SY_CHOICE(p, CREDIT_SHORT_SLICE) == CREDIT_SHORT_SLICE_BEHIND)
		return priority;
	return 2 * priority - (priority == CREDIT_UNDER && slice_ns && slice_ns < SY_PARAMETER(p, CREDIT_SLICE_NS));
}

SY_FN s64 credit_lead(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c,
		      const struct sy_vcpu *v, const struct sy_vcpu *running, u64 now)
{
	return (s64)credit_priority(p, running) - (s64)credit_priority(p, v);
}

/* How long the vCPU that runs on c is still protected from preemption. */
static inline u64 credit_protected_ns(const struct sy_policy *p, const struct sy_pcpu *c,
				      const struct credit_vcpu *running, u64 now)
{
	u64 limit_ns = sy_min(SY_PARAMETER(p, CREDIT_RATELIMIT_NS), SY_PARAMETER(p, CREDIT_SLICE_NS));
	u64 ran_ns = now > c->started_ns ? now - c->started_ns : 0;

	/* Before 4.2 nobody is. */
	if (!limit_ns)
		return 0;
	if (running->yielded_ns &&
	    SY_CHOICE(p, CREDIT_RATELIMIT_YIELD) == CREDIT_RATELIMIT_YIELD_LIFTED)
		return 0;
	return ran_ns < limit_ns ? limit_ns - ran_ns : 0;
}

/* Who ran goes behind its equals. */
SY_FN enum sy_verdict credit_consider(const struct sy_policy *p, const struct sy_queue *q,
				      const struct sy_pcpu *c, const struct sy_vcpu *best,
				      const struct sy_vcpu *candidate, u64 now)
{
	const struct credit_vcpu *ran, *waits = credit_vcpu_const(candidate);
	const struct credit_queue *cq = (const struct credit_queue *)q->state;
	bool lower = SY_CHOICE(p, CREDIT_YIELD) == CREDIT_YIELD_BEHIND_LOWER;
	/* Whether it still lets one that is OVER go first. */
	bool owes = lower && waits->priority != CREDIT_OVER && waits->yielded_ns > cq->let_ns;

	if (!best)
		return owes ? SY_PREFER : SY_TAKE;
	ran = credit_vcpu_const(best);
	if (credit_protected_ns(p, c, ran, now))
		return SY_STOP;
	if (lower && ran->yielded_ns)
		return !owes ? SY_TAKE : ran->running ? SY_PREFER :
							SY_SKIP;
	return credit_priority(p, candidate) <= credit_priority(p, best) ? SY_TAKE : SY_STOP;
}

SY_FN bool credit_look_further(const struct sy_policy *p, struct sy_pcpu *c,
			       const struct sy_vcpu *best, u64 now)
{
	struct credit_pcpu *cc = (struct credit_pcpu *)c->state;

	if (best) {
		const struct credit_vcpu *chosen = credit_vcpu_const(best);

		if (credit_priority(p, best) < CREDIT_OVER || now < cc->steal_ns)
			return false;
		if (chosen->running && credit_protected_ns(p, c, chosen, now))
			return false;
	}
	cc->steal_ns = now + SY_PARAMETER(p, CREDIT_STEAL_INTERVAL_NS);
	return true;
}

SY_FN enum sy_verdict credit_steal(const struct sy_policy *p, const struct sy_pcpu *c,
				   const struct sy_vcpu *best, const struct sy_queue *from,
				   const struct sy_vcpu *candidate, u64 now)
{
	const struct credit_vcpu *peer = credit_vcpu_const(candidate);
	u64 waited_ns = now > peer->charged_ns ? now - peer->charged_ns : 0;

	if (best && credit_priority(p, candidate) >= credit_priority(p, best))
		return SY_STOP;
	if (waited_ns < SY_PARAMETER(p, CREDIT_MIGRATION_DELAY_NS))
		return SY_SKIP;
	if (peer->yielded_ns && !SY_CHOICE(p, CREDIT_STEAL_YIELDED))
		return SY_SKIP;
	return SY_TAKE;
}

SY_FN void credit_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c,
			struct sy_vcpu *v, u64 now)
{
	struct credit_vcpu *cv = credit_vcpu(v);

	cv->running = 1;
	cv->yielded_ns = 0;
	if (credit_priority(p, v) == CREDIT_OVER)
		((struct credit_queue *)q->state)->let_ns = now;
}

/*
 * Whoever is chosen has the first in the queue behind it, unless that yielded to it, or the ratelimit
 * protected it: then the queue must be looked at again when that ends.
 */
SY_FN u64 credit_slice(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c,
		       const struct sy_domain *d, const struct sy_vcpu *v,
		       const struct sy_vcpu *next, u64 now)
{
	const struct credit_vcpu *cv = credit_vcpu_const(v);
	u64 asked_ns = SY_LOAD(d->slice_ns);
	u64 slice_ns = asked_ns ? sy_min(asked_ns, SY_FOREVER) : SY_PARAMETER(p, CREDIT_SLICE_NS);
	u32 priority = credit_priority(p, v);

	if (priority == CREDIT_BOOST && SY_PARAMETER(p, CREDIT_BOOST_SLICE_NS))
		slice_ns = sy_min(slice_ns, SY_PARAMETER(p, CREDIT_BOOST_SLICE_NS));
	if (next) {
		u64 protected_ns = credit_protected_ns(p, c, cv, now);
		u32 waits = credit_priority(p, next);
		bool starts = now == c->started_ns, let = starts && credit_vcpu_const(next)->yielded_ns;

		if (protected_ns && !let && (waits < priority || (waits == priority && !starts)))
			return SY_CHOICE(p, CREDIT_RATELIMIT_SLICE) == CREDIT_RATELIMIT_SLICE_REST ?
				       protected_ns :
				       sy_clamp(SY_PARAMETER(p, CREDIT_RATELIMIT_NS), 1,
						SY_PARAMETER(p, CREDIT_SLICE_NS));
	}
	return slice_ns;
}

/* ---- Time that passes ---- */

/* How often the weight of a domain counts in the host's total. */
static inline u64 credit_weights(const struct sy_policy *p, const struct credit_domain *cd)
{
	if (SY_CHOICE(p, CREDIT_WEIGHT_PER) == CREDIT_WEIGHT_PER_VCPU)
		return cd->active_vcpus;
	return cd->active_vcpus ? 1 : 0;
}

/* The domain has now this weight and so many active vCPUs: correct the host's total. */
static inline void credit_set_weight(const struct sy_policy *p, struct credit_accounting *ca,
				     struct credit_domain *cd, u64 weight, u64 active_vcpus)
{
	ca->weight -= cd->weight * credit_weights(p, cd);
	cd->weight = weight;
	cd->active_vcpus = active_vcpus;
	ca->weight += cd->weight * credit_weights(p, cd);
}

/* An active vCPU earns no more, and its weight leaves the host's total. */
static inline void credit_retire(const struct sy_policy *p, struct credit_accounting *ca,
				 struct credit_domain *cd, struct sy_vcpu *v)
{
	struct credit_vcpu *cv = credit_vcpu(v);

	cv->active = 0;
	cv->share = 0;
	cv->given = 0;
	credit_count(p, cd, v);
	credit_set_weight(p, ca, cd, cd->weight, cd->active_vcpus - 1);
}

static inline u64 credit_weight(const struct sy_domain *d)
{
	return sy_clamp(d->weight, SY_WEIGHT_MIN, SY_WEIGHT_MAX);
}

SY_FN u32 credit_tick(const struct sy_policy *p, struct sy_accounting *a, struct sy_queue *q,
		      struct sy_pcpu *c, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	struct credit_accounting *ca = credit_accounting(a);
	struct credit_queue *cq = (struct credit_queue *)q->state;
	struct credit_domain *cd = credit_domain(d);
	struct credit_vcpu *cv = credit_vcpu(v);
	u32 request = 0;

	if (cv->priority == CREDIT_BOOST)
		cv->priority = CREDIT_UNDER;
	cv->yielded_ns = 0;
	if (SY_CHOICE(p, CREDIT_DEBIT) == CREDIT_DEBIT_FLAT) {
		u64 tick_ns = credit_tick_ns(p);

		if (d->tick_ns)
			tick_ns = sy_min(tick_ns, d->tick_ns);
		tick_ns = credit_spend_boost(p, v, tick_ns);
		credit_pay(p, d, v, SY_PARAMETER(p, CREDIT_CREDITS_PER_MS) * tick_ns / SY_MS);
	}
	credit_set_weight(p, ca, cd, credit_weight(d), cd->active_vcpus + (cv->active ? 0 : 1));
	if (cv->active)
		request |= SY_REPLACE;
	cv->active = 1;
	credit_count(p, cd, v);
	if (cq->sorted != ca->accountings) {
		cq->sorted = ca->accountings;
		cq->let_ns = now;
		request |= SY_RESORT;
	}
	return request;
}

SY_FN void credit_vcpu_destroy(const struct sy_policy *p, struct sy_accounting *a,
			       struct sy_domain *d, struct sy_vcpu *v)
{
	struct credit_domain *cd = credit_domain(d);

	if (credit_vcpu(v)->active)
		credit_retire(p, credit_accounting(a), cd, v);
}

SY_FN void credit_account_begin(const struct sy_policy *p, struct sy_accounting *a, u64 now)
{
	struct credit_accounting *ca = credit_accounting(a);

	ca->shortage = ca->balance < 0 ? sy_min(-(u64)ca->balance, CREDIT_LIMIT) : 0;
	ca->credit_total = sy_min(a->pcpus, CREDIT_LIMIT) * credit_per_accounting(p) + ca->shortage;
	ca->credit_total = sy_min(ca->credit_total, CREDIT_LIMIT);
	ca->weight_total = sy_min(ca->weight, CREDIT_LIMIT);
	ca->weight_left = ca->weight_total;
	ca->below_peak = 0;
	ca->balance = 0;
	ca->now = now;
}

/* No division of signed values: the mean of a debt is that of its amount, rounded up. */
static inline void credit_find_level(struct credit_accounting *ca, const struct credit_domain *cd)
{
	u64 vcpus = sy_max(cd->active_vcpus, 1);

	if (cd->credits < 0)
		ca->level = -(s64)credit_divide_up(-(u64)cd->credits, vcpus);
	else
		ca->level = (s64)((u64)cd->credits / vcpus);
	ca->level_boost_ns = cd->boost_ns / vcpus;
}

/* What a domain leaves of its part goes to those still to come; what it has beside it comes from them. */
static inline void credit_pass_on(struct credit_accounting *ca, u64 part, u64 taken)
{
	if (taken <= part)
		ca->credit_total += credit_divide_up((part - taken) * ca->weight_total, ca->weight_left);
	else
		ca->credit_total -= sy_min(sy_divide((taken - part) * ca->weight_total, ca->weight_left),
					   ca->credit_total);
	ca->credit_total = sy_min(ca->credit_total, CREDIT_LIMIT);
}

/* given_ns: boost that a governor gives the domain in place of credits; 0: none */
SY_FN u32 credit_account_domain(const struct sy_policy *p, struct sy_accounting *a,
				struct sy_domain *d, u64 given_ns)
{
	struct credit_accounting *ca = credit_accounting(a);
	struct credit_domain *cd = credit_domain(d);
	u64 weight, fair, peak;
	u32 request = SY_VISIT;

	if (!cd->active_vcpus || !ca->weight_total)
		return 0;
	weight = sy_min(cd->weight * credit_weights(p, cd), ca->weight_total);
	ca->weight_left -= sy_min(weight, ca->weight_left);

	/* No more than all its active vCPUs could use, and its part of what is to be made good. */
	peak = sy_min(cd->active_vcpus, CREDIT_LIMIT) * credit_per_accounting(p) +
	       credit_divide_up(ca->shortage * weight, ca->weight_total);
	ca->cap_share = CREDIT_LIMIT;
	if (d->settings.cap_percent) {
		u64 cap = credit_divide_up(sy_min(d->settings.cap_percent, CREDIT_LIMIT) *
						   credit_per_accounting(p),
					   100);

		peak = sy_min(peak, cap);
		ca->cap_share = credit_divide_up(cap, cd->active_vcpus);
	}
	fair = credit_divide_up(ca->credit_total * weight, ca->weight_total);
	if (given_ns)
		peak = sy_min(sy_min(given_ns, 1ULL << 50) * SY_PARAMETER(p, CREDIT_CREDITS_PER_MS) / SY_MS, CREDIT_LIMIT);
	if (fair < peak && !given_ns) {
		ca->below_peak = 1;
	} else {
		credit_pass_on(ca, fair, peak);
		if (ca->below_peak)
			request |= SY_FIRST;
		fair = given_ns ? 0 : peak;
	}
	ca->share = credit_divide_up(fair, cd->active_vcpus);
	if (SY_CHOICE(p, CREDIT_LEVEL))
		credit_find_level(ca, cd);
	credit_set_weight(p, ca, cd, credit_weight(d), cd->active_vcpus);
	return request;
}

/* What remains of credits above one accounting's. */
static inline s64 credit_of_overflow(const struct sy_policy *p, s64 credits, bool saves)
{
	s64 most = (s64)credit_per_accounting(p);

	if (saves)
		return most;
	switch (SY_CHOICE(p, CREDIT_OVERFLOW)) {
	case CREDIT_OVERFLOW_HALF:
		return (s64)((u64)credits / 2);
	case CREDIT_OVERFLOW_BOUND:
		return most;
	case CREDIT_OVERFLOW_ALL:
		return sy_smin(credits, CREDIT_HIGHEST);
	default:
		return 0;
	}
}

/*
 * Priority, and whether the cap keeps it from running. cap_share: what the cap leaves it from one accounting to the
 * next.
 */
static inline u32 credit_judge(struct credit_vcpu *cv, u64 cap_share)
{
	if (cv->credits < 0) {
		cv->priority = CREDIT_OVER;
		if (cap_share >= CREDIT_LIMIT || cv->parked || cv->credits >= -(s64)cap_share)
			return 0;
		cv->parked = 1;
		return SY_PARK;
	}
	cv->priority = CREDIT_UNDER;
	if (!cv->parked)
		return 0;
	cv->parked = 0;
	return SY_UNPARK;
}

/* A vCPU's own accounting: its part of what it gets until the host's next one. Queues are sorted at a tick. */
SY_FN u32 credit_vcpu_timer(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v,
			    u64 now)
{
	u64 account_ns = credit_account_ns(p), own_ns = credit_own_account_ns(p, d), passed_ns, given;
	struct credit_queue *cq = (struct credit_queue *)q->state;
	struct credit_vcpu *cv = credit_vcpu(v);

	v->timer_ns = 0;
	if (!own_ns || !cv->active)
		return SY_TIMER;
	passed_ns = now > cv->accounted_ns ? sy_min(now - cv->accounted_ns, account_ns) : 0;
	/* 2^31 x 2^30 */
	given = sy_max(cv->share * passed_ns / account_ns, cv->given);
	cv->credits += (s64)(given - cv->given);
	cv->given = given;
	if (SY_CHOICE(p, CREDIT_LEVEL) && !SY_APART(v))
		credit_count(p, credit_domain(d), v);
	cq->sorted = CREDIT_UNSORTED;
	v->timer_ns = now + own_ns;
	if (cv->cap_share >= CREDIT_LIMIT)
		return SY_TIMER | credit_judge(cv, CREDIT_LIMIT);
	return SY_TIMER | credit_judge(cv, credit_divide_up(cv->cap_share * own_ns, account_ns));
}

/*
 * It has more than a vCPU may save, so it earns no more. saves: unless a governor has use for what it leaves unused; then
 * it stays active with as much as it may have.
 */
static inline void credit_overflow(const struct sy_policy *p, struct credit_accounting *ca, struct credit_domain *cd,
				   struct sy_vcpu *v, bool saves)
{
	struct credit_vcpu *cv = credit_vcpu(v);

	ca->unused = (u64)(cv->credits - (s64)credit_per_accounting(p));
	if (!saves)
		credit_retire(p, ca, cd, v);
	cv->credits = credit_of_overflow(p, cv->credits, saves);
}

/* Gives it its share, now or, where it has accountings of its own, by those until the next one of the host. */
static inline void credit_give(const struct sy_policy *p, const struct credit_accounting *ca, struct sy_vcpu *v,
			       bool own)
{
	struct credit_vcpu *cv = credit_vcpu(v);

	if (SY_CHOICE(p, CREDIT_LEVEL))
		cv->credits = ca->level;
	if (SY_CHOICE(p, CREDIT_LEVEL) == CREDIT_LEVEL_WITH_BOOST)
		v->boost_ns = ca->level_boost_ns;
	/* What is left of the last one. */
	cv->credits += (s64)(cv->share - cv->given);
	cv->share = ca->share;
	cv->given = own ? 0 : ca->share;
	cv->credits += (s64)cv->given;
	cv->cap_share = ca->cap_share;
	cv->accounted_ns = ca->now;
}

SY_FN u32 credit_account_vcpu(const struct sy_policy *p, struct sy_accounting *a,
			      struct sy_domain *d, struct sy_vcpu *v, bool saves)
{
	struct credit_accounting *ca = credit_accounting(a);
	struct credit_domain *cd = credit_domain(d);
	struct credit_vcpu *cv = credit_vcpu(v);
	s64 most = (s64)credit_per_accounting(p);
	u64 own_ns = credit_own_account_ns(p, d);
	u32 request = 0;

	ca->unused = 0;
	if (!cv->active)
		return 0;
	credit_give(p, ca, v, own_ns);
	/* Else its own accounting does. */
	if (!own_ns || !v->timer_ns || cv->credits > most)
		request = credit_judge(cv, ca->cap_share);
	if (cv->credits < 0)
		cv->credits = sy_smax(cv->credits, -most);
	else if (cv->credits > most)
		credit_overflow(p, ca, cd, v, saves);
	if (!cv->active && v->timer_ns) {
		v->timer_ns = 0;
		request |= SY_TIMER;
	} else if (cv->active && own_ns && !v->timer_ns) {
		v->timer_ns = ca->now + own_ns;
		request |= SY_TIMER;
	}
	credit_count(p, cd, v);
	ca->balance += cv->credits + (s64)(cv->share - cv->given);
	return request;
}

/* A governor may have saved some of that as boost. */
SY_FN void credit_account_boost(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v)
{
	if (SY_CHOICE(p, CREDIT_LEVEL) == CREDIT_LEVEL_WITH_BOOST)
		credit_count(p, credit_domain(d), v);
}

/* What the vCPU that was accounted last left unused. */
SY_FN u64 credit_unused_ns(const struct sy_policy *p, const struct sy_accounting *a)
{
	const struct credit_accounting *ca = (const struct credit_accounting *)a->state;

	return sy_min(ca->unused, CREDIT_LIMIT) * SY_MS / SY_PARAMETER(p, CREDIT_CREDITS_PER_MS);
}

SY_FN void credit_account_end(const struct sy_policy *p, struct sy_accounting *a)
{
	struct credit_accounting *ca = credit_accounting(a);

	if (ca->weight_total)
		ca->accountings++;
}

#ifdef SY_DESCRIBE
static const struct sy_parameter credit_parameters[] = { CREDIT_PARAMETERS(
	SY_PARAMETER_DESCRIPTION) };

static const struct sy_description credit_description = {
	.name = "credit",
	.help = "Xen's Credit: proportional share by credits, boost on wake, a queue per pCPU that steals",
	.vintage = { "xen-3.3", "xen-3.3-fujitsu", "xen-4.2", "xen-4.5", "xen-4.20" },
	.parameters = CREDIT_PARAMETER_COUNT,
	.parameter = credit_parameters,
	.known = { [1] = "levelled, the vCPUs of a domain share one priority, and nobody steals among equals: "
			 "one that shares a pCPU with a domain in credit can starve while its siblings "
			 "use what is theirs" },
};
#endif

#endif
