/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is told of decisions (decisions.h): Xen's performance counters, if it is built with them, and trace records. What
 * the engine counts on every host (policy/engine/counts.h) comes by host_notes(), the rest from where Xen's calls are. The
 * class is one that none of Xen's own schedulers has (include/public/trace.h: 0 to 5). With tracing off a record costs
 * looking at Xen's `tb_init_done`.
 */
#include "series.h"

#define TRC_SCHED_STEELYARD 7

enum {
#define STEELYARD_DECISION(number, name, words) TRC_STEELYARD_##name = TRC_SCHED_CLASS_EVT(STEELYARD, number),
#include "decisions.h"
#undef STEELYARD_DECISION
};

#define NOTE(name, ...) \
	do { \
		perfc_incr(steelyard_##name); \
		TRACE_TIME(TRC_STEELYARD_##name, __VA_ARGS__); \
	} while (0)

/* Both halves. */
#define NOTED_64(value) (u32)(value), (u32)((value) >> 32)

static u32 noted(const struct host_vcpu *v)
{
	return v ? v->domain->number << 16 | v->unit->unit_id : SY_NONE;
}

/* By its number, or SY_NONE. */
static u32 noted_number(struct engine *e, u32 vcpu)
{
	return vcpu == SY_NONE ? SY_NONE : noted(vcpu_of(e, vcpu));
}

/* Whether anybody is told. */
static bool is_noted(void)
{
	return IS_ENABLED(CONFIG_PERF_COUNTERS) || unlikely(tb_init_done);
}

/* Whether it is boosted hangs on time, credits and summons: it is looked at where one of them may have changed that. */
static inline void note_boost(struct host_vcpu *v)
{
	bool boosted;

	if (!is_noted())
		return;
	boosted = sy_boosted(host_policy(&v->domain->host->engine), &v->engine.state);
	if (boosted == v->noted_boosted)
		return;
	v->noted_boosted = boosted;
	NOTE(boost, noted(v), boosted, sy_class(host_policy(&v->domain->host->engine), &v->engine.state));
}

/* What the engine counts, as it tells it; `number` as there. A new kind of these needs a place here. */
HOST_FN void host_notes(struct engine *e, enum engine_count kind, u32 pcpu, u32 vcpu, u64 number)
{
	const struct host_vcpu *v;
	const struct host_pcpu *c;

	if (!is_noted())
		return;
	v = vcpu == SY_NONE ? NULL : vcpu_of(e, vcpu);
	c = &host_of(e)->pcpu[pcpu];
	switch (kind) {
	case ENGINE_WAKES:
		NOTE(wake, noted(v), sched_unit_master(v->unit), v->engine.queue);
		break;
	case ENGINE_INTERRUPTS:
		NOTE(interrupt, c->cpu, noted_number(e, c->engine.current));
		break;
	case ENGINE_STOLEN:
		NOTE(steal, noted(v), number);
		break;
	case ENGINE_MOVED:
		NOTE(balance, noted(v), number, c->engine.queue);
		break;
	case ENGINE_REPLACED:
		NOTE(replace, noted(v), c->cpu);
		break;
	case ENGINE_RESETS:
		NOTE(reset, noted(v), v->engine.queue, number);
		break;
	case ENGINE_PARKED:
		NOTE(park, noted(v));
		break;
	case ENGINE_UNPARKED:
		NOTE(unpark, noted(v));
		break;
	case ENGINE_PAUSE_LOOPS:
		NOTE(spin, noted(v));
		break;
	case ENGINE_SUMMONED:
		NOTE(summon, noted(v));
		break;
	/* Told by the calls around them, which know more: choose, account, sample, tasklet. */
	case ENGINE_CHOICES:
	case ENGINE_KEPT:
	case ENGINE_IDLED:
	case ENGINE_ACCOUNTINGS:
	case ENGINE_SAMPLES:
	case ENGINE_OCCUPIED:
	/* Xen's yields are pause loops, and of what else runs it tells nothing. */
	case ENGINE_YIELDS:
	case ENGINE_OTHERS_NS:
	case ENGINE_COUNT_KINDS:
		break;
	}
}
