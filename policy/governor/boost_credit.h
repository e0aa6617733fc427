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
 *    influence then. That time comes on top of the domain's share.
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
	  "Nishiguchi 2008: boost_ratio", 0)
/* clang-format on */

#define BOOST_CREDIT_MAX_NS (10 * SY_S)

enum boost_credit_parameter { BOOST_CREDIT_PARAMETERS(SY_PARAMETER_INDEX)
				      BOOST_CREDIT_PARAMETER_COUNT };
_Static_assert((int)BOOST_CREDIT_PARAMETER_COUNT <= SY_GOVERNOR_PARAMETER_WORDS, "parameters fit");

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
	u64 percent = SY_GOVERNOR_PARAMETER(p, SY_BOOST_CREDIT, BOOST_CREDIT_RATIO_PERCENT);

	if (d->settings.boost_percent)
		percent = d->settings.boost_percent;
	if (percent)
		unused_ns = sy_min(account_ns, SY_S) * sy_min(percent, 100 * SY_PCPUS_MAX) /
			    (100 * sy_clamp(d->vcpus, 1, SY_PCPUS_MAX));
	v->boost_ns += sy_min(unused_ns, boost_credit_room_ns(p, d, v));
}

#define boost_credit_has_room_ns 1

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
