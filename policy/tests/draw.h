/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which policy the adversary's next host has, and how its pCPUs lie. Part of adversary.c.
 */
#ifndef STEELYARD_TESTS_DRAW_H
#define STEELYARD_TESTS_DRAW_H

static void draw_policy(void)
{
	u64 discipline, vintages = 0, vintage, g, n;
	const struct sy_description *description;
	bool published = below(2);

	do {
		discipline = below(SY_DISCIPLINES);
		description = sy_describe(discipline);
	} while (only && strcmp(only, description->name));

	while (vintages < SY_VINTAGES && description->vintage[vintages])
		vintages++;
	vintage = below(vintages);
	memset(&policy, 0, sizeof(policy));
	policy.discipline = discipline;
	for (n = 0; n < description->parameters; n++) {
		const struct sy_parameter *parameter = &description->parameter[n];

		policy.parameter[n] = published || below(2) ? parameter->value[vintage] :
							      between(parameter->minimum, parameter->maximum);
	}
	for (g = 0; g < SY_GOVERNORS; g++) {
		const struct sy_description *governor = sy_describe_governor(g);

		if (!(governor->disciplines >> discipline & 1) || below(2))
			continue;
		policy.governors |= 1ULL << g;
		for (n = 0; n < governor->parameters; n++) {
			const struct sy_parameter *parameter = &governor->parameter[n];

			policy.governor_parameter[g][n] = published || below(2) ?
								  parameter->value[0] :
								  between(parameter->minimum, parameter->maximum);
		}
	}
	snprintf(policy_text, sizeof(policy_text), "%s@%s, governors %llx%s", description->name,
		 description->vintage[vintage], (unsigned long long)policy.governors,
		 published ? "" : ", any parameters");
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
