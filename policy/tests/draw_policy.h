/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any policy, for whoever tests all of them: of a discipline a vintage, any governors that suit it, and parameters as
 * published, or any. It needs `policy` and `policy_text`, by which a failure names it.
 */
#ifndef STEELYARD_TESTS_DRAW_POLICY_H
#define STEELYARD_TESTS_DRAW_POLICY_H

static void draw_parameters(u64 *value, const struct sy_description *description, u64 vintage, bool published)
{
	u64 n;

	for (n = 0; n < description->parameters; n++) {
		const struct sy_parameter *parameter = &description->parameter[n];

		value[n] = published || below(2) ? parameter->value[vintage] :
						   between(parameter->minimum, parameter->maximum);
	}
}

static void draw_policy_of(u64 discipline, bool published)
{
	const struct sy_description *description = sy_disciplines[discipline];
	u64 vintages = 0, vintage, g;

	while (vintages < SY_VINTAGES && description->vintage[vintages])
		vintages++;
	vintage = below(vintages);
	memset(&policy, 0, sizeof(policy));
	policy.discipline = discipline;
	draw_parameters(policy.parameter, description, vintage, published);
	for (g = 0; g < SY_GOVERNORS; g++) {
		if (!(sy_governors[g]->disciplines >> discipline & 1) || below(2))
			continue;
		policy.governors |= 1ULL << g;
		draw_parameters(policy.governor_parameter[g], sy_governors[g], 0, published);
	}
	snprintf(policy_text, sizeof(policy_text), "%s@%s, governors %llx%s", description->name,
		 description->vintage[vintage], (unsigned long long)policy.governors,
		 published ? "" : ", any parameters");
}

#endif
