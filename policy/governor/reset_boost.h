/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reset-boost: the domain that runs out of credit most often gets more weight for a while.
 *
 * Mechanism: Credit2 resets a queue when the vCPU chosen has no credit left. At the first reset after
 * an interval the domain that leads is boosted: if it was boosted already its rate grows, otherwise
 * the rate starts at 2, and who was boosted before gets its weight back. Its weight in effect is the
 * one asked for times the rate. Then all counts start at 0. Every other reset counts for the domain
 * that caused it; who gets the highest count leads.
 *
 * Source: M. Kang and S. Lee, "Mcredit2: Enhanced High-Performance Xen Scheduler via Dynamic Weight
 * Allocation", Journal of Sensors, 2018. With credit2@xen-4.5 it is `mcredit2`.
 *
 * State: of the host, who is boosted at which rate, who leads, since when. Of a domain, its count
 * and the number of the interval that it belongs to: a count of an earlier interval is 0, so that
 * nobody walks over the domains to clear them.
 *
 * Signal: sy_reset(). Knob: weight. Has a meaning only for a discipline that resets: credit2.
 *
 * Open readings, as parameters:
 *  - interval_ns: the paper's n ticks are not given. The default is 100 ms: ten resets of a busy
 *    queue, so that the highest count says something, and far below the seconds of its experiments.
 *  - growth: the text says the rate "increases two times"; squaring is the other reading.
 *  - counts: the text counts a reset if it brings no change, "otherwise"; its abstract of the mechanism
 *    counts each.
 *  - leader: nothing is said to forget who leads when counts start at 0, so that who leads after an
 *    interval in which nothing was counted is who led before; forgotten, that ends the boost.
 *  - end_intervals: published, a boost ends only by another domain's. With k > 0 it also ends when
 *    nobody has reset for k intervals, seen at the next reset or, by hosts that sample, within one
 *    interval more.
 * Published so: counts are per domain, so that who has more busy vCPUs leads however much it gets, its
 * rate doubles every interval, and within a second the others are left with a few percent.
 * The listing divides by the rate at the last step, against the text; it multiplies here.
 */
#ifndef STEELYARD_RESET_BOOST_H
#define STEELYARD_RESET_BOOST_H

#include "../vocabulary.h"

/* clang-format off */
#define RESET_BOOST_PARAMETERS(X) \
	X(RESET_BOOST_INTERVAL_NS, "interval_ns", "ns", 1 * SY_MS, 60 * SY_S, \
	  "shortest time between two changes of a boost", "Kang and Lee 2018: n ticks, not given", 100 * SY_MS) \
	X(RESET_BOOST_GROWTH, "growth", "doubled|squared", 0, 1, \
	  "how the rate of who stays boosted grows", "Kang and Lee 2018, text", RESET_BOOST_DOUBLED) \
	X(RESET_BOOST_COUNTS, "counts", "otherwise|each", 0, 1, \
	  "which resets count: those that bring no change of a boost, or each", \
	  "Kang and Lee 2018, section 3.1, figure 4", RESET_BOOST_OTHERWISE) \
	X(RESET_BOOST_LEADER, "leader", "kept|forgotten", 0, 1, \
	  "who leads after a change of a boost until a reset counts: who did before, or nobody", \
	  "Kang and Lee 2018, figure 5", RESET_BOOST_KEPT) \
	X(RESET_BOOST_END_INTERVALS, "end_intervals", "intervals", 0, 1000000, \
	  "without a reset for so long a boost ends; 0: only by another's", "ours; Kang and Lee 2018: 0", 0)
/* clang-format on */

/* The choices, in the order of their names above. */
enum {
	RESET_BOOST_DOUBLED,
	RESET_BOOST_SQUARED,
};

enum {
	RESET_BOOST_OTHERWISE,
	RESET_BOOST_EACH,
};

enum {
	RESET_BOOST_KEPT,
	RESET_BOOST_FORGOTTEN,
};

enum reset_boost_parameter { RESET_BOOST_PARAMETERS(SY_PARAMETER_INDEX)
				     RESET_BOOST_PARAMETER_COUNT };
_Static_assert((int)RESET_BOOST_PARAMETER_COUNT <= SY_GOVERNOR_PARAMETER_WORDS, "parameters fit");

struct reset_boost {
	u64 boosted; /* id of the domain, or 0 */
	u64 rate; /* of its boost */
	u64 leader; /* id of the domain with the highest count of this interval, or who led before */
	u64 leader_count; /* 0: nobody's counts yet */
	u64 interval; /* number of this interval */
	u64 changed_ns; /* when it began */
	u64 reset_ns; /* the last reset */
};

struct reset_boost_domain {
	u64 count; /* resets caused in `interval` */
	u64 interval;
};

SY_GOVERNOR_FITS(SY_RESET_BOOST_HOST_AT, struct reset_boost);
SY_GOVERNOR_FITS(SY_RESET_BOOST_DOMAIN_AT, struct reset_boost_domain);

static inline struct reset_boost *reset_boost(struct sy_governor *g)
{
	return (struct reset_boost *)(g->governor + SY_RESET_BOOST_HOST_AT);
}

static inline struct reset_boost_domain *reset_boost_domain(struct sy_domain *d)
{
	return (struct reset_boost_domain *)(d->governor + SY_RESET_BOOST_DOMAIN_AT);
}

static inline u64 reset_boost_parameter(const struct sy_policy *p, enum reset_boost_parameter name)
{
	return SY_GOVERNOR_PARAMETER(p, SY_RESET_BOOST, name);
}

/* A domain of weight 1 is at the greatest weight with this rate. */
static inline u64 reset_boost_grow(const struct sy_policy *p, u64 rate)
{
	bool squared = SY_GOVERNOR_CHOICE(p, SY_RESET_BOOST, RESET_BOOST_GROWTH) == RESET_BOOST_SQUARED;

	return sy_min(rate * (squared ? rate : 2), SY_WEIGHT_MAX);
}

/* Whether somebody is boosted and nobody has reset for so long that this ends the boost. */
static inline bool reset_boost_silent(const struct sy_policy *p, const struct reset_boost *b, u64 now)
{
	u64 end_intervals = reset_boost_parameter(p, RESET_BOOST_END_INTERVALS);
	u64 silent_ns = now > b->reset_ns ? now - b->reset_ns : 0;

	return b->boosted && end_intervals &&
	       silent_ns / end_intervals >= reset_boost_parameter(p, RESET_BOOST_INTERVAL_NS);
}

/* How often to look for silence; SY_FOREVER: never. */
SY_FN u64 reset_boost_sample_ns(const struct sy_policy *p)
{
	if (!reset_boost_parameter(p, RESET_BOOST_END_INTERVALS))
		return SY_FOREVER;
	return sy_clamp(reset_boost_parameter(p, RESET_BOOST_INTERVAL_NS), SY_MS, 60 * SY_S);
}

/* All domains are reweighed after this. */
SY_FN void reset_boost_sample_begin(const struct sy_policy *p, struct sy_governor *g,
				    const struct sy_sampling *sampling)
{
	struct reset_boost *b = reset_boost(g);

	if (reset_boost_silent(p, b, sampling->now))
		b->boosted = 0;
}

/* A reset counts for this domain, which leads if no other has as many. */
static inline void reset_boost_count(struct reset_boost *b, struct sy_domain *d)
{
	struct reset_boost_domain *bd = reset_boost_domain(d);

	if (bd->interval != b->interval)
		bd->count = 0;
	bd->interval = b->interval;
	bd->count++;
	if (bd->count > b->leader_count) {
		b->leader = d->id;
		b->leader_count = bd->count;
	}
}

/* An interval is over: its leader is boosted, or for longer, or after a silence nobody; and another begins. */
static inline void reset_boost_change(const struct sy_policy *p, struct reset_boost *b, bool silent, u64 now)
{
	if (silent) {
		b->boosted = 0;
	} else if (b->boosted == b->leader) {
		b->rate = reset_boost_grow(p, b->rate);
	} else {
		b->boosted = b->leader;
		b->rate = 2;
	}
	if (SY_GOVERNOR_CHOICE(p, SY_RESET_BOOST, RESET_BOOST_LEADER) == RESET_BOOST_FORGOTTEN)
		b->leader = 0;
	b->leader_count = 0;
	b->interval++;
	b->changed_ns = now;
}

/* A vCPU of this domain had a queue reset. */
SY_FN u32 reset_boost_reset(const struct sy_policy *p, struct sy_queue *q, struct sy_governor *g,
			    struct sy_domain *d, u64 units, u64 now)
{
	struct reset_boost *b = reset_boost(g);
	u64 passed_ns = now > b->changed_ns ? now - b->changed_ns : 0;
	bool changes = passed_ns >= reset_boost_parameter(p, RESET_BOOST_INTERVAL_NS);
	bool silent = reset_boost_silent(p, b, now);

	if (!changes || SY_GOVERNOR_CHOICE(p, SY_RESET_BOOST, RESET_BOOST_COUNTS) == RESET_BOOST_EACH)
		reset_boost_count(b, d);
	b->reset_ns = now;
	if (!changes)
		return 0;
	g->reweigh[0] = b->boosted;
	reset_boost_change(p, b, silent, now);
	g->reweigh[1] = b->boosted;
	return SY_REWEIGH;
}

/* The rate is at most the greatest weight. */
SY_FN u64 reset_boost_weight(const struct sy_policy *p, struct sy_governor *g, struct sy_domain *d,
			     u64 weight)
{
	const struct reset_boost *b = reset_boost(g);

	return b->boosted == d->id ? weight * b->rate : weight;
}

#define reset_boost_has_sample_ns 1
#define reset_boost_has_sample_begin 1
#define reset_boost_has_reset 1
#define reset_boost_has_weight 1

#ifdef SY_DESCRIBE
static const struct sy_parameter reset_boost_parameters[] = { RESET_BOOST_PARAMETERS(
	SY_PARAMETER_DESCRIPTION) };

static const struct sy_description reset_boost_description = {
	.name = "reset-boost",
	.help = "Mcredit2's governor: the domain that runs out of credit most often gets more weight",
	.parameters = RESET_BOOST_PARAMETER_COUNT,
	.parameter = reset_boost_parameters,
	.known = { "a domain with more busy vCPUs causes more resets and stays boosted: its weight doubles every "
		   "interval up to the greatest, and others are left with a few percent" },
	.disciplines = 1 << SY_CREDIT2,
	.reason = "it follows the resets of a queue's credit, which only credit2 has",
};
#endif

#endif
