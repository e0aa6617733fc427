/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the engine is given in Linux (policy/engine/host.h): tables, locks, lists of who waits, sets of pCPUs,
 * kicks and timers.
 *
 * Beside the engine's locks there is that of the host. It guards which slots are whose, the order of accounting, the
 * lists of domains' vCPUs and what is put off until an accounting, a sample or a domain's timer goes on. These lists are also
 * walked without it, for a spinning vCPU: a walk that meets a vCPU that has ended goes on wherever
 * that leads it, to an end, and who is met belongs to no queue or to another domain.
 */
#ifndef STEELYARD_HOST_H
#define STEELYARD_HOST_H

struct vcpu vcpus[MAX_VCPUS];
struct domain domains[MAX_DOMAINS];
struct queue queues[MAX_PCPUS];
struct pcpu pcpus[MAX_PCPUS];
struct engine engine;
u64 idle_pcpus[PCPU_WORDS];
u64 lesser_pcpus[PCPU_WORDS];
u64 waited_queues[PCPU_WORDS];
u64 present_pcpus[PCPU_WORDS];
/* What is put off, that which could not get a timer among it, and what is known of the timer that serves it. */
u64 unbalanced_queues[PCPU_WORDS];
u64 unsettled_vcpus[VCPU_WORDS];
u64 untimed_vcpus[VCPU_WORDS];
u64 untimed_domains[MAX_DOMAINS / 64];
u32 untimed_round;
enum {
	LATER_UNSET,
	LATER_SET,
	LATER_FAILED /* to be set; the next pCPU that chooses tries again */
};
u32 later;
struct lock shared_lock OWN_LINE;
struct lock host_lock OWN_LINE;
u64 mask_words[PCPU_WORDS]; /* of a thread that is looked at, by the kernel's numbers */
struct list accounted; /* domains, as accounting visits them */
struct engine_round the_round; /* the accounting or sample that goes on; a domain or vCPU that ends is no part of it */
u64 account_due_ns, sample_due_ns; /* 0: never */
struct list free_vcpus;
struct list free_domains;
/* Slots from these on have never been anybody's. */
u32 vcpus_used;
u32 domains_used;
u32 zero;

struct timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PCPUS);
	__type(key, u32);
	__type(value, struct timer);
} pcpu_timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_VCPUS);
	__type(key, u32);
	__type(value, struct timer);
} vcpu_timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_DOMAINS);
	__type(key, u32);
	__type(value, struct timer);
} domain_timers SEC(".maps");

/* A vCPU's thread. */
struct vcpu_task {
	struct task_struct __kptr *task;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_VCPUS);
	__type(key, u32);
	__type(value, struct vcpu_task);
} vcpu_tasks SEC(".maps");

/* The domain of a process, changed with the host's lock held. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_DOMAINS);
	__type(key, s32);
	__type(value, u32);
} domain_of_pid SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} later_timer SEC(".maps"), round_timer SEC(".maps");

/* Nothing happens sooner than this after what asks for it, or a parameter could keep a pCPU from all else. */
#define SOONEST_NS (50 * SY_US)
/* A pCPU's timer may be as late. What is expected to be due when it fires need not be known better then. */
#define LATE_NS (20 * SY_US)
/* Longest wait for a timer, so that a bound on time is a bound for arithmetic. */
#define TIMER_MAX_NS SY_S

HOST_FN bool host_goes_on(struct engine *e)
{
	return can_loop;
}

HOST_FN u32 host_zero(struct engine *e)
{
	return *(volatile u32 *)&zero;
}

/* ---- Tables ---- */

HOST_FN struct vcpu *vcpu_at(u32 vcpu)
{
	barrier_var(vcpu);
	return &vcpus[vcpu & (MAX_VCPUS - 1)];
}

/* Its thread, or NULL: it has none any more. */
HOST_FN struct task_struct *task_of_vcpu(u32 vcpu)
{
	struct vcpu_task *held = bpf_map_lookup_elem(&vcpu_tasks, &vcpu);

	return held ? held->task : NULL;
}

HOST_FN struct domain *domain_at(u32 domain)
{
	barrier_var(domain);
	return &domains[domain & (MAX_DOMAINS - 1)];
}

HOST_FN struct queue *queue_at(u32 queue)
{
	barrier_var(queue);
	return &queues[queue & (MAX_PCPUS - 1)];
}

HOST_FN struct pcpu *pcpu_at(u32 pcpu)
{
	barrier_var(pcpu);
	return &pcpus[pcpu & (MAX_PCPUS - 1)];
}

/*
 * The engine's number of a CPU. SY_NONE: it comes online just now. The kernel's own threads run there before it ends the
 * scheduler.
 */
HOST_FN u32 pcpu_of(u32 cpu)
{
	u32 pcpu;

	barrier_var(cpu);
	pcpu = pcpu_of_cpu[cpu & (MAX_PCPUS - 1)];
	return pcpu == NO_PCPU ? SY_NONE : pcpu;
}

/* The kernel's number of a pCPU that is there. */

HOST_FN u32 kernel_cpu(u32 pcpu)
{
	barrier_var(pcpu);
	return cpu_of_pcpu[pcpu & (MAX_PCPUS - 1)];
}

HOST_FN const struct sy_policy *host_policy(struct engine *e)
{
	return &policy;
}

HOST_FN struct engine_vcpu *host_vcpu(struct engine *e, u32 vcpu)
{
	return &vcpu_at(vcpu)->engine;
}

HOST_FN struct engine_domain *host_domain(struct engine *e, u32 domain)
{
	return &domain_at(domain)->engine;
}

HOST_FN bool host_has_domain(struct engine *e, u32 domain)
{
	return domain_at(domain)->pid;
}

HOST_FN struct engine_queue *host_queue(struct engine *e, u32 queue)
{
	return &queue_at(queue)->engine;
}

HOST_FN struct engine_pcpu *host_pcpu(struct engine *e, u32 pcpu)
{
	return &pcpu_at(pcpu)->engine;
}

/* ---- Locks ---- */

/* SY_NONE: to no queue. */
HOST_FN u32 belongs_to(u32 vcpu)
{
	return *(volatile u32 *)&vcpu_at(vcpu)->belongs - 1;
}

HOST_FN bool host_try_queue(struct engine *e, u32 queue)
{
	return try_lock(&queue_at(queue)->lock);
}

HOST_FN void host_lock_queue(struct engine *e, u32 queue)
{
	take_lock(&queue_at(queue)->lock);
}

HOST_FN void host_unlock_queue(struct engine *e, u32 queue)
{
	give_lock(&queue_at(queue)->lock);
}

/* The queue that it belongs to, locked, or SY_NONE: it has ended, or it took so long that the kernel ends the scheduler. */
__weak __noinline u32 lock_queue_of(u32 vcpu)
{
	u32 queue;

	while ((queue = belongs_to(vcpu)) != SY_NONE && can_loop) {
		host_lock_queue(&engine, queue);
		if (belongs_to(vcpu) == queue)
			return queue;
		host_unlock_queue(&engine, queue);
	}
	if (queue != SY_NONE)
		scx_bpf_error_bstr(lock_kept, &nothing, 0);
	return SY_NONE;
}

HOST_FN u32 host_lock_queue_of(struct engine *e, u32 vcpu)
{
	return lock_queue_of(vcpu);
}

/* Nobody else can move it out of the own one. */
HOST_FN u32 host_try_queue_of(struct engine *e, u32 own, u32 vcpu)
{
	u32 queue = belongs_to(vcpu);

	if (queue == own || queue == SY_NONE)
		return queue;
	if (!host_try_queue(e, queue))
		return SY_NONE;
	if (belongs_to(vcpu) == queue)
		return queue;
	host_unlock_queue(e, queue);
	return SY_NONE;
}

HOST_FN void host_lock_domain(struct engine *e, u32 domain)
{
	take_lock(&domain_at(domain)->lock);
}

HOST_FN void host_unlock_domain(struct engine *e, u32 domain)
{
	give_lock(&domain_at(domain)->lock);
}

HOST_FN void host_lock_shared(struct engine *e)
{
	take_lock(&shared_lock);
}

HOST_FN void host_unlock_shared(struct engine *e)
{
	give_lock(&shared_lock);
}

HOST_FN u32 host_queue_at(struct engine *e, u32 pcpu)
{
	return pcpu_at(pcpu)->engine.queue;
}

/* ---- Lists ---- */

/* Of the item with this number plus 1 in a list of this kind. */
HOST_FN struct link *link_at(u32 which, u32 item)
{
	return which == OF_DOMAINS ? &domain_at(item - 1)->link : &vcpu_at(item - 1)->links[which];
}

/* `after` as links name it; 0: first. */
HOST_FN void insert_after(struct list *list, u32 which, u32 number, u32 after)
{
	struct link *link = link_at(which, number + 1);
	u32 next = after ? link_at(which, after)->next : list->first;

	link->previous = after;
	link->next = next;
	*(after ? &link_at(which, after)->next : &list->first) = number + 1;
	*(next ? &link_at(which, next)->previous : &list->last) = number + 1;
}

HOST_FN void take_out(struct list *list, u32 which, u32 number)
{
	struct link link = *link_at(which, number + 1);

	*(link.previous ? &link_at(which, link.previous)->next : &list->first) = link.next;
	*(link.next ? &link_at(which, link.next)->previous : &list->last) = link.previous;
}

/* In walks over vCPUs *place is the number of the last one, plus 1. */
HOST_FN u32 next_vcpu(const struct list *list, u32 which, u32 *place)
{
	u32 next = *place ? vcpu_at(*place - 1)->links[which].next : list->first;

	if (!next || !can_loop)
		return SY_NONE;
	*place = next;
	return next - 1;
}

HOST_FN u32 host_next_waiting(struct engine *e, u32 queue, u32 *place)
{
	return next_vcpu(&queue_at(queue)->waiting, IN_WAITING, place);
}

HOST_FN u32 host_next_member(struct engine *e, u32 queue, u32 *place)
{
	return next_vcpu(&queue_at(queue)->members, IN_QUEUE, place);
}

HOST_FN u32 host_next_vcpu(struct engine *e, u32 domain, u32 *place)
{
	return next_vcpu(&domain_at(domain)->vcpus, IN_DOMAIN, place);
}

/* *place is the number of the domain to come, plus 1; SY_NONE: none is. */
HOST_FN u32 host_next_accounted(struct engine *e, u32 *place)
{
	u32 here = *place ? *place : accounted.first, next;

	if (!here || here == SY_NONE || !can_loop)
		return SY_NONE;
	next = domain_at(here - 1)->link.next;
	*place = next ? next : SY_NONE;
	return here - 1;
}

HOST_FN void host_account_first(struct engine *e, u32 place)
{
	u32 domain = (place == SY_NONE ? accounted.last : domain_at(place - 1)->link.previous) - 1;

	take_out(&accounted, OF_DOMAINS, domain);
	insert_after(&accounted, OF_DOMAINS, domain, 0);
}

/* ---- Queues ---- */

HOST_FN void host_insert(struct engine *e, u32 queue, u32 vcpu)
{
	u32 after = queue_at(queue)->waiting.last;
	u64 key = vcpu_at(vcpu)->engine.key;

	while (after && can_loop && vcpu_at(after - 1)->engine.key > key)
		after = vcpu_at(after - 1)->links[IN_WAITING].previous;
	insert_after(&queue_at(queue)->waiting, IN_WAITING, vcpu, after);
}

HOST_FN void host_remove(struct engine *e, u32 queue, u32 vcpu)
{
	take_out(&queue_at(queue)->waiting, IN_WAITING, vcpu);
}

/* By insertion: most are where they were. */
HOST_FN void host_sort(struct engine *e, u32 queue)
{
	u32 here = queue_at(queue)->waiting.first;

	queue_at(queue)->waiting.first = 0;
	queue_at(queue)->waiting.last = 0;
	while (here && can_loop) {
		u32 next = vcpu_at(here - 1)->links[IN_WAITING].next;

		host_insert(e, queue, here - 1);
		here = next;
	}
}

HOST_FN void host_change_queue(struct engine *e, u32 vcpu, u32 from, u32 to)
{
	*(volatile u32 *)&vcpu_at(vcpu)->belongs = to + 1;
	if (from != SY_NONE)
		take_out(&queue_at(from)->members, IN_QUEUE, vcpu);
	if (to != SY_NONE)
		insert_after(&queue_at(to)->members, IN_QUEUE, vcpu, queue_at(to)->members.last);
}

/* ---- Sets ---- */

HOST_FN u32 bounded(u32 index, u32 size)
{
	barrier_var(index);
	return index & (size - 1);
}

#define word_of(set, word) (&(set)[bounded(word, sizeof(set) / sizeof(*(set)))])
#define bit_of(set, bit) (*word_of(set, (bit) / 64) >> (bit) % 64 & 1)

/* Of a set that others change at the same time. */
HOST_FN void set_bit_of(u64 *word, u32 bit, bool value)
{
	if ((*word >> bit % 64 & 1) == value)
		return;
	if (value)
		__sync_fetch_and_or(word, 1ULL << bit % 64);
	else
		__sync_fetch_and_and(word, ~(1ULL << bit % 64));
}

HOST_FN u64 host_idle_pcpus(struct engine *e, u32 word)
{
	return *word_of(idle_pcpus, word);
}

HOST_FN void host_set_idle(struct engine *e, u32 pcpu, bool idle)
{
	set_bit_of(word_of(idle_pcpus, pcpu / 64), pcpu, idle);
}

HOST_FN u64 host_lesser_pcpus(struct engine *e, u32 word)
{
	return *word_of(lesser_pcpus, word);
}

HOST_FN void host_set_lesser(struct engine *e, u32 pcpu, bool lesser)
{
	set_bit_of(word_of(lesser_pcpus, pcpu / 64), pcpu, lesser);
}

HOST_FN u64 host_waited_queues(struct engine *e, u32 word)
{
	return *word_of(waited_queues, word);
}

HOST_FN void host_set_waited(struct engine *e, u32 queue, bool waited)
{
	set_bit_of(word_of(waited_queues, queue / 64), queue, waited);
}

HOST_FN u64 host_allowed_pcpus(struct engine *e, u32 vcpu, u32 word)
{
	return *word_of(vcpu_at(vcpu)->allowed, word);
}

/* Linux knows of no preferences. */
HOST_FN bool host_prefers(struct engine *e, u32 vcpu)
{
	return false;
}

HOST_FN u64 host_preferred_pcpus(struct engine *e, u32 vcpu, u32 word)
{
	return host_allowed_pcpus(e, vcpu, word);
}

/* ---- Effects ---- */

/* Who comes to an idle pCPU meanwhile keeps its time. */
HOST_FN void host_interrupt(struct engine *e, u32 pcpu)
{
	scx_bpf_kick_cpu(kernel_cpu(pcpu), pcpu_at(pcpu)->engine.current == SY_NONE ? 0 : SCX_KICK_PREEMPT);
}

/*
 * A timer is never stopped: that would wait for its callback, which may wait for a lock. Whoever is
 * called too early sees that nothing is due yet. The kernel may want memory to set one and not have it. now: the time; 0: that
 * is not known.
 */
HOST_FN bool start_timer(void *map, u32 key, u64 at_ns, u64 now, u64 flags)
{
	struct timer *timer = bpf_map_lookup_elem(map, &key);

	if (!now)
		now = bpf_ktime_get_ns();
	return timer && !bpf_timer_start(&timer->timer, sy_max(at_ns, now + SOONEST_NS), BPF_F_TIMER_ABS | flags);
}

/*
 * Sets it to when something is due (0: nothing is), unless it fires early enough anyway: *armed_ns is when it fires, 0: it
 * does not. It is written before: see pcpu_timer(). Whether nothing is forgotten.
 */
HOST_FN bool arm_timer(void *map, u32 key, u64 *armed_ns, u64 due_ns, u64 late_ns, u64 now, u64 flags)
{
	if (!due_ns || (*armed_ns && *armed_ns <= due_ns + late_ns))
		return true;
	*armed_ns = due_ns;
	if (start_timer(map, key, due_ns, now, flags))
		return true;
	*armed_ns = 0;
	return false;
}

/* By a timer of its own, which serves all; started anew it would be put off. */
HOST_FN void arm_later(void)
{
	if (__sync_lock_test_and_set(&later, LATER_SET) != LATER_SET && !start_timer(&later_timer, 0, 0, 0, 0))
		later = LATER_FAILED;
}

HOST_FN void host_balance(struct engine *e, u32 queue)
{
	set_bit_of(word_of(unbalanced_queues, queue / 64), queue, true);
	arm_later();
}

HOST_FN void host_settle(struct engine *e, u32 vcpu)
{
	set_bit_of(word_of(unsettled_vcpus, vcpu / 64), vcpu, true);
	arm_later();
}

HOST_FN void arm_round(void)
{
	u64 due_ns = account_due_ns;

	if (sample_due_ns && (!due_ns || sample_due_ns < due_ns))
		due_ns = sample_due_ns;
	if (!due_ns || start_timer(&round_timer, 0, due_ns, 0, 0))
		return;
	untimed_round = 1;
	arm_later();
}

/* With the lock of its queue held. */
HOST_FN void arm_vcpu(u32 vcpu)
{
	struct vcpu *v = vcpu_at(vcpu);

	if (arm_timer(&vcpu_timers, vcpu, &v->armed_ns, v->timer_ns, 0, 0, 0))
		return;
	set_bit_of(word_of(untimed_vcpus, vcpu / 64), vcpu, true);
	arm_later();
}

/* With its lock held. */
HOST_FN void arm_domain(u32 domain)
{
	struct domain *d = domain_at(domain);

	if (arm_timer(&domain_timers, domain, &d->armed_ns, d->timer_ns, 0, 0, 0))
		return;
	set_bit_of(word_of(untimed_domains, domain / 64), domain, true);
	arm_later();
}

HOST_FN void host_vcpu_timer(struct engine *e, u32 vcpu)
{
	struct vcpu *v = vcpu_at(vcpu);

	v->timer_ns = sy_vcpu_timer_ns(host_policy(e), &v->engine.state);
	arm_vcpu(vcpu);
}

HOST_FN void host_domain_timer(struct engine *e, u32 domain)
{
	struct domain *d = domain_at(domain);

	/* Of two times the later state's, not the one that was read later. */
	host_lock_domain(e, domain);
	d->timer_ns = d->engine.state.timer_ns;
	arm_domain(domain);
	host_unlock_domain(e, domain);
}

/* The timer of the pCPU, which serves slices too, is set when the call ends: arm(). */
HOST_FN void host_tick(struct engine *e, u32 pcpu, u64 at_ns)
{
	pcpu_at(pcpu)->tick_due_ns = at_ns;
}

HOST_FN bool host_ticks(struct engine *e, u32 pcpu)
{
	return pcpu_at(pcpu)->tick_due_ns;
}

/* ---- What the host knows, and what it measures ---- */

/* The kernel still has to put it aside: steelyard_enqueue(). */
HOST_FN bool host_saves(struct engine *e)
{
	return true;
}

/* Of a thread in one of its ioctls. */
HOST_FN const struct kvm_vcpu *kvm_vcpu_of(const struct hlist_node *notifier)
{
	return (const void *)notifier - bpf_core_field_offset(struct kvm_vcpu, preempt_notifier.link);
}

/* What KVM noted of a vCPU's thread when it was stopped with work to do. */
HOST_FN bool host_in_kernel(struct engine *e, u32 vcpu)
{
	const struct task_struct *p;
	const struct hlist_node *notifier;

	if (!bpf_core_field_exists(struct kvm_vcpu, arch.preempted_in_kernel))
		return false;
	p = task_of_vcpu(vcpu);
	if (!p)
		return false;
	notifier = p->preempt_notifiers.first;
	return notifier && BPF_CORE_READ(kvm_vcpu_of(notifier), arch.preempted_in_kernel);
}

HOST_FN void host_notes(struct engine *e, enum engine_count kind, u32 pcpu, u32 vcpu, u64 number)
{
	pcpu_at(pcpu)->counts[kind]++;
}

HOST_FN struct engine_met *host_met(struct engine *e, u32 vcpu)
{
	return &vcpu_at(vcpu)->met;
}

HOST_FN struct engine_samples *host_samples(struct engine *e, u32 domain)
{
	return &domain_at(domain)->samples;
}

HOST_FN void host_wakes(struct engine *e, u32 vcpu, u64 now)
{
	measure_wakes(e, vcpu, now);
}

HOST_FN void host_starts(struct engine *e, u32 vcpu, u32 pcpu, u64 now)
{
	measure_starts(e, vcpu, pcpu, now);
}

HOST_FN void host_stops(struct engine *e, u32 vcpu, u32 pcpu, u32 status, u64 now)
{
	measure_stops(e, vcpu, pcpu, status, now);
}

HOST_FN void host_unparks(struct engine *e, u32 vcpu, u64 now)
{
	measure_unparks(e, vcpu, now);
}

HOST_FN void host_sample(struct engine *e, u32 domain, struct sy_sample *sample, u64 now)
{
	measure_sample(e, domain, sample, now);
}

#endif
