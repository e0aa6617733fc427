/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fair: Linux's fair class, as `cfs` (2.6.38) and as `eevdf` (6.12); and `poise`, which is ours.
 *
 * Mechanism. One queue per pCPU. Each vCPU has a virtual runtime that grows with the time it runs,
 * the slower the greater its weight; who is fair has all of them equal.
 *  - order `vruntime` (CFS): the least virtual runtime runs, for its part by weight of a latency
 *    within which everybody who waits gets a turn. Who wakes stands at most half a latency behind
 *    the least, and preempts if it is behind by more than a granularity.
 *  - order `deadline` (EEVDF): lag is what a vCPU should have got less what it got: the weighted
 *    average of the virtual runtimes less its own. Among those with lag >= 0 (eligible) the one
 *    with the earliest deadline runs; a deadline is the virtual runtime at which the slice asked
 *    for will be consumed. Lag survives sleep: neither sleep nor a short slice wins CPU time.
 *
 *  - `poise` is order `deadline` with savings: who sleeps while others use its part saves that part, up to saved_ns
 *    for its domain, and is not in the queue's virtual time until it is spent. Who has savings goes before who has
 *    none, earliest deadline in time first; so who uses less than its part hardly waits, however long its bursts are,
 *    and who uses more has nothing to save. Who wakes all the time leaves who runs without savings a moment first. A timer
 *    ends each slice, of which those without savings grow while nobody sleeps, and a cap's budget is saved likewise. With
 *    governor cosched it is the policy of that name (docs/flagship.md).
 *    Bound: who has no savings waits, beyond what it would wait in `eevdf`, for no longer than the savings of those
 *    who share its queue, saved_ns for each domain there, and savings come only from sleep.
 *
 * Source: kernel/sched_fair.c of Linux 2.6.38, kernel/sched/fair.c and features.h of Linux 6.12, and
 * of 7.2 for `hrtick` and yield_task_fair(); virt/kvm/kvm_main.c of the first two;
 * deadlines: I. Stoica and H. Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995.
 *
 * State. The queue has a virtual time: the least virtual runtime, never going back (CFS), or the
 * weighted average (EEVDF), kept as an integer and a remainder:
 *	sum of weight x (vruntime - virtual time) = remainder, 0 <= remainder < sum of weights,
 * over those who run or wait there, so that eligible is just vruntime <= virtual time. Both sums
 * change with every wake, block, move and charge, and nobody is walked over. Virtual times start at
 * 2^62: they stay above 0, and pass 2^64 after decades.
 *
 * A domain is an entity, as a control group is. The hierarchy is flattened: a vCPU has the part of
 * its domain's weight that its group's entity would have on its pCPU,
 *	domain's weight / (1 + averaged number of the other vCPUs of the domain that are runnable),
 * between the whole weight and weight / vcpus. The averages decay; a vCPU's weight follows when it
 * wakes and when it is charged, which leaves its lag in CPU time as it was. The vCPUs of a domain that is
 * `ungrouped` are threads that no group holds together: each is an entity with the whole weight. With `groups` as entities
 * nothing is flattened (fair_groups.h), with `balance_load` averaged vCPUs are moved as in Linux (fair_balance.h): so the own
 * scheduler of a recorded Linux host is replayed.
 *
 * A pause-loop exit is answered as KVM of the time does: until 2.6.38 the spinning vCPU sleeps for
 * 100 us; from 2.6.39 it yields to a sibling (*directed yield*), to the next in rotation that waits,
 * not to one that was preempted outside its kernel, and to one that spins itself only every second
 * time. The scheduler then skips the spinner once if another is not more than a granularity ahead
 * of it (skip buddy), and lets the sibling go first in its queue on the same condition (next buddy).
 *
 * Signals and knobs: reads the domain's weight and whether it is ungrouped, in order `deadline` its slice; caps by budget.h.
 *
 * Parameters that matter: latency and base slice (throughput against delay), both scaled by the
 * number of pCPUs; the wake-up granularity; run to parity (whether a wake-up may cut a slice).
 *
 * Open readings
 *  - No buddies except those of a directed yield, no wake affinity, no start debit: a new vCPU starts without lag.
 *  - Groups as entities: a group's slice is that which its domain asks for, in Linux the least that waits in it. A vCPU's load
 *    falls to outer groups at once when it moves, in Linux as their averages follow.
 *  - 2.6.38 averages a group's load over a window that is halved when full: here half-lives.
 *  - KVM stops at the first sibling that it can yield to; here all are asked, so that those who spin
 *    are passed over in turn at each exit, not only when their turn has come. In 6.12 NEXT_BUDDY is off,
 *    and with it what a directed yield asks of the sibling's queue (until PICK_BUDDY of 6.14).
 *  - A yield forfeits as in late 6.12 and in 6.19. Until then it put the deadline off by a slice more, and no tick ends a
 *    run before its deadline: a vCPU that yielded often could keep its pCPU for seconds.
 *  - A vCPU that sleeps with negative lag stays in the sums in 6.12 until its lag is made up for.
 *    Here it leaves them, and keeps its virtual runtime while the queue's virtual time catches up.
 *    Whoever wakes asks for a new slice, also where 6.12 would let it finish the old one.
 *  - In 6.12 a wake-up of a shorter slice ends the protection of who runs. Here protection does not
 *    hold against a shorter slice, at any choice.
 *  - `hrtick` is that of 7.2, for order `deadline`: who is chosen again does not set the timer, as
 *    set_next_task_fair() is called for another task only. In 7.2 whoever wakes sets it if it is off,
 *    too; here only if the one that runs was alone.
 *  - Balance moves one vCPU at a time, by the weights of the moment unless `balance_load` is averaged. Linux doubles the time between two balances while
 *    nothing is out of balance: here it is fixed. A failed balance does not make hot vCPUs movable:
 *    who waits cools within the migration cost.
 *  - 6.12 searches work for a newly idle pCPU if that stays idle, on average, for longer than the
 *    search has taken; the search is the host's: here always.
 */
#ifndef STEELYARD_FAIR_H
#define STEELYARD_FAIR_H

#include "../vocabulary.h"
#include "../budget.h"

/* X(NAME, "name", "unit", min, max, "help", "source", poise, cfs, eevdf) */
#define FAIR_PARAMETERS(X) \
	X(FAIR_ORDER, "order", "vruntime|deadline", 0, 1, "who runs first", \
	  "6.6 replaced pick of the leftmost by pick_eevdf()", FAIR_BY_DEADLINE, FAIR_BY_VRUNTIME, FAIR_BY_DEADLINE) \
	X(FAIR_SCALING, "scaling", "none|logarithmic", 0, 1, \
	  "whether latency, base slice and granularity grow by 1 + floor(log2(pCPUs, up to 8))", \
	  "sysctl_sched_tunable_scaling, get_update_sysctl_factor()", 1, 1, 1) \
	X(FAIR_LATENCY_NS, "latency_ns", "ns", 100 * SY_US, SY_S, \
	  "order vruntime: time within which everybody gets a turn", \
	  "sysctl_sched_latency", 6 * SY_MS, 6 * SY_MS, 6 * SY_MS) \
	X(FAIR_BASE_SLICE_NS, "base_slice_ns", "ns", 100 * SY_US, SY_S, \
	  "least mean slice (order vruntime); slice of who asks for none (order deadline)", \
	  "sysctl_sched_min_granularity, sysctl_sched_base_slice; poise: ours", 300 * SY_US, 750 * SY_US, 700 * SY_US) \
	X(FAIR_ASKED_SLICE_MIN_NS, "asked_slice_min_ns", "ns", SY_US, SY_S, \
	  "order deadline: least slice that a domain may ask for", \
	  "sched_setattr(): sched_runtime at least NSEC_PER_MSEC / 10", 100 * SY_US, 100 * SY_US, 100 * SY_US) \
	X(FAIR_ASKED_SLICE_MAX_NS, "asked_slice_max_ns", "ns", SY_US, SY_S, \
	  "order deadline: greatest slice that a domain may ask for", \
	  "sched_setattr(): sched_runtime at most NSEC_PER_MSEC * 100", 100 * SY_MS, 100 * SY_MS, 100 * SY_MS) \
	X(FAIR_WAKEUP_GRANULARITY_NS, "wakeup_granularity_ns", "ns", 0, SY_S, \
	  "order vruntime: run time by which who wakes must be behind to preempt", \
	  "sysctl_sched_wakeup_granularity", SY_MS, SY_MS, SY_MS) \
	X(FAIR_SLEEPER_CREDIT_PERCENT, "sleeper_credit_percent", "percent", 0, 100, \
	  "order vruntime: part of a latency by which who wakes may be behind", \
	  "GENTLE_FAIR_SLEEPERS", 50, 50, 50) \
	X(FAIR_RUN_TO_PARITY, "run_to_parity", "off|on", 0, 1, \
	  "order deadline: who runs and is eligible keeps the pCPU until its slice is consumed", \
	  "RUN_TO_PARITY", 1, 0, 1) \
	X(FAIR_PREEMPT_SHORT, "preempt_short", "off|on", 0, 1, \
	  "order deadline: a shorter slice preempts nevertheless", "PREEMPT_SHORT", 1, 0, 1) \
	X(FAIR_HRTICK, "hrtick", "off|on|every", 0, 2, \
	  "order deadline: whether a timer ends the first slice after a switch, or every one; the tick ends the others", \
	  "HRTICK, off in 6.12; in 7.2 on where CONFIG_HRTIMER_REARM_DEFERRED is (x86)", FAIR_HRTICK_EVERY, 0, 0) \
	X(FAIR_SLICE_GROWTH, "slice_growth", "times", 1, 64, \
	  "order deadline: most that the slice of who asks for none becomes, by an eighth with each consumed without sleep", \
	  "ours", 4, 1, 1) \
	X(FAIR_SAVED_NS, "saved_ns", "ns", 0, SY_S, \
	  "order deadline: most of its part that a domain saves while it sleeps", "ours", 30 * SY_MS, 0, 0) \
	X(FAIR_RATELIMIT_NS, "ratelimit_ns", "ns", 0, SY_S, \
	  "order deadline: who has savings interrupts the first slice of who has none no sooner after its own last run", \
	  "ours; as a network card's interrupt moderation", 300 * SY_US, 0, 0) \
	X(FAIR_DELAY_DEQUEUE, "delay_dequeue", "off|on", 0, 1, \
	  "order deadline: negative lag is made up for during sleep", \
	  "DELAY_DEQUEUE, DELAY_ZERO", 1, 0, 1) \
	X(FAIR_GROUPS, "groups", "flattened|entities", 0, 1, \
	  "order deadline: what a domain of several vCPUs is: a weight of which each has its part, or an entity in each queue", \
	  "CONFIG_FAIR_GROUP_SCHED: entities; flattened: reading", 0, 0, 0) \
	X(FAIR_REWEIGH, "reweigh", "kept|inflated", 0, 1, \
	  "order deadline: the lag of who runs when its weight changes", \
	  "reweight_entity(): inflated by 6.13's 6d71a9c61604, until 101f3498b4bd", 0, 0, 0) \
	X(FAIR_BALANCE_LOAD, "balance_load", "momentary|averaged", 0, 1, \
	  "by which loads vCPUs are balanced, and with averaged ones by whose rules: Linux's", \
	  "cpu_load(), task_h_load(), calculate_imbalance(), detach_tasks() of 6.12; momentary: reading", 0, 0, 0) \
	X(FAIR_LOAD_HALF_LIFE_NS, "load_half_life_ns", "ns", SY_US, 10 * SY_S, \
	  "time in which the average of a domain's runnable vCPUs forgets half", \
	  "sysctl_sched_shares_window 10 ms, halved when full; PELT: y^32 = 1/2", 32 * SY_MS, \
	  5 * SY_MS, 32 * SY_MS) \
	X(FAIR_CAP_PERIOD_NS, "cap_period_ns", "ns", 0, BUDGET_PERIOD_MAX_NS, \
	  "time for which a cap's budget is given; 0: no caps", \
	  "CONFIG_CFS_BANDWIDTH from 3.2, default_cfs_period(), cpu.max; poise: ours", 10 * SY_MS, 0, 100 * SY_MS) \
	X(FAIR_CAP_BURST_PERCENT, "cap_burst_percent", "percent", 0, BUDGET_BURST_PERCENT_MAX, \
	  "most that a cap's budget saves from one period to the next, of a budget", \
	  "ours; cpu.max.burst", 1000, 0, 0) \
	X(FAIR_TICK_NS, "tick_ns", "ns", 100 * SY_US, SY_S, "time between ticks", \
	  "CONFIG_HZ=250", 4 * SY_MS, 4 * SY_MS, 4 * SY_MS) \
	X(FAIR_MIGRATION_COST_NS, "migration_cost_ns", "ns", 0, SY_S, \
	  "who ran so short a time ago is left where its cache is", \
	  "sysctl_sched_migration_cost, task_hot(); poise: ours", 0, 500 * SY_US, 500 * SY_US) \
	X(FAIR_NEWIDLE_LEAST_NS, "newidle_least_ns", "ns", 0, SY_S, \
	  "a newly idle pCPU looks for work if it is idle for so long on average", \
	  "idle_balance(): avg_idle against sysctl_sched_migration_cost", 0, 500 * SY_US, 0) \
	X(FAIR_BALANCE_INTERVAL_NS, "balance_interval_ns", "ns", SY_US, SY_S, \
	  "time between two balances towards idle pCPUs, per pCPU of the host", \
	  "2.6.38: max_interval of a sched domain, 4 ms, taken for 8 pCPUs; 6.12: min_interval; poise: ours", 300 * SY_US, \
	  500 * SY_US, SY_MS) \
	X(FAIR_BALANCE_INTERVAL_MAX_NS, "balance_interval_max_ns", "ns", SY_US, 10 * SY_S, \
	  "most time between two balances towards idle pCPUs", "reading", 64 * SY_MS, 64 * SY_MS, 64 * SY_MS) \
	X(FAIR_BUSY_FACTOR, "busy_factor", "times", 1, 1024, \
	  "between busy pCPUs balance is so much rarer", "sched domain's busy_factor", 16, 64, 16) \
	X(FAIR_IMBALANCE_PERCENT, "imbalance_percent", "percent", 100, 1000, \
	  "load of a queue, relative to another's, above which vCPUs are moved to that", \
	  "sched domain's imbalance_pct", 117, 125, 117) \
	X(FAIR_PAUSE_LOOP, "pause_loop", "ignored|yield|sleep|directed", 0, 3, \
	  "answer to a pause-loop exit", "kvm_vcpu_on_spin() of 2.6.38; of 2.6.39 and later", FAIR_PAUSE_DIRECTED, \
	  FAIR_PAUSE_SLEEP, FAIR_PAUSE_DIRECTED) \
	X(FAIR_PAUSE_SLEEP_NS, "pause_sleep_ns", "ns", SY_US, SY_S, \
	  "pause_loop sleep: for so long", "kvm_vcpu_on_spin() of 2.6.38", 100 * SY_US, 100 * SY_US, 100 * SY_US) \
	X(FAIR_NEXT_BUDDY, "next_buddy", "off|on", 0, 1, \
	  "pause_loop directed: who is yielded to comes first in its queue if that is fair", \
	  "2.6.39: yield_to_task_fair(); 6.12: NEXT_BUDDY off", 0, 1, 0)

enum fair_order {
	FAIR_BY_VRUNTIME,
	FAIR_BY_DEADLINE
};

enum fair_hrtick {
	FAIR_HRTICK_OFF,
	FAIR_HRTICK_ON,
	FAIR_HRTICK_EVERY
};

enum fair_group_kind {
	FAIR_GROUPS_FLATTENED,
	FAIR_GROUPS_ENTITIES
};

enum fair_reweigh_kind {
	FAIR_REWEIGH_KEPT,
	FAIR_REWEIGH_INFLATED
};

enum fair_balance_load {
	FAIR_LOAD_MOMENTARY,
	FAIR_LOAD_AVERAGED
};

enum fair_pause_loop {
	FAIR_PAUSE_IGNORED,
	FAIR_PAUSE_YIELD,
	FAIR_PAUSE_SLEEP,
	FAIR_PAUSE_DIRECTED
};

enum fair_parameter { FAIR_PARAMETERS(SY_PARAMETER_INDEX) FAIR_PARAMETER_COUNT };
_Static_assert((int)FAIR_PARAMETER_COUNT <= SY_PARAMETER_WORDS, "parameters fit");

#include "fair_sums.h"
#include "fair_groups.h"
#include "fair_balance.h"

/* ---- What is told of a vCPU, and the queue's timer ---- */

/* Of who is in no queue's sums, that with which it left them. */
SY_FN s64 fair_credit(const struct sy_queue *q, const struct sy_vcpu *v)
{
	const struct fair_vcpu *s = fair_vcpu_const(v);

	return s->entity.place < FAIR_WAITING ? s->entity.lag :
						fair_difference(fair_queue_const(q)->sums.vruntime, s->entity.vruntime);
}

/* A sleep for a pause loop is a park, too. */
SY_FN enum sy_class fair_class(const struct sy_vcpu *v)
{
	return v->runnable && fair_vcpu_const(v)->entity.place < FAIR_MOVING ? SY_CLASS_PARKED :
									       SY_CLASS_NONE;
}

/* Order deadline: how long who runs may until it has consumed its slice; a timer is set for no less. */
static inline u64 fair_left_ns(const struct fair_vcpu *s)
{
	u64 left = sy_max(s->entity.deadline, s->entity.vruntime) - s->entity.vruntime;

	left = sy_min(left, sy_divide(1ULL << 63, s->entity.weight)) * s->entity.weight;
	left = (left - sy_min(s->entity.uncharged, left) + FAIR_WEIGHT_UNIT - 1) / FAIR_WEIGHT_UNIT;
	return sy_max(left, FAIR_TIMER_LEAST_NS);
}

/* Order deadline: by hrtick, the queue's timer is set for when who runs has consumed its slice. */
static inline void fair_set_timer(const struct sy_policy *p, struct fair_queue *f,
				  const struct fair_vcpu *s, u64 now)
{
	if (SY_CHOICE(p, FAIR_HRTICK) == FAIR_HRTICK_ON && fair_by_deadline(p))
		f->timer_ns = now + fair_left_ns(s);
}

/* ---- Shape, creation and membership ---- */

/* A group's averages and who sleeps of it, whom it has yielded to, the budget of a cap. */
SY_FN bool fair_writes_domain(const struct sy_policy *p, const struct sy_domain *d, const struct sy_vcpu *v,
			      enum sy_domain_call call)
{
	const struct fair_vcpu *s = fair_vcpu_const(v);
	bool budgets = budget_writes(&s->grant, d, SY_PARAMETER(p, FAIR_CAP_PERIOD_NS));

	if (fair_entities(p))
		return true;
	switch (call) {
	case SY_CALL_join:
	case SY_CALL_leave:
		return budgets;
	case SY_CALL_charge:
		return budgets || (s->entity.place >= FAIR_WAITING && fair_grouped(d));
	case SY_CALL_key:
		return budgets || s->entity.place < FAIR_MOVING;
	case SY_CALL_tick:
		return false;
	default:
		return true;
	}
}

SY_FN u64 fair_tick_ns(const struct sy_policy *p)
{
	return SY_PARAMETER(p, FAIR_TICK_NS);
}

static inline u64 fair_scale(const struct sy_policy *p, u64 pcpus)
{
	return SY_CHOICE(p, FAIR_SCALING) ? 1 + (u64)(pcpus >= 2) + (u64)(pcpus >= 4) + (u64)(pcpus >= 8) :
					    1;
}

/* The slice of a domain that asks for none; 0: order vruntime gives no slices. */
SY_FN u64 fair_slice_parameter(const struct sy_policy *p, u64 pcpus)
{
	if (SY_CHOICE(p, FAIR_ORDER) != FAIR_BY_DEADLINE)
		return 0;
	return SY_PARAMETER(p, FAIR_BASE_SLICE_NS) * fair_scale(p, pcpus);
}

SY_FN void fair_queue_init(const struct sy_policy *p, struct sy_queue *q, u64 pcpus)
{
	struct fair_queue *f = fair_queue(q);

	f->sums.vruntime = FAIR_VRUNTIME_START;
	f->least_waiting = FAIR_NOBODY;
	f->sums.scale = fair_scale(p, pcpus);
	f->balance_interval_ns = SY_PARAMETER(p, FAIR_BALANCE_INTERVAL_NS) * sy_clamp(pcpus, 1, 1ULL << 16);
	f->balance_interval_ns = sy_min(f->balance_interval_ns,
					SY_PARAMETER(p, FAIR_BALANCE_INTERVAL_MAX_NS));
}

SY_FN void fair_domain_init(const struct sy_policy *p, struct sy_domain *d, u64 now)
{
	struct fair_domain *fd = fair_domain(d);

	fd->load = 0;
	fd->yielded_to = 0;
	fd->average.value = 0;
	fd->average.updated_ns = now;
	budget_init(&fd->budget, d, SY_PARAMETER(p, FAIR_CAP_PERIOD_NS), now);
}

SY_FN void fair_vcpu_init(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v,
			  u64 now)
{
	struct fair_vcpu *s = fair_vcpu(v);

	s->entity.place = FAIR_ASLEEP;
	s->runnable.updated_ns = now;
	s->entity.weight = fair_weight(p, d, s, now);
}

SY_FN u32 fair_join(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		    struct sy_vcpu *v, u64 now)
{
	struct fair_queue *f = fair_queue(q);
	struct fair_vcpu *s = fair_vcpu(v);
	struct fair_entity *own = &s->entity;
	struct fair_sums *sums;

	fair_move_on(p, f, now);
	if (!SY_APART(v))
		fair_belong(p, f, d, own);
	sums = fair_sums_of(f, own);
	own->vruntime += sums->vruntime;
	if (own->place == FAIR_MOVING) {
		if (fair_by_deadline(p)) {
			own->vruntime = own->saves ? sums->vruntime - (u64)own->lag :
						     fair_vruntime_with_lag(sums, own, own->lag);
			own->deadline += own->vruntime;
		}
		fair_add(p, sums, own);
		fair_follow_members(p, f, d, own->group, now);
		own->place = FAIR_WAITING;
		budget_key(&fair_domain(d)->budget, &s->grant, d, v, SY_PARAMETER(p, FAIR_CAP_PERIOD_NS));
		f->tried_ns = 0;
	}
	fair_move_load(p, f, d, s, true, now);
	return 0;
}

SY_FN u32 fair_leave(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		     struct sy_vcpu *v, u64 now)
{
	struct fair_queue *f = fair_queue(q);
	struct fair_vcpu *s = fair_vcpu(v);
	struct fair_entity *own = &s->entity;
	struct fair_sums *sums = fair_sums_of(f, own);
	u64 vtime = sums->vruntime;

	fair_move_on(p, f, now);
	fair_move_load(p, f, d, s, false, now);
	if (own->place >= FAIR_WAITING) {
		own->lag = fair_lag(p, sums, d, own);
		own->deadline -= own->vruntime;
		fair_remove(p, sums, own);
		fair_follow_members(p, f, d, own->group, now);
		own->place = FAIR_MOVING;
	}
	own->vruntime -= vtime;
	fair_part(f, own);
	return budget_block(&fair_domain(d)->budget, &s->grant, d, v, SY_PARAMETER(p, FAIR_CAP_PERIOD_NS),
			    now);
}

/* ---- What vCPUs do ---- */

/* It is asleep no more. */
static inline void fair_rouse(const struct sy_policy *p, struct sy_domain *d, struct fair_vcpu *s,
			      u64 now)
{
	fair_weight(p, d, s, now); /* the averages, before what they tend to changes */
	if (!fair_entities(p))
		fair_domain(d)->load += FAIR_ONE;
	s->entity.place = FAIR_PARKED;
}

/* Into the sums of the queue or group that it shares. */
static inline void fair_vcpu_enter(const struct sy_policy *p, struct fair_queue *f, struct sy_domain *d,
				   struct fair_vcpu *s, u64 now)
{
	fair_enter(p, fair_sums_of(f, &s->entity), d, &s->entity, fair_weight(p, d, s, now), now);
	fair_follow_members(p, f, d, s->entity.group, now);
}

static inline void fair_vcpu_exit(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
				  struct fair_vcpu *s, u64 now)
{
	struct fair_queue *f = fair_queue(q);

	fair_exit(p, fair_sums_of(f, &s->entity), d, &s->entity);
	fair_follow_members(p, f, d, s->entity.group, now);
	if (!fair_by_deadline(p))
		fair_advance(f, q, FAIR_NOBODY);
}

SY_FN u32 fair_wake(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		    struct sy_vcpu *v, u64 now)
{
	struct fair_vcpu *s = fair_vcpu(v);
	u32 request = budget_wake(&fair_domain(d)->budget, &s->grant, d, v,
				  SY_PARAMETER(p, FAIR_CAP_PERIOD_NS), now);

	fair_move_on(p, fair_queue(q), now);
	if (s->entity.place == FAIR_ASLEEP)
		fair_rouse(p, d, s, now);
	if (s->entity.place == FAIR_PARKED && !(request & SY_PARK))
		fair_vcpu_enter(p, fair_queue(q), d, s, now);
	return request;
}

SY_FN u32 fair_steps(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return SY_STEPS_PLACE | (fair_vcpu_const(v)->entity.saves ? SY_STEPS_LESSER : 0) |
	       SY_STEPS(SY_STEP_LAST_IDLE, SY_STEP_ONE_IDLE, SY_STEP_LAST_LEAD, SY_STEP_END);
}

/* Order deadline: it has no savings, where there are any. */
SY_FN bool fair_is_lesser(const struct sy_policy *p, const struct sy_vcpu *v)
{
	return SY_PARAMETER(p, FAIR_SAVED_NS) && fair_by_deadline(p) && !fair_vcpu_const(v)->entity.saves;
}

/* It sleeps. */
static inline u32 fair_lull(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			    struct sy_vcpu *v, u64 now)
{
	struct fair_vcpu *s = fair_vcpu(v);

	fair_move_on(p, fair_queue(q), now);
	if (s->entity.place >= FAIR_WAITING)
		fair_vcpu_exit(p, q, d, s, now);
	if (s->entity.place == FAIR_PARKED) {
		fair_weight(p, d, s, now);
		if (!fair_entities(p))
			fair_domain(d)->load -= FAIR_ONE;
		s->entity.place = FAIR_ASLEEP;
	}
	return budget_block(&fair_domain(d)->budget, &s->grant, d, v, SY_PARAMETER(p, FAIR_CAP_PERIOD_NS),
			    now);
}

SY_FN u32 fair_block(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		     struct sy_vcpu *v, u64 now)
{
	u32 request = fair_lull(p, q, d, v, now);

	if (!v->timer_ns)
		return request;
	v->timer_ns = 0;
	return request | SY_TIMER | SY_UNPARK;
}

/*
 * CFS only charges and chooses again. In EEVDF who may run forfeits its time up to the deadline; who may not gives
 * nothing, or it would run away: it may be chosen all the same, where its siblings are kept off the pCPU.
 */
SY_FN u32 fair_yield(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		     struct sy_vcpu *v, u64 now)
{
	struct fair_entity *s = &fair_vcpu(v)->entity;
	struct fair_sums *f = fair_sums_of(fair_queue(q), s);
	u64 given;

	s->protected = 0;
	if (s->saves) {
		s->due_ns = now + s->slice_ns;
	} else if (fair_by_deadline(p) && s->place >= FAIR_WAITING && fair_eligible(f, s)) {
		given = sy_max(s->deadline, s->vruntime) - s->vruntime;
		s->vruntime += given;
		f->remainder += s->weight * given;
		fair_settle(f);
		fair_renew_deadline(s, fair_asked_slice_ns(p, f, d), now);
	}
	return 0;
}

/* ---- Pause-loop exits ---- */

/*
 * Whether it has had no more CPU time than its part and this. Nothing borrowed is forgiven. Where somebody has savings,
 * nobody borrows: a guest that spins on purpose would keep that one waiting for ahead_ns of each of its vCPUs.
 */
static inline bool fair_may_borrow(const struct sy_queue *q, const struct sy_vcpu *v, u64 ahead_ns)
{
	const struct fair_vcpu *s = fair_vcpu_const(v);

	return !fair_queue_const(q)->sums.saving_weight &&
	       fair_difference(s->entity.vruntime, fair_queue_const(q)->sums.vruntime) <=
		       (s64)fair_virtual(ahead_ns, s->entity.weight);
}

/* Order vruntime: whether it may come before its turn: it is ahead by a granularity at most. */
static inline bool fair_may_come(const struct sy_policy *p, const struct fair_queue *f,
				 const struct fair_vcpu *s, u64 vruntime)
{
	u64 granularity_ns = fair_grown(p, &f->sums, FAIR_WAKEUP_GRANULARITY_NS);

	return fair_difference(s->entity.vruntime, vruntime) <=
	       (s64)fair_virtual(granularity_ns, s->entity.weight);
}

SY_FN enum sy_gang fair_spin(const struct sy_policy *p, struct sy_vcpu *v)
{
	fair_vcpu(v)->spins = 1;
	return SY_CHOICE(p, FAIR_PAUSE_LOOP) == FAIR_PAUSE_DIRECTED ? SY_GANG_BEST : SY_GANG_NONE;
}

/* How soon its turn comes, in rotation after the one that was yielded to last. */
SY_FN u64 fair_rank(const struct sy_policy *p, const struct sy_domain *d, struct sy_vcpu *v, u32 facts)
{
	const struct fair_domain *fd = (const struct fair_domain *)d->state;
	struct fair_vcpu *s = fair_vcpu(v);
	u64 vcpus = sy_clamp(SY_LOAD(d->vcpus), 1, 1ULL << 32);

	if (facts & SY_PREEMPTED && !(facts & SY_IN_KERNEL))
		return 0;
	if (s->spins && sy_pass_over(&s->passed_over))
		return 0;
	return vcpus - (v->index + vcpus - SY_LOAD(fd->yielded_to) % vcpus + vcpus - 1) % vcpus;
}

/* Who may not come before its turn is not marked: it would wait at the head of the queue for ever. */
SY_FN u32 fair_summon(const struct sy_policy *p, const struct sy_queue *q, struct sy_domain *d,
		      struct sy_vcpu *v)
{
	const struct fair_queue *f = fair_queue_const(q);
	const struct fair_vcpu *s = fair_vcpu_const(v);

	SY_STORE(fair_domain(d)->yielded_to, v->index);
	v->first = SY_CHOICE(p, FAIR_NEXT_BUDDY) &&
		   (fair_by_deadline(p) ? s->entity.vruntime <= f->sums.vruntime :
					  fair_may_come(p, f, s, f->sums.vruntime));
	return SY_REKEY | SY_RESCHEDULE;
}

SY_FN u32 fair_spun(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		    struct sy_vcpu *v, u32 summoned, u64 now)
{
	struct fair_vcpu *s = fair_vcpu(v);

	switch (SY_CHOICE(p, FAIR_PAUSE_LOOP)) {
	case FAIR_PAUSE_YIELD:
		return fair_yield(p, q, d, v, now) | SY_RESCHEDULE;
	case FAIR_PAUSE_DIRECTED:
		if (!summoned)
			return 0;
		s->skipped = !fair_by_deadline(p);
		return fair_yield(p, q, d, v, now) | SY_RESCHEDULE;
	case FAIR_PAUSE_SLEEP:
		/* As a sleep of the thread, not as a park for a cap. */
		if (s->entity.place < FAIR_WAITING)
			return 0;
		v->timer_ns = now + SY_PARAMETER(p, FAIR_PAUSE_SLEEP_NS);
		return fair_lull(p, q, d, v, now) | SY_PARK | SY_TIMER;
	default:
		return 0;
	}
}

/* The sleep for a pause loop is over; if the cap leaves nothing, it waits on for that. */
SY_FN u32 fair_vcpu_timer(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			  struct sy_vcpu *v, u64 now)
{
	struct fair_vcpu *s = fair_vcpu(v);
	u32 request;

	v->timer_ns = 0;
	if (s->entity.place != FAIR_ASLEEP)
		return SY_TIMER;
	fair_rouse(p, d, s, now);
	request = budget_wake(&fair_domain(d)->budget, &s->grant, d, v,
			      SY_PARAMETER(p, FAIR_CAP_PERIOD_NS), now);
	return request & SY_PARK ? request | SY_TIMER : request | SY_TIMER | SY_UNPARK;
}

/* Virtual time in which it has run for so long. */
static inline u64 fair_run(struct fair_entity *s, u64 ran_ns)
{
	u64 ran = sy_min(ran_ns, FAIR_RUN_MAX_NS) * FAIR_WEIGHT_UNIT + s->uncharged;
	u64 ran_virtual = sy_divide(ran, s->weight);

	s->uncharged = ran - ran_virtual * s->weight;
	s->vruntime += ran_virtual;
	return ran_virtual;
}

/* What the run of who is in these sums, and now has this weight, means for them and its deadline. */
static inline u32 fair_charge_sums(const struct sy_policy *p, struct fair_sums *f, const struct sy_domain *d,
				   struct fair_entity *s, u64 weight, u64 ran_virtual, u64 now)
{
	bool spent = s->saves && s->vruntime >= f->vruntime, consumed;

	if (spent) {
		fair_remove(p, f, s);
		s->saves = 0;
		fair_add(p, f, s);
	} else if (!s->saves) {
		f->remainder += s->weight * ran_virtual;
		fair_settle(f);
	}
	fair_reweigh(p, f, s, weight);
	consumed = spent || s->vruntime >= s->deadline;
	if (consumed)
		fair_renew_deadline(s, fair_next_slice_ns(p, f, d, s), now);
	return consumed || (SY_CHOICE(p, FAIR_PREEMPT_SHORT) && !s->protected && s->vruntime > f->vruntime) ?
		       SY_RESCHEDULE :
		       0;
}

/* The same of a vCPU and its groups. */
static inline u32 fair_charge_queue(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
				    struct sy_vcpu *v, u64 ran_ns, u64 ran_virtual, u64 now)
{
	struct fair_queue *f = fair_queue(q);
	struct fair_vcpu *s = fair_vcpu(v);
	/* Who is apart was in no group when the host looked. */
	u64 weight = SY_APART(v) ? fair_whole_weight(d) : fair_weight(p, d, s, now);
	struct fair_group *g;
	u32 request;

	if (!fair_by_deadline(p)) {
		fair_advance(f, q, s->entity.vruntime);
		fair_reweigh(p, &f->sums, &s->entity, weight);
		return 0;
	}
	request = fair_charge_sums(p, fair_sums_of(f, &s->entity), d, &s->entity, weight, ran_virtual, now);
	for (g = fair_group(f, s->entity.group); g; g = fair_group(f, g->entity.group)) {
		const struct sy_domain *around = fair_domain_around(d, g);

		if (!around || g->entity.place < FAIR_WAITING)
			break;
		request |= fair_charge_sums(p, fair_sums_of(f, &g->entity), around, &g->entity,
					    g->entity.weight, fair_run(&g->entity, ran_ns), now);
	}
	return q->queued ? request : 0;
}

SY_FN u32 fair_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		      struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	struct fair_vcpu *s = fair_vcpu(v);
	u64 ran_virtual = fair_run(&s->entity, ran_ns);
	u32 request = 0;

	fair_move_on(p, fair_queue(q), now);
	s->skipped = 0;
	s->spins = s->spins && !ran_ns;
	s->ran_ns += sy_min(ran_ns, FAIR_RUN_MAX_NS);
	s->last_ran_ns = now;
	if (s->entity.place >= FAIR_WAITING)
		request = fair_charge_queue(p, q, d, v, ran_ns, ran_virtual, now);

	/* Who is parked may run on for a moment. */
	request |= budget_charge(&fair_domain(d)->budget, &s->grant, d, v,
				 SY_PARAMETER(p, FAIR_CAP_PERIOD_NS), ran_ns, now);
	if (request & SY_PARK && s->entity.place >= FAIR_WAITING)
		fair_vcpu_exit(p, q, d, s, now);
	return request;
}

SY_FN u32 fair_domain_timer(const struct sy_policy *p, struct sy_domain *d, u64 now)
{
	return budget_domain_timer(&fair_domain(d)->budget, d, SY_PARAMETER(p, FAIR_CAP_PERIOD_NS),
				   SY_PARAMETER(p, FAIR_CAP_BURST_PERCENT), now);
}

/* ---- Who is next, for how long ---- */

SY_FN u64 fair_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		   struct sy_vcpu *v, u64 now)
{
	struct fair_queue *f = fair_queue(q);
	struct fair_vcpu *s = fair_vcpu(v);

	budget_key(&fair_domain(d)->budget, &s->grant, d, v, SY_PARAMETER(p, FAIR_CAP_PERIOD_NS));
	/* A cap's period may end a sleep for a pause loop early. */
	if (s->entity.place == FAIR_ASLEEP)
		fair_rouse(p, d, s, now);
	if (s->entity.place == FAIR_PARKED)
		fair_vcpu_enter(p, f, d, s, now);
	if (s->entity.place == FAIR_RUNNING)
		s->entity.place = FAIR_WAITING;
	if (fair_by_deadline(p))
		return fair_due(&s->entity);
	f->least_waiting = sy_min(f->least_waiting, s->entity.vruntime);
	return s->entity.vruntime;
}

/*
 * Order deadline: for how long this one, which has savings, yet leaves the pCPU to who runs without; 0: it need not. Who
 * wakes thousands of times a second would cost others their cache each time. It leads all the same: the choice sets the timer.
 */
static inline u64 fair_limited_ns(const struct sy_policy *p, const struct fair_vcpu *waiting,
				  const struct fair_vcpu *running, u64 now)
{
	u64 ends_ns = waiting->last_ran_ns + SY_PARAMETER(p, FAIR_RATELIMIT_NS);

	if (!waiting->entity.saves || running->entity.saves || !running->entity.protected)
		return 0;
	return ends_ns > now ? sy_max(ends_ns - now, FAIR_TIMER_LEAST_NS) : 0;
}

/* Whether a waiting vCPU is chosen rather than the one that runs. */
static inline bool fair_precedes(const struct sy_policy *p, const struct sy_queue *q,
				 const struct fair_vcpu *waiting_vcpu, const struct fair_vcpu *running_vcpu)
{
	const struct fair_entity *waiting = &waiting_vcpu->entity, *running = &running_vcpu->entity;
	const struct fair_queue *queue = fair_queue_const(q);
	const struct fair_sums *f;
	bool shorter;

	if (!fair_by_deadline(p))
		return waiting->vruntime <= running->vruntime;
	if (fair_entities(p))
		fair_match(queue, &waiting, &running);
	f = fair_sums_of_const(queue, waiting);
	shorter = SY_CHOICE(p, FAIR_PREEMPT_SHORT) && waiting->slice_ns < running->slice_ns;
	if (waiting->saves != running->saves)
		return waiting->saves;
	if (!fair_eligible(f, waiting))
		return false;
	if (!fair_eligible(f, running))
		return true;
	return fair_due(waiting) < fair_due(running) && (shorter || !running->protected);
}

/* Order vruntime: in virtual ns, of the one that woke; order deadline: 1 or 0. */
SY_FN s64 fair_lead(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c,
		    const struct sy_vcpu *v, const struct sy_vcpu *running, u64 now)
{
	const struct fair_vcpu *woken = fair_vcpu_const(v);
	const struct fair_vcpu *current = fair_vcpu_const(running);
	u64 granularity_ns = fair_grown(p, &fair_queue_const(q)->sums, FAIR_WAKEUP_GRANULARITY_NS);
	s64 granularity = (s64)fair_virtual(granularity_ns, woken->entity.weight);
	s64 behind = fair_difference(current->entity.vruntime, woken->entity.vruntime);

	if (fair_by_deadline(p))
		return fair_precedes(p, q, woken, current);
	return behind > 0 ? behind - granularity : 0;
}

SY_FN enum sy_verdict fair_consider(const struct sy_policy *p, const struct sy_queue *q,
				    const struct sy_pcpu *c, const struct sy_vcpu *best,
				    const struct sy_vcpu *candidate, u64 now)
{
	const struct fair_vcpu *waiting = fair_vcpu_const(candidate);
	const struct fair_queue *f = fair_queue_const(q);

	if (fair_by_deadline(p) && !fair_all_eligible(f, &waiting->entity))
		return SY_SKIP;
	if (candidate->first)
		return SY_TAKE;
	if (best && fair_limited_ns(p, waiting, fair_vcpu_const(best), now))
		return SY_SKIP;
	if (!best || fair_precedes(p, q, waiting, fair_vcpu_const(best)))
		return fair_entities(p) ? SY_PREFER : SY_TAKE;
	/* Keys are in order among those who share a group, not beyond. */
	if (fair_entities(p))
		return SY_SKIP;
	if (fair_vcpu_const(best)->skipped &&
	    fair_may_come(p, f, waiting, fair_vcpu_const(best)->entity.vruntime))
		return SY_TAKE;
	/* A shorter slice further on may still precede. */
	if (fair_by_deadline(p) && fair_due(&waiting->entity) < fair_due(&fair_vcpu_const(best)->entity) &&
	    SY_CHOICE(p, FAIR_PREEMPT_SHORT))
		return SY_SKIP;
	return SY_STOP;
}

SY_FN void fair_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c,
		      struct sy_vcpu *v, u64 now)
{
	struct fair_vcpu *s = fair_vcpu(v);
	struct fair_pcpu *fc = (struct fair_pcpu *)c->state;

	if (fair_entities(p))
		fair_groups_start(fair_queue(q), s->entity.group, SY_CHOICE(p, FAIR_RUN_TO_PARITY) != 0);
	if (s->entity.place == FAIR_WAITING)
		s->entity.place = FAIR_RUNNING;
	s->ran_ns = 0;
	s->last_ran_ns = now;
	s->entity.protected = SY_CHOICE(p, FAIR_RUN_TO_PARITY) != 0;
	fair_set_timer(p, fair_queue(q), s, now);

	/*
	 * An idle time that a steal ended at once is none. Each weighs an eighth in the average, and twice what decides
	 * is the most that is counted.
	 */
	if (fc->idle_since_ns && now > fc->idle_since_ns) {
		u64 most_ns = 2 * SY_PARAMETER(p, FAIR_NEWIDLE_LEAST_NS);
		u64 missing_ns = most_ns - sy_min(now - fc->idle_since_ns, most_ns);

		fc->idle_missing_ns = missing_ns ? fc->idle_missing_ns / 8 * 7 + missing_ns / 8 : 0;
	}
	fc->idle_since_ns = 0;
}

/*
 * The tick ends slices; by hrtick the timer ends the one in which a vCPU started, too. If that vCPU
 * is chosen again, the timer stays off. While it is alone, the timer is always on: whoever wakes
 * finds it as if it had set it. And here the queue learns who is next.
 */
SY_FN u64 fair_slice(const struct sy_policy *p, struct sy_queue *q, const struct sy_pcpu *c,
		     const struct sy_domain *d, const struct sy_vcpu *v, const struct sy_vcpu *next,
		     u64 now)
{
	struct fair_queue *f = fair_queue(q);
	const struct fair_vcpu *s = fair_vcpu_const(v);
	u64 slice_ns = budget_slice(&s->grant, d, SY_PARAMETER(p, FAIR_CAP_PERIOD_NS));
	u64 limited_ns = next ? fair_limited_ns(p, fair_vcpu_const(next), s, now) : 0;

	/* Behind one that was summoned there may be less; what was known is never too much. */
	if (!next || !next->first)
		f->least_waiting = next ? fair_vcpu_const(next)->entity.vruntime : FAIR_NOBODY;
	if (limited_ns)
		slice_ns = sy_min(slice_ns, limited_ns);
	if (SY_CHOICE(p, FAIR_HRTICK) == FAIR_HRTICK_EVERY && fair_by_deadline(p))
		return sy_min(slice_ns, fair_left_ns(s));
	if (!q->queued)
		fair_set_timer(p, f, s, now);
	return f->timer_ns > now ? sy_min(slice_ns, f->timer_ns - now) : slice_ns;
}

/* ---- Time that passes ---- */

/* Order vruntime: its part by weight of the time in which everybody gets a turn. */
static inline u64 fair_turn_ns(const struct sy_policy *p, const struct sy_queue *q,
			       const struct fair_vcpu *s)
{
	const struct fair_queue *f = fair_queue_const(q);
	u64 round_ns = sy_max(fair_grown(p, &f->sums, FAIR_LATENCY_NS),
			      fair_grown(p, &f->sums, FAIR_BASE_SLICE_NS) * ((u64)q->queued + 1));

	return sy_divide(sy_min(round_ns, 1ULL << 37) * sy_min(s->entity.weight, 1ULL << 26), f->sums.weight);
}

SY_FN u32 fair_tick(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c,
		    struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	struct fair_queue *f = fair_queue(q);
	struct fair_vcpu *s = fair_vcpu(v);
	u32 request = 0;

	fair_move_on(p, f, now);
	if (fair_entities(p))
		fair_follow_members(p, f, d, s->entity.group, now);
	if (now - f->balanced_ns >= sy_min(f->balance_interval_ns, FAIR_RUN_MAX_NS) * SY_PARAMETER(p, FAIR_BUSY_FACTOR)) {
		f->balanced_ns = now;
		f->pushed_ns = now;
		request |= SY_BALANCE;
	} else if (q->queued && now - f->pushed_ns >= f->balance_interval_ns) {
		f->pushed_ns = now;
		request |= SY_BALANCE;
	}
	if (q->queued && !fair_by_deadline(p)) {
		u64 turn_ns = fair_turn_ns(p, q, s);
		u64 ahead = s->entity.vruntime > f->least_waiting ? s->entity.vruntime - f->least_waiting : 0;

		if (s->ran_ns > turn_ns ||
		    (s->ran_ns >= fair_grown(p, &f->sums, FAIR_BASE_SLICE_NS) && ahead > turn_ns)) {
			s->ran_ns = 0;
			request |= SY_RESCHEDULE;
		}
	}
	return request;
}

#ifdef SY_DESCRIBE
static const struct sy_parameter fair_parameters[] = { FAIR_PARAMETERS(SY_PARAMETER_DESCRIPTION) };

static const struct sy_description fair_description = {
	.name = "fair",
	.help = "Linux's fair class: virtual run time by weight, a domain as a control group",
	.vintage = { "poise", "cfs", "eevdf" },
	.known = { "made for Steelyard; no kernel has it" },
	.parameters = FAIR_PARAMETER_COUNT,
	.parameter = fair_parameters,
};
#endif

#endif
