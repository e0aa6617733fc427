/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trace records and performance counters as a model of Xen has them: while one of all listens, records are counted by
 * their kind and must be what the list says.
 */
#ifndef STEELYARD_MODEL_TRACE_H
#define STEELYARD_MODEL_TRACE_H

#define CONFIG_PERF_COUNTERS 1
#define IS_ENABLED(option) (option)
#define unlikely(it) (it)
#define TRC_SCHED_CLASS_EVT(class, event) (0x22000 | TRC_SCHED_##class << 9 | (event))

enum {
	MODEL_KINDS = 32,
	MODEL_FIRST_KIND = 0x22e00
};

static bool tb_init_done;
static u64 model_recorded[MODEL_KINDS], model_counted[MODEL_KINDS];

static const struct {
	const char *name, *words;
} model_kinds[MODEL_KINDS] = {
#define STEELYARD_DECISION(number, name, words) [number] = { #name, words },
#include "../decisions.h"
#undef STEELYARD_DECISION
};

enum {
#define STEELYARD_DECISION(number, name, words) model_kind_steelyard_##name = (number),
#include "../decisions.h"
#undef STEELYARD_DECISION
};

#define perfc_incr(name) ((void)model_counted[model_kind_##name]++)
#define TRACE_TIME(event, ...) \
	do { \
		if (tb_init_done) { \
			u32 model_words[] = { __VA_ARGS__ }; \
			model_trace(event, ARRAY_SIZE(model_words)); \
		} \
	} while (0)

/* Xen has room for seven words. */
static void model_trace(u32 event, u32 words)
{
	u32 kind = event - MODEL_FIRST_KIND, described = 1;
	const char *at;

	ASSERT(kind < MODEL_KINDS && model_kinds[kind].name && words <= 7);
	for (at = model_kinds[kind].words; *at; at++)
		described += *at == ' ';
	ASSERT(words == described);
	model_recorded[kind]++;
}

#endif
