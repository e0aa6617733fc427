/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What Xen calls most: choices, wakes and what goes with them, and the timers of pCPUs and vCPUs. Compiled for each
 * discipline by itself (build), STEELYARD_DISCIPLINE: what any other would do there is left out, which is one instruction
 * in thirty of a choice and one in twenty of a wake.
 */
#include "arrive.h"
#include "calls.h"

/*
 * What has been put off, once each, and a balance; the lock is given up after each and between the parts of that. What has to
 * wait on comes a little later, lest it be tried without end.
 */
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
		leave(q);
		now = enter(q);
	}
	if (q->unbalanced) {
		q->unbalanced = false;
		while (engine_balance_some(e, q - q->host->queue, now)) {
			leave(q);
			now = enter(q);
		}
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
		/* It chooses in a moment: no softirq is needed for that. */
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

const struct calls STEELYARD_CALLS = {
	.wake = steelyard_wake,
	.sleep = steelyard_sleep,
	.yield = steelyard_yield,
	.context_saved = steelyard_context_saved,
	.do_schedule = steelyard_schedule,
	.tick = tick_timer,
	.vcpu_timer = vcpu_timer,
	.later = later_timer,
};
