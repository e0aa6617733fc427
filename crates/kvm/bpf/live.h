/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy as the loader gives it. What is constant to the verifier makes dead code of what it does not concern; the
 * loader says which parameters are, those that choose between ways to do something. It may change the others, each a
 * word, at any time: they are read wherever they are needed.
 */
#ifndef STEELYARD_LIVE_H
#define STEELYARD_LIVE_H

#define SY_DISCIPLINE(p) policy_constant.discipline
#define SY_GOVERNORS_OF(p) policy_constant.governors
#define SY_PARAMETER(p, name) \
	(constant_parameters >> (name)&1 ? policy_constant.parameter[name] : policy.parameter[name])
#define SY_GOVERNOR_PARAMETER(p, governor, name) \
	(constant_governor_parameters[governor] >> (name)&1 ? \
		 policy_constant.governor_parameter[governor][name] : \
		 policy.governor_parameter[governor][name])

#include "vocabulary.h"

const volatile struct sy_policy policy_constant;
const volatile u64 constant_parameters, constant_governor_parameters[SY_GOVERNORS]; /* a bit for each */
struct sy_policy policy;

_Static_assert(SY_PARAMETER_WORDS <= 64 && SY_GOVERNOR_PARAMETER_WORDS <= 64, "bits");

#endif
