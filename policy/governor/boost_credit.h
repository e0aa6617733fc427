/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * boost-credit: a vCPU saves what it leaves unused of its share, and spends it in BOOST.
 *
 * Mechanism: Credit's accounting takes away what a vCPU has saved above one accounting's credits.
 * Here that becomes boost credit of the vCPU, up to a limit that may be longer than an accounting.
 * While a vCPU has any, a credit or more, it is in BOOST; the time it runs is taken from there
 * first, and from its credits when there is none left. So who uses less than its share, and only
 * who does, runs whenever it wants to. A vCPU stays active until its boost credit is full too.
 *
 * Source: Nishiguchi, "Evaluation and improvement of credit scheduler for client virtualization",
 * Xen Summit Tokyo, November 2008: its second improvement. The first is the vintage
 * credit@xen-3.3-fujitsu; both together are `boost-credit`.
 *
 * State: none of its own; the boost credit as time is the knob.
 *
 * Signal: what accounting leaves unused. Knob: v->boost_ns, which the discipline spends. Has a
 * meaning only for a discipline with credits that a vCPU can save and a priority before all others:
 * credit.
 *
 * Parameters and what a domain may ask for instead (settings.boost_*):
 *  - limit_ns: published for dom0 and the domain that plays a video. A domain that asks for less
 *    than a credit has no boost.
 *  - ratio_percent: instead of by weight, by what is unused, boost credit is handed out in every
 *    accounting in this proportion to one pCPU, shared by the domain's vCPUs: other domains have no
 *    influence then.
 *
 * Open readings, as parameters:
 *  - ratio: boost credit by ratio is handed out "in place of credit": such a domain has no credits by
 *    weight, and the others share what the host has beside. Or it comes on top of them.
 * Further ones are credit's: overflow, level and boost_end.
 */
#ifndef STEELYARD_BOOST_CREDIT_H
#define STEELYARD_BOOST_CREDIT_H

#include "../vocabulary.h"

/* clang-format off */
#define BOOST_CREDIT_PARAMETERS(X) \
	X(BOOST_CREDIT_LIMIT_NS, "limit_ns", "ns", 0, BOOST_CREDIT_MAX_NS, \
	  "most boost credit of a vCPU whose domain does not ask for another limit", \
	  "Nishiguchi 2008: 100 ms, for two domains", 100 * SY_MS) \
	X(BOOST_CREDIT_RATIO_PERCENT, "ratio_percent", "percent", 0, 6553500, \
	  "boost credit handed out to such a domain, of one pCPU; 0: by weight", \
	  "Nishiguchi 2008: boost_ratio", 0) \
	X(BOOST_CREDIT_RATIO, "ratio", "in_place|on_top", 0, 1, \
	  "whether boost credit by ratio comes in place of credits by weight, or on top of them", \
	  "Nishiguchi 2008, second improvement", BOOST_CREDIT_IN_PLACE)
/* clang-format on */

/* The choices of "ratio", in the order of their names above. */
enum {
	BOOST_CREDIT_IN_PLACE,
	BOOST_CREDIT_ON_TOP,
};

#define BOOST_CREDIT_MAX_NS (10 * SY_S)

enum boost_credit_parameter { BOOST_CREDIT_PARAMETERS(SY_PARAMETER_INDEX)
				      BOOST_CREDIT_PARAMETER_COUNT };
_Static_assert((int)BOOST_CREDIT_PARAMETER_COUNT <= SY_GOVERNOR_PARAMETER_WORDS, "parameters fit");

static inline u64 boost_credit_percent(const struct sy_policy *p, const struct sy_domain *d)
{
	if (d->settings.boost_percent)
		return d->settings.boost_percent;
	return SY_GOVERNOR_PARAMETER(p, SY_BOOST_CREDIT, BOOST_CREDIT_RATIO_PERCENT);
}

/* By its ratio a domain has so much boost credit per accounting; 0: by weight. */
static inline u64 boost_credit_by_ratio_ns(const struct sy_policy *p, const struct sy_domain *d, u64 account_ns)
{
	return sy_min(account_ns, SY_S) * sy_min(boost_credit_percent(p, d), 100 * SY_PCPUS_MAX) / 100;
}

/* What a domain is given in an accounting in place of its credits; 0: nothing. */
SY_FN u64 boost_credit_given_ns(const struct sy_policy *p, const struct sy_domain *d, u64 account_ns)
{
	if (SY_GOVERNOR_CHOICE(p, SY_BOOST_CREDIT, BOOST_CREDIT_RATIO) == BOOST_CREDIT_ON_TOP)
		return 0;
	return boost_credit_by_ratio_ns(p, d, account_ns);
}

/* How much more boost credit the vCPU may save. */
SY_FN u64 boost_credit_room_ns(const struct sy_policy *p, const struct sy_domain *d,
			       const struct sy_vcpu *v)
{
	u64 limit_ns = SY_GOVERNOR_PARAMETER(p, SY_BOOST_CREDIT, BOOST_CREDIT_LIMIT_NS);

	if (d->settings.boost_limit_ns)
		limit_ns = d->settings.boost_limit_ns;
	limit_ns = sy_min(limit_ns, BOOST_CREDIT_MAX_NS);
	return limit_ns - sy_min(v->boost_ns, limit_ns);
}

/* An accounting of a vCPU that had room: what it left unused, and the time of an accounting. */
SY_FN void boost_credit_save(const struct sy_policy *p, const struct sy_domain *d,
			     struct sy_vcpu *v, u64 unused_ns, u64 account_ns)
{
	u64 by_ratio_ns = boost_credit_by_ratio_ns(p, d, account_ns);

	if (boost_credit_percent(p, d))
		unused_ns = by_ratio_ns / sy_clamp(d->vcpus, 1, SY_PCPUS_MAX);
	v->boost_ns += sy_min(unused_ns, boost_credit_room_ns(p, d, v));
}

#define boost_credit_has_room_ns 1
#define boost_credit_has_given_ns 1

#ifdef SY_DESCRIBE
static const struct sy_parameter boost_credit_parameters[] = { BOOST_CREDIT_PARAMETERS(
	SY_PARAMETER_DESCRIPTION) };

static const struct sy_description boost_credit_description = {
	.name = "boost-credit",
	.help = "a vCPU saves what it leaves unused of its share, and spends it in BOOST",
	.parameters = BOOST_CREDIT_PARAMETER_COUNT,
	.parameter = boost_credit_parameters,
	.disciplines = 1 << SY_CREDIT,
	.reason = "it saves credits above one accounting's for the priority BOOST, and only credit has both",
};
#endif

#endif
