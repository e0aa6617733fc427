/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One governor more than hosts have: a line as those of governors.h, and its file. Included before the core.
 */
#ifndef STEELYARD_TESTS_MORE_GOVERNORS_H
#define STEELYARD_TESTS_MORE_GOVERNORS_H

#define SY_GOVERNORS_MORE(X, ...) X(SY_MICRO_SLICE, micro_slice, 0, 2, 3, 1, __VA_ARGS__)
#define SY_GOVERNORS_MORE_HEADER "tests/governor/micro_slice.h"

#endif
