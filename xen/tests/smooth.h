/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time during which nothing is late and no lock is missed: nobody waits long beside an idle pCPU then. Part of model.c.
 */

enum {
	SMOOTH_CPUS = 8, /* at most, or it would take too long */
	SMOOTH_VCPUS = 2 * SMOOTH_CPUS, /* likewise, who ever run */
	SMOOTH_EVENTS = 10000,
	SMOOTH_LOOKS = 64 /* events between two looks at everything */
};

static struct sched_unit *smooth_unit[SMOOTH_VCPUS];
static unsigned int smooth_units;
/* When one of them last waited beside no idle pCPU that it may use, or did not wait. */
static u64 not_beside_idle_ns[SMOOTH_VCPUS];

/* When something is due next. */
static u64 next_event_ns(void)
{
	u64 next_ns = model_now + SY_S;
	const struct timer *timer;
	unsigned int cpu;

	list_for_each_entry (timer, &model_timers, in_timers)
		if (timer->active)
			next_ns = sy_min(next_ns, timer->expires);
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (get_sched_res(cpu)->due_ns)
			next_ns = sy_min(next_ns, get_sched_res(cpu)->due_ns);
	return sy_max(next_ns, model_now);
}

static bool waits_beside_idle(const struct sched_unit *unit)
{
	struct host *h = scheduler_of(unit)->sched_data;
	const struct host_vcpu *v = unit->priv;

	return v->engine.queued && !v->engine.saving && !is_put_off(v) &&
	       engine_nearest_idle(&h->engine, v->number, 0, h->engine.pcpus) != SY_NONE;
}

static void check_nobody_waits_beside_idle(void)
{
	unsigned int i;

	model_looks = true;
	for (i = 0; i < smooth_units; i++) {
		const struct host *h = scheduler_of(smooth_unit[i])->sched_data;

		if (!waits_beside_idle(smooth_unit[i]))
			not_beside_idle_ns[i] = model_now;
		ASSERT(model_now - not_beside_idle_ns[i] <= beside_idle_most_ns(&steelyard_policy, &h->engine, smooth_units));
	}
	model_looks = false;
}

/* Who takes part, twice as many as there are pCPUs; all others stop. */
static void draw_smooth_units(void)
{
	unsigned int i, n, most = 2 * nr_cpu_ids, seen = 0;

	smooth_units = 0;
	for (i = 0; i < domain_count; i++) {
		for (n = 0; domains[i].there && n < domains[i].domain.max_vcpus; n++) {
			unsigned int place = smooth_units < most ? smooth_units++ : below(++seen + most);

			stop_later(domains[i].unit[n], PAUSED_BY_ADMINISTRATOR);
			if (place < most)
				smooth_unit[place] = domains[i].unit[n];
		}
	}
	for (i = 0; i < smooth_units; i++)
		not_beside_idle_ns[i] = model_now;
}

/* One of them goes, stops or gets another affinity; in the long run half of them can run. */
static void happen_smoothly(void)
{
	struct sched_unit *unit = smooth_unit[below(smooth_units)];

	if (below(2))
		go_later(unit, PAUSED_BLOCKED | PAUSED_POLLING | PAUSED_BY_ADMINISTRATOR);
	else
		stop_later(unit, PAUSED_BLOCKED);
	if (!below(16))
		change_affinity(unit);
}

/* All that is late is done; whether no pCPU is on its way out any more. */
static bool catch_up(void)
{
	unsigned int rounds;

	for (rounds = 0; rounds < 2 || (leaving >= 0 && rounds < 16); rounds++) {
		whatever_is_due();
		settle(true);
	}
	return leaving < 0;
}

static void pass_smoothly(void)
{
	unsigned int rarely = 16 << below(8), events, i;

	smooth = true;
	contended = false;
	for (i = 0; i < nr_cpu_ids; i++) {
		model_softirq[i] |= get_sched_res(i)->tasklet;
		get_sched_res(i)->tasklet = false;
	}
	draw_smooth_units();
	for (events = 0; catch_up() && events < SMOOTH_EVENTS; events++) {
		if (events % SMOOTH_LOOKS == 0)
			check_all(true);
		check_nobody_waits_beside_idle();
		if (!below(rarely))
			happen_smoothly();
		model_now = next_event_ns();
	}
	smooth = false;
}
