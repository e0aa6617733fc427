/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What must hold on the adversary's host for who would rather run on some pCPUs than on others. Part of
 * adversary.c, which checks as well that nobody runs on after a choice while a pCPU that it prefers to
 * this one is idle.
 */
#ifndef STEELYARD_TESTS_AFFINITY_H
#define STEELYARD_TESTS_AFFINITY_H

/* Its affinity has changed: it belongs where it prefers, or goes there, if a pCPU is idle there. */
static void check_placed(u32 i)
{
	check(vcpus[i].move_to != SY_NONE || put_off(i) || engine_better_idle(&engine, i, vcpus[i].state.pcpu) == SY_NONE,
	      "vCPU %u belongs to pCPU %u; it prefers an idle one", i, vcpus[i].state.pcpu);
}

static void check_tick(u32 i)
{
	u32 runs = pcpus[i].current;

	check(runs == SY_NONE || interrupted[i] || engine_better_idle(&engine, runs, i) == SY_NONE,
	      "vCPU %u stays on pCPU %u after a tick; it prefers an idle one", runs, i);
}

/* Of the pCPUs from `from` on and before `end` that were idle and no longer are, is there one of these? */
static bool taken(const u64 *was_idle, const u64 *of, u32 from, u32 end)
{
	for (; from < end; from++) {
		u64 bit = 1ULL << from % 64;

		if (was_idle[from / 64] & of[from / 64] & bit & ~idle[from / 64])
			return true;
	}
	return false;
}

/* Whether a pCPU of the vCPU's queue that it prefers was idle and is on the way to a choice. */
static bool claims_preferred(u32 vcpu, const u64 *was_idle)
{
	const struct engine_queue *q = &queues[vcpus[vcpu].queue];

	return taken(was_idle, preferred[vcpu], q->first_pcpu, q->end_pcpu);
}

/*
 * A vCPU that wakes takes no idle pCPU that it does not prefer while one is idle that it does: of its queue, if
 * its policy looks no further, else of the host. If it belongs to one that it does not prefer, it moves to the
 * queue of such a one, wherever that is, and interrupts it.
 */
static void wake(u32 vcpu)
{
	struct engine_vcpu *v = &vcpus[vcpu];
	u32 from = 0, end = engine.pcpus, word;
	u64 was_idle[WORDS], others[WORDS];
	bool averse, better;

	averse = engine_averse(&engine, vcpu, v->state.pcpu);
	better = engine_better_idle(&engine, vcpu, v->state.pcpu) != SY_NONE;
	memcpy(was_idle, idle, sizeof(was_idle));
	for (word = 0; word < WORDS; word++)
		others[word] = ~preferred[vcpu][word];
	if (!averse && (sy_steps)(&policy, &v->state) & SY_STEPS_QUEUE) {
		from = queues[v->queue].first_pcpu;
		end = queues[v->queue].end_pcpu;
	}
	better |= prefers[vcpu] &&
		  engine_idle_for(&engine, vcpu, ENGINE_SOFT, from, end) != SY_NONE;
	TELL(vcpus[vcpu].queue, engine_wake(&engine, vcpu, now));
	better &= !put_off(vcpu);
	check(!better || !taken(was_idle, others, 0, engine.pcpus),
	      "vCPU %u takes an idle pCPU; it prefers another idle one", vcpu);
	check(!better || !averse || !v->queued || v->saving || claims_preferred(vcpu, was_idle),
	      "vCPU %u stays on pCPU %u; it prefers an idle one", vcpu, v->state.pcpu);
}

#endif
