/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Part of steelyard.h: how its calls reach the hooks of governors (governors.h), the calls that are theirs alone, and what
 * administrators ask for.
 */
#ifndef STEELYARD_GOVERN_H
#define STEELYARD_GOVERN_H

/* The hook of each governor that has it; what they ask for is added to `request`. */
#define SY_ASK_GOVERNORS(...) SY_GOVERNORS_LIST(SY_ASK_GOVERNOR, __VA_ARGS__)
#define SY_ASK_GOVERNOR(BIT, name, host, domain, vcpu, queue, hook, ...) \
	SY_HOOK(BIT, name##_has_##hook, request |= name##_##hook(__VA_ARGS__);)
/* The same of hooks that ask for nothing. */
#define SY_TELL_GOVERNORS(...) SY_GOVERNORS_LIST(SY_TELL_GOVERNOR, __VA_ARGS__)
#define SY_TELL_GOVERNOR(BIT, name, host, domain, vcpu, queue, hook, ...) \
	SY_HOOK(BIT, name##_has_##hook, name##_##hook(__VA_ARGS__);)
/* Returns true if some governor has this hook. */
#define SY_FIND_GOVERNOR(hook) SY_GOVERNORS_LIST(SY_FOUND_GOVERNOR, hook)
#define SY_FOUND_GOVERNOR(BIT, name, host, domain, vcpu, queue, hook) \
	SY_HOOK(BIT, name##_has_##hook, return true;)

/* ---- What governors do that is asked in several calls ---- */

/* Whether one of them answers pause loops. */
static inline bool sy_summons(const struct sy_policy *p)
{
	SY_FIND_GOVERNOR(spin);
	return false;
}

/* Whether one of them is told of resets. */
static inline bool sy_governs_resets(const struct sy_policy *p)
{
	SY_FIND_GOVERNOR(reset);
	return false;
}

/* Whether one of them puts vCPUs first in their queues. */
static inline bool sy_puts_first(const struct sy_policy *p)
{
	SY_FIND_GOVERNOR(first);
	return false;
}

/* Whether the vCPU runs because it was summoned. */
static inline bool sy_in_moment(const struct sy_policy *p, const struct sy_vcpu *v, u64 now)
{
#define SY_DO(BIT, name, ...) SY_HOOK(BIT, name##_has_spin, return name##_in_moment(p, v, now);)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	return false;
}

/* ---- Timers ---- */

/* Whether one of them wants a timer of its own for each vCPU. */
static inline bool sy_governs_timers(const struct sy_policy *p)
{
	SY_FIND_GOVERNOR(timer_ns);
	return false;
}

/* The earlier of two times, of which 0 stands for never. */
static inline u64 sy_earlier(u64 a, u64 b)
{
	return a && b ? sy_min(a, b) : a | b;
}

/* When the host must call sy_vcpu_timer(), the discipline's time or a governor's; 0: never. */
SY_FN u64 sy_vcpu_timer_ns(const struct sy_policy *p, const struct sy_vcpu *v)
{
	u64 timer_ns = v->timer_ns;

#define SY_DO(BIT, name, ...) \
	SY_HOOK(BIT, name##_has_timer_ns, timer_ns = sy_earlier(timer_ns, name##_timer_ns(v));)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	return timer_ns;
}

/* ---- Knobs ---- */

/* Works out the slice, the tick and the accounting in effect: the ones asked for, unless a governor shortens them. */
static inline void sy_reslice(const struct sy_policy *p, struct sy_domain *d)
{
	u64 slice_ns = d->settings.slice_ns, tick_ns = 0, account_ns = 0;

	SY_TELL_GOVERNORS(slice, p, d, &slice_ns, &tick_ns, &account_ns);
	SY_STORE(d->slice_ns, slice_ns);
	SY_STORE(d->tick_ns, tick_ns);
	SY_STORE(d->account_ns, account_ns);
}

/*
 * The answer to SY_REWEIGH, and part of each change of settings and of each sample: works out the
 * weight in effect. It is the one asked for as the governors that turn this knob make it, each in its
 * turn, in range at the end.
 */
SY_FN void sy_reweigh(const struct sy_policy *p, struct sy_governor *g, struct sy_domain *d)
{
	u64 weight = d->settings.weight;

#define SY_DO(BIT, name, ...) \
	SY_HOOK(BIT, name##_has_weight, weight = sy_min(name##_weight(p, g, d, weight), 1ULL << 36);)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	SY_STORE(d->weight, sy_clamp(weight, SY_WEIGHT_MIN, SY_WEIGHT_MAX));
}

/* ---- What an administrator asks for ---- */

/* Whether reservations, settings.reserved_ns per settings.period_ns, are heeded. */
SY_FN bool sy_reserves(const struct sy_policy *p)
{
	return SY_DISCIPLINE(p) == SY_SEDF;
}

/* Takes any settings: what is out of range is clamped. */
static inline void sy_domain_set(struct sy_domain *d, const struct sy_settings *settings)
{
	struct sy_settings asked = *settings;

	if (!asked.weight)
		asked.weight = SY_WEIGHT_DEFAULT;
	asked.weight = sy_clamp(asked.weight, SY_WEIGHT_MIN, SY_WEIGHT_MAX);
#define SY_SET(field, ...) SY_STORE(d->settings.field, asked.field);
	SY_SETTINGS(SY_SET)
#undef SY_SET
}

/*
 * An administrator asks for something else. Disciplines follow when they next meet the domain: at
 * a charge, a wake, a tick, an accounting or the end of a period.
 */
SY_FN void sy_domain_change(const struct sy_policy *p, struct sy_governor *g, struct sy_domain *d,
			    const struct sy_settings *settings)
{
	sy_domain_set(d, settings);
	sy_reweigh(p, g, d);
	sy_reslice(p, d);
}

/*
 * The same for one vCPU, from its next period on: a reservation of its own, or none any more. What is out of range is
 * clamped.
 */
SY_FN void sy_vcpu_reserve(const struct sy_policy *p, struct sy_vcpu *v, const struct sy_reservation *asked)
{
	v->asked = *asked;
}

/* What is reserved for a vCPU that belongs to a queue, from its next period on. Only where sy_reserves(). */
SY_FN void sy_vcpu_reserved(const struct sy_policy *p, const struct sy_domain *d, const struct sy_vcpu *v,
			    struct sy_reservation *reserved)
{
	*reserved = sedf_reserved(d, v);
}

/* ---- Samples: what governors cannot see by themselves ---- */

/* Time between two samples of the host; 0: no samples. */
SY_FN u64 sy_sample_ns(const struct sy_policy *p)
{
	u64 sample_ns = SY_FOREVER;

#define SY_DO(BIT, name, ...) \
	SY_HOOK(BIT, name##_has_sample_ns, sample_ns = sy_min(sample_ns, name##_sample_ns(p));)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	return sample_ns == SY_FOREVER ? 0 : sample_ns;
}

/* Waits longer than this are late; SY_FOREVER: nobody asks. */
SY_FN u64 sy_late_ns(const struct sy_policy *p)
{
	u64 late_ns = SY_FOREVER;

#define SY_DO(BIT, name, ...) SY_HOOK(BIT, name##_has_late_ns, late_ns = sy_min(late_ns, name##_late_ns(p));)
	SY_GOVERNORS_LIST(SY_DO, )
#undef SY_DO
	return late_ns;
}

/* Whether a sample must tell of packets. */
SY_FN bool sy_wants_packets(const struct sy_policy *p)
{
	SY_FIND_GOVERNOR(packets);
	return false;
}

/* Whether a sample must tell of the load that is offered. */
SY_FN bool sy_wants_offered(const struct sy_policy *p)
{
	SY_FIND_GOVERNOR(offered);
	return false;
}

/* The slice of a domain that asks for none; 0: the discipline has no slices. */
static inline u64 sy_base_slice_ns(const struct sy_policy *p, u64 pcpus)
{
	switch (SY_DISCIPLINE(p)) {
	case SY_CREDIT:
		return SY_PARAMETER(p, CREDIT_SLICE_NS);
	case SY_CREDIT2:
		return SY_PARAMETER(p, CREDIT2_RUN_MAX_NS);
	case SY_FAIR:
		return fair_slice_parameter(p, pcpus);
	default:
		return 0;
	}
}

/*
 * A sample: begin, then sy_sample_domain() for each domain with what was measured of it, then
 * sy_sample_settle() for each, which turns its knobs. No vCPU need be charged before.
 */
SY_FN void sy_sample_begin(const struct sy_policy *p, struct sy_governor *g, u64 pcpus, u64 now)
{
	const struct sy_sampling sampling = {
		.sample_ns = sy_sample_ns(p),
		.base_slice_ns = sy_base_slice_ns(p, pcpus),
		.pcpus = pcpus,
		.now = now,
	};

	SY_TELL_GOVERNORS(sample_begin, p, g, &sampling);
}

SY_FN void sy_sample_domain(const struct sy_policy *p, struct sy_governor *g, struct sy_domain *d,
			    const struct sy_sample *sample)
{
	SY_TELL_GOVERNORS(sample_domain, p, g, d, sample);
}

SY_FN u32 sy_sample_settle(const struct sy_policy *p, struct sy_governor *g, struct sy_domain *d)
{
	u32 request = 0;

	SY_ASK_GOVERNORS(sample_settle, p, g, d);
	sy_reweigh(p, g, d);
	sy_reslice(p, d);
	return request;
}

#endif
