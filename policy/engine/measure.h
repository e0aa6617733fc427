/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What hosts in kernels measure alike: what each vCPU meets with, and from that what happened to its
 * domain since the sample before. Such a host keeps both structs, says where, and calls these from the
 * functions of host.h that have the same names.
 */
#ifndef STEELYARD_ENGINE_MEASURE_H
#define STEELYARD_ENGINE_MEASURE_H

#include "host.h"

/* Of a vCPU since it began, as far as its runs, waits and sleeps have ended. */
struct engine_met {
	u64 gotten_ns;
	u64 waited_ns;
	u64 parked_ns; /* of that */
	u64 blocked_ns;
	u64 worst_wait_ns;
	u64 switches; /* to it */
	u64 migrations;
	u64 preemptions; /* it was stopped with work to do */
	u64 waits;
	u64 late_waits;
};

/* Of a domain. */
struct engine_samples {
	u64 packets; /* that it received since it began; who knows writes it */
	u64 offered; /* CPU time that its work asks for, in millionths of a pCPU; who knows writes it, */
	u64 offered_at_ns; /* and this after it: when; 0: never */
	struct sy_sample departed; /* sums of the vCPUs that are gone */
	struct sy_sample sampled; /* sums at the last sample; as interval_ns its time */
};

HOST_FN struct engine_met *host_met(struct engine *e, u32 vcpu);
HOST_FN struct engine_samples *host_samples(struct engine *e, u32 domain);

/* A call may be of an earlier time than the call before of another queue's lock (engine.h): none has passed then. */
HOST_FN u64 measure_passed_ns(u64 from_ns, u64 to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* Since when a vCPU is kept from waiting in a queue, though it would. */
HOST_FN u64 measure_parked_since_ns(const struct engine_vcpu *v)
{
	return sy_max(v->parked_ns, v->since_ns);
}

/* For how long it has waited so by now. */
HOST_FN u64 measure_waits_parked_ns(const struct engine_vcpu *v, u64 now)
{
	return v->parked && v->status == ENGINE_WAITING ? measure_passed_ns(measure_parked_since_ns(v), now) : 0;
}

HOST_FN void measure_wait(struct engine *e, u32 vcpu, u64 now)
{
	const struct engine_vcpu *v = host_vcpu(e, vcpu);
	struct engine_met *met = host_met(e, vcpu);
	u64 wait_ns = measure_passed_ns(v->since_ns, now);

	met->waited_ns += wait_ns;
	met->parked_ns = sy_min(met->parked_ns + measure_waits_parked_ns(v, now), met->waited_ns);
	met->worst_wait_ns = sy_max(met->worst_wait_ns, wait_ns);
	met->waits++;
	met->late_waits += wait_ns > sy_late_ns(host_policy(e));
}

HOST_FN void measure_wakes(struct engine *e, u32 vcpu, u64 now)
{
	host_met(e, vcpu)->blocked_ns += measure_passed_ns(host_vcpu(e, vcpu)->since_ns, now);
}

/* Whether it ran elsewhere before. */
HOST_FN bool measure_starts(struct engine *e, u32 vcpu, u32 pcpu, u64 now)
{
	u32 ran_on = host_vcpu(e, vcpu)->ran_on;
	bool migrates = ran_on != SY_NONE && ran_on != pcpu;
	struct engine_met *met = host_met(e, vcpu);

	measure_wait(e, vcpu, now);
	met->switches++;
	met->migrations += migrates;
	return migrates;
}

HOST_FN void measure_stops(struct engine *e, u32 vcpu, u32 pcpu, u32 status, u64 now)
{
	struct engine_met *met = host_met(e, vcpu);

	if (pcpu == SY_NONE) {
		measure_wait(e, vcpu, now);
		return;
	}
	met->gotten_ns += measure_passed_ns(host_vcpu(e, vcpu)->since_ns, now);
	met->preemptions += status == ENGINE_WAITING;
}

HOST_FN void measure_unparks(struct engine *e, u32 vcpu, u64 now)
{
	host_met(e, vcpu)->parked_ns += measure_passed_ns(measure_parked_since_ns(host_vcpu(e, vcpu)), now);
}

/* Adds what happened to the vCPU since it began. */
HOST_FN void measure_add(struct engine *e, u32 vcpu, struct sy_sample *sums, u64 now)
{
	const struct engine_vcpu *v = host_vcpu(e, vcpu);
	const struct engine_met *met = host_met(e, vcpu);
	u64 since_ns = measure_passed_ns(v->since_ns, now), waits_ns = v->status == ENGINE_WAITING ? since_ns : 0;

	sums->gotten_ns += met->gotten_ns;
	sums->waited_ns += measure_passed_ns(met->parked_ns + measure_waits_parked_ns(v, now), met->waited_ns + waits_ns);
	sums->waits += met->waits;
	sums->late_waits += met->late_waits;
	if (v->status == ENGINE_RUNNING)
		sums->gotten_ns += since_ns;
}

/* Before engine_vcpu_end(), while its domain still has it. */
HOST_FN void measure_ends(struct engine *e, u32 vcpu, u64 now)
{
	measure_add(e, vcpu, &host_samples(e, host_vcpu(e, vcpu)->domain)->departed, now);
}

/* A rate goes on until another one is told. */
static inline void measure_offered(const struct engine_samples *samples, struct sy_sample *sample, u64 now)
{
	u64 at_ns = SY_LOAD(samples->offered_at_ns);
	u64 offered = sy_min(SY_LOAD(samples->offered), SY_PERCENT_MAX * SY_PERCENT);
	/* 18 minutes at most, so that the product is below 2^62 */
	u64 interval_us = sy_min(sample->interval_ns / SY_US, 1ULL << 30);

	sample->offered_ns = at_ns ? interval_us * offered / (SY_MILLIONTHS / SY_US) : 0;
	sample->offered_age_ns = at_ns ? sy_max(measure_passed_ns(at_ns, now), 1) : 0;
}

HOST_FN void measure_sample(struct engine *e, u32 domain, struct sy_sample *sample, u64 now)
{
	struct engine_samples *samples = host_samples(e, domain);
	const struct sy_sample *before = &samples->sampled;
	struct sy_sample sums = samples->departed;
	u32 place = 0, vcpu;

	while ((vcpu = host_next_vcpu(e, domain, &place)) != SY_NONE) {
		u32 queue = host_lock_queue_of(e, vcpu);

		if (queue == SY_NONE)
			continue;
		measure_add(e, vcpu, &sums, now);
		host_unlock_queue(e, queue);
	}
	sums.interval_ns = now;
	sums.packets = samples->packets;
	sample->interval_ns = measure_passed_ns(before->interval_ns, sums.interval_ns);
	sample->gotten_ns = measure_passed_ns(before->gotten_ns, sums.gotten_ns);
	sample->waited_ns = measure_passed_ns(before->waited_ns, sums.waited_ns);
	sample->packets = sums.packets - before->packets;
	sample->waits = sums.waits - before->waits;
	sample->late_waits = sums.late_waits - before->late_waits;
	measure_offered(samples, sample, now);
	samples->sampled = sums;
}

#endif
