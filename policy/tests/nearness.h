/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is near comes first, on the adversary's host: searched here by the distance of each pCPU, in the engine by groups that
 * widen. Part of adversary.c.
 */
#ifndef STEELYARD_TESTS_NEARNESS_H
#define STEELYARD_TESTS_NEARNESS_H

/* The level of which one group holds both; within a cache all are as near. */
static u32 distance(u32 a, u32 b)
{
	u32 level = ENGINE_CACHE;

	while (level < ENGINE_LEVELS && a / engine.level_pcpus[level] != b / engine.level_pcpus[level])
		level++;
	return level;
}

/* Whether the vCPU would sooner be sent to the idle pCPU a than to b. */
static bool comes_before(u32 vcpu, u32 a, u32 b)
{
	u32 last = vcpus[vcpu].state.pcpu, far_a = distance(last, a), far_b = distance(last, b);
	bool threads = engine.level_pcpus[ENGINE_CORE] > 1;
	bool whole_a = threads && engine_core_is_idle(&engine, a), whole_b = threads && engine_core_is_idle(&engine, b);

	if (whole_a != whole_b)
		return whole_a;
	if (!whole_a && (a == last || b == last))
		return a == last;
	return far_a != far_b ? far_a < far_b : a < b;
}

static void check_nearest_idle(u32 vcpu)
{
	u32 affinity, pcpu;

	for (affinity = ENGINE_SOFT; affinity < ENGINE_AFFINITIES; affinity++) {
		u32 expected = SY_NONE, found = engine_nearest_idle_by(&engine, vcpu, affinity, 0, engine.pcpus);

		for (pcpu = 0; pcpu < engine.pcpus; pcpu++)
			if (engine_is_idle(&engine, pcpu) && engine_has(&engine, vcpu, affinity, pcpu) &&
			    (expected == SY_NONE || comes_before(vcpu, pcpu, expected)))
				expected = pcpu;
		check(found == expected, "vCPU %u: the nearest idle pCPU is %d, not %d", vcpu, (int)expected, (int)found);
	}
}

/* Who would come from this queue: `averse` is asked for those who would rather be elsewhere, or the others. */
static u32 first_to_steal_from(u32 queue, u32 pcpu, bool averse)
{
	u32 at;

	for (at = 0; at < waiting_count[queue]; at++) {
		u32 vcpu = waiting[queue][at];
		enum sy_verdict verdict;

		if (!engine_takeable(&engine, vcpu, pcpu))
			continue;
		verdict = (sy_steal)(&policy, &pcpus[pcpu].state, 0, &queues[queue].state, &vcpus[vcpu].state, now);
		if (verdict == SY_TAKE && engine_averse(&engine, vcpu, pcpu) == averse)
			return vcpu;
		if (verdict == SY_STOP)
			break;
	}
	return SY_NONE;
}

/* Who comes to an idle pCPU from another queue is the nearest, of those as near in turn from the next one on. */
static void check_steal(u32 pcpu)
{
	u32 expected = SY_NONE, found, averse, level, i;

	if (engine.queues != engine.pcpus || engine.pcpus < 2 || contended)
		return;
	for (averse = 0; averse < 2; averse++)
		for (level = ENGINE_CACHE; level <= ENGINE_LEVELS; level++)
			for (i = 1; expected == SY_NONE && i < engine.pcpus; i++)
				if (distance(pcpu, (pcpu + i) % engine.pcpus) == level)
					expected = first_to_steal_from((pcpu + i) % engine.pcpus, pcpu, averse);
	found = engine_steal(&engine, pcpu, SY_NONE, now);
	check(found == expected, "pCPU %u should steal vCPU %d", pcpu, (int)expected);
	if (found != SY_NONE)
		host_unlock_queue(&engine, vcpus[found].queue);
}

/*
 * Two of each: a cache every time, its node every second time, its socket every fourth, the host every eighth. Where a
 * cache is all of a socket, that and the host.
 */
static void check_reach(void)
{
	struct engine every = { .pcpus = 32, .level_pcpus = { 2, 4, 8, 16 } };
	struct engine plain = { .pcpus = 8, .level_pcpus = { 1, 4, 4, 4 } };
	static const u32 expected[] = { 32, 4, 8, 4, 16, 4, 8, 4 };
	u32 balance;

	for (balance = 0; balance < 16; balance++) {
		check(engine_balanced_pcpus(&every, balance) == expected[balance % 8], "balance %u looks too far or not enough",
		      balance);
		check(engine_balanced_pcpus(&plain, balance) == (balance % 8 ? 4 : 8), "balance %u of a plain host", balance);
	}
}

#endif
