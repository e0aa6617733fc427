/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which policy the adversary's next host has, how its pCPUs lie, what is asked for domains, and which groups it has. Part
 * of adversary.c.
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

/* What an administrator may ask for a domain. */
static struct sy_settings draw_settings(void)
{
	struct sy_settings settings = {
		.weight = below(4) ? between(0, SY_WEIGHT_MAX) : magnitude(),
		.cap_percent = below(2) ? 0 : between(1, below(2) ? 800 : UINT64_MAX),
		.cap_burst_ns = below(2) ? 0 : magnitude(),
		.slice_ns = below(2) ? 0 : magnitude(),
		.period_ns = below(2) ? 0 : magnitude(),
		.reserved_ns = below(2) ? 0 : magnitude(),
		.extra_time = below(2),
		.boost_limit_ns = below(2) ? 0 : magnitude(),
		.boost_percent = below(2) ? 0 : magnitude(),
		.load_percent = below(4) ? 0 : magnitude(),
		.ungrouped = below(2),
	};

	return settings;
}

/* Groups of domains, and of groups, more and deeper than queues have room for; some domains are in none. */
static void draw_groups(void)
{
	static struct sy_domain groups[2 * SY_QUEUE_GROUPS];
	u32 count = sizeof(groups) / sizeof(groups[0]), i;

	memset(groups, 0, sizeof(groups));
	for (i = 0; i < count; i++) {
		struct sy_settings settings = { .weight = below(SY_WEIGHT_MAX + 1) };

		groups[i].id = DOMAINS + 1 + i;
		groups[i].group = i && below(3) ? &groups[i - 1] : 0;
		sy_domain_init(&policy, &groups[i], &settings, 0, now);
	}
	for (i = 0; i < domain_count; i++)
		domains[i].state.group = below(2) ? &groups[below(count)] : 0;
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
