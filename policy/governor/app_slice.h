/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * app-slice: a domain that both computes and answers packets runs in short slices.
 *
 * Mechanism: such a domain, called heterogeneous, burns its share while it computes and is then
 * behind when a packet comes. Once per interval each domain's utilisation (CPU time received over
 * the CPU time that it is entitled to) and rate of packets received are measured. Over the last
 * windows intervals, a domain with more of both than the thresholds is heterogeneous: its slice is
 * the short one, ticks come so often that a short slice has as many as a long one, and credits are
 * handed out to it, and its cap is checked, once per short slice, in proportion. All others keep
 * the discipline's slice. Shares are unchanged.
 *
 * Source: Zhao, Chen, Zhao, "A dynamic time slice adjusting mechanism of virtual machine monitor",
 * Computer Engineering 40(11), 2014. With credit@xen-4.2 it is `app-slice`.
 *
 * State: of the host, when the interval began and the weight of who ran in it; of a domain, what
 * was measured since, a ring of the last windows, and its short slice or 0.
 *
 * Signal: sy_sample_domain(). Knobs: slice, tick and accounting; the last is credit's alone. They have a meaning for credit, for credit2 as
 * its longest run, and for fair in order deadline (eevdf); fair in order vruntime (cfs) gives no
 * domain a slice of its own, and nothing happens there.
 *
 * Open readings, as parameters:
 *  - judge: "over the last N intervals" as the mean of them, or every one of them.
 *  - slice: the published short slices are chosen by an administrator (3 to 24 ms, of 30); they
 *    are percentages here, to be the same for disciplines with other slices. found is the
 *    publication's future work: the longest slice with which no more than late_permille of the
 *    domain's waits are longer than late_ns. It starts with the discipline's slice, is halved after
 *    an interval with more late waits than that, and else grows by an eighth.
 *  - accounting: the publication names the variable that is set to the tick "the accounting period of credits", and
 *    sets by it the timer that debits; it also says that handing out is unchanged. slice: for a short slice all of
 *    what credit does per slice_ns of 30 ms is done per short slice, so that the three stand in the relation they
 *    have by default; discipline: the tick alone follows.
 *  - entitled: what a domain "should get in the interval" is its part by weight among the domains that were
 *    runnable in it, at most its cap and its vCPUs. That does not see pinning. received: at most, too, what it
 *    would have got had it been runnable all the time, from what it got of the time in which it was: VMs pinned to
 *    one pCPU share that one.
 */
#ifndef STEELYARD_APP_SLICE_H
#define STEELYARD_APP_SLICE_H

#include "../vocabulary.h"

#define APP_SLICE_SOURCE "Zhao et al. 2014"

/* clang-format off */
#define APP_SLICE_PARAMETERS(X) \
	X(APP_SLICE_INTERVAL_NS, "interval_ns", "ns", 10 * SY_MS, 60 * SY_S, \
	  "time between two judgements of a domain", APP_SLICE_SOURCE, SY_S) \
	X(APP_SLICE_WINDOWS, "windows", "intervals", 1, APP_SLICE_WINDOWS_MAX, \
	  "how many of the last intervals a judgement rests on", APP_SLICE_SOURCE, 5) \
	X(APP_SLICE_JUDGE, "judge", "mean|every", 0, 1, \
	  "whether the mean of these intervals or every one is above the thresholds", \
	  APP_SLICE_SOURCE ", listing not available", APP_SLICE_JUDGE_MEAN) \
	X(APP_SLICE_UTILISATION_PERCENT, "utilisation_percent", "percent", 0, 1000, \
	  "threshold: CPU time received, of the CPU time entitled to", APP_SLICE_SOURCE, 50) \
	X(APP_SLICE_PACKETS_PER_S, "packets_per_s", "1/s", 0, 1000000, \
	  "threshold: packets received", APP_SLICE_SOURCE, 30) \
	X(APP_SLICE_SLICE, "slice", "set|found", 0, 1, \
	  "whether the short slice is slice_percent, or is found by the domain's waits", \
	  APP_SLICE_SOURCE "; found: its future work", APP_SLICE_SLICE_SET) \
	X(APP_SLICE_SLICE_PERCENT, "slice_percent", "percent", 1, 100, \
	  "short slice, of the discipline's", APP_SLICE_SOURCE ": for example 12 of 30 ms", 40) \
	X(APP_SLICE_TICKS_PER_SLICE, "ticks_per_slice", "count", 1, 1000, \
	  "ticks per short slice", APP_SLICE_SOURCE ": 4 ms of 12", 3) \
	X(APP_SLICE_ACCOUNTING, "accounting", "slice|discipline", 0, 1, \
	  "whether credits are handed out, and caps checked, once per short slice or as for others; credit only", \
	  APP_SLICE_SOURCE ", section 3.3 (1), (3)", APP_SLICE_ACCOUNTING_SLICE) \
	X(APP_SLICE_ENTITLED, "entitled", "weight|received", 0, 1, \
	  "CPU time entitled to: by weight, or also no more than was to be had in the time it was wanted", \
	  APP_SLICE_SOURCE ", section 3.3: what a vCPU should get", APP_SLICE_ENTITLED_RECEIVED) \
	X(APP_SLICE_LEAST_PERCENT, "least_percent", "percent", 1, 100, \
	  "shortest slice that is found, of the discipline's", "ours", 3) \
	X(APP_SLICE_LATE_NS, "late_ns", "ns", SY_US, 10 * SY_S, \
	  "a wait longer than this is late", "ours", 10 * SY_MS) \
	X(APP_SLICE_LATE_PERMILLE, "late_permille", "permille", 0, 1000, \
	  "how many waits may be late", "ours: p99", 10)
/* clang-format on */

#define APP_SLICE_WINDOWS_MAX 8

enum {
	APP_SLICE_JUDGE_MEAN,
	APP_SLICE_JUDGE_EVERY,
};

enum {
	APP_SLICE_SLICE_SET,
	APP_SLICE_SLICE_FOUND,
};

enum {
	APP_SLICE_ACCOUNTING_SLICE,
	APP_SLICE_ACCOUNTING_DISCIPLINE,
};

enum {
	APP_SLICE_ENTITLED_WEIGHT,
	APP_SLICE_ENTITLED_RECEIVED,
};

enum app_slice_parameter { APP_SLICE_PARAMETERS(SY_PARAMETER_INDEX) APP_SLICE_PARAMETER_COUNT };
_Static_assert((int)APP_SLICE_PARAMETER_COUNT <= SY_GOVERNOR_PARAMETER_WORDS, "parameters fit");

/* Shortest time between ticks, and between accountings. */
#define APP_SLICE_TICK_MIN_NS (100 * SY_US)

/* Sums of one interval saturate here: 18 minutes, 67 million packets. */
#define APP_SLICE_TIME_MAX_NS (1ULL << 40)
#define APP_SLICE_COUNT_MAX (1ULL << 26)

struct app_slice {
	u64 began_ns; /* the interval; 0: no sample yet */
	u64 due; /* 1 if the interval ends with this sample */
	u64 pcpus;
	u64 base_ns; /* the discipline's slice; 0: it has none */
	u64 weight; /* of the domains that were runnable in the interval */
};

struct app_slice_window {
	u32 utilisation; /* in 1/100 of a percent */
	u32 packets; /* in 1/100 per second */
};

struct app_slice_domain {
	struct app_slice_window window[APP_SLICE_WINDOWS_MAX];
	u32 windows; /* how many are filled */
	u32 next; /* which one is the oldest, or empty */
	/* Since the interval began: */
	u64 measured_ns;
	u64 gotten_ns;
	u64 waited_ns;
	u64 packets;
	u64 waits;
	u64 late_waits;
	u64 short_ns; /* its slice while it is heterogeneous, else 0 */
};

SY_GOVERNOR_FITS(SY_APP_SLICE_HOST_AT, struct app_slice);
SY_GOVERNOR_FITS(SY_APP_SLICE_DOMAIN_AT, struct app_slice_domain);

static inline struct app_slice *app_slice(struct sy_governor *g)
{
	return (struct app_slice *)(g->governor + SY_APP_SLICE_HOST_AT);
}

static inline struct app_slice_domain *app_slice_domain(struct sy_domain *d)
{
	return (struct app_slice_domain *)(d->governor + SY_APP_SLICE_DOMAIN_AT);
}

static inline u64 app_slice_parameter(const struct sy_policy *p, enum app_slice_parameter name)
{
	return SY_GOVERNOR_PARAMETER(p, SY_APP_SLICE, name);
}

SY_FN u64 app_slice_sample_ns(const struct sy_policy *p)
{
	return sy_clamp(app_slice_parameter(p, APP_SLICE_INTERVAL_NS), SY_MS, 60 * SY_S);
}

/* Waits longer than this are counted. */
SY_FN u64 app_slice_late_ns(const struct sy_policy *p)
{
	if (SY_GOVERNOR_CHOICE(p, SY_APP_SLICE, APP_SLICE_SLICE) != APP_SLICE_SLICE_FOUND)
		return SY_FOREVER;
	return sy_min(app_slice_parameter(p, APP_SLICE_LATE_NS), SY_FOREVER);
}

SY_FN void app_slice_sample_begin(const struct sy_policy *p, struct sy_governor *g,
				  const struct sy_sampling *sampling)
{
	struct app_slice *a = app_slice(g);

	a->due = sy_interval_ends(&a->began_ns, app_slice_sample_ns(p), sampling->sample_ns, sampling->now);
	a->base_ns = sampling->base_slice_ns;
	a->pcpus = sy_clamp(sampling->pcpus, 1, SY_PCPUS_MAX);
	a->weight = 0;
}

/* Who only waited counts among the runnable ones as well. */
SY_FN void app_slice_sample_domain(const struct sy_policy *p, struct sy_governor *g,
				   struct sy_domain *d, const struct sy_sample *sample)
{
	struct app_slice *a = app_slice(g);
	struct app_slice_domain *ad = app_slice_domain(d);

	ad->measured_ns = sy_add(ad->measured_ns, sample->interval_ns, APP_SLICE_TIME_MAX_NS);
	ad->gotten_ns = sy_add(ad->gotten_ns, sample->gotten_ns, SY_FOREVER);
	ad->waited_ns = sy_add(ad->waited_ns, sample->waited_ns, SY_FOREVER);
	ad->packets = sy_add(ad->packets, sample->packets, APP_SLICE_COUNT_MAX);
	ad->waits = sy_add(ad->waits, sample->waits, APP_SLICE_COUNT_MAX);
	ad->late_waits = sy_add(ad->late_waits, sample->late_waits, APP_SLICE_COUNT_MAX);
	if (a->due && (ad->gotten_ns || sample->waited_ns))
		a->weight = sy_add(a->weight, d->weight, SY_FOREVER);
}

/* What a domain is entitled to, in millionths of a pCPU, at least 1. */
static inline u64 app_slice_entitled(const struct sy_policy *p, const struct app_slice *a, const struct sy_domain *d,
				     const struct app_slice_domain *ad)
{
	u64 weight = sy_clamp(d->weight, SY_WEIGHT_MIN, SY_WEIGHT_MAX);
	u64 entitled = sy_clamp(d->vcpus, 1, SY_PCPUS_MAX) * SY_MILLIONTHS;
	u64 wanted_ns = sy_add(ad->gotten_ns, ad->waited_ns, SY_FOREVER);

	/* Of each vCPU the part of the time it was runnable in which it ran; 2^16 x 2^20 */
	if (SY_GOVERNOR_CHOICE(p, SY_APP_SLICE, APP_SLICE_ENTITLED) == APP_SLICE_ENTITLED_RECEIVED && wanted_ns >= SY_MS)
		entitled = entitled / SY_MILLIONTHS * sy_min(sy_millionths(ad->gotten_ns, wanted_ns), SY_MILLIONTHS);

	if (d->settings.cap_percent)
		entitled = sy_min(entitled, sy_min(d->settings.cap_percent, 1ULL << 40) * SY_PERCENT);
	/* 2^16 x 2^20 x 2^16 */
	entitled = sy_min(entitled, a->pcpus * SY_MILLIONTHS * weight / sy_max(a->weight, weight));
	return sy_max(entitled, 1);
}

static inline struct app_slice_window app_slice_measured(const struct sy_policy *p, const struct app_slice *a,
							 const struct sy_domain *d,
							 const struct app_slice_domain *ad)
{
	u64 measured_ns = sy_max(ad->measured_ns, SY_MS);
	u64 gotten = sy_millionths(ad->gotten_ns, measured_ns);
	struct app_slice_window window;

	/* 2^36 x 2^14, 2^26 x 2^37 */
	window.utilisation = (u32)sy_min(gotten * 10000 / app_slice_entitled(p, a, d, ad), 1ULL << 31);
	window.packets = (u32)sy_min(ad->packets * (100 * SY_S) / measured_ns, 1ULL << 31);
	return window;
}

static inline bool app_slice_heterogeneous(const struct sy_policy *p,
					   const struct app_slice_domain *ad)
{
	u64 windows = sy_clamp(app_slice_parameter(p, APP_SLICE_WINDOWS), 1, APP_SLICE_WINDOWS_MAX);
	u64 utilisation_limit =
		100 * sy_min(app_slice_parameter(p, APP_SLICE_UTILISATION_PERCENT), 1000);
	u64 packets_limit = 100 * sy_min(app_slice_parameter(p, APP_SLICE_PACKETS_PER_S), 1000000);
	u64 utilisation = 0, packets = 0, above = 0;

	if (ad->windows < windows)
		return false;
	/* Backwards from the newest. */
	for (u32 back = 1; back <= APP_SLICE_WINDOWS_MAX; back++) {
		const struct app_slice_window *w =
			&ad->window[(ad->next + APP_SLICE_WINDOWS_MAX - back) % APP_SLICE_WINDOWS_MAX];

		if (back > windows)
			break;
		utilisation += w->utilisation;
		packets += w->packets;
		above += w->utilisation > utilisation_limit && w->packets > packets_limit;
	}
	if (SY_GOVERNOR_CHOICE(p, SY_APP_SLICE, APP_SLICE_JUDGE) == APP_SLICE_JUDGE_EVERY)
		return above == windows;
	return utilisation > windows * utilisation_limit && packets > windows * packets_limit;
}

/* The next slice of a domain that is heterogeneous: see `slice` at the head. */
static inline u64 app_slice_next_ns(const struct sy_policy *p, const struct app_slice *a,
				    const struct app_slice_domain *ad)
{
	u64 base_ns = sy_min(a->base_ns, APP_SLICE_TIME_MAX_NS);
	u64 percent = sy_min(app_slice_parameter(p, APP_SLICE_SLICE_PERCENT), 100);
	u64 least_percent = sy_min(app_slice_parameter(p, APP_SLICE_LEAST_PERCENT), 100);
	u64 late_permille = sy_min(app_slice_parameter(p, APP_SLICE_LATE_PERMILLE), 1000);
	u64 least_ns = sy_max(base_ns * least_percent / 100, 1);

	if (SY_GOVERNOR_CHOICE(p, SY_APP_SLICE, APP_SLICE_SLICE) == APP_SLICE_SLICE_SET)
		return sy_max(base_ns * percent / 100, 1);
	if (!ad->short_ns)
		return sy_max(base_ns, least_ns);
	if (ad->late_waits * 1000 > ad->waits * late_permille)
		return sy_max(ad->short_ns / 2, least_ns);
	return sy_clamp(ad->short_ns + ad->short_ns / 8 + 1, least_ns, sy_max(base_ns, least_ns));
}

/* All domains were measured. */
SY_FN u32 app_slice_sample_settle(const struct sy_policy *p, struct sy_governor *g,
				  struct sy_domain *d)
{
	struct app_slice *a = app_slice(g);
	struct app_slice_domain *ad = app_slice_domain(d);

	if (!a->due)
		return 0;
	ad->window[ad->next % APP_SLICE_WINDOWS_MAX] = app_slice_measured(p, a, d, ad);
	ad->next = (ad->next + 1) % APP_SLICE_WINDOWS_MAX;
	ad->windows += ad->windows < APP_SLICE_WINDOWS_MAX;
	if (a->base_ns && app_slice_heterogeneous(p, ad))
		ad->short_ns = app_slice_next_ns(p, a, ad);
	else
		ad->short_ns = 0;
	ad->measured_ns = 0;
	ad->gotten_ns = 0;
	ad->waited_ns = 0;
	ad->packets = 0;
	ad->waits = 0;
	ad->late_waits = 0;
	return 0;
}

/* Turns the knobs; a domain may have asked for a shorter slice still. */
SY_FN void app_slice_slice(const struct sy_policy *p, struct sy_domain *d, u64 *slice_ns, u64 *tick_ns, u64 *account_ns)
{
	u64 short_ns = app_slice_domain(d)->short_ns;
	u64 ticks = sy_clamp(app_slice_parameter(p, APP_SLICE_TICKS_PER_SLICE), 1, 1000);

	if (!short_ns || (*slice_ns && *slice_ns <= short_ns))
		return;
	*slice_ns = short_ns;
	*tick_ns = sy_max(short_ns / ticks, APP_SLICE_TICK_MIN_NS);
	if (SY_GOVERNOR_CHOICE(p, SY_APP_SLICE, APP_SLICE_ACCOUNTING) == APP_SLICE_ACCOUNTING_SLICE)
		*account_ns = sy_max(short_ns, APP_SLICE_TICK_MIN_NS);
}

#define app_slice_has_sample_ns 1
#define app_slice_has_late_ns 1
#define app_slice_has_packets 1
#define app_slice_has_sample_begin 1
#define app_slice_has_sample_domain 1
#define app_slice_has_sample_settle 1
#define app_slice_has_slice 1

#ifdef SY_DESCRIBE
static const struct sy_parameter app_slice_parameters[] = { APP_SLICE_PARAMETERS(
	SY_PARAMETER_DESCRIPTION) };

static const struct sy_description app_slice_description = {
	.name = "app-slice",
	.help = "a domain that both computes and answers packets runs in short slices",
	.parameters = APP_SLICE_PARAMETER_COUNT,
	.parameter = app_slice_parameters,
	.disciplines = 1 << SY_CREDIT | 1 << SY_CREDIT2 | 1 << SY_FAIR,
	.reason = "it shortens a slice, and sedf has none: how long a vCPU runs there is its reservation",
};
#endif

#endif
