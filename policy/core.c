/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The core as symbols for user space: every function of steelyard.h with
 * external linkage, and the descriptions of the disciplines.
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

static const struct sy_description *const descriptions[SY_DISCIPLINES] = {
	[SY_SEDF] = &sedf_description,
	[SY_CREDIT] = &credit_description,
	[SY_CREDIT2] = &credit2_description,
	[SY_FAIR] = &fair_description,
};

static const struct sy_description *const governor_descriptions[SY_GOVERNORS] = {
	[SY_RESET_BOOST] = &reset_boost_description,
	[SY_LOAD_WEIGHT] = &load_weight_description,
	[SY_APP_SLICE] = &app_slice_description,
	[SY_BOOST_CREDIT] = &boost_credit_description,
	[SY_COSCHED] = &cosched_description,
};

/* Null beyond the last discipline. */
const struct sy_description *sy_describe(u64 discipline)
{
	return discipline < SY_DISCIPLINES ? descriptions[discipline] : 0;
}

/* Null beyond the last governor. */
const struct sy_description *sy_describe_governor(u64 governor)
{
	return governor < SY_GOVERNORS ? governor_descriptions[governor] : 0;
}

/*
 * Sizes in bytes, in the order vcpu, domain, queue, pcpu, accounting, governor, policy, sample: a
 * host in another language checks its own.
 */
void sy_sizes(u64 sizes[8])
{
	sizes[0] = sizeof(struct sy_vcpu);
	sizes[1] = sizeof(struct sy_domain);
	sizes[2] = sizeof(struct sy_queue);
	sizes[3] = sizeof(struct sy_pcpu);
	sizes[4] = sizeof(struct sy_accounting);
	sizes[5] = sizeof(struct sy_governor);
	sizes[6] = sizeof(struct sy_policy);
	sizes[7] = sizeof(struct sy_sample);
}
