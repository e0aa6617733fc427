/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The locks of the engine (policy/engine/host.h, "Locks"), and what waits until a queue's has been given back. Which
 * of Xen's calls holds which is said at the head of steelyard.c.
 */

/* Some six times per choice: a call would be a good part of it. */
HOST_FN void take(struct host_lock *lock)
{
	bool interrupts = local_irq_is_enabled();

	if (interrupts)
		local_irq_disable();
	spin_lock(&lock->lock);
	lock->interrupts = interrupts;
}

HOST_FN void give(struct host_lock *lock)
{
	bool interrupts = lock->interrupts;

	spin_unlock(&lock->lock);
	if (interrupts)
		local_irq_enable();
}

/* ---- Queues ---- */

/*
 * Only who holds another one tries, so interrupts are off. An idle pCPU that finds it taken chooses again at once: a loop
 * that leaves the core, or an emulator's turn, to who holds it.
 */
HOST_FN bool host_try_queue(struct engine *e, u32 queue)
{
	struct host_lock *lock = &host_of(e)->queue[queue].lock;

	if (!spin_trylock(&lock->lock)) {
		NOTE(miss, queue);
		cpu_relax();
		return false;
	}
	lock->interrupts = false;
	return true;
}

HOST_FN void host_lock_queue(struct engine *e, u32 queue)
{
	struct host_queue *q = &host_of(e)->queue[queue];

	take(&q->lock);
	q->now = max(q->now, (u64)NOW());
}

HOST_FN void host_unlock_queue(struct engine *e, u32 queue)
{
	give(&host_of(e)->queue[queue].lock);
}

static u32 queue_by_now(const struct host_vcpu *v)
{
	return ACCESS_ONCE(v->engine.queue);
}

/* For who knows that the vCPU is not freed: none has ended then, see let_pass(). */
HOST_FN u32 host_lock_queue_of(struct engine *e, u32 vcpu)
{
	const struct host_vcpu *v = vcpu_of(e, vcpu);

	for (;;) {
		u32 queue = queue_by_now(v);

		host_lock_queue(e, queue);
		if (queue_by_now(v) == queue)
			return queue;
		host_unlock_queue(e, queue);
	}
}

/* It may be gone since the caller's own lock was taken, but not freed: see let_pass(). */
HOST_FN u32 host_try_queue_of(struct engine *e, u32 own, u32 vcpu)
{
	const struct host_vcpu *v = look_up(&host_of(e)->vcpus, vcpu);
	u32 queue = v ? queue_by_now(v) : SY_NONE;

	if (queue == own || queue == SY_NONE)
		return queue;
	if (!host_try_queue(e, queue))
		return SY_NONE;
	if (queue_by_now(v) == queue)
		return queue;
	host_unlock_queue(e, queue);
	return SY_NONE;
}

HOST_FN u32 host_queue_at(struct engine *e, u32 pcpu)
{
	return host_of(e)->pcpu[pcpu].engine.queue;
}

/*
 * Who holds a queue's lock may look at whatever the tables had when that was taken. After this nobody does any more, and
 * what has been taken out of them can be freed.
 */
static inline void let_pass(struct host *h)
{
	u32 queue;

	for (queue = 0; queue < h->engine.queues; queue++) {
		take(&h->queue[queue].lock);
		give(&h->queue[queue].lock);
	}
}

/* ---- Domains, and what is shared ---- */

HOST_FN void host_lock_domain(struct engine *e, u32 domain)
{
	take(&domain_of(e, domain)->lock);
}

HOST_FN void host_unlock_domain(struct engine *e, u32 domain)
{
	give(&domain_of(e, domain)->lock);
}

HOST_FN void host_lock_shared(struct engine *e)
{
	take(&host_of(e)->shared);
}

HOST_FN void host_unlock_shared(struct engine *e)
{
	give(&host_of(e)->shared);
}

/* ---- Later ---- */

/* As soon as this pCPU comes to its softirqs, with no lock held then. */
static void look_later(struct host_queue *q)
{
	s_time_t now = NOW();

	if (timer_is_active(&q->later) && q->later.expires <= now)
		return;
	migrate_timer(&q->later, smp_processor_id());
	set_timer(&q->later, now);
}

static void put_off(struct host_queue *q, struct host_vcpu *v)
{
	NOTE(later, noted(v), v->engine.queue);
	list_add_tail(&v->in_put_off, &q->put_off);
	look_later(q);
}

HOST_FN void host_settle(struct engine *e, u32 vcpu)
{
	struct host_vcpu *v = vcpu_of(e, vcpu);

	if (list_empty(&v->in_put_off))
		put_off(queue_of(v), v);
}

HOST_FN bool host_stays(struct engine *e, u32 vcpu)
{
	return vcpu_of(e, vcpu)->stays;
}
