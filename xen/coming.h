/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What comes and goes: vCPUs, which may also go elsewhere, domains, pCPUs and instances. Part of steelyard.c, which says
 * which locks are for what.
 */

/* ---- Numbers ---- */

/* Makes room in the table for this number; the instance's lock is held. */
static int make_room(struct table **table, u32 number)
{
	struct table *old = *table, *new;
	u32 room = old ? old->room : TABLE_LEAST;

	if (number >= TABLE_MOST)
		return -ENOSPC;
	if (old && number < room)
		return 0;
	while (room <= number)
		room *= 2;
	new = xzalloc_flex_struct(struct table, entry, room);
	if (!new)
		return -ENOMEM;
	new->before = old;
	new->room = room;
	if (old)
		memcpy(new->entry, old->entry, old->room * sizeof(*old->entry));
	smp_wmb();
	write_atomic(table, new);
	return 0;
}

static void put_at(struct table *table, u32 number, void *entry)
{
	smp_wmb();
	write_atomic(&table->entry[number], entry);
}

static void free_table(struct table *table)
{
	while (table) {
		struct table *before = table->before;

		xfree(table);
		table = before;
	}
}

/* Gives the vCPU the first free number. */
static int number_vcpu(struct host *h, struct host_vcpu *v)
{
	int result;

	spin_lock(&h->lock);
	for (v->number = 0; look_up(&h->vcpus, v->number); v->number++)
		;
	result = make_room(&h->vcpus, v->number);
	if (!result)
		put_at(h->vcpus, v->number, v);
	spin_unlock(&h->lock);
	return result;
}

/* ---- vCPUs and domains come and go ---- */

/* Nothing happens to it: Xen may ask again. */
static struct sched_resource *cf_check steelyard_pick_resource(const struct scheduler *ops,
							       const struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;

	if (usable_changed(queue_of(v)))
		map_affinity(h, v, unit->cpu_hard_affinity, unit->cpu_soft_affinity);
	return get_sched_res(h->pcpu[engine_place(&h->engine, v->number)].cpu);
}

/* Xen has let it sleep. */
static void cf_check steelyard_migrate(const struct scheduler *ops, struct sched_unit *unit,
				       unsigned int cpu)
{
	struct host *h = ops->sched_data;
	const struct host_vcpu *v = unit->priv;
	struct host_queue *from = queue_of(v), *to = queue_at(h, cpu);

	ASSERT(v->engine.status == ENGINE_BLOCKED && !unit->is_running);
	from->now = to->now = max(max(from->now, to->now), (u64)NOW());
	sched_set_res(unit, get_sched_res(cpu));
	engine_assign(&h->engine, v->number, h->number[cpu], to->now);
}

static void cf_check steelyard_adjust_affinity(const struct scheduler *ops, struct sched_unit *unit,
					       const cpumask_t *hard, const cpumask_t *soft)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;
	u64 now;

	/* Before its insertion the lock need not be held. One that stays as it is is not given. */
	if (is_idle_unit(unit) || !v->inserted)
		return;
	now = told_of(v);
	if (map_affinity(h, v, hard ?: unit->cpu_hard_affinity, soft ?: unit->cpu_soft_affinity))
		engine_affinity_changed(&h->engine, v->number, now);
	v->stays = false;
}

static void *cf_check steelyard_alloc_udata(const struct scheduler *ops, struct sched_unit *unit,
					    void *domain)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v;

	/* An idle unit has none; Xen wants something. */
	if (!domain)
		return ZERO_BLOCK_PTR;
	v = xzalloc_flex_struct(struct host_vcpu, allowed, 2 * h->words);
	if (!v)
		return NULL;
	v->unit = unit;
	v->domain = domain;
	INIT_LIST_HEAD(&v->in_put_off);
	if (number_vcpu(h, v)) {
		xfree(v);
		return NULL;
	}
	init_timer(&v->timer, calls->vcpu_timer, v, smp_processor_id());
	return v;
}

static void cf_check steelyard_free_udata(const struct scheduler *ops, void *priv)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = priv;

	if (priv == ZERO_BLOCK_PTR)
		return;
	kill_timer(&v->timer);
	spin_lock(&h->lock);
	put_at(h->vcpus, v->number, NULL);
	spin_unlock(&h->lock);
	let_pass(h);
	xfree(v);
}

/* For Xen the unit belongs to this pCPU from now on; it is not inserted yet. */
static void settle_unit(struct sched_unit *unit, unsigned int cpu)
{
	spinlock_t *lock = unit_schedule_lock_irq(unit);

	sched_set_res(unit, get_sched_res(cpu));
	spin_unlock_irq(lock);
}

/* Finds the vCPU a home, whose queue is entered then. */
static u32 enter_home(struct host *h, struct host_vcpu *v, u64 *now)
{
	struct host_queue *q;
	u32 home;

	for (;;) {
		map_affinity(h, v, v->unit->cpu_hard_affinity, v->unit->cpu_soft_affinity);
		home = engine_home(&h->engine, v->number);
		settle_unit(v->unit, h->pcpu[home].cpu);
		v->engine.queue = h->pcpu[home].engine.queue;
		q = queue_of(v);
		*now = enter(q);
		/* It may have gone meanwhile. */
		if (host_pcpu(&h->engine, home)->online)
			return home;
		leave(q);
	}
}

static void cf_check steelyard_insert_unit(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;
	struct host_queue *q;
	u32 home;
	u64 now;

	if (is_idle_unit(unit))
		return;
	spin_lock(&h->lock);
	list_add_tail(&v->in_domain, &v->domain->vcpus);
	home = enter_home(h, v, &now);
	q = queue_of(v);
	v->inserted = true;
	engine_vcpu_begin(&h->engine, v->number, v->domain->number, unit->unit_id, home, now);
	host_vcpu_timer(&h->engine, v->number);
	if (unit_runnable(unit))
		engine_wake(&h->engine, v->number, now);
	leave(q);
	spin_unlock(&h->lock);
}

static void cf_check steelyard_remove_unit(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;
	struct host_queue *q;

	if (is_idle_unit(unit))
		return;
	spin_lock(&h->lock);
	q = &h->queue[host_lock_queue_of(&h->engine, v->number)];
	v->stays = true;
	ASSERT(v->inserted && v->engine.status != ENGINE_RUNNING);
	if (v->engine.status == ENGINE_WAITING)
		engine_sleep(&h->engine, v->number, q->now);
	if (v->engine.saving)
		engine_saved(&h->engine, v->number, q->now);
	measure_ends(&h->engine, v->number, q->now);
	engine_vcpu_end(&h->engine, v->number, q->now);
	list_del(&v->in_domain);
	stop_timer(&v->timer);
	v->inserted = false;
	leave(q);
	spin_unlock(&h->lock);
}

/* The pCPU serves vCPUs from now on; the instance's idle lock is held. */
static void join(struct host *h, unsigned int cpu)
{
	struct host_queue *q = queue_at(h, cpu);

	migrate_timer(&h->pcpu[h->number[cpu]].tick, cpu);
	take(&q->lock);
	engine_pcpu_begin(&h->engine, h->number[cpu]);
	give(&q->lock);
}

static void free_pcpus(struct host *h)
{
	XFREE(h->pcpu);
	XFREE(h->queue);
	XFREE(h->number);
	XFREE(h->idle);
}

/* Which pCPU has which number; false: there are too few, since Xen's groups do not lie within each other. */
static bool number_pcpus(struct host *h, const cpumask_t *cpus)
{
	unsigned int cpu;
	u32 i;

	for (i = 0; i < nr_cpu_ids; i++)
		h->number[i] = SY_NONE;
	for (i = 0; i < h->engine.pcpus; i++) {
		h->pcpu[i].host = h;
		h->pcpu[i].cpu = SY_NONE;
	}
	for_each_cpu (cpu, cpus)
		if (!give_number(h, cpu))
			return false;
	return true;
}

/* Memory for pCPUs and queues, and numbers for the former. */
static int number_host(struct host *h)
{
	unsigned int gran = h->scheduler->cpupool->gran, cpu;
	struct engine *e = &h->engine;
	cpumask_t cpus = h->pcpus;
	u32 i;

	/* The first pCPU of a scheduling resource stands for it. */
	for_each_online_cpu (cpu)
		if (cpumask_first(sched_get_opt_cpumask(gran, cpu)) == cpu)
			cpumask_set_cpu(cpu, &cpus);
	find_shape(e, &cpus, DIV_ROUND_UP(num_present_cpus(), h->scheduler->cpupool->sched_gran));
	h->words = DIV_ROUND_UP(e->pcpus, 64);
	h->pcpu = xzalloc_array(struct host_pcpu, e->pcpus);
	h->queue = xzalloc_array(struct host_queue, e->pcpus);
	h->number = xzalloc_array(u32, nr_cpu_ids);
	h->idle = xzalloc_array(u64, 3 * h->words);
	if (!h->pcpu || !h->queue || !h->number || !h->idle) {
		free_pcpus(h);
		return -ENOMEM;
	}
	if (!number_pcpus(h, &cpus)) {
		free_pcpus(h);
		return -ENOSPC;
	}
	h->waited = h->idle + h->words;
	h->lesser = h->waited + h->words;
	for (i = 0; i < e->pcpus; i++)
		init_timer(&h->pcpu[i].tick, calls->tick, &h->pcpu[i], smp_processor_id());
	return 0;
}

/* Whether the schedule lock of each pCPU is the idle lock, which is held. On the way in one has another still. */
static bool all_have_joined(const struct host *h)
{
	unsigned int cpu;

	for_each_cpu (cpu, &h->pcpus)
		if (ACCESS_ONCE(get_sched_res(cpu)->schedule_lock) != &h->idle_lock)
			return false;
	return true;
}

/* Each pCPU gets the schedule lock of its queue; whoever waits for the old one will see that. */
static void begin_choices(struct host *h)
{
	unsigned int cpu;

	spin_lock_irq(&h->idle_lock);
	while (!all_have_joined(h)) {
		spin_unlock_irq(&h->idle_lock);
		cpu_relax();
		spin_lock_irq(&h->idle_lock);
	}
	for_each_cpu (cpu, &h->pcpus)
		join(h, cpu);
	h->begun = true;
	smp_wmb();
	for_each_cpu (cpu, &h->pcpus)
		get_sched_res(cpu)->schedule_lock = &queue_at(h, cpu)->lock.lock;
	spin_unlock_irq(&h->idle_lock);
}

/* The cpupool gets its first domain: from now on the engine works. */
static int begin_host(struct host *h)
{
	int error = number_host(h);

	if (error)
		return error;
	init_timer(&h->account, account_timer, h, smp_processor_id());
	init_timer(&h->sample, sample_timer, h, smp_processor_id());
	h->engine.began_ns = NOW();
	engine_begin(&h->engine);
	begin_queues(h, calls->later);
	begin_choices(h);
	repeat(h, NOW());
	return 0;
}

static void *cf_check steelyard_alloc_domdata(const struct scheduler *ops, struct domain *domain)
{
	const struct sy_settings settings = { .extra_time = 1 };
	struct host *h = ops->sched_data;
	struct host_domain *d = xzalloc(struct host_domain);
	int error;

	if (!d)
		return ERR_PTR(-ENOMEM);
	d->host = h;
	d->number = domain->domain_id;
	spin_lock_init(&d->lock.lock);
	INIT_LIST_HEAD(&d->vcpus);
	init_timer(&d->timer, domain_timer, d, smp_processor_id());
	spin_lock(&h->lock);
	error = h->begun ? 0 : begin_host(h);
	if (!error)
		error = make_room(&h->domains, d->number);
	if (!error) {
		take(&d->lock);
		put_at(h->domains, d->number, d);
		d->samples.sampled.interval_ns = NOW();
		engine_domain_begin(&h->engine, d->number, &settings, domain->max_vcpus, NOW());
		give(&d->lock);
		list_add_tail(&d->in_host, &h->domain_list);
	}
	spin_unlock(&h->lock);
	if (!error)
		return d;
	kill_timer(&d->timer);
	xfree(d);
	return ERR_PTR(error);
}

static void cf_check steelyard_free_domdata(const struct scheduler *ops, void *data)
{
	struct host *h = ops->sched_data;
	struct host_domain *d = data;

	if (!d)
		return;
	/* Its number is in the table as long as it is called by that. */
	kill_timer(&d->timer);
	spin_lock(&h->lock);
	ASSERT(list_empty(&d->vcpus));
	list_del(&d->in_host);
	put_at(h->domains, d->number, NULL);
	spin_unlock(&h->lock);
	let_pass(h);
	xfree(d);
}

/* ---- pCPUs and instances come and go ---- */

/* Nothing needed but a number, which there may be none left of. */
static void *cf_check steelyard_alloc_pdata(const struct scheduler *ops, int cpu)
{
	struct host *h = ops->sched_data;
	bool numbered;

	spin_lock(&h->lock);
	numbered = !h->begun || give_number(h, cpu);
	spin_unlock(&h->lock);
	return numbered ? NULL : ERR_PTR(-ENOSPC);
}

/* The pCPU is ours from now on. Xen lets it choose. */
static spinlock_t *cf_check steelyard_switch_sched(struct scheduler *new_ops, unsigned int cpu,
						   void *pdata, void *vdata)
{
	struct host *h = new_ops->sched_data;
	spinlock_t *lock = &h->idle_lock;

	sched_idle_unit(cpu)->priv = vdata;
	spin_lock(&h->idle_lock);
	cpumask_set_cpu(cpu, &h->pcpus);
	if (h->begun) {
		join(h, cpu);
		lock = &queue_at(h, cpu)->lock.lock;
	}
	spin_unlock(&h->idle_lock);
	return lock;
}

/* What belongs to the pCPU leaves it; whether that could be done. */
static bool leave_pcpu(struct host *h, unsigned int cpu)
{
	struct host_queue *q = queue_at(h, cpu);
	u32 pcpu = h->number[cpu];
	u64 now = enter(q);
	bool left;

	ASSERT(host_pcpu(&h->engine, pcpu)->current == SY_NONE);
	engine_occupy(&h->engine, pcpu, now);
	left = engine_pcpu_end(&h->engine, pcpu, now);
	if (left)
		stop_timer(&h->pcpu[pcpu].tick);
	leave(q);
	return left;
}

/* The pCPU is no longer ours; its vCPUs have moved away. Interrupts may be off: nothing is freed. */
static void cf_check steelyard_deinit_pdata(const struct scheduler *ops, void *data, int cpu)
{
	struct host *h = ops->sched_data;
	unsigned long flags;
	u32 queue;

	spin_lock_irqsave(&h->idle_lock, flags);
	cpumask_clear_cpu(cpu, &h->pcpus);
	spin_unlock_irqrestore(&h->idle_lock, flags);
	if (!h->begun)
		return;
	/* No vCPU is taken to be allowed there any more. */
	for (queue = 0; queue < h->engine.queues; queue++) {
		enter(&h->queue[queue]);
		leave(&h->queue[queue]);
	}
	while (!leave_pcpu(h, cpu))
		cpu_relax();
}

static void cf_check steelyard_move_timers(const struct scheduler *ops, struct sched_resource *sr)
{
	struct host *h = ops->sched_data;

	if (h->begun)
		migrate_timer(&h->pcpu[h->number[sr->master_cpu]].tick, sr->master_cpu);
}

static int cf_check steelyard_init(struct scheduler *ops)
{
	struct host *h = xzalloc(struct host);

	if (!h)
		return -ENOMEM;
	spin_lock_init(&h->lock);
	spin_lock_init(&h->idle_lock);
	spin_lock_init(&h->shared.lock);
	INIT_LIST_HEAD(&h->domain_list);
	h->scheduler = ops;
	ops->sched_data = h;
	spin_lock(&hosts_lock);
	list_add_tail(&h->in_hosts, &hosts);
	spin_unlock(&hosts_lock);
	return 0;
}

static void cf_check steelyard_deinit(struct scheduler *ops)
{
	struct host *h = ops->sched_data;
	u32 i;

	spin_lock(&hosts_lock);
	list_del(&h->in_hosts);
	spin_unlock(&hosts_lock);
	if (h->begun) {
		kill_timer(&h->account);
		kill_timer(&h->sample);
		for (i = 0; i < h->engine.pcpus; i++)
			kill_timer(&h->pcpu[i].tick);
		for (i = 0; i < h->engine.queues; i++)
			kill_timer(&h->queue[i].later);
	}
	free_pcpus(h);
	free_table(h->vcpus);
	free_table(h->domains);
	xfree(h);
	ops->sched_data = NULL;
}
