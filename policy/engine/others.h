/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks of the host that are no vCPUs: in which order they run, and how they share a pCPU with the vCPUs.
 *
 * Lines. The pCPUs of a last-level cache have a line of them, in the order of virtual time: time that a task has run, in
 * inverse proportion to the weight that its niceness gives it. A task stands in the line of the pCPU that it is on. Who
 * sleeps keeps an advantage of one slice at most; who comes from another line is as far ahead or behind as it was there.
 * A pCPU with nothing to do takes from any line: its own, and then from there on round.
 *
 * Turns. On each pCPU the other tasks together and the vCPUs together get equal parts of the time, if both want it, or
 * such as the host's control groups ask for: what the ones have run beyond that the others have before they run again.
 * Nothing is saved up while there is nobody to use it, so that a task that wakes runs at once, unless tasks like it
 * have just had the pCPU for long. A vCPU that wakes interrupts a task on one of its queue's pCPUs once these have run
 * ENGINE_OTHERS_LEAD_NS beyond their part there, but no kernel thread: one of those that wakes always runs at once; of
 * several that wake on a pCPU at the same moment each waits for the one before it, though another pCPU becomes idle
 * meanwhile: they are in the kernel's own queue of that pCPU.
 *
 * Who has such tasks keeps these structs and the lines, and calls this beside the engine, which knows no more of them
 * than engine_occupy(). Nothing here takes a lock: a pCPU's turns and a task are changed by one pCPU at a time, and a
 * line's time, which several change, is a hint.
 */
#ifndef STEELYARD_ENGINE_OTHERS_H
#define STEELYARD_ENGINE_OTHERS_H

#include "state.h"

/* Time that another task gets at a time. */
#define ENGINE_OTHER_SLICE_NS (3 * SY_MS)
/* What counts at most of the time that these have run on a pCPU; the longest that its vCPUs have it then, if parts are equal. */
#define ENGINE_OTHERS_AHEAD_MAX_NS (4 * ENGINE_OTHER_SLICE_NS)
/* What other tasks are ahead by at least where a vCPU interrupts one: about what EEVDF lets who runs go on for (base_slice_ns). */
#define ENGINE_OTHERS_LEAD_NS (700 * SY_US)
/* The vCPUs' part by that of the other tasks, in 1/1024: equal ones, and up to where they are told apart. */
#define ENGINE_PARTS_EQUAL 1024
#define ENGINE_PARTS_MIN (ENGINE_PARTS_EQUAL / 8)
#define ENGINE_PARTS_MAX (ENGINE_PARTS_EQUAL * 8)
/* What a task may be behind in its line's virtual time, and ahead of it if its weight is the usual one. */
#define ENGINE_OTHER_LAG_MAX_NS ENGINE_OTHER_SLICE_NS
#define ENGINE_OTHER_LEAD_MAX_NS ENGINE_OTHERS_AHEAD_MAX_NS
/* Of niceness 0, as sched_ext has it. */
#define ENGINE_OTHER_WEIGHT_USUAL 100

#define ENGINE_OTHER_FN static inline __attribute__((__always_inline__, __unused__))

struct engine_line {
	u64 time_ns; /* virtual, of who has come furthest */
};

/* Such a task. */
struct engine_other {
	u64 time_ns; /* virtual */
	u32 line; /* the last that it was in */
	u8 is_known; /* 1: it has been in one */
};

/*
 * Of a pCPU: how long its vCPUs had it for them when one began or stopped last, when that was, whether one runs, and
 * whether a vCPU may interrupt it.
 */
struct engine_turns {
	u64 ahead_ns;
	u64 changed_ns;
	u32 run;
	u32 yields;
};

/* The time of vCPUs that stands against this of other tasks. */
ENGINE_OTHER_FN u64 engine_against_ns(u64 ran_ns, u32 parts)
{
	return sy_min(ran_ns, ENGINE_OTHERS_AHEAD_MAX_NS) * parts / ENGINE_PARTS_EQUAL;
}

/* How long a pCPU's vCPUs have it for what other tasks are ahead. */
ENGINE_OTHER_FN u64 engine_others_ahead_ns(const struct engine_turns *turns, u32 parts, u64 now)
{
	u64 passed_ns = now > turns->changed_ns ? now - turns->changed_ns : 0;

	if (turns->run)
		return sy_min(turns->ahead_ns + engine_against_ns(passed_ns, parts),
			      engine_against_ns(ENGINE_OTHERS_AHEAD_MAX_NS, parts));
	return turns->ahead_ns > passed_ns ? turns->ahead_ns - passed_ns : 0;
}

/* One of them begins to run there, or ends. */
ENGINE_OTHER_FN void engine_others_change(struct engine_turns *turns, u32 parts, bool run, u64 now)
{
	turns->ahead_ns = engine_others_ahead_ns(turns, parts, now);
	turns->changed_ns = now;
	turns->run = run;
}

/*
 * For how long at most the vCPUs have a pCPU that chooses; 0: the other tasks that wait have it. waits: one waits in the
 * pCPU's line, for this one perhaps; goes_on: one that ran there has more to do, or none of those that wait could come.
 */
ENGINE_OTHER_FN u64 engine_vcpus_turn_ns(const struct engine_turns *turns, u32 parts, bool waits, bool goes_on,
					 u64 now)
{
	u64 ahead_ns;

	if (!waits && !goes_on)
		return SY_FOREVER;
	ahead_ns = engine_others_ahead_ns(turns, parts, now);
	return ahead_ns || waits ? ahead_ns : ENGINE_OTHER_SLICE_NS;
}

/* Whether the pCPU, where no task may go on at once, chooses again for one that has woken and waits in its line. */
ENGINE_OTHER_FN bool engine_other_interrupts(const struct engine_pcpu *c)
{
	/* Where one of them runs it is a vCPU's turn next. */
	return !c->occupied;
}

/*
 * When the one that runs there makes room for a vCPU that waits, if it is still at it; 0: it does not. The pCPU may be
 * another than that of who asks: a hint.
 */
ENGINE_OTHER_FN u64 engine_other_yields_at(const struct engine_turns *turns, u32 parts, u64 now)
{
	u64 ahead_ns = engine_others_ahead_ns(turns, parts, now);

	if (!turns->run || !turns->yields)
		return 0;
	if (ahead_ns >= ENGINE_OTHERS_LEAD_NS)
		return now;
	parts = (u32)sy_max(parts, ENGINE_PARTS_MIN);
	return now + ((ENGINE_OTHERS_LEAD_NS - ahead_ns) * ENGINE_PARTS_EQUAL + parts - 1) / parts;
}

/* `line`: the task's. */
ENGINE_OTHER_FN void engine_other_starts(struct engine_turns *turns, u32 parts, struct engine_line *line,
					 const struct engine_other *other, bool is_kernel, u64 now)
{
	if ((s64)(other->time_ns - line->time_ns) > 0)
		line->time_ns = other->time_ns;
	turns->yields = !is_kernel;
	engine_others_change(turns, parts, true, now);
}

/* What is added to a task's virtual time. */
ENGINE_OTHER_FN u64 engine_other_virtual_ns(u64 ran_ns, u64 weight)
{
	return ran_ns * ENGINE_OTHER_WEIGHT_USUAL / sy_max(weight, 1);
}

ENGINE_OTHER_FN void engine_other_stops(struct engine_turns *turns, u32 parts, struct engine_other *other, u64 weight,
					u64 now)
{
	u64 ran_ns = now > turns->changed_ns ? now - turns->changed_ns : 0;

	if (!turns->run)
		return;
	other->time_ns += engine_other_virtual_ns(ran_ns, weight);
	engine_others_change(turns, parts, false, now);
}

/* Into the line of this number, which is now `to`, from `from`, the task's; its place is in the order of time_ns. */
ENGINE_OTHER_FN void engine_other_joins(struct engine_other *other, const struct engine_line *from,
					const struct engine_line *to, u32 line, u64 weight)
{
	s64 lead_ns = other->time_ns - from->time_ns,
	    most_ns = engine_other_virtual_ns(ENGINE_OTHER_LEAD_MAX_NS, weight);

	if (!other->is_known)
		lead_ns = 0;
	lead_ns = sy_smax(sy_smin(lead_ns, most_ns), -(s64)ENGINE_OTHER_LAG_MAX_NS);
	other->is_known = 1;
	other->line = line;
	other->time_ns = to->time_ns + lead_ns;
}

#endif
