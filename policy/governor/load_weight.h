/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * load-weight: each domain's weight follows its workload.
 *
 * Mechanism: once per interval the workload of each domain is known or measured, and its weight
 * becomes the one asked for times its workload over the mean workload of the domains that have any.
 * Under contention a domain receives then workload / sum of workloads, as far as the weights asked
 * for are equal. Who has as much as the mean, and everybody while nobody has any, has the weight
 * asked for.
 *
 * Source: a master's thesis on Xen's credit scheduler with dynamic weight update, chapter 6. With
 * credit@xen-4.2, whose time had the SEDF that the thesis compares with, it is `load-weight`.
 *
 * State: of the host, when the interval began, and the sum of the workloads; of a domain, what was
 * measured since then, its workload, and the factor to its weight.
 *
 * Signal: sy_sample_domain(), with the load that is offered, and what its administrator declares
 * (load_percent). Knob: weight. Every discipline heeds weights; sedf only those of domains that
 * reserve nothing.
 *
 * Open readings, as parameters (the algorithm's listing is in a chapter that is not at hand):
 *  - workload: offered is what the rule means, which the thesis works out for workloads that it gave
 *    to its guests: CPU time of the work that arrives, served or not. What is declared comes before
 *    what is told; the number of vCPUs does not limit it. What was told last counts for believed_ns.
 *    Of whom nothing is declared, nor told in that time, demand is taken. demand is the CPU time that
 *    the domain would have received had it never waited, so contention does not distort it as long
 *    as the guest sleeps between its bursts; a guest with a backlog, which never sleeps, demands all
 *    its vCPUs. gotten, the CPU time received, confirms itself: under contention who has received
 *    little has little weight and goes on to receive little.
 *  - smoothing_percent, least_percent, most_percent: the published bounds are those of weights. The
 *    defaults keep a tenth of the weight asked for to who was idle and works again.
 *  - A weight that was asked for is kept as a factor; the thesis gives all guests the same.
 */
#ifndef STEELYARD_LOAD_WEIGHT_H
#define STEELYARD_LOAD_WEIGHT_H

#include "../vocabulary.h"

/* clang-format off */
#define LOAD_WEIGHT_PARAMETERS(X) \
	X(LOAD_WEIGHT_INTERVAL_NS, "interval_ns", "ns", 100 * SY_MS, 1000 * SY_S, \
	  "time between two changes of the weights", "ours; not given: the 10 s of the thesis are those of the tools that measured shares", 10 * SY_S) \
	X(LOAD_WEIGHT_WORKLOAD, "workload", "gotten|demand|offered", 0, 2, \
	  "what the weights follow: the CPU time received, the one that would have been without waiting, or the load offered", \
	  "the thesis: CPU workload, as given to its guests", LOAD_WEIGHT_WORKLOAD_OFFERED) \
	X(LOAD_WEIGHT_BELIEVED_NS, "believed_ns", "ns", 100 * SY_MS, 1000 * SY_S, \
	  "how long an offered load is believed after it was told", "ours: three intervals", 30 * SY_S) \
	X(LOAD_WEIGHT_SMOOTHING_PERCENT, "smoothing_percent", "percent", 0, 99, \
	  "how much of the workload before is kept", "ours; 0: none was published", 0) \
	X(LOAD_WEIGHT_LEAST_PERCENT, "least_percent", "percent", 0, 100, \
	  "least weight, of the one asked for", "ours", 10) \
	X(LOAD_WEIGHT_MOST_PERCENT, "most_percent", "percent", 100, 100000, \
	  "greatest weight, of the one asked for", "ours", 1000)
/* clang-format on */

enum {
	LOAD_WEIGHT_WORKLOAD_GOTTEN,
	LOAD_WEIGHT_WORKLOAD_DEMAND,
	LOAD_WEIGHT_WORKLOAD_OFFERED,
};

enum load_weight_parameter { LOAD_WEIGHT_PARAMETERS(SY_PARAMETER_INDEX)
				     LOAD_WEIGHT_PARAMETER_COUNT };
_Static_assert((int)LOAD_WEIGHT_PARAMETER_COUNT <= SY_GOVERNOR_PARAMETER_WORDS, "parameters fit");

/* Sums of times saturate here, 36 years. */
#define LOAD_WEIGHT_TIME_MAX_NS (1ULL << 60)

/* All pCPUs of the largest host, in millionths of one. */
#define LOAD_WEIGHT_OFFERED_MAX (SY_PERCENT_MAX * SY_PERCENT)

struct load_weight {
	u64 began_ns; /* the interval; 0: no sample yet */
	u64 due; /* 1 if the interval ends with this sample */
	u64 sum; /* of the workloads of those that have any */
	u64 running; /* how many these are */
};

struct load_weight_domain {
	/* Since the interval began: */
	u64 measured_ns;
	u64 gotten_ns;
	u64 waited_ns;
	u64 offered_ns; /* in the samples in which the offered load was believed, */
	u64 believed_ns; /* which are so long */
	/* At its end: */
	u64 workload; /* in millionths of a pCPU */
	u64 factor; /* to the weight, in SY_FACTOR_ONE; 0: not sampled yet */
};

SY_GOVERNOR_FITS(SY_LOAD_WEIGHT_HOST_AT, struct load_weight);
SY_GOVERNOR_FITS(SY_LOAD_WEIGHT_DOMAIN_AT, struct load_weight_domain);

static inline struct load_weight *load_weight(struct sy_governor *g)
{
	return (struct load_weight *)(g->governor + SY_LOAD_WEIGHT_HOST_AT);
}

static inline struct load_weight_domain *load_weight_domain(struct sy_domain *d)
{
	return (struct load_weight_domain *)(d->governor + SY_LOAD_WEIGHT_DOMAIN_AT);
}

static inline u64 load_weight_parameter(const struct sy_policy *p, enum load_weight_parameter name)
{
	return SY_GOVERNOR_PARAMETER(p, SY_LOAD_WEIGHT, name);
}

SY_FN u64 load_weight_sample_ns(const struct sy_policy *p)
{
	return sy_clamp(load_weight_parameter(p, LOAD_WEIGHT_INTERVAL_NS), SY_MS, 1000 * SY_S);
}

SY_FN void load_weight_sample_begin(const struct sy_policy *p, struct sy_governor *g,
				    const struct sy_sampling *sampling)
{
	struct load_weight *l = load_weight(g);

	l->due = sy_interval_ends(&l->began_ns, load_weight_sample_ns(p), sampling->sample_ns, sampling->now);
	l->sum = 0;
	l->running = 0;
}

/* None of the arguments exceeds LOAD_WEIGHT_TIME_MAX_NS. */
static inline u64 load_weight_workload(const struct sy_policy *p, const struct sy_domain *d,
				       const struct load_weight_domain *ld)
{
	u64 vcpus = sy_clamp(d->vcpus, 1, SY_PCPUS_MAX);
	u64 interval_ns = sy_max(ld->measured_ns, SY_MS);
	u64 most = vcpus * SY_MILLIONTHS;
	u64 declared = SY_LOAD(d->settings.load_percent);
	u64 vcpu_time_ns;

	if (SY_GOVERNOR_CHOICE(p, SY_LOAD_WEIGHT, LOAD_WEIGHT_WORKLOAD) == LOAD_WEIGHT_WORKLOAD_OFFERED) {
		u64 offered = sy_millionths(ld->offered_ns, sy_max(ld->believed_ns, SY_MS));

		if (declared)
			offered = sy_min(declared, SY_PERCENT_MAX) * SY_PERCENT;
		if (declared || ld->believed_ns)
			return sy_min(offered, LOAD_WEIGHT_OFFERED_MAX);
	}
	if (SY_GOVERNOR_CHOICE(p, SY_LOAD_WEIGHT, LOAD_WEIGHT_WORKLOAD) == LOAD_WEIGHT_WORKLOAD_GOTTEN)
		return sy_min(sy_millionths(ld->gotten_ns, interval_ns), most);
	vcpu_time_ns = sy_min(interval_ns, LOAD_WEIGHT_TIME_MAX_NS / vcpus) * vcpus;
	if (vcpu_time_ns <= ld->waited_ns)
		return most;
	/* gotten / interval, over the part of the vCPUs' time in which they did not wait */
	return vcpus * sy_min(sy_millionths(ld->gotten_ns, vcpu_time_ns - ld->waited_ns),
			      SY_MILLIONTHS);
}

SY_FN void load_weight_sample_domain(const struct sy_policy *p, struct sy_governor *g,
				     struct sy_domain *d, const struct sy_sample *sample)
{
	struct load_weight *l = load_weight(g);
	struct load_weight_domain *ld = load_weight_domain(d);
	u64 keep = sy_min(load_weight_parameter(p, LOAD_WEIGHT_SMOOTHING_PERCENT), 100);
	u64 workload;

	ld->measured_ns = sy_add(ld->measured_ns, sample->interval_ns, LOAD_WEIGHT_TIME_MAX_NS);
	ld->gotten_ns = sy_add(ld->gotten_ns, sample->gotten_ns, LOAD_WEIGHT_TIME_MAX_NS);
	ld->waited_ns = sy_add(ld->waited_ns, sample->waited_ns, LOAD_WEIGHT_TIME_MAX_NS);
	if (sample->offered_age_ns && sample->offered_age_ns <= load_weight_parameter(p, LOAD_WEIGHT_BELIEVED_NS)) {
		ld->offered_ns = sy_add(ld->offered_ns, sample->offered_ns, LOAD_WEIGHT_TIME_MAX_NS);
		ld->believed_ns = sy_add(ld->believed_ns, sample->interval_ns, LOAD_WEIGHT_TIME_MAX_NS);
	}
	if (!l->due)
		return;
	workload = load_weight_workload(p, d, ld);
	ld->workload = ld->factor ? (ld->workload * keep + workload * (100 - keep)) / 100 : workload;
	ld->measured_ns = 0;
	ld->gotten_ns = 0;
	ld->waited_ns = 0;
	ld->offered_ns = 0;
	ld->believed_ns = 0;
	l->sum = sy_add(l->sum, ld->workload, LOAD_WEIGHT_TIME_MAX_NS);
	l->running += ld->workload ? 1 : 0;
}

/* All domains were measured. */
SY_FN u32 load_weight_sample_settle(const struct sy_policy *p, struct sy_governor *g,
				    struct sy_domain *d)
{
	struct load_weight *l = load_weight(g);
	struct load_weight_domain *ld = load_weight_domain(d);
	u64 least = sy_min(load_weight_parameter(p, LOAD_WEIGHT_LEAST_PERCENT), 100);
	u64 most = sy_clamp(load_weight_parameter(p, LOAD_WEIGHT_MOST_PERCENT), 100, 100000);
	u64 mean = sy_divide(l->sum, l->running);

	if (!l->due)
		return 0;
	/* workload is at most 2^36 */
	ld->factor = mean ? ld->workload * SY_FACTOR_ONE / mean : SY_FACTOR_ONE;
	ld->factor = sy_clamp(ld->factor, sy_max(SY_FACTOR_ONE * least / 100, 1),
			      SY_FACTOR_ONE * most / 100);
	return 0;
}

/* The factor is at most 1000 x SY_FACTOR_ONE. */
SY_FN u64 load_weight_weight(const struct sy_policy *p, struct sy_governor *g, struct sy_domain *d,
			     u64 weight)
{
	const struct load_weight_domain *ld = load_weight_domain(d);
	u64 factor = ld->factor ? ld->factor : SY_FACTOR_ONE;

	return (weight * factor + SY_FACTOR_ONE / 2) / SY_FACTOR_ONE;
}

#define load_weight_has_sample_ns 1
#define load_weight_has_sample_begin 1
#define load_weight_has_sample_domain 1
#define load_weight_has_sample_settle 1
#define load_weight_has_weight 1
#define load_weight_has_offered 1

#ifdef SY_DESCRIBE
static const struct sy_parameter load_weight_parameters[] = { LOAD_WEIGHT_PARAMETERS(
	SY_PARAMETER_DESCRIPTION) };

static const struct sy_description load_weight_description = {
	.name = "load-weight",
	.help = "each domain's weight follows its workload",
	.parameters = LOAD_WEIGHT_PARAMETER_COUNT,
	.parameter = load_weight_parameters,
	.disciplines = 1 << SY_SEDF | 1 << SY_CREDIT | 1 << SY_CREDIT2 | 1 << SY_FAIR,
};
#endif

#endif
