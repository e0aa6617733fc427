/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy as the loader gives it. What is constant to the verifier makes dead code of what it does not concern:
 * discipline, governors and choices. Numbers the loader may change at any time: they are read wherever they are needed.
 */
#ifndef STEELYARD_LIVE_H
#define STEELYARD_LIVE_H

#define SY_DISCIPLINE(p) policy_constant.discipline
#define SY_GOVERNORS_OF(p) policy_constant.governors
#define SY_PARAMETER(p, name) policy.parameter[name]
#define SY_CHOICE(p, name) policy_constant.parameter[name]
#define SY_GOVERNOR_PARAMETER(p, governor, name) policy.governor_parameter[governor][name]
#define SY_GOVERNOR_CHOICE(p, governor, name) policy_constant.governor_parameter[governor][name]

#include "vocabulary.h"

const volatile struct sy_policy policy_constant;
struct sy_policy policy;

#endif
