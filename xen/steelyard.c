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
 * (topology.h), what comes and goes (coming.h), what dom0 writes and reads (parameters.h, leaves.h,
 * statistics.h), and what xentrace and xenperf are told (notes.h, decisions.h).
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
 * A lock per run queue, which is the schedule lock of its pCPUs. It protects the queue, its pCPUs and the vCPUs that
 * belong to it; by its nature a vCPU's unit->res is at a pCPU of the queue that it belongs to, and changes with both
 * locks held. A lock per domain is for who writes what the engine knows of the domain, single words of which are read
 * without it; one per instance protects what the engine calls shared. These three kinds are taken with interrupts off. What each call of the engine needs is said in
 * policy/engine/host.h; what Xen holds when it calls:
 *
 *	wake, sleep, yield, adjust_affinity	the lock of the unit's queue
 *	pick_resource				that, and perhaps another one
 *	migrate					those of both queues
 *	do_schedule				the lock of the pCPU's queue
 *	switch_sched				that of another scheduler, with interrupts off
 *	everything else				none; deinit_pdata with interrupts off
 *
 * In the first row Xen counts on giving back the lock of the queue to which the unit belongs by then: the unit stays
 * there until the call is over (host_stays()). What has been put off, and balance, is done by a timer of the queue's
 * that expires at once.
 *
 * The lock of an instance protects which domains and vCPUs there are, the tables of their numbers and those of pCPUs,
 * and is held through accounting, samples and whatever else is done to each domain or vCPU in turn. Interrupts are
 * on meanwhile: a queue's lock is taken and given back for each vCPU. Who comes by a timer and does not get it comes
 * again a little later. A domain's list of vCPUs is also walked with a queue's lock alone, for a vCPU of the domain
 * that spins: none comes or goes while one of them runs. Before a vCPU or a domain is freed each queue's lock is taken
 * once (let_pass()).
 *
 * Until an instance has its first domain there are no queues; then the schedule lock of all its pCPUs is its idle
 * lock, and choices are for nobody.
 *
 * Ordering: hypfs lock, then that of a leaf's text, then `hosts_lock` (the list of instances), then an instance's lock, then its idle lock, then
 * the lock of one queue, then a domain's, then the shared one, then the locks of Xen's timers. A second queue is only
 * tried for, here; Xen takes two by their addresses (sched_spin_lock_double()). A schedule lock of another scheduler may
 * be held when one here is taken (a pCPU joins), never the other way round. Timers are killed with no lock held.
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
 * When a cpupool's pCPUs change, the next call for a queue looks at all of that queue's vCPUs. A pCPU that was not even
 * present when its cpupool got the first domain may find no number left; it cannot join then.
 */
#include <xen/cpumask.h>
#include <xen/guest_access.h>
#include <xen/hypfs.h>
#include <xen/init.h>
#include <xen/lib.h>
#include <xen/list.h>
#include <xen/numa.h>
#include <xen/param.h>
#include <xen/perfc.h>
#include <xen/rbtree.h>
#include <xen/sched.h>
#include <xen/softirq.h>
#include <xen/spinlock.h>
#include <xen/timer.h>
#include <xen/trace.h>

#include "private.h"

/* Xen has u8 to u64 of the core's types. */
typedef int32_t s32;
typedef int64_t s64;

/* Policies and engine use a word that is a macro here. */
#pragma push_macro("current")
#undef current
#define SY_DESCRIBE
#define HOST_LOCKS
#define HOST_STAYS
#define HOST_NOTES
/*
 * A call costs as much as what many of these do: inline a choice takes a twentieth and a wake an eighth fewer
 * instructions, in twice the code.
 */
#define ENGINE struct engine *e
#define ENGINE_FN static inline __attribute__((__always_inline__, __unused__))
#define ENGINE_CALL static inline __attribute__((__unused__))
#define ENGINE_HOT ENGINE_FN
#define SY_FN ENGINE_FN
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

	cpumask_and(&may, h->scheduler->cpupool->res_valid, &h->pcpus);
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

/* Whether its pCPUs are no longer those that its vCPUs were told of. For every choice cpumask_equal() is long. */
HOST_FN bool usable_changed(const struct host_queue *q)
{
	const unsigned long *valid = cpumask_bits(q->host->scheduler->cpupool->res_valid);
	const unsigned long *ours = cpumask_bits(&q->host->pcpus), *known = cpumask_bits(&q->usable);
	unsigned int i;

	for (i = 0; i < BITS_TO_LONGS(nr_cpu_ids); i++)
		if ((valid[i] & ours[i]) != known[i])
			return true;
	return false;
}

static void map_queue(struct host_queue *q)
{
	struct host *h = q->host;
	struct host_vcpu *v, *next;

	cpumask_and(&q->usable, h->scheduler->cpupool->res_valid, &h->pcpus);
	list_for_each_entry_safe (v, next, &q->members, in_queue)
		if (map_affinity(h, v, v->unit->cpu_hard_affinity, v->unit->cpu_soft_affinity))
			engine_affinity_changed(&h->engine, v->number, q->now);
}

/*
 * What Xen tells of a queue, whose lock is held, and what its timers do come after this; its time, which never goes
 * back. Contexts that are saved, timers of vCPUs and walks do without: the next call finds what has changed.
 */
HOST_FN u64 arrive(struct host_queue *q, u64 now)
{
	q->now = max(q->now, now);
	if (unlikely(usable_changed(q)))
		map_queue(q);
	return q->now;
}

/* The same where Xen tells of a unit, which it counts on to stay in its queue until the end of the call. */
HOST_FN u64 told_of(struct host_vcpu *v)
{
	v->stays = true;
	return arrive(queue_of(v), NOW());
}

/* The same where the lock is not held yet. */
static u64 enter(struct host_queue *q)
{
	take(&q->lock);
	return arrive(q, NOW());
}

static void leave(struct host_queue *q)
{
	give(&q->lock);
}

/* That of a pCPU by Xen's number. */
static struct host_queue *queue_at(const struct host *h, unsigned int cpu)
{
	return &h->queue[h->pcpu[h->number[cpu]].engine.queue];
}

/* What has been put off, once each; what has to wait on comes a little later, lest it be tried without end. */
static void cf_check later_timer(void *data)
{
	struct host_queue *q = data;
	struct engine *e = &q->host->engine;
	u64 now = enter(q);
	LIST_HEAD(due);

	list_splice_init(&q->put_off, &due);
	while (!list_empty(&due)) {
		struct host_vcpu *v = list_first_entry(&due, struct host_vcpu, in_put_off);

		list_del_init(&v->in_put_off);
		engine_settle_later(e, v->number, now);
	}
	if (q->unbalanced) {
		q->unbalanced = false;
		engine_balance(e, q - q->host->queue, now);
	}
	if (q->unbalanced || !list_empty(&q->put_off))
		set_timer(&q->later, now + SOONEST_NS);
	leave(q);
}

/* ---- What vCPUs do ---- */

static void cf_check steelyard_wake(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;

	/* Xen says it for those that run or wait as well. */
	if (v->engine.status != ENGINE_BLOCKED)
		return;
	engine_wake(&h->engine, v->number, told_of(v));
	note_boost(v);
	v->stays = false;
}

static void cf_check steelyard_sleep(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;
	u64 now = told_of(v);

	/* Who runs is found blocked by the choice. */
	if (v->engine.status == ENGINE_RUNNING)
		engine_interrupt(&h->engine, v->engine.ran_on);
	else if (v->engine.status == ENGINE_WAITING)
		engine_sleep(&h->engine, v->number, now);
	v->stays = false;
}

/*
 * Xen calls this for a pause-loop exit and for a guest that yields, which is what a paravirtual one
 * does when it has spun for long. It lets the pCPU choose again afterwards.
 */
static void cf_check steelyard_yield(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = ops->sched_data;
	struct host_vcpu *v = unit->priv;

	/* Who runs stays. */
	if (v->engine.status != ENGINE_RUNNING)
		return;
	engine_spin(&h->engine, v->engine.ran_on, arrive(queue_of(v), NOW()));
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
	/* At the time of the choice that stopped it, or of what has come since; the next call finds what else has changed. */
	if (v->engine.saving)
		engine_saved(&h->engine, v->number, h->queue[v->engine.queue].now);
	/* It may have left, and with it its schedule lock. */
	spin_unlock_irq(lock);
}

/* ---- The choice ---- */

/* Who was chosen runs, even if it stopped being runnable meanwhile: who did that is about to say so. */
static void keep_runnable(struct sched_unit *unit)
{
	if (!unit_runnable_state(unit))
		unit->vcpu_list->new_state = RUNSTATE_running;
}

/* Of this pCPU, whose lock is held; who ran before may have left its queue. */
static void note_choice(struct host *h, const struct engine_pcpu *c, u32 ran, u64 slice_ns)
{
	struct host_vcpu *before;

	if (!is_noted())
		return;
	before = ran == SY_NONE ? NULL : vcpu_of(&h->engine, ran);
	if (before && before->engine.queue == c->queue)
		note_boost(before);
	if (c->current != SY_NONE && c->current != ran)
		note_boost(vcpu_of(&h->engine, c->current));
	NOTE(choose, noted_number(&h->engine, c->current), noted(before), NOTED_64(slice_ns),
	     h->queue[c->queue].engine.state.queued);
}

static void cf_check steelyard_schedule(const struct scheduler *ops, struct sched_unit *unit,
					s_time_t time, bool tasklet_work_scheduled)
{
	unsigned int cpu = sched_get_resource_cpu(smp_processor_id());
	struct host *h = ops->sched_data;
	struct engine_pcpu *c;
	u32 pcpu, ran;
	u64 now, slice_ns = SY_FOREVER;

	unit->next_time = -1;
	if (!h->begun) {
		unit->next_task = sched_idle_unit(cpu);
		return;
	}
	pcpu = h->number[cpu];
	c = &h->pcpu[pcpu].engine;
	now = arrive(&h->queue[c->queue], time);
	ran = c->current;
	ASSERT(ran == (is_idle_unit(unit) ? SY_NONE : ((struct host_vcpu *)unit->priv)->number));
	/* Xen may let it choose of its own accord. */
	host_set_idle(&h->engine, pcpu, false);
	if (ran != SY_NONE && !unit_runnable_state(unit)) {
		c->interrupted = 1;
		engine_block(&h->engine, pcpu, now);
	}
	if (tasklet_work_scheduled) {
		NOTE(tasklet, noted_number(&h->engine, c->current));
		engine_occupy(&h->engine, pcpu, now);
	} else {
		c->interrupted = 0;
		slice_ns = engine_choose(&h->engine, pcpu, now);
		note_choice(h, c, ran, slice_ns);
	}
	if (c->current != SY_NONE) {
		unit->next_task = vcpu_of(&h->engine, c->current)->unit;
		if (c->current != ran)
			keep_runnable(unit->next_task);
		if (slice_ns < SY_FOREVER)
			unit->next_time = max(slice_ns, (u64)SOONEST_NS);
	} else {
		unit->next_task = sched_idle_unit(cpu);
	}
	if (unit->next_task == unit)
		unit->migrated = false;
}

/* ---- Time that passes ---- */

static void cf_check tick_timer(void *data)
{
	struct host_pcpu *c = data;
	struct host_queue *q = &c->host->queue[c->engine.queue];
	u64 now = enter(q);

	engine_tick(&c->host->engine, c->engine.state.id, now);
	if (c->engine.current != SY_NONE)
		note_boost(vcpu_of(&c->host->engine, c->engine.current));
	leave(q);
}

static void cf_check vcpu_timer(void *data)
{
	struct host_vcpu *v = data;
	struct engine *e = &v->domain->host->engine;
	struct host_queue *q = &v->domain->host->queue[host_lock_queue_of(e, v->number)];
	u64 timer_ns = sy_vcpu_timer_ns(host_policy(e), &v->engine.state);

	if (v->inserted && timer_ns && q->now >= timer_ns)
		engine_vcpu_timer(e, v->number, q->now);
	leave(q);
}

/*
 * Whether a timer got the lock of the instance, which may be held for as long as a walk over all of its vCPUs takes: who
 * did not comes again.
 */
static bool begin_walk(struct host *h, struct timer *timer)
{
	if (spin_trylock(&h->lock))
		return true;
	set_timer(timer, NOW() + SOONEST_NS);
	return false;
}

static void cf_check domain_timer(void *data)
{
	struct host_domain *d = data;
	u64 now, timer_ns;

	if (!begin_walk(d->host, &d->timer))
		return;
	now = NOW();
	take(&d->lock);
	timer_ns = d->engine.state.timer_ns;
	give(&d->lock);
	if (timer_ns && now >= timer_ns)
		engine_domain_timer(&d->host->engine, d->number, now);
	spin_unlock(&d->host->lock);
}

/* After that time; 0: never, since what repeats may come to an end by a parameter. */
static void set_next(struct timer *timer, u64 interval_ns, u64 now)
{
	set_or_stop(timer, interval_ns ? now + interval_ns : 0, now);
}

static void cf_check account_timer(void *data)
{
	struct host *h = data;
	u64 now;

	if (!begin_walk(h, &h->account))
		return;
	now = NOW();
	engine_account(&h->engine, now);
	NOTE(account, NOW() - now);
	set_next(&h->account, sy_account_ns(&policy), now);
	spin_unlock(&h->lock);
}

static void cf_check sample_timer(void *data)
{
	struct host *h = data;
	u64 now;

	if (!begin_walk(h, &h->sample))
		return;
	now = NOW();
	engine_sample(&h->engine, now);
	NOTE(sample, NOW() - now);
	set_next(&h->sample, sy_sample_ns(&policy), now);
	spin_unlock(&h->lock);
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

#include "coming.h"

/* ---- The toolstack ---- */

/* Sets a parameter of the policy that runs. */
static void change(u64 *parameter, u64 value)
{
	struct host *h;

	write_atomic(parameter, value);
	spin_lock(&hosts_lock);
	list_for_each_entry (h, &hosts, in_hosts) {
		spin_lock(&h->lock);
		if (h->begun)
			repeat(h, NOW());
		spin_unlock(&h->lock);
	}
	spin_unlock(&hosts_lock);
}

static struct sy_settings settings_of(struct host_domain *d)
{
	struct sy_settings settings;

	take(&d->lock);
	settings = d->engine.state.settings;
	give(&d->lock);
	return settings;
}

static int cf_check steelyard_adjust(const struct scheduler *ops, struct domain *domain,
				     struct xen_domctl_scheduler_op *op)
{
	struct host *h = ops->sched_data;
	struct host_domain *d = domain->sched_priv;
	struct sy_settings settings;
	int result = 0;

	spin_lock(&h->lock);
	settings = settings_of(d);
	switch (op->cmd) {
	case XEN_DOMCTL_SCHEDOP_getinfo:
		op->u.credit2.weight = settings.weight;
		/* The greatest stands for "as it is" when it comes back with another weight. */
		op->u.credit2.cap = min(settings.cap_percent, (u64)(uint16_t)~0);
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
	spin_unlock(&h->lock);
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
