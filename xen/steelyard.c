/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steelyard in Xen: a scheduler that decides nothing itself. It is the host of a policy written in
 * the freestanding core (policy/steelyard.h), which also schedules a simulator and Linux.
 *
 * Design
 *
 * A vCPU here is one of Xen's scheduling units (one vCPU, unless sched-gran= says otherwise), a pCPU
 * one of its scheduling resources. Each pCPU belongs to one queue, each vCPU to the queue of its
 * pCPU. Which pCPUs share a queue is the policy's choice; a queue is a tree ordered by the key that
 * the policy gives, equal keys in the order in which they came.
 *
 * Xen tells that a vCPU wakes, sleeps, yields or must be replaced; the policy answers with requests
 * (vocabulary.h), and `answer` does them. A choice follows the steps at the head of steelyard.h, and
 * their numbers stand in steelyard_schedule().
 *
 * A vCPU that is not chosen again waits in its queue at once, so that the policy sees it there, but
 * until Xen has saved its context no other pCPU may take it (`saving`). Whom it interrupts, and a
 * move to another pCPU, wait for context_saved, too.
 *
 * A vCPU that the policy parks stays off its queue; for Xen it is runnable all the while, and its
 * time parked counts as time waited.
 *
 * Locking
 *
 * One lock per instance of the scheduler, which is the schedule lock of all its pCPUs: most requests
 * reach more than one queue, and one lock needs no ordering between them. It protects everything
 * that is reached from struct host, and is held, with interrupts off, in every call into the core.
 *
 * Ordering: hypfs lock, then `hosts_lock` (the list of instances), then an instance's lock, then the
 * locks of Xen's timers. A schedule lock of another scheduler may be held when one here is taken
 * (a pCPU joins), never the other way round. Timers are killed with no lock held.
 *
 * The policy is one per boot. Its parameters are single words, read without a lock; dom0 may change
 * them at any time.
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
 * for tens of pCPUs, not hundreds. Soft affinity is not looked at. sedf has no way to be told of
 * reservations yet.
 */
#include <xen/cpumask.h>
#include <xen/guest_access.h>
#include <xen/hypfs.h>
#include <xen/init.h>
#include <xen/lib.h>
#include <xen/list.h>
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

/* The core uses a word that is a macro here. */
#pragma push_macro("current")
#undef current
#define SY_DESCRIBE
#include "policy/steelyard.h"
#include "policy/catalogue.h"
#pragma pop_macro("current")

struct host_queue {
	struct sy_queue state;
	struct rb_root waiting;
	struct list_head members; /* every vCPU that belongs here */
	struct list_head in_host;
	cpumask_t pcpus;
	u64 resets;
	u32 balances;
	bool unbalanced;
};

struct host_pcpu {
	struct sy_pcpu state;
	struct host *host;
	struct host_queue *queue;
	struct list_head spares; /* queues not in use, freed with the pCPU */
	struct host_vcpu *runs; /* here, or null */
	u64 charged_ns; /* up to when that one was charged */
	unsigned int vcpus; /* that belong here */
	u64 tick_ns; /* of the tick that comes */
	struct timer tick;
};

struct host_domain {
	struct sy_domain state;
	struct host *host;
	struct list_head vcpus;
	struct list_head in_host;
	struct timer timer;
	u64 resets; /* that its vCPUs caused */
	u64 packets; /* that it received since it began, as dom0 has told */
	struct sy_sample departed; /* sums of the vCPUs that are gone */
	struct sy_sample sampled; /* sums at the last sample; as interval_ns its time */
};

struct host_vcpu {
	struct sy_vcpu state;
	struct sched_unit *unit;
	struct host_domain *domain;
	struct host_queue *queue;
	struct list_head in_queue; /* among the members */
	struct list_head in_domain;
	struct rb_node in_waiting;
	u64 key;
	unsigned int move_to; /* pCPU to which it moves when it stops */
	unsigned int ran_on; /* pCPU on which it ran last */
	bool inserted;
	bool running;
	bool queued;
	bool parked;
	bool saving; /* Xen has not saved its context since it ran */
	bool woken; /* while saving: whom it interrupts is still open */
	bool preempted; /* it was stopped while it had work, and waits since then */
	bool in_kernel; /* and was in the guest's kernel */
	struct timer timer;
	/* What it met with */
	u64 gotten_ns;
	u64 waited_ns;
	u64 parked_ns; /* of that */
	u64 waits;
	u64 late_waits;
	u64 worst_wait_ns;
	u64 waits_since_ns;
	u64 parked_since_ns;
	u64 switches;
	u64 migrations;
};

struct host {
	spinlock_t lock;
	struct sy_accounting accounting;
	struct sy_governor governor;
	struct list_head queues;
	struct list_head domains; /* in the order in which accounting visits them */
	struct list_head in_hosts;
	struct timer account;
	struct timer sample;
	bool begun; /* it has had a pCPU, and these two timers */
	bool unbalanced; /* some queue is */
	unsigned int rotor; /* where the search for an idle pCPU in rotation goes on */
	cpumask_t pcpus;
	cpumask_t idle;
	cpumask_t interrupted; /* about to choose again */
	cpumask_t scratch;
	struct host_pcpu *pcpu[NR_CPUS];
};

static struct sy_policy __read_mostly policy;
static char __read_mostly policy_name[128] = "credit2@xen-4.20";
static LIST_HEAD(hosts);
static DEFINE_SPINLOCK(hosts_lock);

static struct host *host_of(const struct scheduler *ops)
{
	return ops->sched_data;
}

/* ---- Queues ---- */

static struct host_vcpu *waiting_vcpu(struct rb_node *node)
{
	return node ? rb_entry(node, struct host_vcpu, in_waiting) : NULL;
}

static void insert(struct host_vcpu *v)
{
	struct rb_node **link = &v->queue->waiting.rb_node, *parent = NULL;

	while (*link) {
		parent = *link;
		link = v->key < waiting_vcpu(parent)->key ? &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&v->in_waiting, parent, link);
	rb_insert_color(&v->in_waiting, &v->queue->waiting);
}

static void enqueue(struct host_vcpu *v, u64 now)
{
	ASSERT(!v->queued && !v->running && !v->parked && v->state.runnable);
	v->key = sy_key(&policy, &v->queue->state, &v->domain->state, &v->state, now);
	v->queued = true;
	v->queue->state.queued++;
	insert(v);
}

static void dequeue(struct host_vcpu *v)
{
	ASSERT(v->queued);
	rb_erase(&v->in_waiting, &v->queue->waiting);
	v->queued = false;
	v->queue->state.queued--;
}

static void resort(struct host_queue *q, u64 now)
{
	struct rb_root old = q->waiting;
	struct host_vcpu *v;

	q->waiting = RB_ROOT;
	while ((v = waiting_vcpu(rb_first(&old)))) {
		rb_erase(&v->in_waiting, &old);
		v->key = sy_key(&policy, &q->state, &v->domain->state, &v->state, now);
		insert(v);
	}
}

static void survey(struct host_queue *q)
{
	struct host_vcpu *v;

	sy_survey_begin(&policy, &q->state);
	list_for_each_entry (v, &q->members, in_queue)
		sy_survey_vcpu(&policy, &q->state, &v->domain->state, &v->state);
}

/* ---- Requests ---- */

/* Lets a pCPU choose again. */
static void interrupt(struct host *h, unsigned int cpu)
{
	if (!cpumask_test_and_set_cpu(cpu, &h->interrupted))
		cpu_raise_softirq(cpu, SCHEDULE_SOFTIRQ);
}

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

/* After that time; 0: never, since what repeats may come to an end by a parameter. */
static void set_next(struct timer *timer, u64 interval_ns, u64 now)
{
	set_or_stop(timer, interval_ns ? now + interval_ns : 0, now);
}

static void interrupt_for(struct host *h, struct host_vcpu *v, u64 now);

static void enqueue_and_interrupt(struct host *h, struct host_vcpu *v, u64 now)
{
	enqueue(v, now);
	if (v->saving)
		v->woken = true;
	else
		interrupt_for(h, v, now);
}

/* Since when it is kept from waiting in a queue, though it would. */
static u64 parked_wait_ns(const struct host_vcpu *v, u64 now)
{
	u64 since_ns = max(v->parked_since_ns, v->waits_since_ns);

	return v->parked && v->state.runnable && !v->running && now > since_ns ? now - since_ns : 0;
}

static void park(struct host *h, struct host_vcpu *v, u64 now)
{
	if (v->parked)
		return;
	v->parked = true;
	v->parked_since_ns = now;
	if (v->running)
		interrupt(h, v->state.pcpu);
	else if (v->queued)
		dequeue(v);
}

static void unpark(struct host *h, struct host_vcpu *v, u64 now)
{
	if (!v->parked)
		return;
	v->parked_ns += parked_wait_ns(v, now);
	v->parked = false;
	if (v->state.runnable && !v->running)
		enqueue_and_interrupt(h, v, now);
}

static void answer_for_queue(struct host *h, struct host_queue *q, u32 requests, u64 now)
{
	if (requests & SY_SURVEY)
		survey(q);
	if (requests & SY_RESORT)
		resort(q, now);
	if (requests & SY_BALANCE)
		h->unbalanced = q->unbalanced = true;
}

/* Does what the policy asked for this vCPU. */
static void answer(struct host *h, struct host_vcpu *v, u32 requests, u64 now)
{
	if (!requests)
		return;
	if (requests & SY_TIMER)
		set_or_stop(&v->timer, v->state.timer_ns, now);
	if (requests & SY_DOMAIN_TIMER)
		set_or_stop(&v->domain->timer, v->domain->state.timer_ns, now);
	if (requests & SY_PARK)
		park(h, v, now);
	if (requests & SY_UNPARK)
		unpark(h, v, now);
	if (requests & SY_REKEY && v->queued) {
		dequeue(v);
		enqueue_and_interrupt(h, v, now);
	}
	if (requests & SY_RESCHEDULE && v->running)
		interrupt(h, v->state.pcpu);
	answer_for_queue(h, v->queue, requests, now);
}

/* ---- Charging ---- */

static void charge(struct host *h, struct host_pcpu *p, u64 now)
{
	struct host_vcpu *v = p->runs;
	u64 ran_ns;

	if (!v || now <= p->charged_ns)
		return;
	ran_ns = now - p->charged_ns;
	p->charged_ns = now;
	v->gotten_ns += ran_ns;
	answer(h, v, sy_charge(&policy, &v->queue->state, &v->domain->state, &v->state, ran_ns, now), now);
}

/* The virtual time of a queue of one pCPU must be of now. */
static void charge_lone(struct host *h, struct host_queue *q, u64 now)
{
	if (q->state.pcpus == 1)
		charge(h, h->pcpu[cpumask_first(&q->pcpus)], now);
}

/* ---- Places ---- */

/*
 * The pCPUs of its cpupool. One that is about to leave the pool is none of them any more, while its
 * queue, if it shares one, still holds others' vCPUs.
 */
static const cpumask_t *pool_of(const struct host_vcpu *v)
{
	return cpupool_domain_master_cpumask(v->unit->domain);
}

static bool may_use(const struct host_vcpu *v, unsigned int cpu)
{
	return cpumask_test_cpu(cpu, v->unit->cpu_hard_affinity) && cpumask_test_cpu(cpu, pool_of(v));
}

/* Leaves those in the set that the vCPU may use. */
static void keep_allowed(cpumask_t *pcpus, const struct host_vcpu *v)
{
	cpumask_and(pcpus, pcpus, v->unit->cpu_hard_affinity);
	cpumask_and(pcpus, pcpus, pool_of(v));
}

/* From now on the vCPU is at home on this pCPU; the queue is not looked at. */
static void settle_on(struct host *h, struct host_vcpu *v, unsigned int cpu)
{
	if (v->state.pcpu == cpu)
		return;
	h->pcpu[v->state.pcpu]->vcpus--;
	h->pcpu[cpu]->vcpus++;
	v->state.pcpu = cpu;
	sched_set_res(v->unit, get_sched_res(cpu));
}

/* Makes a vCPU that neither runs nor waits belong to this pCPU and its queue. */
static void assign(struct host *h, struct host_vcpu *v, unsigned int cpu, u64 now)
{
	struct host_queue *from = v->queue, *to = h->pcpu[cpu]->queue;
	u32 left, joined;

	ASSERT(!v->queued && !v->running && !v->unit->is_running);
	if (from == to) {
		settle_on(h, v, cpu);
		return;
	}
	charge_lone(h, from, now);
	charge_lone(h, to, now);
	left = sy_leave(&policy, &from->state, &v->domain->state, &v->state, now);
	list_del(&v->in_queue);
	settle_on(h, v, cpu);
	v->queue = to;
	list_add_tail(&v->in_queue, &to->members);
	joined = sy_join(&policy, &to->state, &v->domain->state, &v->state, now);
	answer_for_queue(h, from, left, now);
	answer(h, v, joined | (left & ~(SY_SURVEY | SY_RESORT)), now);
}

/* The same for one that may be waiting, and without Xen having asked for it. */
static void move(struct host *h, struct host_vcpu *v, unsigned int cpu, u64 now)
{
	unsigned int last = v->state.pcpu;
	const struct vcpu *vcpu;
	bool waits = v->queued;

	if (waits)
		dequeue(v);
	assign(h, v, cpu, now);
	/* Xen counts the vCPUs of a pCPU that sleep in a poll. */
	for_each_sched_unit_vcpu (v->unit, vcpu) {
		if (vcpu->is_urgent) {
			atomic_dec(&per_cpu(sched_urgent_count, last));
			atomic_inc(&per_cpu(sched_urgent_count, cpu));
		}
	}
	if (waits && !v->queued && !v->parked)
		enqueue(v, now);
}

static bool same_core(unsigned int a, unsigned int b)
{
	return cpumask_test_cpu(a, per_cpu(cpu_sibling_mask, b));
}

static bool same_socket(unsigned int a, unsigned int b)
{
	return cpu_to_socket(a) == cpu_to_socket(b);
}

/* Idle pCPUs that the vCPU may use, in h->scratch; with SY_STEPS_QUEUE only those of its queue. */
static bool find_idle(struct host *h, const struct host_vcpu *v, u32 plan)
{
	cpumask_andnot(&h->scratch, &h->idle, &h->interrupted);
	keep_allowed(&h->scratch, v);
	if (plan & SY_STEPS_QUEUE)
		cpumask_and(&h->scratch, &h->scratch, &v->queue->pcpus);
	return !cpumask_empty(&h->scratch);
}

static bool core_idle(const struct host *h, unsigned int cpu)
{
	unsigned int sibling;

	for_each_cpu (sibling, per_cpu(cpu_sibling_mask, cpu))
		if (!cpumask_test_cpu(sibling, &h->idle) || cpumask_test_cpu(sibling, &h->interrupted))
			return false;
	return true;
}

/* The nearest of them to where the vCPU was last, one whose whole core is idle first; or SY_NONE. */
static unsigned int nearest_idle(struct host *h, const struct host_vcpu *v, u32 plan)
{
	unsigned int last = v->state.pcpu, best = SY_NONE, best_rank = 0, cpu;

	if (!find_idle(h, v, plan))
		return SY_NONE;
	for_each_cpu (cpu, &h->scratch) {
		bool whole = cpumask_weight(per_cpu(cpu_sibling_mask, cpu)) > 1 && core_idle(h, cpu);
		bool near = same_socket(cpu, last);
		unsigned int rank = near ? 2 : 1;

		if (whole)
			rank += 3;
		else if (cpu == last)
			rank = 3;
		if (rank > best_rank) {
			best_rank = rank;
			best = cpu;
		}
	}
	return best;
}

static unsigned int next_idle(struct host *h, const struct host_vcpu *v, u32 plan)
{
	unsigned int cpu;

	if (!find_idle(h, v, plan))
		return SY_NONE;
	cpu = cpumask_next(h->rotor, &h->scratch);
	if (cpu >= nr_cpu_ids)
		cpu = cpumask_first(&h->scratch);
	h->rotor = cpu;
	return cpu;
}

/* ---- Whom a waiting vCPU interrupts ---- */

/* By how much it is ahead of who runs there; 0 if nobody does, or if that pCPU chooses again anyway. */
static s64 lead(struct host *h, struct host_vcpu *v, unsigned int cpu, u64 now)
{
	struct host_pcpu *p = h->pcpu[cpu];

	if (!p->runs || cpumask_test_cpu(cpu, &h->interrupted))
		return 0;
	charge(h, p, now);
	return sy_lead(&policy, &p->queue->state, &p->state, &v->state, &p->runs->state, now);
}

static bool evict(struct host *h, struct host_vcpu *v, unsigned int last, u64 now)
{
	struct host_vcpu *running;
	unsigned int cpu;

	if (find_idle(h, v, 0))
		return false;
	cpumask_andnot(&h->scratch, &h->idle, &h->interrupted);
	if (cpumask_empty(&h->scratch) || lead(h, v, last, now) <= 0)
		return false;
	running = h->pcpu[last]->runs;
	cpu = nearest_idle(h, running, 0);
	if (cpu != SY_NONE)
		running->move_to = cpu;
	interrupt(h, last);
	return true;
}

static bool take_step(struct host *h, struct host_vcpu *v, u32 kind, u32 plan, u64 now)
{
	unsigned int last = v->state.pcpu, found = SY_NONE, cpu;
	s64 best = 0;

	switch (kind) {
	case SY_STEP_LAST_IDLE:
		if (may_use(v, last) && cpumask_test_cpu(last, &h->idle) &&
		    !cpumask_test_cpu(last, &h->interrupted))
			found = last;
		break;
	case SY_STEP_LAST_LEAD:
		if (may_use(v, last) && lead(h, v, last, now) > 0)
			found = last;
		break;
	case SY_STEP_ONE_IDLE:
	case SY_STEP_NEXT_IDLE:
		found = kind == SY_STEP_ONE_IDLE ? nearest_idle(h, v, plan) : next_idle(h, v, plan);
		if (found != SY_NONE && plan & SY_STEPS_PLACE)
			move(h, v, found, now);
		break;
	case SY_STEP_ALL_IDLE:
		if (!find_idle(h, v, plan))
			return false;
		for_each_cpu (cpu, &h->scratch)
			interrupt(h, cpu);
		return true;
	case SY_STEP_LEAST:
		for_each_cpu (cpu, &v->queue->pcpus) {
			s64 ahead = may_use(v, cpu) ? lead(h, v, cpu, now) : 0;

			if (ahead > best) {
				best = ahead;
				found = cpu;
			}
		}
		break;
	case SY_STEP_EVICT:
		return may_use(v, last) && evict(h, v, last, now);
	default:
		break;
	}
	if (found == SY_NONE)
		return false;
	interrupt(h, found);
	return true;
}

static void interrupt_for(struct host *h, struct host_vcpu *v, u64 now)
{
	u32 plan = sy_steps(&policy, &v->state), steps = plan & (SY_STEPS_QUEUE - 1);

	while (steps && v->queued) {
		u32 step = steps & ((1 << SY_STEP_BITS) - 1);

		steps >>= SY_STEP_BITS;
		if (take_step(h, v, step & ~SY_STEP_ALSO, plan, now) && !(step & SY_STEP_ALSO))
			break;
	}
}

/* ---- Balance ---- */

static u64 load(struct host_queue *q, u64 now)
{
	return sy_load(&policy, &q->state, now) / max_t(u32, q->state.pcpus, 1);
}

/* Moves the vCPU that is worth most from one queue to the other, if any is. */
static bool move_best(struct host *h, struct host_queue *from, struct host_queue *to, u64 now)
{
	struct host_vcpu *v, *best = NULL;
	unsigned int best_cpu = SY_NONE;
	s64 best_gain = 0;

	list_for_each_entry (v, &from->members, in_queue) {
		s64 gain;

		if (v->move_to != SY_NONE || v->saving)
			continue;
		gain = sy_balance_gain(&policy, &from->state, &to->state, &v->domain->state, &v->state, now);
		if (gain <= best_gain)
			continue;
		cpumask_copy(&h->scratch, &to->pcpus);
		keep_allowed(&h->scratch, v);
		if (cpumask_empty(&h->scratch))
			continue;
		best = v;
		best_gain = gain;
		best_cpu = cpumask_first(&h->scratch);
		cpumask_and(&h->scratch, &h->scratch, &h->idle);
		if (!cpumask_empty(&h->scratch))
			best_cpu = cpumask_first(&h->scratch);
	}
	if (!best)
		return false;
	if (best->running) {
		best->move_to = best_cpu;
		interrupt(h, best->state.pcpu);
		return true;
	}
	move(h, best, best_cpu, now);
	if (best->queued)
		interrupt_for(h, best, now);
	return true;
}

/*
 * Moves a vCPU between this queue and the most or the least loaded one. Where each pCPU has a queue,
 * those of the socket are compared every time and all of them one time in eight.
 */
static void balance(struct host *h, struct host_queue *q, u64 now)
{
	struct host_queue *other, *most = q, *least = q;
	bool near = sy_scope(&policy) == SY_SCOPE_PCPU && ++q->balances % 8;
	u64 most_load = load(q, now), least_load = most_load;

	list_for_each_entry (other, &h->queues, in_host) {
		u64 its = load(other, now);

		if (near && !same_socket(cpumask_first(&q->pcpus), cpumask_first(&other->pcpus)))
			continue;
		if (its > most_load) {
			most_load = its;
			most = other;
		}
		if (its < least_load) {
			least_load = its;
			least = other;
		}
	}
	if ((most == q || !move_best(h, most, q, now)) && least != q)
		move_best(h, q, least, now);
}

/* Does what can wait until the end of a call: at most one balance per queue. */
static void finish(struct host *h, u64 now)
{
	struct host_queue *q;

	if (!h->unbalanced)
		return;
	h->unbalanced = false;
	list_for_each_entry (q, &h->queues, in_host) {
		if (q->unbalanced) {
			q->unbalanced = false;
			balance(h, q, now);
		}
	}
}

/* ---- What vCPUs do ---- */

static void wake(struct host *h, struct host_vcpu *v, u64 now)
{
	bool parked = v->parked;

	charge_lone(h, v->queue, now);
	v->state.runnable = 1;
	v->preempted = false;
	v->waits_since_ns = now;
	answer(h, v, sy_wake(&policy, &v->queue->state, &v->domain->state, &v->state, now), now);
	/* One that was parked and no longer is has been queued by that. */
	if (!parked && !v->parked && !v->queued)
		enqueue_and_interrupt(h, v, now);
}

static void end_wait(struct host_vcpu *v, u64 now)
{
	u64 wait_ns = now > v->waits_since_ns ? now - v->waits_since_ns : 0;

	v->waited_ns += wait_ns;
	v->parked_ns += parked_wait_ns(v, now);
	v->worst_wait_ns = max(v->worst_wait_ns, wait_ns);
	v->waits++;
	v->late_waits += wait_ns > sy_late_ns(&policy);
}

/* It has nothing more to do: it ran and was charged, or it waited. */
static void block(struct host *h, struct host_vcpu *v, u64 now)
{
	v->state.runnable = 0;
	v->move_to = SY_NONE;
	answer(h, v, sy_block(&policy, &v->queue->state, &v->domain->state, &v->state, now), now);
}

static void vacate(struct host_pcpu *p)
{
	p->runs->running = false;
	p->runs->saving = true;
	p->runs = NULL;
	p->state.busy = 0;
}

static void cf_check steelyard_wake(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = host_of(ops);
	struct host_vcpu *v = unit->priv;
	u64 now = NOW();

	/* Xen says it for those that run or wait as well. */
	if (v->state.runnable)
		return;
	wake(h, v, now);
	finish(h, now);
}

static void cf_check steelyard_sleep(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = host_of(ops);
	struct host_vcpu *v = unit->priv;
	u64 now = NOW();

	if (v->running) {
		interrupt(h, v->state.pcpu);
		return;
	}
	if (!v->state.runnable)
		return;
	charge_lone(h, v->queue, now);
	if (v->queued)
		dequeue(v);
	end_wait(v, now);
	block(h, v, now);
	finish(h, now);
}

/* What summoning it promises; 0: nothing, or it does not wait. */
static u64 rank(struct host *h, struct host_vcpu *v, u64 now)
{
	u64 waited_ns = now > v->waits_since_ns ? now - v->waits_since_ns : 0;
	u32 facts = 0;

	if (!v->queued)
		return 0;
	charge_lone(h, v->queue, now);
	if (v->preempted)
		facts |= SY_PREEMPTED;
	if (v->in_kernel)
		facts |= SY_IN_KERNEL;
	return sy_rank(&policy, &v->queue->state, &v->domain->state, &v->state, facts, waited_ns, now);
}

static void summon(struct host *h, struct host_vcpu *v, u64 now)
{
	u32 requests = sy_summon(&policy, &v->queue->state, &v->domain->state, &v->state, now);

	answer(h, v, requests, now);
	if (requests & SY_RESCHEDULE)
		interrupt(h, v->state.pcpu);
}

/* Summons those siblings of the spinning vCPU that the policy wants; returns how many. */
static u32 summon_siblings(struct host *h, struct host_vcpu *spinner, enum sy_gang gang, u64 now)
{
	struct host_vcpu *v, *best = NULL;
	u64 best_rank = 0;
	u32 summoned = 0;

	list_for_each_entry (v, &spinner->domain->vcpus, in_domain) {
		u64 its_rank = rank(h, v, now);

		if (its_rank && gang == SY_GANG_ALL) {
			summon(h, v, now);
			summoned++;
		} else if (its_rank > best_rank) {
			best_rank = its_rank;
			best = v;
		}
	}
	if (best) {
		summon(h, best, now);
		summoned++;
	}
	return summoned;
}

/*
 * Xen calls this for a pause-loop exit and for a guest that yields, which is what a paravirtual one
 * does when it has spun for long. It lets the pCPU choose again afterwards.
 */
static void cf_check steelyard_yield(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = host_of(ops);
	struct host_vcpu *v = unit->priv;
	enum sy_gang gang;
	u32 summoned = 0;
	u64 now = NOW();

	if (!v->running)
		return;
	charge(h, h->pcpu[v->state.pcpu], now);
	gang = sy_spin(&policy, &v->domain->state, &v->state, now);
	if (gang != SY_GANG_NONE)
		summoned = summon_siblings(h, v, gang, now);
	answer(h, v, sy_spun(&policy, &v->queue->state, &v->domain->state, &v->state, summoned, now), now);
	finish(h, now);
}

static void cf_check steelyard_context_saved(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = host_of(ops);
	struct host_vcpu *v = unit->priv;
	unsigned int move_to, idle;
	spinlock_t *lock;
	u64 now;

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
	now = NOW();
	v->saving = false;
	move_to = v->move_to;
	v->move_to = SY_NONE;
	if (v->state.runnable && !v->running && !v->parked) {
		if (move_to != SY_NONE && h->pcpu[move_to] && may_use(v, move_to)) {
			move(h, v, move_to, now);
			v->woken = true;
		}
		if (!v->queued) {
			/* It waited for the move. */
			enqueue(v, now);
			v->woken = true;
		}
		if (v->woken) {
			interrupt_for(h, v, now);
		} else if (v->queue->state.pcpus > 1) {
			idle = nearest_idle(h, v, SY_STEPS_QUEUE);
			if (idle != SY_NONE)
				interrupt(h, idle);
		}
	}
	v->woken = false;
	finish(h, now);
	unit_schedule_unlock_irq(lock, unit);
}

/* ---- The choice ---- */

static bool eligible(struct host_vcpu *v, unsigned int cpu)
{
	return may_use(v, cpu) && !v->saving && unit_runnable_state(v->unit);
}

/* 2. Who ran, or comes from the pCPU's own queue. */
static struct host_vcpu *choose_here(struct host_pcpu *p, struct host_vcpu *previous, u64 now)
{
	struct host_vcpu *best = NULL, *first = NULL, *v;
	struct rb_node *node;

	if (previous && !previous->parked && previous->move_to == SY_NONE &&
	    may_use(previous, p->state.id))
		best = previous;
	for (node = rb_first(&p->queue->waiting); node; node = rb_next(node)) {
		v = waiting_vcpu(node);
		if (!eligible(v, p->state.id))
			continue;
		if (!first)
			first = v;
		switch (sy_consider(&policy, &p->queue->state, &p->state, best ? &best->state : NULL,
				    &v->state, now)) {
		case SY_SKIP:
			break;
		case SY_TAKE:
			return v;
		default:
			return best ? best : first;
		}
	}
	return best ? best : first;
}

/* 3. Who comes from another queue, nearest first. */
static struct host_vcpu *steal(struct host *h, struct host_pcpu *p, struct host_vcpu *chosen, u64 now)
{
	unsigned int cpu, pass, here = p->state.id;
	struct rb_node *node;

	for (pass = 0; pass < 2; pass++) {
		for (cpu = cpumask_cycle(here, &h->pcpus); cpu != here; cpu = cpumask_cycle(cpu, &h->pcpus)) {
			struct host_queue *q = h->pcpu[cpu]->queue;

			/* A queue of several pCPUs is looked at once, at its first one. */
			if (q == p->queue || same_socket(cpu, here) == !!pass ||
			    cpu != cpumask_first(&q->pcpus))
				continue;
			for (node = rb_first(&q->waiting); node; node = rb_next(node)) {
				struct host_vcpu *v = waiting_vcpu(node);
				enum sy_verdict verdict;

				if (!eligible(v, here))
					continue;
				verdict = sy_steal(&policy, &p->state, chosen ? &chosen->state : NULL, &q->state,
						   &v->state, now);
				if (verdict == SY_TAKE)
					return v;
				if (verdict == SY_STOP)
					break;
			}
		}
	}
	return NULL;
}

/* 4. Whoever runs on the queue's pCPUs is charged before a reset. */
static void reset_if_due(struct host *h, struct host_pcpu *p, struct host_vcpu *chosen, u64 now)
{
	struct host_queue *q = p->queue;
	struct host_vcpu *next = waiting_vcpu(rb_first(&q->waiting));
	struct host_domain *d;
	unsigned int cpu;
	u32 requests;
	u64 units;

	units = sy_reset_due(&policy, &q->state, &chosen->state, next ? &next->state : NULL);
	if (!units)
		return;
	for_each_cpu (cpu, &q->pcpus)
		charge(h, h->pcpu[cpu], now);
	requests = sy_reset(&policy, &q->state, &h->governor, &chosen->domain->state, units, now);
	q->resets++;
	chosen->domain->resets++;
	answer_for_queue(h, q, requests, now);
	if (requests & SY_REWEIGH)
		list_for_each_entry (d, &h->domains, in_host)
			if (d->state.id == h->governor.reweigh[0] || d->state.id == h->governor.reweigh[1])
				sy_reweigh(&policy, &h->governor, &d->state);
}

/* Time between ticks while this vCPU runs; 0: none. */
static u64 tick_ns_of(const struct host_vcpu *v)
{
	u64 tick_ns = sy_tick_ns(&policy), own_ns = v->domain->state.tick_ns;

	return own_ns ? min(tick_ns, own_ns) : tick_ns;
}

/* 6. */
static bool start(struct host *h, struct host_pcpu *p, struct host_vcpu *v, u64 now)
{
	unsigned int cpu = p->state.id;
	bool migrates = v->ran_on != SY_NONE && v->ran_on != cpu;
	u64 tick_ns = tick_ns_of(v);

	end_wait(v, now);
	v->running = true;
	v->switches++;
	v->migrations += migrates;
	v->ran_on = cpu;
	p->runs = v;
	p->charged_ns = now;
	p->state.busy = 1;
	p->state.started_ns = now;
	sy_start(&policy, &v->queue->state, &p->state, &v->state, now);
	settle_on(h, v, cpu);

	if (tick_ns && (!timer_is_active(&p->tick) || p->tick_ns != tick_ns)) {
		/* pCPUs tick in turn, and none when accounting and slices of whole ticks end. */
		u64 phase_ns = tick_ns * (2 * cpu + 1) / (2 * num_present_cpus()) % tick_ns;

		p->tick_ns = tick_ns;
		set_timer(&p->tick, now + tick_ns - (now + tick_ns - phase_ns) % tick_ns);
	}
	return migrates;
}

/* Of a vCPU that is still in its place on this pCPU. */
static bool in_guest_kernel(struct vcpu *vcpu)
{
#ifdef CONFIG_X86
	if (is_hvm_vcpu(vcpu))
		return hvm_get_cpl(vcpu) == 0;
	return vcpu->arch.flags & TF_kernel_mode;
#else
	return true;
#endif
}

static void cf_check steelyard_schedule(const struct scheduler *ops, struct sched_unit *unit,
					s_time_t time, bool tasklet_work_scheduled)
{
	struct host *h = host_of(ops);
	unsigned int cpu = sched_get_resource_cpu(smp_processor_id());
	struct host_pcpu *p = h->pcpu[cpu];
	struct host_vcpu *previous = p->runs, *chosen = NULL, *stolen;
	bool runnable = unit_runnable_state(unit), migrated = false;
	u64 now = time, slice_ns;

	ASSERT(previous == (is_idle_unit(unit) ? NULL : unit->priv));
	/* Asking for a choice means nothing while choosing. */
	cpumask_set_cpu(cpu, &h->interrupted);
	/* 1. */
	if (previous) {
		charge(h, p, now);
		if (!runnable) {
			vacate(p);
			block(h, previous, now);
			previous = NULL;
		}
	}
	if (!tasklet_work_scheduled) {
		chosen = choose_here(p, previous, now);
		if (sy_look_further(&policy, &p->state, chosen ? &chosen->state : NULL, now) &&
		    (stolen = steal(h, p, chosen, now))) {
			dequeue(stolen);
			assign(h, stolen, cpu, now);
			/* To leave a queue may have cost it its budget. */
			if (!stolen->parked)
				chosen = stolen;
		}
		if (chosen)
			reset_if_due(h, p, chosen, now);
	}
	if (chosen != previous) {
		if (chosen && chosen->queued)
			dequeue(chosen);
		if (previous) {
			/* 5. */
			vacate(p);
			previous->waits_since_ns = now;
			previous->preempted = true;
			previous->in_kernel = in_guest_kernel(previous->unit->vcpu_list);
			if (!previous->parked && previous->move_to == SY_NONE)
				enqueue(previous, now);
		}
		if (chosen)
			migrated = start(h, p, chosen, now);
	}
	if (chosen || tasklet_work_scheduled)
		cpumask_clear_cpu(cpu, &h->idle);
	else
		cpumask_set_cpu(cpu, &h->idle);
	cpumask_clear_cpu(cpu, &h->interrupted);

	unit->next_task = chosen ? chosen->unit : sched_idle_unit(cpu);
	unit->next_task->migrated = migrated;
	unit->next_time = -1;
	if (chosen) {
		/* 7. */
		struct host_vcpu *next = waiting_vcpu(rb_first(&p->queue->waiting));

		slice_ns = sy_slice(&policy, &p->queue->state, &p->state, &chosen->domain->state,
				    &chosen->state, next ? &next->state : NULL, now);
		if (slice_ns < SY_FOREVER)
			unit->next_time = max(slice_ns, (u64)SOONEST_NS);
	}
	finish(h, now);
}

/* ---- Time that passes ---- */

static void replace(struct host *h, struct host_pcpu *p, struct host_vcpu *v)
{
	bool awaited = p->queue->state.queued, shared = false;
	unsigned int cpu;

	for_each_cpu (cpu, per_cpu(cpu_sibling_mask, p->state.id))
		shared |= cpu != p->state.id && h->pcpu[cpu] && h->pcpu[cpu]->runs;
	if (!awaited && !shared)
		return;
	cpu = nearest_idle(h, v, 0);
	if (cpu != SY_NONE && (awaited || core_idle(h, cpu))) {
		v->move_to = cpu;
		interrupt(h, p->state.id);
	}
}

static void cf_check tick_timer(void *data)
{
	struct host_pcpu *p = data;
	struct host *h = p->host;
	unsigned long flags;
	struct host_vcpu *v;
	u32 requests;
	u64 now;

	spin_lock_irqsave(&h->lock, flags);
	v = p->runs;
	/* Ticks stop while a pCPU is idle. */
	if (v) {
		now = NOW();
		p->tick_ns = tick_ns_of(v);
		set_next(&p->tick, p->tick_ns, now);
		charge(h, p, now);
		requests = sy_tick(&policy, &h->accounting, &p->queue->state, &p->state, &v->domain->state,
				   &v->state, now);
		answer(h, v, requests, now);
		if (requests & SY_REPLACE)
			replace(h, p, v);
		finish(h, now);
	}
	spin_unlock_irqrestore(&h->lock, flags);
}

static void cf_check vcpu_timer(void *data)
{
	struct host_vcpu *v = data;
	struct host *h = v->domain->host;
	unsigned long flags;
	u64 now;

	spin_lock_irqsave(&h->lock, flags);
	now = NOW();
	if (v->inserted && v->state.timer_ns && now >= v->state.timer_ns) {
		if (v->running)
			charge(h, h->pcpu[v->state.pcpu], now);
		answer(h, v, sy_vcpu_timer(&policy, &v->queue->state, &v->domain->state, &v->state, now),
		       now);
		finish(h, now);
	}
	spin_unlock_irqrestore(&h->lock, flags);
}

static void cf_check domain_timer(void *data)
{
	struct host_domain *d = data;
	struct host *h = d->host;
	struct host_vcpu *v;
	unsigned long flags;
	u32 requests;
	u64 now;

	spin_lock_irqsave(&h->lock, flags);
	now = NOW();
	if (d->state.timer_ns && now >= d->state.timer_ns) {
		requests = sy_domain_timer(&policy, &d->state, now);
		if (requests & SY_DOMAIN_TIMER)
			set_or_stop(&d->timer, d->state.timer_ns, now);
		if (requests & SY_UNPARK)
			list_for_each_entry (v, &d->vcpus, in_domain)
				unpark(h, v, now);
		finish(h, now);
	}
	spin_unlock_irqrestore(&h->lock, flags);
}

static void cf_check account_timer(void *data)
{
	struct host *h = data;
	struct host_domain *d, *next;
	struct host_vcpu *v;
	unsigned long flags;
	u32 requests;
	u64 now;

	spin_lock_irqsave(&h->lock, flags);
	now = NOW();
	sy_account_begin(&policy, &h->accounting, now);
	list_for_each_entry_safe (d, next, &h->domains, in_host) {
		requests = sy_account_domain(&policy, &h->accounting, &d->state);
		if (requests & SY_VISIT)
			list_for_each_entry (v, &d->vcpus, in_domain)
				answer(h, v, sy_account_vcpu(&policy, &h->accounting, &d->state, &v->state), now);
		/* Those visited before it come one place later. */
		if (requests & SY_FIRST)
			list_move(&d->in_host, &h->domains);
	}
	sy_account_end(&policy, &h->accounting);
	set_next(&h->account, sy_account_ns(&policy), now);
	finish(h, now);
	spin_unlock_irqrestore(&h->lock, flags);
}

/* What happened to the vCPU since it was created. */
static void add_sums(struct host *h, const struct host_vcpu *v, struct sy_sample *sums, u64 now)
{
	const struct host_pcpu *p = h->pcpu[v->state.pcpu];

	sums->gotten_ns += v->gotten_ns;
	sums->waited_ns += v->waited_ns - v->parked_ns;
	sums->waits += v->waits;
	sums->late_waits += v->late_waits;
	if (v->running && now > p->charged_ns)
		sums->gotten_ns += now - p->charged_ns;
	else if (!v->running && v->state.runnable && now > v->waits_since_ns)
		sums->waited_ns += now - v->waits_since_ns - parked_wait_ns(v, now);
}

static void sample_domain(struct host *h, struct host_domain *d, u64 now)
{
	struct sy_sample sums = d->departed, sample;
	const struct host_vcpu *v;

	list_for_each_entry (v, &d->vcpus, in_domain)
		add_sums(h, v, &sums, now);
	sums.interval_ns = now;
	sums.packets = d->packets;
	sample = (struct sy_sample){
		.interval_ns = sums.interval_ns - d->sampled.interval_ns,
		.gotten_ns = sums.gotten_ns - d->sampled.gotten_ns,
		.waited_ns = sums.waited_ns - d->sampled.waited_ns,
		.packets = sums.packets - d->sampled.packets,
		.waits = sums.waits - d->sampled.waits,
		.late_waits = sums.late_waits - d->sampled.late_waits,
	};
	d->sampled = sums;
	sy_sample_domain(&policy, &h->governor, &d->state, &sample);
}

/* Tells the governors what happened since the sample before. */
static void cf_check sample_timer(void *data)
{
	struct host *h = data;
	struct host_domain *d;
	unsigned long flags;
	u64 now;

	spin_lock_irqsave(&h->lock, flags);
	now = NOW();
	sy_sample_begin(&policy, &h->governor, cpumask_weight(&h->pcpus), now);
	list_for_each_entry (d, &h->domains, in_host)
		sample_domain(h, d, now);
	list_for_each_entry (d, &h->domains, in_host)
		sy_sample_settle(&policy, &h->governor, &d->state);
	set_next(&h->sample, sy_sample_ns(&policy), now);
	spin_unlock_irqrestore(&h->lock, flags);
}

/* What comes later than this interval from now comes then; 0: not at all. */
static void hasten(struct timer *timer, u64 interval_ns, u64 now)
{
	if (!interval_ns || !timer_is_active(timer) || timer->expires > now + interval_ns)
		set_next(timer, interval_ns, now);
}

/* From now on accounting and samples come as often as the parameters say. */
static void repeat(struct host *h, u64 now)
{
	hasten(&h->account, sy_account_ns(&policy), now);
	hasten(&h->sample, sy_sample_ns(&policy), now);
}

/* ---- vCPUs, domains and pCPUs come and go ---- */

static struct sched_resource *cf_check steelyard_pick_resource(const struct scheduler *ops,
							       const struct sched_unit *unit)
{
	const struct host *h = host_of(ops);
	unsigned int here = sched_unit_master(unit), best = here, best_vcpus = UINT_MAX, cpu;
	const struct host_vcpu *v = unit->priv;
	cpumask_t *allowed = cpumask_scratch_cpu(here);

	cpumask_copy(allowed, &h->pcpus);
	keep_allowed(allowed, v);
	if (v->inserted && cpumask_test_cpu(here, allowed))
		return get_sched_res(here);
	/* Where fewest vCPUs belong; among equals the first. */
	for_each_cpu (cpu, allowed) {
		if (h->pcpu[cpu]->vcpus < best_vcpus) {
			best_vcpus = h->pcpu[cpu]->vcpus;
			best = cpu;
		}
	}
	return get_sched_res(best);
}

static void cf_check steelyard_migrate(const struct scheduler *ops, struct sched_unit *unit,
				       unsigned int cpu)
{
	struct host *h = host_of(ops);
	u64 now = NOW();

	assign(h, unit->priv, cpu, now);
	finish(h, now);
}

static void *cf_check steelyard_alloc_udata(const struct scheduler *ops, struct sched_unit *unit,
					    void *domain)
{
	struct host_vcpu *v = xzalloc(struct host_vcpu);

	if (!v)
		return NULL;
	v->unit = unit;
	v->domain = domain;
	v->move_to = SY_NONE;
	v->ran_on = SY_NONE;
	if (domain)
		init_timer(&v->timer, vcpu_timer, v, smp_processor_id());
	return v;
}

static void cf_check steelyard_free_udata(const struct scheduler *ops, void *priv)
{
	struct host_vcpu *v = priv;

	if (v->domain)
		kill_timer(&v->timer);
	xfree(v);
}

static void cf_check steelyard_insert_unit(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = host_of(ops);
	struct host_vcpu *v = unit->priv;
	unsigned long flags;
	unsigned int cpu;
	u64 now;

	if (is_idle_unit(unit))
		return;
	spin_lock_irqsave(&h->lock, flags);
	now = NOW();
	sched_set_res(unit, steelyard_pick_resource(ops, unit));
	cpu = sched_unit_master(unit);
	v->state.pcpu = cpu;
	v->state.index = unit->unit_id;
	v->queue = h->pcpu[cpu]->queue;
	v->inserted = true;
	h->pcpu[cpu]->vcpus++;
	list_add_tail(&v->in_queue, &v->queue->members);
	list_add_tail(&v->in_domain, &v->domain->vcpus);
	charge_lone(h, v->queue, now);
	sy_vcpu_init(&policy, &v->domain->state, &v->state, now);
	answer(h, v, sy_join(&policy, &v->queue->state, &v->domain->state, &v->state, now), now);
	if (unit_runnable(unit) && !unit->is_running)
		wake(h, v, now);
	finish(h, now);
	spin_unlock_irqrestore(&h->lock, flags);
}

static void cf_check steelyard_remove_unit(const struct scheduler *ops, struct sched_unit *unit)
{
	struct host *h = host_of(ops);
	struct host_vcpu *v = unit->priv;
	struct host_queue *q;
	unsigned long flags;
	u32 left;
	u64 now;

	if (is_idle_unit(unit))
		return;
	spin_lock_irqsave(&h->lock, flags);
	now = NOW();
	q = v->queue;
	ASSERT(v->inserted && !v->running);
	charge_lone(h, q, now);
	if (v->queued)
		dequeue(v);
	if (v->state.runnable)
		block(h, v, now);
	left = sy_leave(&policy, &q->state, &v->domain->state, &v->state, now);
	list_del(&v->in_queue);
	list_del(&v->in_domain);
	sy_vcpu_destroy(&policy, &h->accounting, &v->domain->state, &v->state);
	if (left & SY_DOMAIN_TIMER)
		set_or_stop(&v->domain->timer, v->domain->state.timer_ns, now);
	answer_for_queue(h, q, left, now);
	add_sums(h, v, &v->domain->departed, now);
	h->pcpu[v->state.pcpu]->vcpus--;
	stop_timer(&v->timer);
	v->inserted = false;
	finish(h, now);
	spin_unlock_irqrestore(&h->lock, flags);
}

static void *cf_check steelyard_alloc_domdata(const struct scheduler *ops, struct domain *domain)
{
	const struct sy_settings settings = { .extra_time = 1 };
	struct host *h = host_of(ops);
	struct host_domain *d = xzalloc(struct host_domain);
	unsigned long flags;
	u64 now;

	if (!d)
		return ERR_PTR(-ENOMEM);
	d->host = h;
	INIT_LIST_HEAD(&d->vcpus);
	init_timer(&d->timer, domain_timer, d, smp_processor_id());
	d->state.id = domain->domain_id + 1;
	spin_lock_irqsave(&h->lock, flags);
	now = NOW();
	d->sampled.interval_ns = now;
	sy_domain_init(&policy, &d->state, &settings, domain->max_vcpus, now);
	list_add_tail(&d->in_host, &h->domains);
	spin_unlock_irqrestore(&h->lock, flags);
	return d;
}

static void cf_check steelyard_free_domdata(const struct scheduler *ops, void *data)
{
	struct host *h = host_of(ops);
	struct host_domain *d = data;
	unsigned long flags;

	if (!d)
		return;
	spin_lock_irqsave(&h->lock, flags);
	ASSERT(list_empty(&d->vcpus));
	list_del(&d->in_host);
	spin_unlock_irqrestore(&h->lock, flags);
	kill_timer(&d->timer);
	xfree(d);
}

static void *cf_check steelyard_alloc_pdata(const struct scheduler *ops, int cpu)
{
	struct host_pcpu *p = xzalloc(struct host_pcpu);
	struct host_queue *q = xzalloc(struct host_queue);

	if (!p || !q) {
		xfree(p);
		xfree(q);
		return ERR_PTR(-ENOMEM);
	}
	p->host = host_of(ops);
	p->state.id = cpu;
	INIT_LIST_HEAD(&p->spares);
	list_add(&q->in_host, &p->spares);
	init_timer(&p->tick, tick_timer, p, cpu);
	return p;
}

static void cf_check steelyard_free_pdata(const struct scheduler *ops, void *data, int cpu)
{
	struct host_pcpu *p = data;
	struct host_queue *q, *next;

	if (!p)
		return;
	kill_timer(&p->tick);
	list_for_each_entry_safe (q, next, &p->spares, in_host)
		xfree(q);
	xfree(p);
}

static bool shares(const struct host_queue *q, unsigned int cpu)
{
	unsigned int other = cpumask_first(&q->pcpus);

	if (q->state.pcpus >= sy_queue_pcpus_max(&policy))
		return false;
	switch (sy_scope(&policy)) {
	case SY_SCOPE_CORE:
		return same_core(other, cpu);
	case SY_SCOPE_SOCKET:
		return same_socket(other, cpu);
	case SY_SCOPE_ALL:
		return true;
	default:
		return false;
	}
}

/* The pCPU is ours from now on. */
static spinlock_t *cf_check steelyard_switch_sched(struct scheduler *new_ops, unsigned int cpu,
						   void *pdata, void *vdata)
{
	struct host *h = host_of(new_ops);
	struct host_pcpu *p = pdata;
	struct host_queue *q;

	sched_idle_unit(cpu)->priv = vdata;
	spin_lock(&h->lock);
	list_for_each_entry (q, &h->queues, in_host) {
		if (shares(q, cpu)) {
			p->queue = q;
			break;
		}
	}
	if (!p->queue) {
		q = p->queue = list_first_entry(&p->spares, struct host_queue, in_host);
		INIT_LIST_HEAD(&q->members);
		q->waiting = RB_ROOT;
		sy_queue_init(&policy, &q->state, num_present_cpus());
		list_move_tail(&q->in_host, &h->queues);
	}
	cpumask_set_cpu(cpu, &p->queue->pcpus);
	p->queue->state.pcpus++;
	h->pcpu[cpu] = p;
	cpumask_set_cpu(cpu, &h->pcpus);
	cpumask_set_cpu(cpu, &h->idle);
	if (cpumask_weight(&h->pcpus) == 1)
		sy_accounting_init(&policy, &h->accounting, 1);
	h->accounting.pcpus = cpumask_weight(&h->pcpus);
	if (!h->begun) {
		h->begun = true;
		init_timer(&h->account, account_timer, h, cpu);
		init_timer(&h->sample, sample_timer, h, cpu);
		repeat(h, NOW());
	}
	spin_unlock(&h->lock);
	return &h->lock;
}

/* The pCPU is no longer ours; its vCPUs have moved away. Interrupts may be off: nothing is freed. */
static void cf_check steelyard_deinit_pdata(const struct scheduler *ops, void *data, int cpu)
{
	struct host *h = host_of(ops);
	struct host_pcpu *p = data;
	struct host_queue *q = p->queue;
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	ASSERT(!p->runs && !p->vcpus);
	cpumask_clear_cpu(cpu, &h->pcpus);
	cpumask_clear_cpu(cpu, &h->idle);
	cpumask_clear_cpu(cpu, &h->interrupted);
	h->pcpu[cpu] = NULL;
	h->accounting.pcpus = cpumask_weight(&h->pcpus);
	cpumask_clear_cpu(cpu, &q->pcpus);
	if (!--q->state.pcpus) {
		ASSERT(list_empty(&q->members));
		list_move(&q->in_host, &p->spares);
	}
	p->queue = NULL;
	spin_unlock_irqrestore(&h->lock, flags);
}

static void cf_check steelyard_move_timers(const struct scheduler *ops, struct sched_resource *sr)
{
	struct host_pcpu *p = sr->sched_priv;

	migrate_timer(&p->tick, sr->master_cpu);
}

static int cf_check steelyard_init(struct scheduler *ops)
{
	struct host *h = xzalloc(struct host);

	if (!h)
		return -ENOMEM;
	spin_lock_init(&h->lock);
	INIT_LIST_HEAD(&h->queues);
	INIT_LIST_HEAD(&h->domains);
	ops->sched_data = h;
	spin_lock(&hosts_lock);
	list_add_tail(&h->in_hosts, &hosts);
	spin_unlock(&hosts_lock);
	return 0;
}

static void cf_check steelyard_deinit(struct scheduler *ops)
{
	struct host *h = host_of(ops);

	spin_lock(&hosts_lock);
	list_del(&h->in_hosts);
	spin_unlock(&hosts_lock);
	if (h->begun) {
		kill_timer(&h->account);
		kill_timer(&h->sample);
	}
	xfree(h);
	ops->sched_data = NULL;
}

/* ---- The policy and its parameters ---- */

/* The next part of a text up to the separator, which is cut off; null at the end. */
static char *__init next_part(char **text, char separator)
{
	char *part = *text, *end;

	if (!part)
		return NULL;
	end = strchr(part, separator);
	*text = end ? end + 1 : NULL;
	if (end)
		*end = '\0';
	return part;
}

/* Adds a governor with its defaults to `policy`, whose discipline is described. */
static int __init add_governor(const char *name, const struct sy_description *discipline)
{
	const struct sy_description *governor;
	unsigned int g, i;

	for (g = 0; g < SY_GOVERNORS && strcmp(name, sy_governors[g]->name); g++)
		;
	if (g == SY_GOVERNORS)
		return -EINVAL;
	governor = sy_governors[g];
	if (!(governor->disciplines & 1 << policy.discipline)) {
		printk(XENLOG_ERR "steelyard: %s has no meaning for %s: %s\n", governor->name,
		       discipline->name, governor->reason);
		return -EINVAL;
	}
	policy.governors |= 1 << g;
	for (i = 0; i < governor->parameters; i++)
		policy.governor_parameter[g][i] = governor->parameter[i].value[0];
	return 0;
}

/* Sets `policy` to the defaults of the one named. */
static int __init policy_by_name(const char *name)
{
	char text[sizeof(policy_name)], *rest = text, *vintage, *part;
	const struct sy_description *description = NULL;
	unsigned int i, chosen = SY_NONE;

	safe_strcpy(text, name);
	for (i = 0; i < SY_PUBLISHED; i++)
		if (!strcmp(name, sy_published[i].name))
			safe_strcpy(text, sy_published[i].meaning);
	memset(&policy, 0, sizeof(policy));
	vintage = next_part(&rest, '+');
	part = next_part(&vintage, '@');
	for (i = 0; part && i < SY_DISCIPLINES; i++) {
		if (!strcmp(part, sy_disciplines[i]->name)) {
			policy.discipline = i;
			description = sy_disciplines[i];
		}
	}
	if (!description)
		return -EINVAL;
	for (i = 0; i < SY_VINTAGES && description->vintage[i]; i++)
		if (!vintage || !strcmp(vintage, description->vintage[i]))
			chosen = i;
	if (chosen == SY_NONE)
		return -EINVAL;
	for (i = 0; i < description->parameters; i++)
		policy.parameter[i] = description->parameter[i].value[chosen];
	while ((part = next_part(&rest, '+'))) {
		int error = add_governor(part, description);

		if (error)
			return error;
	}
	return 0;
}

/* Calls visit(name, description, value) for each parameter of the policy, until it answers true. */
static bool for_each_parameter(bool (*visit)(const char *name, const struct sy_parameter *parameter,
					     u64 *value, void *data),
			       void *data)
{
	const struct sy_description *description = sy_disciplines[policy.discipline];
	unsigned int g, i;

	for (i = 0; i < description->parameters; i++)
		if (visit(description->parameter[i].name, &description->parameter[i],
			  &policy.parameter[i], data))
			return true;
	for (g = 0; g < SY_GOVERNORS; g++) {
		if (!(policy.governors & 1 << g))
			continue;
		description = sy_governors[g];
		for (i = 0; i < description->parameters; i++) {
			char name[64];

			snprintf(name, sizeof(name), "%s.%s", description->name, description->parameter[i].name);
			if (visit(name, &description->parameter[i], &policy.governor_parameter[g][i], data))
				return true;
		}
	}
	return false;
}

/* Reads digits and goes past them; false: there are none, or they say more than 64 bits hold. */
static bool parse_number(const char **text, u64 *number)
{
	const char *digit = *text;

	for (*number = 0; *digit >= '0' && *digit <= '9'; digit++) {
		if (*number > (~0ULL - (*digit - '0')) / 10)
			return false;
		*number = *number * 10 + (*digit - '0');
	}
	if (digit == *text)
		return false;
	*text = digit;
	return true;
}

/* The number of a choice in "one|other|third", or a number; then within the limits. */
static int parse_value(const struct sy_parameter *parameter, const char *text, u64 *value)
{
	const char *choice = parameter->unit, *end;
	u64 number;

	for (number = 0; strchr(parameter->unit, '|'); number++) {
		size_t length = (end = strchr(choice, '|')) ? end - choice : strlen(choice);

		if (strlen(text) == length && !strncmp(choice, text, length)) {
			*value = number;
			return 0;
		}
		if (!end)
			break;
		choice = end + 1;
	}
	if (!parse_number(&text, &number) || *text)
		return -EINVAL;
	if (number < parameter->minimum || number > parameter->maximum)
		return -ERANGE;
	*value = number;
	return 0;
}

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

struct setting {
	const char *name;
	const char *text;
	int result;
};

static bool cf_check set_if_named(const char *name, const struct sy_parameter *parameter, u64 *value,
				  void *data)
{
	struct setting *setting = data;

	if (strcmp(name, setting->name))
		return false;
	setting->result = parse_value(parameter, setting->text, value);
	return true;
}

static bool cf_check find_ratelimit(const char *name, const struct sy_parameter *parameter, u64 *value,
				    void *data)
{
	if (strcmp(name, "ratelimit_ns"))
		return false;
	*(u64 **)data = value;
	return true;
}

/* ---- The toolstack ---- */

static int cf_check steelyard_adjust(const struct scheduler *ops, struct domain *domain,
				     struct xen_domctl_scheduler_op *op)
{
	struct host *h = host_of(ops);
	struct host_domain *d = domain->sched_priv;
	struct sy_settings settings;
	unsigned long flags;
	int result = 0;

	spin_lock_irqsave(&h->lock, flags);
	settings = d->state.settings;
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
		sy_domain_change(&policy, &h->governor, &d->state, &settings);
		break;
	default:
		result = -EINVAL;
		break;
	}
	spin_unlock_irqrestore(&h->lock, flags);
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

/* ---- What it did ---- */

static s64 credit(const struct host_vcpu *v)
{
	return sy_credit(&policy, &v->queue->state, &v->state);
}

#define STATISTICS_HEAD "domain vcpu pcpu weight weight_now slice_now_ns cap_percent gotten_ns waited_ns " \
			"worst_wait_ns switches migrations resets credit class boosted\n"

/* One line for a vCPU, as of now; resets are those that its domain caused; "-" is no class. */
static int statistics_line(char *text, size_t size, struct host *h, struct host_vcpu *v, u64 now)
{
	const struct host_domain *d = v->domain;
	const char *class;
	u64 waits_ns = 0;

	if (v->running)
		charge(h, h->pcpu[v->state.pcpu], now);
	else if (v->state.runnable && now > v->waits_since_ns)
		waits_ns = now - v->waits_since_ns;
	class = sy_class_names[sy_class(&policy, &v->state)];
	return scnprintf(text, size,
			 "%u %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %s %u\n",
			 v->unit->domain->domain_id, v->unit->unit_id, v->state.pcpu, d->state.settings.weight,
			 d->state.weight, d->state.slice_ns, d->state.settings.cap_percent, v->gotten_ns,
			 v->waited_ns + waits_ns,
			 max(v->worst_wait_ns, waits_ns), v->switches, v->migrations, d->resets, credit(v),
			 class ?: "-", sy_boosted(&policy, &v->state));
}

static void cf_check steelyard_dump_settings(const struct scheduler *ops)
{
	struct host *h = host_of(ops);
	struct host_domain *d;
	struct host_vcpu *v;
	unsigned long flags;
	char line[256];

	printk("policy %s\n" STATISTICS_HEAD, policy_name);
	spin_lock_irqsave(&h->lock, flags);
	list_for_each_entry (d, &h->domains, in_host) {
		list_for_each_entry (v, &d->vcpus, in_domain) {
			statistics_line(line, sizeof(line), h, v, NOW());
			printk("%s", line);
		}
	}
	spin_unlock_irqrestore(&h->lock, flags);
}

static void cf_check steelyard_dump_cpu_state(const struct scheduler *ops, int cpu)
{
	struct host *h = host_of(ops);
	const struct host_pcpu *p;
	const struct host_vcpu *v;
	unsigned long flags;
	struct rb_node *node;

	spin_lock_irqsave(&h->lock, flags);
	p = h->pcpu[cpu];
	if (p) {
		printk("queue of pCPU %u: %u pCPUs, %u wait, %" PRIu64 " resets; runs ",
		       cpumask_first(&p->queue->pcpus), p->queue->state.pcpus, p->queue->state.queued,
		       p->queue->resets);
		if (p->runs)
			printk("%pv\n", p->runs->unit->vcpu_list);
		else
			printk("nobody\n");
		for (node = rb_first(&p->queue->waiting); node; node = rb_next(node)) {
			v = waiting_vcpu(node);
			printk("  %pv key %" PRIu64 " credit %" PRId64 "\n", v->unit->vcpu_list, v->key, credit(v));
		}
	}
	spin_unlock_irqrestore(&h->lock, flags);
}

#ifdef CONFIG_HYPFS

/* The text of the leaf /steelyard/vcpus: filled when it is entered, and locked until it is left. */
#define STATISTICS_BYTES (64 * 1024)
static char *statistics;
static unsigned int statistics_length;
static DEFINE_SPINLOCK(statistics_lock);

static const struct hypfs_entry *cf_check statistics_enter(const struct hypfs_entry *entry)
{
	struct host_domain *d;
	struct host_vcpu *v;
	struct host *h;
	unsigned long flags;

	spin_lock(&statistics_lock);
	statistics_length = scnprintf(statistics, STATISTICS_BYTES, STATISTICS_HEAD);
	spin_lock(&hosts_lock);
	list_for_each_entry (h, &hosts, in_hosts) {
		spin_lock_irqsave(&h->lock, flags);
		list_for_each_entry (d, &h->domains, in_host)
			list_for_each_entry (v, &d->vcpus, in_domain)
				statistics_length += statistics_line(statistics + statistics_length,
								     STATISTICS_BYTES - statistics_length,
								     h, v, NOW());
		spin_unlock_irqrestore(&h->lock, flags);
	}
	spin_unlock(&hosts_lock);
	return entry;
}

static void cf_check statistics_exit(const struct hypfs_entry *entry)
{
	spin_unlock(&statistics_lock);
}

static unsigned int cf_check statistics_getsize(const struct hypfs_entry *entry)
{
	return statistics_length + 1;
}

static int cf_check statistics_read(const struct hypfs_entry *entry, XEN_GUEST_HANDLE_PARAM(void) to)
{
	return copy_to_guest(to, statistics, statistics_length + 1) ? -EFAULT : 0;
}

static const struct hypfs_funcs statistics_funcs = {
	.enter = statistics_enter,
	.exit = statistics_exit,
	.read = statistics_read,
	.write = hypfs_write_deny,
	.getsize = statistics_getsize,
	.findentry = hypfs_leaf_findentry,
};

/* A leaf per parameter; its text is the value as a number. */
struct parameter_leaf {
	struct hypfs_entry_leaf leaf;
	const struct sy_parameter *parameter;
	u64 *value;
	char name[64];
};

#define VALUE_BYTES 32

static const struct parameter_leaf *parameter_leaf(const struct hypfs_entry *entry)
{
	return container_of((struct hypfs_entry *)entry, struct parameter_leaf, leaf.e);
}

static unsigned int cf_check parameter_getsize(const struct hypfs_entry *entry)
{
	char text[VALUE_BYTES];

	return snprintf(text, sizeof(text), "%" PRIu64, *parameter_leaf(entry)->value) + 1;
}

static int cf_check parameter_read(const struct hypfs_entry *entry, XEN_GUEST_HANDLE_PARAM(void) to)
{
	char text[VALUE_BYTES];
	unsigned int size = snprintf(text, sizeof(text), "%" PRIu64, *parameter_leaf(entry)->value) + 1;

	return copy_to_guest(to, text, size) ? -EFAULT : 0;
}

/* What dom0 writes, as a text of at most VALUE_BYTES. */
static int copy_text(char *text, XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size)
{
	if (!size || size > VALUE_BYTES)
		return -EDOM;
	if (copy_from_guest(text, from, size))
		return -EFAULT;
	return text[size - 1] ? -EINVAL : 0;
}

static int cf_check parameter_write(struct hypfs_entry_leaf *leaf,
				    XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size)
{
	const struct parameter_leaf *p = parameter_leaf(&leaf->e);
	char text[VALUE_BYTES];
	u64 value;
	int result = copy_text(text, from, size);

	if (!result)
		result = parse_value(p->parameter, text, &value);
	if (!result)
		change(p->value, value);
	return result;
}

static const struct hypfs_funcs parameter_funcs = {
	.enter = hypfs_node_enter,
	.exit = hypfs_node_exit,
	.read = parameter_read,
	.write = parameter_write,
	.getsize = parameter_getsize,
	.findentry = hypfs_leaf_findentry,
};

/* So many packets has this domain received by now. */
static int tell_packets(u64 domain_id, u64 packets)
{
	int result = -ENOENT;
	struct host_domain *d;
	unsigned long flags;
	struct host *h;

	spin_lock(&hosts_lock);
	list_for_each_entry (h, &hosts, in_hosts) {
		spin_lock_irqsave(&h->lock, flags);
		list_for_each_entry (d, &h->domains, in_host) {
			if (d->state.id != domain_id + 1)
				continue;
			/* What was before the first time nobody has sampled. */
			if (!d->packets)
				d->sampled.packets = packets;
			d->packets = max(packets, d->packets);
			result = 0;
		}
		spin_unlock_irqrestore(&h->lock, flags);
	}
	spin_unlock(&hosts_lock);
	return result;
}

/* Xen does not see packets; dom0, which moves them, tells: "DOMAIN PACKETS". */
static int cf_check packets_write(struct hypfs_entry_leaf *leaf,
				  XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size)
{
	char text[VALUE_BYTES];
	const char *rest = text;
	u64 domain_id, packets;
	int result = copy_text(text, from, size);

	if (result)
		return result;
	if (!parse_number(&rest, &domain_id) || *rest++ != ' ' || !parse_number(&rest, &packets) || *rest)
		return -EINVAL;
	return tell_packets(domain_id, packets);
}

static const struct hypfs_funcs packets_funcs = {
	.enter = hypfs_node_enter,
	.exit = hypfs_node_exit,
	.read = hypfs_read_leaf,
	.write = packets_write,
	.getsize = hypfs_getsize,
	.findentry = hypfs_leaf_findentry,
};

static HYPFS_DIR_INIT(steelyard_dir, "steelyard");
static HYPFS_DIR_INIT(parameters_dir, "parameters");
static HYPFS_STRING_INIT(policy_leaf, "policy");
static HYPFS_VARSIZE_INIT(packets_leaf, XEN_HYPFS_TYPE_STRING, "packets", VALUE_BYTES, &packets_funcs);
static HYPFS_VARSIZE_INIT(statistics_leaf, XEN_HYPFS_TYPE_STRING, "vcpus", 0, &statistics_funcs);

static bool cf_check add_parameter(const char *name, const struct sy_parameter *parameter, u64 *value,
				   void *data)
{
	struct parameter_leaf *p = xzalloc(struct parameter_leaf);

	if (!p)
		return true;
	safe_strcpy(p->name, name);
	p->parameter = parameter;
	p->value = value;
	p->leaf.e.type = XEN_HYPFS_TYPE_STRING;
	p->leaf.e.encoding = XEN_HYPFS_ENC_PLAIN;
	p->leaf.e.name = p->name;
	p->leaf.e.max_size = VALUE_BYTES;
	p->leaf.e.funcs = &parameter_funcs;
	p->leaf.u.content = value;
	INIT_LIST_HEAD(&p->leaf.e.list);
	return hypfs_add_leaf(&parameters_dir, &p->leaf, false);
}

static int __init cf_check steelyard_hypfs_init(void)
{
	if (list_empty(&hosts))
		return 0;
	statistics = xmalloc_array(char, STATISTICS_BYTES);
	if (!statistics)
		return -ENOMEM;
	hypfs_string_set_reference(&policy_leaf, policy_name);
	statistics_leaf.u.content = statistics;
	hypfs_add_dir(&hypfs_root, &steelyard_dir, true);
	hypfs_add_leaf(&steelyard_dir, &policy_leaf, true);
	hypfs_add_leaf(&steelyard_dir, &statistics_leaf, true);
	if (policy.governors & 1 << SY_APP_SLICE) {
		hypfs_string_set_reference(&packets_leaf, "");
		hypfs_add_leaf(&steelyard_dir, &packets_leaf, true);
	}
	hypfs_add_dir(&steelyard_dir, &parameters_dir, true);
	for_each_parameter(add_parameter, NULL);
	return 0;
}
__initcall(steelyard_hypfs_init);

#endif /* CONFIG_HYPFS */

/* ---- Boot ---- */

/* Xen hands an option to each variable that asks for it. */
static char __initdata opt_sched[10];
string_param("sched", opt_sched);
static char __initdata opt_policy[sizeof(policy_name)];
string_param("steelyard_policy", opt_policy);
static char __initdata opt_params[512];

static int __init cf_check add_params(const char *text)
{
	strlcat(opt_params, ",", sizeof(opt_params));
	strlcat(opt_params, text, sizeof(opt_params));
	return 0;
}
custom_param("steelyard_params", add_params);

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
	.free_pdata = steelyard_free_pdata,
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
	.adjust = steelyard_adjust,
	.adjust_global = steelyard_adjust_global,
	.dump_settings = steelyard_dump_settings,
	.dump_cpu_state = steelyard_dump_cpu_state,
	.move_timers = steelyard_move_timers,
};

static int __init cf_check steelyard_global_init(void)
{
	char *rest = opt_params, *text;

	if (opt_policy[0] && policy_by_name(opt_policy))
		printk(XENLOG_ERR "steelyard: no policy '%s'\n", opt_policy);
	else if (opt_policy[0])
		safe_strcpy(policy_name, opt_policy);
	if (strcmp(policy_name, opt_policy) && policy_by_name(policy_name))
		return -EINVAL;
	while ((text = next_part(&rest, ','))) {
		struct setting setting = { .name = next_part(&text, '='), .result = -ENOENT };

		setting.text = text;
		if (setting.text)
			for_each_parameter(set_if_named, &setting);
		if (setting.result && *setting.name)
			printk(XENLOG_ERR "steelyard: parameter '%s' not set: %d\n", setting.name,
			       setting.result);
	}
	if (!strcmp(opt_sched, sched_steelyard_def.opt_name)) {
		/* Xen takes the first scheduler with a number, and this one is linked first. */
		sched_steelyard_def.sched_id = XEN_SCHEDULER_CREDIT2;
		printk("Steelyard: policy %s\n", policy_name);
	}
	return 0;
}

REGISTER_SCHEDULER(sched_steelyard_def);
