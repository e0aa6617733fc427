/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which policy the adversary's next host has, and how its pCPUs lie. Part of adversary.c.
 */
#ifndef STEELYARD_TESTS_DRAW_H
#define STEELYARD_TESTS_DRAW_H

#include "draw_policy.h"

static void draw_policy(void)
{
	bool published = below(2);
	u64 discipline;

	do
		discipline = below(SY_DISCIPLINES);
	while (only && strcmp(only, sy_disciplines[discipline]->name));
	draw_policy_of(discipline, published);
}

/* Any groups of any groups, so many pCPUs at most; what is beside each other in numbers is together. */
static void draw_topology(u32 most)
{
	static const u32 cores[] = { 1, 1, 2, 3, 4, 8, 16, 48, 96 };
	u32 pcpus = 1, level;

	for (level = 0; level < ENGINE_LEVELS; level++) {
		u32 groups = level == ENGINE_CORE ? 1 + (u32)below(2) : cores[below(level == ENGINE_CACHE ? 9 : 4)];

		pcpus *= (u32)sy_clamp(groups, 1, most / pcpus);
		engine.level_pcpus[level] = pcpus;
	}
	engine.pcpus = pcpus * (u32)(1 + below(sy_clamp(most / pcpus, 1, 4)));
}

#endif
