/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What Xen's core and its cpupools do to a scheduler, in the order in which they do it.
 */

/* ---- Xen's core ---- */

static struct scheduler *scheduler_of(const struct sched_unit *unit)
{
	return unit->domain->cpupool->sched;
}

static void urgent(struct vcpu *v, bool is_urgent)
{
	model_sched_urgent_count[v->processor] += is_urgent - v->is_urgent;
	v->is_urgent = is_urgent;
}

static void tell_sleep_locked(struct sched_unit *unit)
{
	if (!unit_runnable(unit))
		scheduler_of(unit)->sleep(scheduler_of(unit), unit);
}

/* Who has to wait for a lock is told later. */
static bool is_free(const spinlock_t *lock)
{
	return lock->holder == MODEL_NOBODY;
}

static void tell_sleep(struct sched_unit *unit)
{
	spinlock_t *lock;

	if (!is_free(unit->res->schedule_lock))
		return;
	lock = unit_schedule_lock_irq(unit);
	unit->vcpu_list->sleeps = false;
	tell_sleep_locked(unit);
	unit_schedule_unlock_irq(lock, unit);
}

static void tell_wake(struct sched_unit *unit)
{
	spinlock_t *lock;

	if (!is_free(unit->res->schedule_lock)) {
		unit->vcpu_list->wakes = true;
		return;
	}
	lock = unit_schedule_lock_irq(unit);
	unit->vcpu_list->wakes = false;
	if (unit_runnable(unit)) {
		urgent(unit->vcpu_list, false);
		scheduler_of(unit)->wake(scheduler_of(unit), unit);
	}
	unit_schedule_unlock_irq(lock, unit);
}

static void migrate_start(struct sched_unit *unit)
{
	unit->vcpu_list->pause_flags |= PAUSED_MIGRATING;
	tell_sleep_locked(unit);
}

/* Both locks are held. */
static void migrate(struct sched_unit *unit, unsigned int to)
{
	struct vcpu *v = unit->vcpu_list;

	v->pause_flags &= ~PAUSED_MIGRATING;
	if (v->is_urgent) {
		model_sched_urgent_count[v->processor]--;
		model_sched_urgent_count[to]++;
	}
	scheduler_of(unit)->migrate(scheduler_of(unit), unit, to);
	ASSERT(v->processor == to);
}

/*
 * As sched_unit_migrate_finish() does, whose locks may turn out to be the wrong ones. Where no pCPU is left it would try
 * until the affinity has been broken; here what is to be told later comes back to it.
 */
static void migrate_finish(struct sched_unit *unit)
{
	struct vcpu *v = unit->vcpu_list;
	unsigned int from = v->processor, to = from;
	spinlock_t *old, *new;
	unsigned int attempts = 0;
	bool picked = false;

	while (attempts++ < 8 && !unit->is_running && v->pause_flags & PAUSED_MIGRATING) {
		old = get_sched_res(from)->schedule_lock;
		new = get_sched_res(to)->schedule_lock;
		if (!is_free(old) || !is_free(new))
			return;
		sched_spin_lock_double(old, new);
		from = v->processor;
		if (old == get_sched_res(from)->schedule_lock) {
			bool good = picked && cpumask_test_cpu(to, unit->cpu_hard_affinity);

			if (!good)
				to = scheduler_of(unit)->pick_resource(scheduler_of(unit), unit)->master_cpu;
			if (new == get_sched_res(to)->schedule_lock &&
			    cpumask_test_cpu(to, unit->domain->cpupool->res_valid)) {
				if (!unit->is_running && v->pause_flags & PAUSED_MIGRATING)
					migrate(unit, to);
				sched_spin_unlock_double(old, new);
				tell_wake(unit);
				return;
			}
		}
		picked = old == get_sched_res(from)->schedule_lock;
		sched_spin_unlock_double(old, new);
	}
}

static void context_saved(unsigned int cpu)
{
	struct sched_unit *unit = get_sched_res(cpu)->prev;
	struct scheduler *ops;

	if (!unit || !is_free(unit->res->schedule_lock))
		return;
	model_cpu = cpu;
	unit->is_running = false;
	get_sched_res(cpu)->prev = NULL;
	ops = is_idle_unit(unit) ? get_sched_res(cpu)->pool->sched : scheduler_of(unit);
	if (model_context == MODEL_FIRST)
		model_comes_between();
	ops->context_saved(ops, unit);
	if (!is_idle_unit(unit))
		migrate_finish(unit);
}

/* Whether one that runs here would rather run on a pCPU that is idle. */
static bool would_rather_move(const struct sched_unit *unit, unsigned int cpu)
{
	struct host *h = get_sched_res(cpu)->pool->sched->sched_data;
	const struct host_vcpu *v = unit->priv;

	return !is_idle_unit(unit) && cpumask_equal(unit->domain->cpupool->res_valid, &queue_of(v)->usable) &&
	       engine_better_idle(&h->engine, v->number, h->number[cpu]) != SY_NONE;
}

static void schedule(unsigned int cpu)
{
	struct sched_resource *res = get_sched_res(cpu);
	struct sched_unit *prev = res->curr, *next;
	struct vcpu *v = prev->vcpu_list;
	spinlock_t *lock;
	bool moves;

	context_saved(cpu);
	if (!res->pool) {
		model_softirq[cpu] = false;
		return;
	}
	lock = res->schedule_lock;
	if (!is_free(lock) || res->prev)
		return;
	model_softirq[cpu] = false;
	model_cpu = cpu;
	choices++;
	res->due_ns = 0;
	spin_lock_irq(lock);
	prev = res->curr;
	v = prev->vcpu_list;
	moves = would_rather_move(prev, cpu);
	res->pool->sched->do_schedule(res->pool->sched, prev, NOW(), res->tasklet);
	next = prev->next_task;
	ASSERT(next);
	/* Somebody may have come between and taken that one. */
	ASSERT(!moves || next != prev || !would_rather_move(prev, cpu));
	if (prev->next_time >= 0) {
		ASSERT(prev->next_time >= (s_time_t)SOONEST_NS);
		res->due_ns = model_now + prev->next_time;
	}
	if (next != prev) {
		ASSERT(is_idle_unit(next) || !next->is_running);
		ASSERT(is_idle_unit(next) || next->vcpu_list->new_state == RUNSTATE_running);
		ASSERT(!res->tasklet || is_idle_unit(next));
		if (v->pause_flags & PAUSED_POLLING)
			urgent(v, true);
		next->is_running = true;
		res->prev = prev;
		res->curr = next;
	}
	ASSERT(is_idle_unit(next) || next->res == res);
	ASSERT(lock == res->schedule_lock);
	spin_unlock_irq(lock);
	if (below(2))
		context_saved(cpu);
}

/* ---- Affinities and cpupools ---- */

/* `all` or some, one of the pool at least. */
static void draw_affinity(cpumask_t *set, const struct cpupool *pool)
{
	unsigned int kind = below(4), one = below(nr_cpu_ids), cpu;

	while (!cpumask_test_cpu(one, pool->res_valid))
		one = (one + 1) % nr_cpu_ids;
	*set = (cpumask_t){ 0 };
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (kind < 2 || (kind == 2 && below(2)))
			cpumask_set_cpu(cpu, set);
	cpumask_set_cpu(one, set);
}

/* All, some, few or none. */
static void draw_soft_affinity(cpumask_t *set)
{
	unsigned int kind = below(4), cpu;

	*set = (cpumask_t){ 0 };
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (!kind || (kind == 1 && below(2)) || (kind == 2 && !below(8)))
			cpumask_set_cpu(cpu, set);
}

/* Of either kind; NULL: as it is. */
static void set_affinity(struct sched_unit *unit, const cpumask_t *hard, const cpumask_t *soft)
{
	scheduler_of(unit)->adjust_affinity(scheduler_of(unit), unit, hard, soft);
	if (hard)
		*unit->cpu_hard_affinity = *hard;
	if (soft)
		*unit->cpu_soft_affinity = *soft;
}

/* As an administrator asks, for one or both, or as Xen pins for a moment. */
static void change_affinity(struct sched_unit *unit)
{
	spinlock_t *lock = unit_schedule_lock_irq(unit);
	bool asked = below(2), softly = asked && below(2), moves;
	cpumask_t hard, soft;

	draw_affinity(&hard, unit->domain->cpupool);
	draw_soft_affinity(&soft);
	set_affinity(unit, softly && below(2) ? NULL : &hard, softly ? &soft : NULL);
	moves = asked || !cpumask_test_cpu(unit->vcpu_list->processor, &hard);
	if (moves)
		migrate_start(unit);
	unit_schedule_unlock_irq(lock, unit);
	if (moves)
		migrate_finish(unit);
}

static void join_pool(unsigned int cpu, struct cpupool *pool)
{
	struct sched_resource *res = get_sched_res(cpu);
	void *priv, *pcpu;

	cpumask_set_cpu(cpu, &cpu_online_map);
	priv = pool->sched->alloc_udata(pool->sched, &idle_unit[cpu], NULL);
	pcpu = pool->sched->alloc_pdata(pool->sched, cpu);
	ASSERT(priv && !pcpu);
	spin_lock_irq(&model_free_lock);
	res->schedule_lock = pool->sched->switch_sched(pool->sched, cpu, pcpu, priv);
	res->pool = pool;
	spin_unlock_irq(&model_free_lock);
	model_softirq[cpu] = true;
	if (below(2))
		schedule(cpu);
	cpumask_set_cpu(cpu, pool->res_valid);
}

/* Of one vCPU, whether it has left the pCPU. */
static bool send_away(struct sched_unit *unit, unsigned int cpu)
{
	static const cpumask_t everywhere = { { [0 ... NR_CPUS / 64 - 1] = ~0ULL } };
	spinlock_t *lock = unit_schedule_lock_irq(unit);
	cpumask_t usable;
	bool here;

	cpumask_and(&usable, unit->cpu_hard_affinity, unit->domain->cpupool->res_valid);
	if (cpumask_empty(&usable) && cpumask_test_cpu(cpu, unit->cpu_hard_affinity)) {
		set_affinity(unit, &everywhere, NULL);
	}
	here = unit->res == get_sched_res(cpu);
	if (here)
		migrate_start(unit);
	unit_schedule_unlock_irq(lock, unit);
	if (here)
		migrate_finish(unit);
	return unit->res != get_sched_res(cpu);
}

/* The second half of a pCPU's way out, unless a vCPU is still there. */
static void finish_leaving(void)
{
	struct sched_resource *res = get_sched_res(leaving);
	struct cpupool *pool = res->pool;
	spinlock_t *lock;
	unsigned int i, n;
	bool gone = true;

	for (i = 0; i < DOMAINS; i++)
		for (n = 0; domains[i].there && n < domains[i].domain.max_vcpus; n++)
			if (domains[i].domain.cpupool == pool)
				gone &= send_away(domains[i].unit[n], leaving);
	context_saved(leaving);
	lock = res->schedule_lock;
	spin_lock_irq(lock);
	for (i = 0; i < DOMAINS; i++)
		for (n = 0; domains[i].there && n < domains[i].domain.max_vcpus; n++)
			gone &= domains[i].unit[n]->res != res;
	gone &= res->curr == res->idle && !res->prev;
	if (gone) {
		res->pool = NULL;
		res->schedule_lock = &model_free_lock;
		res->due_ns = 0;
	}
	spin_unlock_irq(lock);
	if (!gone)
		return;
	model_interrupts_off[model_context] = below(2);
	pool->sched->deinit_pdata(pool->sched, NULL, leaving);
	model_interrupts_off[model_context] = false;
	pool->sched->free_udata(pool->sched, res->idle->priv);
	res->idle->priv = NULL;
	model_softirq[leaving] = false;
	leaving = -1;
}

/* A pCPU of a pool that has others begins to leave; one that is in none joins one. */
static void change_pcpu(unsigned int cpu)
{
	struct cpupool *pool = get_sched_res(cpu)->pool;

	model_cpu = 0;
	if (!pool) {
		join_pool(cpu, &pools[below(POOLS)]);
	} else if (leaving < 0 && cpumask_test_cpu(cpu, pool->res_valid) &&
		   (cpumask_weight(pool->res_valid) > 1 || (pool == &pools[1] && !pool->sched->cpupool))) {
		leaving = cpu;
		cpumask_clear_cpu(cpu, pool->res_valid);
	}
}

/* ---- Domains ---- */

static struct sched_unit *new_unit(struct domain *d, unsigned int id, void *priv_domain, struct cpupool *pool)
{
	struct sched_unit *unit = xzalloc(struct sched_unit);

	unit->domain = d;
	unit->unit_id = id;
	unit->vcpu_list = xzalloc(struct vcpu);
	unit->vcpu_list->sched_unit = unit;
	unit->priv = pool->sched->alloc_udata(pool->sched, unit, priv_domain);
	ASSERT(unit->priv);
	return unit;
}

static void insert(struct sched_unit *unit)
{
	const struct cpupool *pool = unit->domain->cpupool;
	cpumask_t hard, soft;

	sched_set_res(unit, get_sched_res(cpumask_first(pool->res_valid)));
	draw_affinity(&hard, pool);
	draw_soft_affinity(&soft);
	set_affinity(unit, &hard, &soft);
	scheduler_of(unit)->insert_unit(scheduler_of(unit), unit);
}

/* Xen's, which need not follow each other. */
static unsigned int domain_number(unsigned int id)
{
	return id * (1 + seed % 3);
}

static void create_domain(unsigned int id)
{
	struct model_domain *d = &domains[id];
	unsigned int i, pool = below(POOLS);

	if (cpumask_empty(pools[pool].res_valid))
		pool = 0;
	d->domain = (struct domain){ .domain_id = domain_number(id), .max_vcpus = 1 + below(DOMAIN_VCPUS) };
	d->domain.cpupool = &pools[pool];
	d->domain.sched_priv = schedulers[pool].alloc_domdata(&schedulers[pool], &d->domain);
	ASSERT((long)d->domain.sched_priv > 0 || (long)d->domain.sched_priv < -4095);
	for (i = 0; i < d->domain.max_vcpus; i++) {
		d->unit[i] = new_unit(&d->domain, i, d->domain.sched_priv, &pools[pool]);
		d->unit[i]->vcpu_list->pause_flags = below(2) ? PAUSED_BLOCKED : 0;
		insert(d->unit[i]);
		d->domain.vcpu[i] = d->unit[i]->vcpu_list;
	}
	d->there = true;
}

/* Pauses all of a domain's vCPUs and lets those that run stop. */
static void stop_domain(struct model_domain *d)
{
	unsigned int i, cpu;

	for (i = 0; i < d->domain.max_vcpus; i++) {
		struct sched_unit *unit = d->unit[i];

		unit->vcpu_list->pause_flags |= PAUSED_BY_ADMINISTRATOR;
		tell_sleep(unit);
		for (cpu = 0; unit->is_running && cpu < nr_cpu_ids; cpu++) {
			if (get_sched_res(cpu)->curr == unit)
				schedule(cpu);
			if (get_sched_res(cpu)->prev == unit)
				context_saved(cpu);
		}
		ASSERT(!unit->is_running);
		migrate_finish(unit);
	}
}

static void free_unit(struct scheduler *ops, struct sched_unit *unit)
{
	ops->free_udata(ops, unit->priv);
	xfree(unit->vcpu_list);
	xfree(unit);
}

static void destroy_domain(struct model_domain *d)
{
	struct scheduler *ops = d->domain.cpupool->sched;
	unsigned int i;

	d->there = false;
	stop_domain(d);
	for (i = 0; i < d->domain.max_vcpus; i++) {
		urgent(d->unit[i]->vcpu_list, false);
		ops->remove_unit(ops, d->unit[i]);
		free_unit(ops, d->unit[i]);
	}
	ops->free_domdata(ops, d->domain.sched_priv);
}

static void move_domain(struct model_domain *d, struct cpupool *to)
{
	struct scheduler *ops = d->domain.cpupool->sched;
	void *old = d->domain.sched_priv, *new;
	struct sched_unit *units[DOMAIN_VCPUS];
	unsigned int i;

	if (d->domain.cpupool == to || cpumask_empty(to->res_valid))
		return;
	new = to->sched->alloc_domdata(to->sched, &d->domain);
	for (i = 0; i < d->domain.max_vcpus; i++)
		units[i] = new_unit(&d->domain, i, new, to);
	d->there = false;
	stop_domain(d);
	for (i = 0; i < d->domain.max_vcpus; i++) {
		urgent(d->unit[i]->vcpu_list, false);
		ops->remove_unit(ops, d->unit[i]);
	}
	d->domain.cpupool = to;
	d->domain.sched_priv = new;
	for (i = 0; i < d->domain.max_vcpus; i++) {
		units[i]->vcpu_list->pause_flags = below(2) ? PAUSED_BLOCKED : 0;
		insert(units[i]);
		free_unit(ops, d->unit[i]);
		d->unit[i] = units[i];
		d->domain.vcpu[i] = units[i]->vcpu_list;
	}
	d->there = true;
	ops->free_domdata(ops, old);
}
