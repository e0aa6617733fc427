/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an administrator may ask for a domain. This list is the only place that names it all: struct sy_settings, what
 * scenarios may write, what dom0 may write of Xen's domains and the documents follow from it.
 *
 *	X(field, "name as scenarios write it", "unit", least, most, "meaning", "where it is heeded", if not asked)
 *
 * 0 in a field stands for "not asked", whatever the least is.
 */
#ifndef STEELYARD_SETTINGS_H
#define STEELYARD_SETTINGS_H

/* All pCPUs of the largest host, in percent of one. */
#define SY_PERCENT_MAX 409600

/* clang-format off */
#define SY_SETTINGS(X) \
	X(weight, "weight", "relative", SY_WEIGHT_MIN, SY_WEIGHT_MAX, \
	  "its part of the CPU time under contention, relative to the other domains", "everywhere", SY_WEIGHT_DEFAULT) \
	X(cap_percent, "cap_percent", "percent", 0, SY_PERCENT_MAX, \
	  "the most CPU time it may use, of one pCPU; 0: no limit", "the vintages that `steelyard policies` names", 0) \
	X(cap_burst_ns, "cap_burst", "ns", 0, 1000 * SY_S, \
	  "CPU time of its cap that it may save for later; 0: what the policy says", \
	  "credit2, fair; cpu.max.burst of Linux", 0) \
	X(slice_ns, "slice", "ns", 1, SY_S, \
	  "the longest it wants to run at a time; the limit is that of Xen's credit", "credit, credit2, fair in order deadline", 0) \
	X(period_ns, "sedf.period", "ns", 10 * SY_US, 10 * SY_S, \
	  "period of each vCPU's reservation", "sedf; the limits are those of Xen 4.5", 0) \
	X(reserved_ns, "sedf.slice", "ns", 5 * SY_US, 10 * SY_S, \
	  "time reserved in each period, at most all of it", "sedf; the limits are those of Xen 4.5", 0) \
	X(extra_time, "sedf.extra_time", "false|true", 0, 1, \
	  "whether spare time may be used as well", "sedf", 1) \
	X(boost_limit_ns, "boost.limit", "ns", 0, SY_FOREVER, \
	  "the most boost that a vCPU of it saves; 0: none", "boost-credit", 0) \
	X(boost_percent, "boost.ratio_percent", "percent", 0, SY_PERCENT_MAX, \
	  "what it is given of one pCPU, instead of what it leaves unused; 0: that", "boost-credit", 0) \
	X(load_percent, "load_percent", "percent", 0, SY_PERCENT_MAX, \
	  "CPU time that its work asks for, of one pCPU, as declared; 0: not declared", "load-weight", 0) \
	X(ungrouped, "ungrouped", "false|true", 0, 1, \
	  "whether each vCPU has the whole weight for itself, as threads that no control group holds together", "fair", 0)
/* clang-format on */

#define SY_SETTING_FIELD(field, ...) u64 field;
struct sy_settings {
	SY_SETTINGS(SY_SETTING_FIELD)
};

/* What may be asked for one vCPU alone, instead of its domain's sedf.period, sedf.slice and sedf.extra_time. */
struct sy_reservation {
	u64 period_ns;
	u64 slice_ns; /* 0: nothing is asked for this vCPU, its domain's counts */
	u64 extra_time;
};

#endif
