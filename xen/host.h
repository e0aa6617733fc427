/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the engine is given in Xen (policy/engine/host.h): tables, trees of who waits, sets of pCPUs,
 * softirqs and timers. Its locks are in locks.h.
 */

/* Always taken with interrupts off. */
struct host_lock {
	spinlock_t lock;
	bool interrupts; /* were on before, and are again when it is given back */
};

struct host_vcpu {
	struct engine_vcpu engine;
	struct sched_unit *unit;
	struct host_domain *domain;
	struct list_head in_queue; /* among the members */
	struct list_head in_domain;
	struct list_head in_put_off; /* of its queue; or alone */
	struct rb_node by_key;
	struct list_head in_waiting;
	struct timer timer;
	struct engine_met met;
	u32 number;
	bool inserted; /* the engine knows it */
	bool stays; /* who tells of it counts on its queue's lock */
	bool in_kernel; /* it was in the guest's kernel when it was stopped */
	bool prefers; /* some of the pCPUs that it may use to others */
	bool noted_boosted;
	u64 allowed[]; /* pCPUs that it may use, by their numbers; behind these words, those that it prefers */
};

/* Its number is Xen's. */
struct host_domain {
	struct engine_domain engine;
	struct host_lock lock; /* of `engine` */
	struct host *host;
	u32 number;
	struct list_head vcpus;
	struct list_head in_host;
	struct timer timer;
	struct engine_samples samples; /* packets and what is offered: as dom0 has told */
};

/* Cache lines of its own: its lock is for the pCPUs that it serves. A power of two, as they are looked up by number. */
struct host_queue {
	struct host_lock lock; /* of it, and of the pCPUs and vCPUs that belong to it */
	struct engine_queue engine;
	struct host *host;
	u64 now; /* of the last call, which none is before */
	struct rb_root by_key; /* of those who wait, for the place of one more */
	struct list_head waiting; /* the same, in that order */
	struct list_head members; /* every vCPU that belongs here */
	struct list_head put_off; /* those that the engine wants to look at once more */
	struct timer later; /* for them and for a balance */
	bool unbalanced;
	cpumask_t usable; /* by vCPUs, at the last call */
} __aligned(4 * SMP_CACHE_BYTES);

/* The same. */
struct host_pcpu {
	struct engine_pcpu engine;
	struct host *host;
	unsigned int cpu; /* Xen's number, or SY_NONE: no pCPU has this one */
	struct timer tick;
} __aligned(2 * SMP_CACHE_BYTES);

/*
 * Pointers by number. Who writes holds the host's lock. It is read without one, so what has become too small is kept
 * until the instance ends: somebody may look at it still.
 */
enum {
	TABLE_LEAST = 64,
	TABLE_MOST = 65536
};

struct table {
	struct table *before; /* that was too small */
	u32 room;
	void *entry[];
};

struct host {
	struct engine engine;
	struct host_lock shared; /* of what the engine calls so */
	spinlock_t lock; /* which domains and vCPUs there are, and repeated work on all; interrupts are on */
	spinlock_t idle_lock; /* schedule lock of all its pCPUs until it has begun; which those are */
	const struct scheduler *scheduler;
	struct table *vcpus;
	struct table *domains;
	struct host_pcpu *pcpu;
	struct host_queue *queue;
	u32 *number; /* of the engine's pCPU, for each of Xen's; or SY_NONE */
	/* Sets of so many words, whose bits change at once. */
	u32 words;
	u64 *idle;
	u64 *lesser;
	u64 *waited;
	struct list_head domain_list; /* in the order in which accounting visits them */
	struct list_head in_hosts;
	struct timer account;
	struct timer sample;
	bool begun; /* it has had a domain: pCPUs are numbered, all of the above is there */
	cpumask_t pcpus; /* Xen's numbers of those that belong to this scheduler */
};

/* Read without a lock; dom0 may change its parameters, which are single words, at any time. */
extern struct sy_policy steelyard_policy;

/*
 * Nothing happens sooner than this after what asks for it, whatever the parameters say: a pCPU whose
 * timers set each other for now would not leave its softirqs again. Xen lets its timers be as late as
 * that anyway (TIMER_SLOP).
 */
#define SOONEST_NS MICROSECS(50)

/* At that time; 0: never. */
static void set_or_stop(struct timer *timer, u64 time_ns, u64 now)
{
	if (time_ns)
		set_timer(timer, max(time_ns, now + SOONEST_NS));
	else
		stop_timer(timer);
}

static struct host *host_of(struct engine *e)
{
	return container_of(e, struct host, engine);
}

/* Most calls find it as it is to be, and only who holds the lock of what the bit is about changes it. */
HOST_FN void change_bit_to(u64 *set, u32 bit, bool value)
{
	if (test_bit(bit, set) == value)
		return;
	if (value)
		set_bit(bit, set);
	else
		clear_bit(bit, set);
}

HOST_FN bool host_goes_on(struct engine *e)
{
	return true;
}

HOST_FN u32 host_zero(struct engine *e)
{
	return 0;
}

/* ---- Tables ---- */

HOST_FN const struct sy_policy *host_policy(struct engine *e)
{
#ifdef STEELYARD_DISCIPLINE
	if (steelyard_policy.discipline != STEELYARD_DISCIPLINE)
		__builtin_unreachable();
#endif
	return &steelyard_policy;
}

/* Null: there is none of this number, for which the table may have no room. */
static void *look_up(struct table *const *at, u32 number)
{
	const struct table *table = ACCESS_ONCE(*at);

	return table && number < table->room ? table->entry[number] : NULL;
}

/* Of one that is there: whichever table is looked into has it. */
static struct host_vcpu *vcpu_of(struct engine *e, u32 vcpu)
{
	return host_of(e)->vcpus->entry[vcpu];
}

static struct host_domain *domain_of(struct engine *e, u32 domain)
{
	return host_of(e)->domains->entry[domain];
}

static struct host_queue *queue_of(const struct host_vcpu *v)
{
	return &v->domain->host->queue[v->engine.queue];
}

/* These are for who holds the lock; of a domain, for who writes it or wants more than a word. */
HOST_FN struct engine_vcpu *host_vcpu(struct engine *e, u32 vcpu)
{
	struct host_vcpu *v = vcpu_of(e, vcpu);

	ASSERT(spin_is_locked(&queue_of(v)->lock.lock));
	return &v->engine;
}

HOST_FN struct engine_domain *host_domain(struct engine *e, u32 domain)
{
	return &domain_of(e, domain)->engine;
}

HOST_FN struct engine_queue *host_queue(struct engine *e, u32 queue)
{
	struct host_queue *q = &host_of(e)->queue[queue];

	ASSERT(spin_is_locked(&q->lock.lock));
	return &q->engine;
}

HOST_FN struct engine_pcpu *host_pcpu(struct engine *e, u32 pcpu)
{
	struct host_pcpu *c = &host_of(e)->pcpu[pcpu];

	ASSERT(spin_is_locked(&host_of(e)->queue[c->engine.queue].lock.lock));
	return &c->engine;
}

HOST_FN bool host_has_domain(struct engine *e, u32 domain)
{
	return look_up(&host_of(e)->domains, domain);
}

#include "notes.h"
#include "locks.h"

/*
 * In walks over vCPUs *place is the number of the last one, plus 1. One that stopped being runnable a moment ago is among
 * them: who did that is about to say so by steelyard_sleep(), unless it is runnable again by then.
 */
static u32 next_vcpu(u32 *place, struct host_vcpu *v)
{
	if (!v)
		return SY_NONE;
	*place = v->number + 1;
	return v->number;
}

HOST_FN u32 host_next_waiting(struct engine *e, u32 queue, u32 *place)
{
	struct list_head *all = &host_of(e)->queue[queue].waiting;
	struct list_head *next = *place ? vcpu_of(e, *place - 1)->in_waiting.next : all->next;

	return next_vcpu(place, next == all ? NULL : list_entry(next, struct host_vcpu, in_waiting));
}

HOST_FN u32 host_next_member(struct engine *e, u32 queue, u32 *place)
{
	struct list_head *all = &host_of(e)->queue[queue].members;
	struct list_head *next = *place ? vcpu_of(e, *place - 1)->in_queue.next : all->next;

	return next_vcpu(place, next == all ? NULL : list_entry(next, struct host_vcpu, in_queue));
}

HOST_FN u32 host_next_vcpu(struct engine *e, u32 domain, u32 *place)
{
	struct list_head *all = &domain_of(e, domain)->vcpus;
	struct list_head *next = *place ? vcpu_of(e, *place - 1)->in_domain.next : all->next;

	return next_vcpu(place, next == all ? NULL : list_entry(next, struct host_vcpu, in_domain));
}

/* *place is the number of the domain to come, plus 1; SY_NONE: none is. */
HOST_FN u32 host_next_accounted(struct engine *e, u32 *place)
{
	struct list_head *all = &host_of(e)->domain_list, *here;
	u32 domain;

	if (*place == SY_NONE)
		return SY_NONE;
	here = *place ? &domain_of(e, *place - 1)->in_host : all->next;
	if (here == all)
		return SY_NONE;
	domain = list_entry(here, struct host_domain, in_host)->number;
	*place = here->next == all ? SY_NONE : list_entry(here->next, struct host_domain, in_host)->number + 1;
	return domain;
}

HOST_FN void host_account_first(struct engine *e, u32 place)
{
	struct list_head *all = &host_of(e)->domain_list;

	list_move(place == SY_NONE ? all->prev : domain_of(e, place - 1)->in_host.prev, all);
}

/* ---- Queues ---- */

HOST_FN void host_insert(struct engine *e, u32 queue, u32 vcpu)
{
	struct host_queue *q = &host_of(e)->queue[queue];
	struct rb_node **link = &q->by_key.rb_node, *parent = NULL;
	struct list_head *after = &q->waiting;
	struct host_vcpu *v = vcpu_of(e, vcpu);

	while (*link) {
		struct host_vcpu *other = rb_entry(*link, struct host_vcpu, by_key);
		bool before = v->engine.key < other->engine.key;

		parent = *link;
		link = before ? &parent->rb_left : &parent->rb_right;
		after = before ? other->in_waiting.prev : &other->in_waiting;
	}
	NOTE(queue, noted(v), queue, NOTED_64(v->engine.key));
	rb_link_node(&v->by_key, parent, link);
	rb_insert_color(&v->by_key, &q->by_key);
	list_add(&v->in_waiting, after);
}

HOST_FN void host_remove(struct engine *e, u32 queue, u32 vcpu)
{
	struct host_vcpu *v = vcpu_of(e, vcpu);

	rb_erase(&v->by_key, &host_of(e)->queue[queue].by_key);
	list_del(&v->in_waiting);
}

HOST_FN void host_sort(struct engine *e, u32 queue)
{
	struct host_queue *q = &host_of(e)->queue[queue];
	LIST_HEAD(old);

	list_splice_init(&q->waiting, &old);
	q->by_key = RB_ROOT;
	while (!list_empty(&old)) {
		struct host_vcpu *v = list_first_entry(&old, struct host_vcpu, in_waiting);

		list_del(&v->in_waiting);
		host_insert(e, queue, v->number);
	}
}

static void settle_elsewhere(struct host_vcpu *v, unsigned int last, unsigned int cpu)
{
	const struct vcpu *vcpu;

	/* Xen counts the vCPUs of a pCPU that sleep in a poll. */
	for_each_sched_unit_vcpu (v->unit, vcpu) {
		if (vcpu->is_urgent) {
			atomic_dec(&per_cpu(sched_urgent_count, last));
			atomic_inc(&per_cpu(sched_urgent_count, cpu));
		}
	}
	sched_set_res(v->unit, get_sched_res(cpu));
}

/* For Xen the vCPU is at home on this pCPU from now on. */
HOST_FN void settle_on(struct host *h, struct host_vcpu *v, u32 pcpu)
{
	unsigned int last = sched_unit_master(v->unit), cpu = h->pcpu[pcpu].cpu;

	if (last != cpu)
		settle_elsewhere(v, last, cpu);
}

/* What one queue knows and another one does not, for a vCPU that goes from the one to the other. */
static void carry_over(struct host_queue *from, struct host_queue *to, struct host_vcpu *v)
{
	/* No time since then has passed there, either. */
	to->now = max(to->now, from->now);
	if (!cpumask_equal(&from->usable, &to->usable))
		cpumask_clear(&to->usable); /* the next call maps it */
	if (!list_empty(&v->in_put_off)) {
		list_del_init(&v->in_put_off);
		put_off(to, v);
	}
}

HOST_FN void host_change_queue(struct engine *e, u32 vcpu, u32 from, u32 to)
{
	struct host *h = host_of(e);
	struct host_vcpu *v = vcpu_of(e, vcpu);

	if (from != SY_NONE)
		list_del(&v->in_queue);
	if (to == SY_NONE) {
		list_del_init(&v->in_put_off);
		return;
	}
	list_add_tail(&v->in_queue, &h->queue[to].members);
	settle_on(h, v, v->engine.state.pcpu);
	if (from == SY_NONE)
		return;
	NOTE(move, noted(v), from, to, sched_unit_master(v->unit));
	carry_over(&h->queue[from], &h->queue[to], v);
}

/* ---- Sets ---- */

HOST_FN u64 host_idle_pcpus(struct engine *e, u32 word)
{
	return host_of(e)->idle[word];
}

HOST_FN void host_set_idle(struct engine *e, u32 pcpu, bool idle)
{
	change_bit_to(host_of(e)->idle, pcpu, idle);
}

HOST_FN u64 host_lesser_pcpus(struct engine *e, u32 word)
{
	return host_of(e)->lesser[word];
}

HOST_FN void host_set_lesser(struct engine *e, u32 pcpu, bool lesser)
{
	change_bit_to(host_of(e)->lesser, pcpu, lesser);
}

HOST_FN u64 host_waited_queues(struct engine *e, u32 word)
{
	return host_of(e)->waited[word];
}

HOST_FN void host_set_waited(struct engine *e, u32 queue, bool waited)
{
	change_bit_to(host_of(e)->waited, queue, waited);
}

/* Mapped when affinity or cpupool change, not here: Xen's numbers need not be the engine's. */
HOST_FN u64 host_allowed_pcpus(struct engine *e, u32 vcpu, u32 word)
{
	return vcpu_of(e, vcpu)->allowed[word];
}

HOST_FN bool host_prefers(struct engine *e, u32 vcpu)
{
	return vcpu_of(e, vcpu)->prefers;
}

HOST_FN u64 host_preferred_pcpus(struct engine *e, u32 vcpu, u32 word)
{
	return vcpu_of(e, vcpu)->allowed[host_of(e)->words + word];
}

/* ---- Effects ---- */

HOST_FN void host_interrupt(struct engine *e, u32 pcpu)
{
	cpu_raise_softirq(host_of(e)->pcpu[pcpu].cpu, SCHEDULE_SOFTIRQ);
}

HOST_FN void host_balance(struct engine *e, u32 queue)
{
	struct host_queue *q = &host_of(e)->queue[queue];

	q->unbalanced = true;
	look_later(q);
}

HOST_FN void host_vcpu_timer(struct engine *e, u32 vcpu)
{
	struct host_vcpu *v = vcpu_of(e, vcpu);

	set_or_stop(&v->timer, sy_vcpu_timer_ns(host_policy(e), &v->engine.state), queue_of(v)->now);
}

HOST_FN void host_domain_timer(struct engine *e, u32 domain)
{
	struct host_domain *d = domain_of(e, domain);

	take(&d->lock);
	set_or_stop(&d->timer, d->engine.state.timer_ns, NOW());
	give(&d->lock);
}

HOST_FN void host_tick(struct engine *e, u32 pcpu, u64 at_ns)
{
	struct host_pcpu *c = &host_of(e)->pcpu[pcpu];

	set_or_stop(&c->tick, at_ns, host_of(e)->queue[c->engine.queue].now);
}

HOST_FN bool host_ticks(struct engine *e, u32 pcpu)
{
	return timer_is_active(&host_of(e)->pcpu[pcpu].tick);
}

/* ---- What the host knows, and what it measures ---- */

HOST_FN bool host_saves(struct engine *e)
{
	return true;
}

HOST_FN bool host_in_kernel(struct engine *e, u32 vcpu)
{
	return vcpu_of(e, vcpu)->in_kernel;
}

HOST_FN struct engine_met *host_met(struct engine *e, u32 vcpu)
{
	return &vcpu_of(e, vcpu)->met;
}

HOST_FN struct engine_samples *host_samples(struct engine *e, u32 domain)
{
	return &domain_of(e, domain)->samples;
}

HOST_FN void host_wakes(struct engine *e, u32 vcpu, u64 now)
{
	measure_wakes(e, vcpu, now);
}

HOST_FN void host_starts(struct engine *e, u32 vcpu, u32 pcpu, u64 now)
{
	struct host_vcpu *v = vcpu_of(e, vcpu);

	v->unit->migrated = measure_starts(e, vcpu, pcpu, now);
	settle_on(host_of(e), v, pcpu);
}

/*
 * Of the unit that stops on this pCPU: of its vCPU that is still in its place here. A core's unit (sched-gran=core) may
 * have none, and the state of one on another pCPU cannot be read.
 */
static bool in_guest_kernel(const struct sched_unit *unit)
{
#ifdef CONFIG_X86
	struct vcpu *vcpu = get_current();

	if (vcpu->sched_unit != unit)
		return false;
	if (is_hvm_vcpu(vcpu))
		return hvm_get_cpl(vcpu) == 0;
	return vcpu->arch.flags & TF_kernel_mode;
#else
	return true;
#endif
}

HOST_FN void host_stops(struct engine *e, u32 vcpu, u32 pcpu, u32 status, u64 now)
{
	struct host_vcpu *v = vcpu_of(e, vcpu);

	measure_stops(e, vcpu, pcpu, status, now);
	if (pcpu != SY_NONE && status == ENGINE_WAITING && sy_ranks(host_policy(e)))
		v->in_kernel = in_guest_kernel(v->unit);
}

HOST_FN void host_unparks(struct engine *e, u32 vcpu, u64 now)
{
	measure_unparks(e, vcpu, now);
}

HOST_FN void host_sample(struct engine *e, u32 domain, struct sy_sample *sample, u64 now)
{
	measure_sample(e, domain, sample, now);
}
