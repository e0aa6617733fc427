/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steelyard in Xen: a scheduler that decides nothing itself. It is the host of a policy written in
 * the freestanding core (policy/steelyard.h), which also schedules a simulator and Linux.
 *
 * Design
 *
 * All that happens between an event and its effects is done by the engine (policy/engine/), which the
 * simulator and Linux stand on, too. Here is what it stands on: Xen's calls, told to it as events
 * (this file), tables, queues, sets of pCPUs, softirqs and timers (host.h), numbers for pCPUs
 * (topology.h), and what dom0 writes and reads (parameters.h, leaves.h, statistics.h).
 *
 * A vCPU here is one of Xen's scheduling units (one vCPU, unless sched-gran= says otherwise), a pCPU
 * one of its scheduling resources. An instance of the scheduler serves a cpupool; it numbers pCPUs and
 * makes queues when that gets its first domain. A domain's number is Xen's.
 *
 * Until Xen has saved the context of a vCPU that has stopped no other pCPU may take it: host_saves().
 * Xen moves a vCPU only while it sleeps; the engine moves it whenever its context is saved, by
 * unit->res. What a vCPU may use is the hard affinity and the cpupool's pCPUs, what it prefers is the soft
 * affinity of these, if that is some of them and not all, as in Xen's has_soft_affinity(). They are mapped
 * to numbers when one of them changes; Xen does not tell of the cpupool, so each call looks (arrive()).
 *
 * A vCPU that the policy parks stays off its queue; for Xen it is runnable all the while, and its
 * time parked counts as time waited.
 *
 * Locking
 *
 * One lock per instance of the scheduler, which is the schedule lock of all its pCPUs. It protects everything
 * that is reached from struct host, and is held, with interrupts off, in every call into the engine, which
 * would make do with one per queue (policy/engine/host.h).
 *
 * Ordering: hypfs lock, then `hosts_lock` (the list of instances), then an instance's lock, then the
 * locks of Xen's timers. A schedule lock of another scheduler may be held when one here is taken
 * (a pCPU joins), never the other way round. Timers are killed with no lock held.
 *
 * The policy is one per boot.
 *
 * Boot options
 *
 *	sched=steelyard
 *	steelyard_policy=DISCIPLINE[@VINTAGE][+GOVERNOR...], or a published policy's name
 *	steelyard_params=NAME=VALUE[,NAME=VALUE...], a governor's as GOVERNOR.NAME; may be repeated
 *
 * For dom0 it is credit2: it has that scheduler's number, so that the toolstack as it is sets weights
 * and caps (`xl sched-credit2`). Hence, under sched=steelyard, a cpupool made for credit2 runs
 * steelyard as well. Beyond that there is /steelyard in hypfs, and debug key `r`.
 *
 * Limits
 *
 * The lock is shared by all pCPUs of a cpupool, and some walks are over all of them: this is meant
 * for tens of pCPUs, not hundreds. sedf has no way to be told of reservations yet. A pCPU that was not
 * even present when its cpupool got the first domain may find no number left; it cannot join then.
 */
#include <xen/cpumask.h>
#include <xen/guest_access.h>
#include <xen/hypfs.h>
#include <xen/init.h>
#include <xen/lib.h>
#include <xen/list.h>
#include <xen/numa.h>
#include <xen/param.h>
#include <xen/rbtree.h>
#include <xen/sched.h>
#include <xen/softirq.h>
#include <xen/spinlock.h>
#include <xen/timer.h>

#include "private.h"

/* Xen has u8 to u64 of the core's types. */
typedef int32_t s32;
typedef int64_t s64;

/* Policies and engine use a word that is a macro here. */
#pragma push_macro("current")
#undef current
#define SY_DESCRIBE
#include "policy/steelyard.h"
#include "policy/catalogue.h"
#include "policy/engine/measure.h"
#include "host.h"
#include "policy/engine/engine.h"
#include "topology.h"
#include "parameters.h"

static LIST_HEAD(hosts);
static DEFINE_SPINLOCK(hosts_lock);

/* ---- Calls begin and end ---- */

/* Writes the set by the engine's numbers; whether that makes a difference. */
static bool map_set(const struct host *h, u64 *words, const cpumask_t *cpus)
{
	bool changed = false;
	u32 word, i;

	for (word = 0; word < h->words; word++) {
		u64 set = 0;

		for (i = 0; i < 64 && word * 64 + i < h->engine.pcpus; i++) {
			unsigned int cpu = h->pcpu[word * 64 + i].cpu;

			set |= (u64)(cpu != SY_NONE && cpumask_test_cpu(cpu, cpus)) << i;
		}
		changed |= words[word] != set;
		words[word] = set;
	}
	return changed;
}

/*
 * Since the cpupool or the affinities, which are to be `hard` and `soft`, have changed; whether that makes a
 * difference.
 */
static bool map_affinity(struct host *h, struct host_vcpu *v, const cpumask_t *hard, const cpumask_t *soft)
{
	cpumask_t may, rather;
	bool changed;

	cpumask_and(&may, &h->valid, &h->pcpus);
	cpumask_and(&may, &may, hard);
	/* Between two steps of Xen's nothing may be left: a pCPU that leaves serves those pinned to it. */
	if (cpumask_empty(&may))
		cpumask_and(&may, &h->pcpus, hard);
	if (cpumask_empty(&may))
		cpumask_copy(&may, &h->pcpus);
	cpumask_and(&rather, &may, soft);
	v->prefers = !cpumask_empty(&rather) && !cpumask_equal(&rather, &may);
	changed = map_set(h, v->allowed, &may);
	return map_set(h, v->allowed + h->words, &rather) || changed;
}

static void cpupool_changed(struct host *h)
{
	const struct host_domain *d;
	struct host_vcpu *v;

	list_for_each_entry (d, &h->domain_list, in_host)
		list_for_each_entry (v, &d->vcpus, in_domain)
			if (map_affinity(h, v, v->unit->cpu_hard_affinity, v->unit->cpu_soft_affinity))
				engine_affinity_changed(&h->engine, v->number, h->now);
}

/* Each call into the engine comes after this; its time, which never goes back. */
static u64 arrive(struct host *h, u64 now)
{
	const cpumask_t *valid = h->scheduler->cpupool->res_valid;
	unsigned int i;

	h->now = max(h->now, now);
	/* For every choice cpumask_equal() is long. */
	for (i = 0; i < BITS_TO_LONGS(nr_cpu_ids); i++) {
		if (cpumask_bits(valid)[i] != cpumask_bits(&h->valid)[i]) {
			cpumask_copy(&h->valid, valid);
			cpupool_changed(h);
			break;
		}
	}
	return h->now;
}

/* Does what can wait until the end of a call: at most one balance per queue. */
static void finish(struct host *h)
{
	u32 word;

	if (!h->balances)
		return;
	h->balances = false;
	for (word = 0; word < h->words; word++) {
		u64 unbalanced = h->unbalanced[word];

		h->unbalanced[word] = 0;
		for (; unbalanced; unbalanced &= unbalanced - 1)
			engine_balance(&h->engine, word * 64 + __builtin_ctzll(unbalanced), h->now);
	}
}

/* The same where the lock is not held yet. */
static u64 enter(struct host *h, unsigned long *flags)
{
	spin_lock_irqsave(&h->lock, *flags);
	return arrive(h, NOW());
}

static void leave(struct host *h, unsigned long flags)
{
	finish(h);
	spin_unlock_irqrestore(&h->lock, flags);
}

/* ---- What vCPUs do ---- */

static void cf_check steelyard_wake(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;

	/* Xen says it for those that run or wait as well. */
	if (v->engine.status != ENGINE_BLOCKED)
		return;
	engine_wake(&h->engine, v->number, arrive(h, NOW()));
	finish(h);
}

static void cf_check steelyard_sleep(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;
	u64 now = arrive(h, NOW());

	/* Who runs is found blocked by the choice. */
	if (v->engine.status == ENGINE_RUNNING)
		engine_interrupt(&h->engine, v->engine.ran_on);
	else if (v->engine.status == ENGINE_WAITING)
		engine_sleep(&h->engine, v->number, now);
	finish(h);
}

/*
 * Xen calls this for a pause-loop exit and for a guest that yields, which is what a paravirtual one
 * does when it has spun for long. It lets the pCPU choose again afterwards.
 */
static void cf_check steelyard_yield(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;

	if (v->engine.status != ENGINE_RUNNING)
		return;
	engine_spin(&h->engine, v->engine.ran_on, arrive(h, NOW()));
	finish(h);
}

static void cf_check steelyard_context_saved(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;
	spinlock_t *lock;

	if (is_idle_unit(unit)) {
		/*
		 * Xen writes to whom an idle unit chose last when its pCPU leaves the pool
		 * (schedule_cpu_rm), which may be long after that one was freed. It reads it only up to
		 * here: an idle unit that is not choosing points to none but itself.
		 */
		unit->next_task = unit;
		return;
	}
	lock = unit_schedule_lock_irq(unit);
	if (v->engine.saving) {
		engine_saved(&h->engine, v->number, arrive(h, NOW()));
		finish(h);
	}
	unit_schedule_unlock_irq(lock, unit);
}

/* ---- The choice ---- */

/* Who was chosen runs, even if it stopped being runnable meanwhile: who did that is about to say so. */
static void keep_runnable(struct sched_unit *unit)
{
	if (!unit_runnable_state(unit))
		unit->vcpu_list->new_state = RUNSTATE_running;
}

static void cf_check steelyard_schedule(const struct scheduler *ops, struct sched_unit *unit,
					s_time_t time, bool tasklet_work_scheduled)
{
	unsigned int cpu = sched_get_resource_cpu(smp_processor_id());
	struct host *h = ops->sched_data;
	struct engine_pcpu *c;
	u32 pcpu, ran;
	u64 now, slice_ns = SY_FOREVER;

	unit->next_task = sched_idle_unit(cpu);
	unit->next_time = -1;
	if (!h->begun)
		return;
	now = arrive(h, time);
	pcpu = h->number[cpu];
	c = host_pcpu(&h->engine, pcpu);
	ran = c->current;
	ASSERT(ran == (is_idle_unit(unit) ? SY_NONE : ((struct host_vcpu *)unit->priv)->number));
	/* Xen may let it choose of its own accord. */
	host_set_idle(&h->engine, pcpu, false);
	if (ran != SY_NONE && !unit_runnable_state(unit)) {
		c->interrupted = 1;
		engine_block(&h->engine, pcpu, now);
	}
	if (tasklet_work_scheduled) {
		engine_occupy(&h->engine, pcpu, now);
	} else {
		c->interrupted = 0;
		slice_ns = engine_choose(&h->engine, pcpu, now);
	}
	if (c->current != SY_NONE) {
		unit->next_task = vcpu_of(&h->engine, c->current)->unit;
		if (c->current != ran)
			keep_runnable(unit->next_task);
		if (slice_ns < SY_FOREVER)
			unit->next_time = max(slice_ns, (u64)SOONEST_NS);
	}
	if (unit->next_task == unit)
		unit->migrated = false;
	finish(h);
}

/* ---- Time that passes ---- */

static void cf_check tick_timer(void *data)
{
	struct host_pcpu *c = data;
	unsigned long flags;
	u64 now = enter(c->host, &flags);

	engine_tick(&c->host->engine, c->engine.state.id, now);
	leave(c->host, flags);
}

static void cf_check vcpu_timer(void *data)
{
	struct host_vcpu *v = data;
	struct host *h = v->domain->host;
	unsigned long flags;
	u64 now = enter(h, &flags), timer_ns = sy_vcpu_timer_ns(host_policy(&h->engine), &v->engine.state);

	if (v->inserted && timer_ns && now >= timer_ns)
		engine_vcpu_timer(&h->engine, v->number, now);
	leave(h, flags);
}

static void cf_check domain_timer(void *data)
{
	struct host_domain *d = data;
	unsigned long flags;
	u64 now = enter(d->host, &flags);

	if (d->engine.state.timer_ns && now >= d->engine.state.timer_ns)
		engine_domain_timer(&d->host->engine, d->number, now);
	leave(d->host, flags);
}

/* After that time; 0: never, since what repeats may come to an end by a parameter. */
static void set_next(struct timer *timer, u64 interval_ns, u64 now)
{
	set_or_stop(timer, interval_ns ? now + interval_ns : 0, now);
}

static void cf_check account_timer(void *data)
{
	struct host *h = data;
	unsigned long flags;
	u64 now = enter(h, &flags);

	engine_account(&h->engine, now);
	set_next(&h->account, sy_account_ns(&policy), now);
	leave(h, flags);
}

static void cf_check sample_timer(void *data)
{
	struct host *h = data;
	unsigned long flags;
	u64 now = enter(h, &flags);

	engine_sample(&h->engine, now);
	set_next(&h->sample, sy_sample_ns(&policy), now);
	leave(h, flags);
}

/* What comes later than this interval from now comes then; 0: not at all. */
static void hasten(struct timer *timer, u64 interval_ns, u64 now)
{
	if (!interval_ns || !timer_is_active(timer) || timer->expires > (s_time_t)(now + interval_ns))
		set_next(timer, interval_ns, now);
}

/* From now on accounting and samples come as often as the parameters say. */
static void repeat(struct host *h, u64 now)
{
	hasten(&h->account, sy_account_ns(&policy), now);
	hasten(&h->sample, sy_sample_ns(&policy), now);
}

/* ---- Numbers ---- */

/* Makes room in the table for this number. */
static int make_room(struct host *h, struct table *table, u32 number)
{
	u32 room = max(64u, 2 * number);
	unsigned long flags;
	void **entry, **old;

	if (number < table->room)
		return 0;
	entry = xzalloc_array(void *, room);
	if (!entry)
		return -ENOMEM;
	spin_lock_irqsave(&h->lock, flags);
	/* Another may have been as quick. */
	old = entry;
	if (table->room < room) {
		if (table->room)
			memcpy(entry, table->entry, table->room * sizeof(*entry));
		old = table->entry;
		table->entry = entry;
		table->room = room;
	}
	spin_unlock_irqrestore(&h->lock, flags);
	xfree(old);
	return 0;
}

/* Gives the vCPU the first free number. */
static int number_vcpu(struct host *h, struct host_vcpu *v)
{
	unsigned long flags;

	do {
		spin_lock_irqsave(&h->lock, flags);
		for (v->number = 0; v->number < h->vcpus.room && h->vcpus.entry[v->number]; v->number++)
			;
		if (v->number < h->vcpus.room) {
			h->vcpus.entry[v->number] = v;
			spin_unlock_irqrestore(&h->lock, flags);
			return 0;
		}
		spin_unlock_irqrestore(&h->lock, flags);
	} while (!make_room(h, &h->vcpus, v->number));
	return -ENOMEM;
}

/* ---- vCPUs and domains come and go ---- */

static struct sched_resource *cf_check steelyard_pick_resource(const struct scheduler *ops,
							       const struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	const struct host_vcpu *v = unit->priv;

	arrive(h, NOW());
	return get_sched_res(h->pcpu[engine_place(&h->engine, v->number)].cpu);
}

/* Xen has let it sleep. */
static void cf_check steelyard_migrate(const struct scheduler *ops, struct sched_unit *unit,
				       unsigned int cpu)
{
	struct host *h = ops->sched_data;
	const struct host_vcpu *v = unit->priv;
	u64 now = arrive(h, NOW());

	ASSERT(v->engine.status == ENGINE_BLOCKED && !unit->is_running);
	sched_set_res(unit, get_sched_res(cpu));
	engine_assign(&h->engine, v->number, h->number[cpu], now);
	finish(h);
}

static void cf_check steelyard_adjust_affinity(const struct scheduler *ops, struct sched_unit *unit,
					       const cpumask_t *hard, const cpumask_t *soft)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;

	/* Before its insertion the lock need not be held. One that stays as it is is not given. */
	if (is_idle_unit(unit) || !v->inserted)
		return;
	arrive(h, NOW());
	if (map_affinity(h, v, hard ?: unit->cpu_hard_affinity, soft ?: unit->cpu_soft_affinity))
		engine_affinity_changed(&h->engine, v->number, h->now);
	finish(h);
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
	if (number_vcpu(h, v)) {
		xfree(v);
		return NULL;
	}
	init_timer(&v->timer, vcpu_timer, v, smp_processor_id());
	return v;
}

static void cf_check steelyard_free_udata(const struct scheduler *ops, void *priv)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = priv;
	unsigned long flags;

	if (priv == ZERO_BLOCK_PTR)
		return;
	kill_timer(&v->timer);
	spin_lock_irqsave(&h->lock, flags);
	h->vcpus.entry[v->number] = NULL;
	spin_unlock_irqrestore(&h->lock, flags);
	xfree(v);
}

static void cf_check steelyard_insert_unit(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;
	unsigned long flags;
	u32 home;
	u64 now;

	if (is_idle_unit(unit))
		return;
	now = enter(h, &flags);
	map_affinity(h, v, unit->cpu_hard_affinity, unit->cpu_soft_affinity);
	home = engine_home(&h->engine, v->number);
	sched_set_res(unit, get_sched_res(h->pcpu[home].cpu));
	list_add_tail(&v->in_domain, &v->domain->vcpus);
	v->inserted = true;
	engine_vcpu_begin(&h->engine, v->number, v->domain->number, unit->unit_id, home, now);
	host_vcpu_timer(&h->engine, v->number);
	if (unit_runnable(unit))
		engine_wake(&h->engine, v->number, now);
	leave(h, flags);
}

static void cf_check steelyard_remove_unit(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;
	unsigned long flags;
	u64 now;

	if (is_idle_unit(unit))
		return;
	now = enter(h, &flags);
	ASSERT(v->inserted && v->engine.status != ENGINE_RUNNING);
	if (v->engine.status == ENGINE_WAITING)
		engine_sleep(&h->engine, v->number, now);
	if (v->engine.saving)
		engine_saved(&h->engine, v->number, now);
	measure_ends(&h->engine, v->number, now);
	engine_vcpu_end(&h->engine, v->number, now);
	list_del(&v->in_domain);
	stop_timer(&v->timer);
	v->inserted = false;
	leave(h, flags);
}

/* The pCPU serves vCPUs from now on. */
static void join(struct host *h, unsigned int cpu)
{
	migrate_timer(&h->pcpu[h->number[cpu]].tick, cpu);
	engine_pcpu_begin(&h->engine, h->number[cpu]);
}

/* The cpupool gets its first domain: from now on the engine works. */
static int begin_host(struct host *h)
{
	unsigned int gran = h->scheduler->cpupool->gran, cpu;
	struct engine *e = &h->engine;
	cpumask_t cpus = h->pcpus;
	unsigned long flags;
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
		XFREE(h->pcpu);
		XFREE(h->queue);
		XFREE(h->number);
		XFREE(h->idle);
		return -ENOMEM;
	}
	h->waited = h->idle + h->words;
	h->unbalanced = h->waited + h->words;
	for (i = 0; i < nr_cpu_ids; i++)
		h->number[i] = SY_NONE;
	for (i = 0; i < e->pcpus; i++) {
		h->pcpu[i].host = h;
		h->pcpu[i].cpu = SY_NONE;
		init_timer(&h->pcpu[i].tick, tick_timer, &h->pcpu[i], smp_processor_id());
	}
	for_each_cpu (cpu, &cpus)
		give_number(h, cpu);
	init_timer(&h->account, account_timer, h, smp_processor_id());
	init_timer(&h->sample, sample_timer, h, smp_processor_id());

	spin_lock_irqsave(&h->lock, flags);
	e->began_ns = arrive(h, NOW());
	engine_begin(e);
	begin_queues(h);
	for_each_cpu (cpu, &h->pcpus)
		join(h, cpu);
	h->begun = true;
	repeat(h, h->now);
	spin_unlock_irqrestore(&h->lock, flags);
	return 0;
}

static void *cf_check steelyard_alloc_domdata(const struct scheduler *ops, struct domain *domain)
{
	const struct sy_settings settings = { .extra_time = 1 };
	struct host *h = ops->sched_data;
	struct host_domain *d = xzalloc(struct host_domain);
	unsigned long flags;
	int error = d ? 0 : -ENOMEM;
	u64 now;

	spin_lock(&hosts_lock);
	if (!error && !h->begun)
		error = begin_host(h);
	if (!error)
		error = make_room(h, &h->domains, domain->domain_id);
	spin_unlock(&hosts_lock);
	if (error) {
		xfree(d);
		return ERR_PTR(error);
	}
	d->host = h;
	d->number = domain->domain_id;
	INIT_LIST_HEAD(&d->vcpus);
	init_timer(&d->timer, domain_timer, d, smp_processor_id());
	now = enter(h, &flags);
	d->samples.sampled.interval_ns = now;
	h->domains.entry[d->number] = d;
	list_add_tail(&d->in_host, &h->domain_list);
	engine_domain_begin(&h->engine, d->number, &settings, domain->max_vcpus, now);
	leave(h, flags);
	return d;
}

static void cf_check steelyard_free_domdata(const struct scheduler *ops, void *data)
{
	struct host *h = ops->sched_data;
	struct host_domain *d = data;
	unsigned long flags;

	if (!d)
		return;
	spin_lock_irqsave(&h->lock, flags);
	ASSERT(list_empty(&d->vcpus));
	list_del(&d->in_host);
	h->domains.entry[d->number] = NULL;
	spin_unlock_irqrestore(&h->lock, flags);
	kill_timer(&d->timer);
	xfree(d);
}

/* ---- pCPUs and instances come and go ---- */

/* Nothing needed but a number, which there may be none left of. */
static void *cf_check steelyard_alloc_pdata(const struct scheduler *ops, int cpu)
{
	struct host *h = ops->sched_data;
	unsigned long flags;
	bool numbered;

	spin_lock_irqsave(&h->lock, flags);
	numbered = !h->begun || give_number(h, cpu);
	spin_unlock_irqrestore(&h->lock, flags);
	return numbered ? NULL : ERR_PTR(-ENOSPC);
}

/* The pCPU is ours from now on. Xen lets it choose. */
static spinlock_t *cf_check steelyard_switch_sched(struct scheduler *new_ops, unsigned int cpu,
						   void *pdata, void *vdata)
{
	struct host *h = new_ops->sched_data;

	sched_idle_unit(cpu)->priv = vdata;
	spin_lock(&h->lock);
	cpumask_set_cpu(cpu, &h->pcpus);
	if (h->begun)
		join(h, cpu);
	spin_unlock(&h->lock);
	return &h->lock;
}

/* The pCPU is no longer ours; its vCPUs have moved away. Interrupts may be off: nothing is freed. */
static void cf_check steelyard_deinit_pdata(const struct scheduler *ops, void *data, int cpu)
{
	struct host *h = ops->sched_data;
	unsigned long flags;
	u64 now;

	spin_lock_irqsave(&h->lock, flags);
	cpumask_clear_cpu(cpu, &h->pcpus);
	if (h->begun) {
		now = arrive(h, NOW());
		ASSERT(host_pcpu(&h->engine, h->number[cpu])->current == SY_NONE);
		cpupool_changed(h);
		engine_occupy(&h->engine, h->number[cpu], now);
		engine_pcpu_end(&h->engine, h->number[cpu], now);
		stop_timer(&h->pcpu[h->number[cpu]].tick);
		finish(h);
	}
	spin_unlock_irqrestore(&h->lock, flags);
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
	}
	xfree(h->pcpu);
	xfree(h->queue);
	xfree(h->number);
	xfree(h->idle);
	xfree(h->vcpus.entry);
	xfree(h->domains.entry);
	xfree(h);
	ops->sched_data = NULL;
}

/* ---- The toolstack ---- */

/* Sets a parameter of the policy that runs. */
static void change(u64 *parameter, u64 value)
{
	unsigned long flags;
	struct host *h;

	write_atomic(parameter, value);
	spin_lock(&hosts_lock);
	list_for_each_entry (h, &hosts, in_hosts) {
		spin_lock_irqsave(&h->lock, flags);
		if (h->begun)
			repeat(h, NOW());
		spin_unlock_irqrestore(&h->lock, flags);
	}
	spin_unlock(&hosts_lock);
}

static int cf_check steelyard_adjust(const struct scheduler *ops, struct domain *domain,
				     struct xen_domctl_scheduler_op *op)
{
	struct host *h = ops->sched_data;
	struct host_domain *d = domain->sched_priv;
	struct sy_settings settings;
	unsigned long flags;
	int result = 0;

	enter(h, &flags);
	settings = d->engine.state.settings;
	switch (op->cmd) {
	case XEN_DOMCTL_SCHEDOP_getinfo:
		op->u.credit2.weight = settings.weight;
		op->u.credit2.cap = settings.cap_percent;
		break;
	case XEN_DOMCTL_SCHEDOP_putinfo:
		/* 0 and 65535 stand for "as it is". */
		if (op->u.credit2.weight)
			settings.weight = op->u.credit2.weight;
		if (op->u.credit2.cap != (uint16_t)~0)
			settings.cap_percent = op->u.credit2.cap;
		engine_domain_change(&h->engine, d->number, &settings);
		break;
	default:
		result = -EINVAL;
		break;
	}
	leave(h, flags);
	return result;
}

static int cf_check steelyard_adjust_global(const struct scheduler *ops,
					    struct xen_sysctl_scheduler_op *sc)
{
	u64 *ratelimit_ns = NULL;

	for_each_parameter(find_ratelimit, &ratelimit_ns);
	if (sc->cmd == XEN_SYSCTL_SCHEDOP_putinfo) {
		if (!ratelimit_ns || sc->u.sched_credit2.ratelimit_us > XEN_SYSCTL_SCHED_RATELIMIT_MAX)
			return -EINVAL;
		change(ratelimit_ns, sc->u.sched_credit2.ratelimit_us * SY_US);
	}
	sc->u.sched_credit2.ratelimit_us = ratelimit_ns ? *ratelimit_ns / SY_US : 0;
	return 0;
}

#include "statistics.h"
#pragma pop_macro("current")

#ifdef CONFIG_HYPFS
#include "leaves.h"
#endif

/* ---- Boot ---- */

static int cf_check steelyard_global_init(void);

static struct scheduler __read_mostly sched_steelyard_def = {
	.name = "Steelyard",
	.opt_name = "steelyard",
	/* Not in use, unless this is the scheduler of the boot. */
	.sched_id = ~0U,
	.global_init = steelyard_global_init,
	.init = steelyard_init,
	.deinit = steelyard_deinit,
	.alloc_pdata = steelyard_alloc_pdata,
	.deinit_pdata = steelyard_deinit_pdata,
	.alloc_domdata = steelyard_alloc_domdata,
	.free_domdata = steelyard_free_domdata,
	.alloc_udata = steelyard_alloc_udata,
	.free_udata = steelyard_free_udata,
	.switch_sched = steelyard_switch_sched,
	.insert_unit = steelyard_insert_unit,
	.remove_unit = steelyard_remove_unit,
	.sleep = steelyard_sleep,
	.wake = steelyard_wake,
	.yield = steelyard_yield,
	.context_saved = steelyard_context_saved,
	.do_schedule = steelyard_schedule,
	.pick_resource = steelyard_pick_resource,
	.migrate = steelyard_migrate,
	.adjust_affinity = steelyard_adjust_affinity,
	.adjust = steelyard_adjust,
	.adjust_global = steelyard_adjust_global,
	.dump_settings = steelyard_dump_settings,
	.dump_cpu_state = steelyard_dump_cpu_state,
	.move_timers = steelyard_move_timers,
};

static int __init cf_check steelyard_global_init(void)
{
	if (read_options())
		return -EINVAL;
	if (!strcmp(opt_sched, sched_steelyard_def.opt_name)) {
		/* Xen takes the first scheduler with a number, and this one is linked first. */
		sched_steelyard_def.sched_id = XEN_SCHEDULER_CREDIT2;
		printk("Steelyard: policy %s\n", policy_name);
	}
	return 0;
}

REGISTER_SCHEDULER(sched_steelyard_def);
