/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What has a name: disciplines, governors, published policies, settings, and the classes of vCPUs. For hosts that
 * read or tell names, after steelyard.h with SY_DESCRIBE.
 */
#ifndef STEELYARD_CATALOGUE_H
#define STEELYARD_CATALOGUE_H

static const struct sy_description *const sy_disciplines[SY_DISCIPLINES] = {
	[SY_SEDF] = &sedf_description,
	[SY_CREDIT] = &credit_description,
	[SY_CREDIT2] = &credit2_description,
	[SY_FAIR] = &fair_description,
};

#define SY_GOVERNOR_DESCRIPTION(BIT, name, ...) [BIT] = &name##_description,

static const struct sy_description *const sy_governors[SY_GOVERNORS] = {
	SY_GOVERNORS_LIST(SY_GOVERNOR_DESCRIPTION, )
};

static const struct sy_parameter sy_settings_described[] = { SY_SETTINGS(SY_PARAMETER_DESCRIPTION) };

static const struct sy_description sy_settings_description = {
	.name = "settings",
	.help = "what an administrator may ask for a domain",
	.parameters = sizeof(sy_settings_described) / sizeof(sy_settings_described[0]),
	.parameter = sy_settings_described,
};

/* Each is a word, in the order of their list. */
_Static_assert(sizeof(struct sy_settings) ==
		       sizeof(sy_settings_described) / sizeof(sy_settings_described[0]) * sizeof(u64),
	       "words");

static const char *const sy_class_names[SY_CLASSES] = {
	[SY_CLASS_PARKED] = "PARKED",
	[SY_CLASS_BOOST] = "BOOST",
	[SY_CLASS_UNDER] = "UNDER",
	[SY_CLASS_OVER] = "OVER",
	[SY_CLASS_RESERVED] = "RESERVED",
	[SY_CLASS_CLAIM] = "CLAIM",
	[SY_CLASS_EXTRA] = "EXTRA",
};

/* A policy that has a name of its own: a discipline with governors, as published; `poise` is ours. */
struct sy_published {
	const char *name;
	const char *meaning;
};

#define SY_PUBLISHED 6

static const struct sy_published sy_published[SY_PUBLISHED] = {
	{ "mcredit2", "credit2@xen-4.5+reset-boost" },
	{ "load-weight", "credit@xen-4.2+load-weight" },
	{ "boost-credit", "credit@xen-3.3-fujitsu+boost-credit" },
	{ "app-slice", "credit@xen-4.2+app-slice" },
	{ "lockvisor", "fair@cfs+cosched" },
	{ "poise", "fair@poise+cosched" },
};

#endif
