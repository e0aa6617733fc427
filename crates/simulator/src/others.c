/* SPDX-License-Identifier: GPL-2.0-only */
/* Tasks of the host that are no vCPUs, for the simulator (engine.rs): what policy/engine/others.h says. */
#include "types.h"
#include "engine/others.h"

u64 simulated_vcpus_turn_ns(const struct engine_turns *turns, bool waits, bool goes_on, u64 now)
{
	return engine_vcpus_turn_ns(turns, ENGINE_PARTS_EQUAL, waits, goes_on, now);
}

bool simulated_other_interrupts(const struct engine_pcpu *pcpu)
{
	return engine_other_interrupts(pcpu);
}

u64 simulated_other_yields_at(const struct engine_turns *turns, u64 now)
{
	return engine_other_yields_at(turns, ENGINE_PARTS_EQUAL, now);
}

void simulated_other_starts(struct engine_turns *turns, struct engine_line *line,
			    const struct engine_other *other, bool is_kernel, u64 now)
{
	engine_other_starts(turns, ENGINE_PARTS_EQUAL, line, other, is_kernel, now);
}

void simulated_other_stops(struct engine_turns *turns, struct engine_other *other, u64 weight,
			   u64 now)
{
	engine_other_stops(turns, ENGINE_PARTS_EQUAL, other, weight, now);
}

void simulated_other_joins(struct engine_other *other, const struct engine_line *from,
			   const struct engine_line *to, u32 line, u64 weight)
{
	engine_other_joins(other, from, to, line, weight);
}
