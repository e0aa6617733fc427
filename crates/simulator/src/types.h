/* SPDX-License-Identifier: GPL-2.0-only */
/* What the core wants to be there. */
#ifndef SIMULATOR_TYPES_H
#define SIMULATOR_TYPES_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

/* Linux's own scheduler is simulated, too. */
#define SY_QUEUE_GROUPS 16
/* One lock for all. */
#define SY_LOAD(word) (word)
#define SY_STORE(word, value) ((word) = (value))
#define SY_APART(v) false

#endif
