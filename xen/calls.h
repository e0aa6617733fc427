/* SPDX-License-Identifier: GPL-2.0-only */
/* What calls.c has for each discipline. */
#ifndef STEELYARD_CALLS_H
#define STEELYARD_CALLS_H

struct calls {
	/* As in Xen's struct scheduler. */
	void (*wake)(const struct scheduler *ops, struct sched_unit *unit);
	void (*sleep)(const struct scheduler *ops, struct sched_unit *unit);
	void (*yield)(const struct scheduler *ops, struct sched_unit *unit);
	void (*context_saved)(const struct scheduler *ops, struct sched_unit *unit);
	void (*do_schedule)(const struct scheduler *ops, struct sched_unit *unit, s_time_t now,
			    bool tasklet_work_scheduled);
	/* Of timers: of a struct host_pcpu, host_vcpu, host_queue. */
	void (*tick)(void *data);
	void (*vcpu_timer)(void *data);
	void (*later)(void *data);
};

/* One for all disciplines, in a test. */
#ifdef STEELYARD_CALLS
#define CALLS_OF(discipline) (&STEELYARD_CALLS)
#else
extern const struct calls steelyard_sedf, steelyard_credit, steelyard_credit2, steelyard_fair;

static const struct calls *const calls_of[SY_DISCIPLINES] = {
	[SY_SEDF] = &steelyard_sedf,
	[SY_CREDIT] = &steelyard_credit,
	[SY_CREDIT2] = &steelyard_credit2,
	[SY_FAIR] = &steelyard_fair,
};
#define CALLS_OF(discipline) calls_of[discipline]
#endif

#endif
