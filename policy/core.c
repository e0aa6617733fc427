/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The core as symbols for user space: every function of steelyard.h with
 * external linkage, and the catalogue.
 */
#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#define SY_SYMBOLS
#define SY_DESCRIBE
#include "steelyard.h"
#include "catalogue.h"
#include "engine/counts.h"

/* Null beyond the last discipline. */
const struct sy_description *sy_describe(u64 discipline)
{
	return discipline < SY_DISCIPLINES ? sy_disciplines[discipline] : 0;
}

/* Null beyond the last governor. */
const struct sy_description *sy_describe_governor(u64 governor)
{
	return governor < SY_GOVERNORS ? sy_governors[governor] : 0;
}

const struct sy_description *sy_describe_settings(void)
{
	return &sy_settings_description;
}

#define SY_COUNT_DESCRIPTION(KIND, name, unit, help) { name, unit, 0, ~0ULL, help, "policy/engine/counts.h", { 0 } },

static const struct sy_parameter sy_counts_described[] = { ENGINE_COUNTS(SY_COUNT_DESCRIPTION) };

static const struct sy_description sy_counts_description = {
	.name = "counts",
	.help = "what the engine counts",
	.parameters = sizeof(sy_counts_described) / sizeof(sy_counts_described[0]),
	.parameter = sy_counts_described,
};

const struct sy_description *sy_describe_counts(void)
{
	return &sy_counts_description;
}

/* Null beyond the last one. */
const struct sy_published *sy_describe_published(u64 number)
{
	return number < SY_PUBLISHED ? &sy_published[number] : 0;
}

/* Null for none. */
const char *sy_class_name(u32 number)
{
	return number < SY_CLASSES ? sy_class_names[number] : 0;
}
