/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Linux as a host of Steelyard's policies: a sched_ext scheduler that does what the head of
 * policy/steelyard.h asks of a host.
 *
 * Who is scheduled how. A thread that has been seen in KVM_RUN, by its preempt notifier, is a vCPU;
 * its process is the domain, whose weight is the cpu.weight of the nearest control group that
 * has another than the default. vCPUs wait in dispatch queues, one per queue of the policy, sorted
 * by the policy's key. Every other task waits in one plain queue, first come, first served, which
 * takes turns with the vCPUs on each pCPU; kernel threads that wake go first. They are not left to
 * the kernel's fair class (SCX_OPS_SWITCH_PARTIAL): that is above this class, so that any busy task
 * would keep all vCPUs from running, and moving a thread between classes would outlive this program.
 *
 * Choice. The kernel calls dispatch() when a pCPU needs somebody, which is the choice of the
 * contract, steps 1 to 4. Who ran and was not chosen comes to enqueue() (5), the chosen one to
 * running() (6, 7). Slices and ticks are a timer per pCPU: the kernel's own tick is too coarse.
 *
 * Locking. One lock guards all state of policies: a domain's belongs to all queues, the accounting
 * to all domains, and BPF holds one spin lock at a time. Under it nothing may be called but functions
 * of this file, so that each operation is: look up, lock, ask the policy, unlock, do what it asks.
 * Between the parts others may come first; so that no wake-up is lost, `queued` counts who is on the
 * way into a queue too, and a pCPU that finds fewer than that before it idles looks again.
 *
 * Functions that are not static are verified once, whatever calls them: else the verifier follows each
 * path through them from each path to them, and gives up after a million instructions. What timers
 * call is static: it is verified with init(), which may sleep, where a queue must not be walked.
 *
 * Not here: caps (sy_domain_timer, PARK), sedf (vCPU timers), cores and sockets (each pCPU counts as
 * a core; a host is one socket), sleep as the answer to a pause-loop exit (vCPU timers, PARK).
 */
#include "kernel.h"

#define SY_FN static inline __attribute__((always_inline, unused))
#include "steelyard.h"
#include "state.h"

char gpl[] SEC("license") = "GPL";

/* The tasks that are no vCPUs. Queue i of the policy is dispatch queue i. */
#define OTHERS_DSQ 0x10000
/* Time that another task gets at a time. */
#define OTHER_SLICE_NS (3 * SY_MS)
/* Longest wait for a timer, so that a bound on time is a bound for arithmetic. */
#define TIMER_MAX_NS SY_S
/* Levels of control groups that are looked at for a weight. */
#define CGROUP_LEVELS 8

/* Written by the loader. */
const volatile struct sy_policy policy_constant;
const volatile u32 pcpus_count = 1; /* possible ones; pcpu.offline says which are not there */
const volatile u32 pcpus_online = 1;
#ifdef STEELYARD_FAULTS
/* A test loses the tasks of this name on purpose. */
const volatile char lost_comm[TASK_COMM_LEN];
#endif
/* For who reads the status: nothing here uses it. */
const volatile char policy_name[128];

struct vcpu vcpus[MAX_VCPUS];
struct domain domains[MAX_DOMAINS];
struct queue queues[MAX_PCPUS];
struct pcpu pcpus[MAX_PCPUS];
struct sy_accounting accounting;
struct sy_governor governor;
/* Domains as accounting visits them. */
u32 account_order[MAX_DOMAINS];
/* Slots from these on have never been anybody's. */
u32 vcpus_used;
u32 domains_used;
u32 rotor;
u64 choices;
u64 kicks;
u64 pause_loops;
u64 summoned;
u32 forgotten;

/* What the kernel said at the end. */
u32 exit_kind;
char exit_reason[128];
char exit_message[512];

static struct bpf_spin_lock lock __hidden SEC(".bss.lock") __attribute__((aligned(8)));

/* Of each thread: the index of its vCPU + 1; 0: none. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} task_vcpu SEC(".maps");

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
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} account_timer SEC(".maps"), sample_timer SEC(".maps");

/*
 * The loader's policy. To the verifier it is constant and what does not concern this policy is dead
 * code; the compiler must not take the zeros above for its value.
 */
static __always_inline const struct sy_policy *policy(void)
{
	const struct sy_policy *p = (const struct sy_policy *)&policy_constant;

	barrier_var(p);
	return p;
}

static __always_inline struct vcpu *vcpu_at(u32 index)
{
	barrier_var(index);
	return &vcpus[index & (MAX_VCPUS - 1)];
}

static __always_inline struct domain *domain_at(u32 index)
{
	barrier_var(index);
	return &domains[index & (MAX_DOMAINS - 1)];
}

static __always_inline struct queue *queue_at(u32 index)
{
	barrier_var(index);
	return &queues[index & (MAX_PCPUS - 1)];
}

static __always_inline struct pcpu *pcpu_at(u32 index)
{
	barrier_var(index);
	return &pcpus[index & (MAX_PCPUS - 1)];
}

static __always_inline struct sy_vcpu *state_or_null(u32 index)
{
	return index == NONE ? NULL : &vcpu_at(index)->state;
}

/* The thread's vCPU, or NONE. */
static __always_inline u32 vcpu_of(struct task_struct *p)
{
	u32 *index = bpf_task_storage_get(&task_vcpu, p, NULL, 0);

	return index && *index ? *index - 1 : NONE;
}

static __always_inline void set_slice(struct task_struct *p, u64 slice_ns)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice_ns);
	else
		p->scx.slice = slice_ns;
}

/* Lets a pCPU choose again, soon after what happens now. */
static __always_inline void interrupt(u32 pcpu)
{
	__sync_fetch_and_add(&kicks, 1);
	scx_bpf_kick_cpu(pcpu, SCX_KICK_PREEMPT);
}

/* Lets an idle pCPU choose. Should a task have come there meanwhile, it keeps its time. */
static __always_inline void nudge(u32 pcpu)
{
	__sync_fetch_and_add(&kicks, 1);
	scx_bpf_kick_cpu(pcpu, 0);
}

/*
 * No vCPU runs there and no other task, nor is about to, as far as one can see without holding that
 * pCPU still.
 */
static __always_inline bool is_idle(u32 pcpu)
{
	struct pcpu *c = pcpu_at(pcpu);

	return !c->offline && c->current == NONE && !c->other_runs && !c->coming;
}

/* ---- With the lock held ---- */

static __always_inline void set_status(struct vcpu *v, u32 status, u64 now)
{
	u64 passed_ns = now > v->since_ns ? now - v->since_ns : 0;

	if (v->status == STATUS_RUNNING) {
		v->gotten_ns += passed_ns;
	} else if (v->status == STATUS_WAITING) {
		v->waited_ns += passed_ns;
		v->worst_wait_ns = sy_max(v->worst_wait_ns, passed_ns);
		v->waits++;
		v->late_waits += passed_ns > sy_late_ns(policy());
	} else if (v->status == STATUS_BLOCKED) {
		v->blocked_ns += passed_ns;
	}
	v->status = status;
	v->since_ns = sy_max(now, v->since_ns);
}

/*
 * With the lock held: the same answer, of which the verifier knows nothing any more. It follows paths
 * with different answers one by one, and those with an unknown one together.
 */
static __always_inline u32 forget(u32 requests)
{
	*(volatile u32 *)&forgotten = requests;
	return *(volatile u32 *)&forgotten;
}

/* Charges who runs on the pCPU up to now. */
static __noinline u32 charge(u32 pcpu, u64 now)
{
	struct pcpu *c = pcpu_at(pcpu);
	struct vcpu *v;
	u64 ran_ns;

	if (c->current == NONE || now <= c->charged_ns)
		return forget(0);
	v = vcpu_at(c->current);
	ran_ns = now - c->charged_ns;
	c->charged_ns = now;
	return forget(sy_charge(policy(), &queue_at(v->queue)->state, &domain_at(v->domain)->state,
				&v->state, ran_ns, now));
}

/* Charges who runs on the pCPU of a queue of one, whose virtual time must be of now. */
static __always_inline u32 charge_lone(u32 queue, u64 now)
{
	struct queue *q = queue_at(queue);

	return q->state.pcpus == 1 ? charge(q->first_pcpu, now) : 0;
}

static __always_inline void unqueue(struct vcpu *v)
{
	if (!v->queued)
		return;
	v->queued = 0;
	queue_at(v->queue)->state.queued--;
}

static __noinline void survey(u32 queue)
{
	struct queue *q = queue_at(queue);
	u32 i;

	sy_survey_begin(policy(), &q->state);
	bpf_for(i, 0, vcpus_used)
	{
		struct vcpu *v = vcpu_at(i);

		if (v->status != STATUS_FREE && v->queue == queue)
			sy_survey_vcpu(policy(), &q->state, &domain_at(v->domain)->state, &v->state);
	}
}

/* The part of an answer that must be done before the lock is given away. */
static __always_inline void answer_locked(u32 queue, u32 requests)
{
	if (requests & SY_SURVEY)
		survey(queue);
	if (requests & SY_BALANCE)
		queue_at(queue)->balance_due = 1;
}

/* Makes a vCPU that neither runs nor waits in a queue belong to the queue of this pCPU. */
static __noinline u32 assign(u32 vcpu, u32 pcpu, u64 now)
{
	struct vcpu *v = vcpu_at(vcpu);
	struct domain *d = domain_at(v->domain);
	u32 from = v->queue, to = pcpu_at(pcpu)->queue, requests;

	if (from == to)
		return forget(0);
	requests = charge_lone(from, now) & SY_RESCHEDULE;
	requests |= charge_lone(to, now) & SY_RESCHEDULE;
	answer_locked(from, forget(sy_leave(policy(), &queue_at(from)->state, &d->state, &v->state,
					    now)));
	v->queue = to;
	answer_locked(to, forget(sy_join(policy(), &queue_at(to)->state, &d->state, &v->state, now)));
	return forget(requests);
}

static __always_inline void reweigh(void)
{
	u32 i;

	bpf_for(i, 0, 2)
	{
		u64 id = governor.reweigh[i & 1];

		if (id)
			sy_reweigh(policy(), &governor, &domain_at((u32)id - 1)->state);
	}
}

/* ---- Recognising vCPUs and their domains ---- */

/*
 * A preempt notifier is there while a thread is in an ioctl of a vCPU. That may also be the VMM's
 * main thread, which sets the vCPU up: hence the name that QEMU and others give to vCPU threads, or
 * guest mode.
 */
static __always_inline bool looks_like_vcpu(struct task_struct *p)
{
	if (!p->preempt_notifiers.first)
		return false;
	if (p->flags & PF_VCPU)
		return true;
	return p->comm[0] == 'C' && p->comm[1] == 'P' && p->comm[2] == 'U' && p->comm[3] == ' ';
}

/* cpu.weight of the nearest control group that has another than the default. */
static __noinline u32 cgroup_weight(struct task_struct *p)
{
	struct task_group *group = p->sched_task_group;
	u32 found = CGROUP_WEIGHT_DFL, i;

	bpf_for(i, 0, CGROUP_LEVELS)
	{
		if (!group)
			break;
		if (group->scx.weight)
			found = group->scx.weight;
		if (found != CGROUP_WEIGHT_DFL)
			break;
		group = group->parent;
	}
	return found;
}

static __always_inline struct sy_settings settings_of(u32 weight)
{
	struct sy_settings settings = {
		.weight = sy_max((u64)weight * SY_WEIGHT_DEFAULT / CGROUP_WEIGHT_DFL, 1),
	};

	return settings;
}

/* With the lock held: the domain of the process, made if it is not there. NONE: no slot is free. */
static __noinline u32 find_domain(s32 pid, u32 weight, u64 now)
{
	struct sy_settings settings = settings_of(weight);
	u32 free = NONE, found = NONE;
	struct domain *d;
	u32 i;

	bpf_for(i, 0, MAX_DOMAINS)
	{
		d = domain_at(i);
		if (d->pid == pid) {
			found = i;
			break;
		}
		if (!d->pid && free == NONE)
			free = i;
	}
	if (found != NONE) {
		domain_at(found)->state.vcpus++;
		return found;
	}
	if (free == NONE)
		return NONE;
	d = domain_at(free);
	__builtin_memset(d, 0, sizeof(*d));
	d->pid = pid;
	domains_used = sy_max(domains_used, free + 1);
	d->cgroup_weight = weight;
	d->sampled.interval_ns = now;
	d->state.id = free + 1;
	sy_domain_init(policy(), &d->state, &settings, 1, now);
	return free;
}

/* Makes a thread a vCPU. NONE if there is no room. */
static __noinline u32 adopt(s32 pid, s32 process, u32 weight, u32 pcpu)
{
	u64 now = bpf_ktime_get_ns();
	u32 free = NONE, domain;
	struct vcpu *v;
	u32 i;

	bpf_spin_lock(&lock);
	bpf_for(i, 0, MAX_VCPUS)
	{
		if (vcpu_at(i)->status == STATUS_FREE) {
			free = i;
			break;
		}
	}
	domain = free == NONE ? NONE : find_domain(process, weight, now);
	if (domain == NONE) {
		bpf_spin_unlock(&lock);
		return NONE;
	}
	v = vcpu_at(free);
	__builtin_memset(v, 0, sizeof(*v));
	vcpus_used = sy_max(vcpus_used, free + 1);
	v->pid = pid;
	v->domain = domain;
	v->queue = pcpu_at(pcpu)->queue;
	v->ran_on = NONE;
	v->move_to = NONE;
	v->status = STATUS_BLOCKED;
	v->since_ns = now;
	v->state.pcpu = pcpu;
	v->state.index = domain_at(domain)->state.vcpus - 1;
	sy_vcpu_init(policy(), &domain_at(domain)->state, &v->state, now);
	charge_lone(v->queue, now);
	answer_locked(v->queue, sy_join(policy(), &queue_at(v->queue)->state,
					&domain_at(domain)->state, &v->state, now));
	bpf_spin_unlock(&lock);
	return free;
}

/* ---- What vCPUs do ---- */

/* A blocked vCPU has work again. */
__noinline int wake(u32 vcpu)
{
	u64 now = bpf_ktime_get_ns();
	struct vcpu *v = vcpu_at(vcpu);

	bpf_spin_lock(&lock);
	if (!v->state.runnable) {
		charge_lone(v->queue, now);
		set_status(v, STATUS_WAITING, now);
		v->state.runnable = 1;
		v->woken = 1;
		v->preempted = 0;
		answer_locked(v->queue, sy_wake(policy(), &queue_at(v->queue)->state,
						&domain_at(v->domain)->state, &v->state, now));
	}
	bpf_spin_unlock(&lock);
	return 0;
}

/* The vCPU has nothing more to do, or leaves its queue for a moment. */
static __always_inline void block_locked(struct vcpu *v, u64 now)
{
	unqueue(v);
	if (!v->state.runnable)
		return;
	v->state.runnable = 0;
	answer_locked(v->queue, sy_block(policy(), &queue_at(v->queue)->state,
					 &domain_at(v->domain)->state, &v->state, now));
	set_status(v, STATUS_BLOCKED, now);
}

/* By how much the waiting vCPU is ahead of who runs on the pCPU; 0 if nobody does. */
__noinline s64 lead(u32 vcpu, u32 pcpu, u64 now)
{
	struct pcpu *c = pcpu_at(pcpu);
	struct vcpu *v = vcpu_at(vcpu);
	s64 lead = 0;
	u32 requests = 0;

	bpf_spin_lock(&lock);
	if (c->current != NONE) {
		requests = charge(pcpu, now);
		lead = sy_lead(policy(), &queue_at(c->queue)->state, &c->state, &v->state,
			       &vcpu_at(c->current)->state, now);
	}
	bpf_spin_unlock(&lock);
	if (requests & SY_RESCHEDULE)
		interrupt(pcpu);
	return lead;
}

static __always_inline bool may_run(struct task_struct *p, u32 pcpu)
{
	return !pcpu_at(pcpu)->offline && bpf_cpumask_test_cpu(pcpu, p->cpus_ptr);
}

/* Some pCPU that the thread may use, or NONE. */
static __noinline u32 find_allowed(struct task_struct *p)
{
	u32 i;

	if (!p)
		return NONE;
	bpf_for(i, 0, pcpus_count)
	{
		if (may_run(p, i))
			return i;
	}
	return NONE;
}

/* An idle pCPU that the thread may use, from `first` on, in rotation; or NONE. */
static __noinline u32 find_idle(struct task_struct *p, u32 first, u32 queue_or_none)
{
	u32 i;

	if (!p)
		return NONE;
	bpf_for(i, 0, pcpus_count)
	{
		u32 pcpu = first + i;

		if (pcpu >= pcpus_count)
			pcpu -= pcpus_count;
		if (queue_or_none != NONE && pcpu_at(pcpu)->queue != queue_or_none)
			continue;
		if (is_idle(pcpu) && may_run(p, pcpu))
			return pcpu;
	}
	return NONE;
}

/* Takes one step of the plan for a vCPU that was just queued; whether it found a pCPU. */
static __noinline bool take_step(struct task_struct *p, u32 vcpu, u32 kind, u32 plan)
{
	u64 now = bpf_ktime_get_ns();
	struct vcpu *v = vcpu_at(vcpu);
	u32 last = v->state.pcpu, queue = v->queue;
	u32 within = plan & SY_STEPS_QUEUE ? queue : NONE;
	u32 found = NONE, idle = NONE;
	s64 greatest = 0;
	u32 i;

	switch (kind) {
	case SY_STEP_LAST_IDLE:
		if (is_idle(last))
			idle = last;
		break;
	case SY_STEP_LAST_LEAD:
		if (lead(vcpu, last, now) > 0)
			found = last;
		break;
	case SY_STEP_ONE_IDLE:
		idle = find_idle(p, last, within);
		break;
	case SY_STEP_NEXT_IDLE:
		idle = find_idle(p, rotor < pcpus_count ? rotor : 0, within);
		if (idle != NONE)
			rotor = idle + 1;
		break;
	case SY_STEP_ALL_IDLE:
		bpf_for(i, 0, pcpus_count)
		{
			if (within != NONE && pcpu_at(i)->queue != within)
				continue;
			if (is_idle(i) && may_run(p, i)) {
				nudge(i);
				found = i;
			}
		}
		return found != NONE;
	case SY_STEP_LEAST:
		bpf_for(i, 0, pcpus_count)
		{
			s64 ahead;

			if (pcpu_at(i)->queue != queue || !may_run(p, i))
				continue;
			ahead = lead(vcpu, i, now);
			if (ahead > greatest) {
				greatest = ahead;
				found = i;
			}
		}
		break;
	case SY_STEP_EVICT: {
		u32 runs = pcpu_at(last)->current, any = NONE;

		bpf_for(i, 0, pcpus_count)
		{
			if (is_idle(i))
				any = i;
		}
		if (any != NONE && runs != NONE && find_idle(p, last, NONE) == NONE &&
		    lead(vcpu, last, now) > 0) {
			vcpu_at(runs)->move_to = any;
			found = last;
		}
		break;
	}
	}
	if (idle != NONE) {
		nudge(idle);
		return true;
	}
	if (found == NONE)
		return false;
	interrupt(found);
	return true;
}

/* Interrupts whom the policy wants to be interrupted for a vCPU that is queued now. */
static __noinline void interrupt_for(struct task_struct *p, u32 vcpu)
{
	u32 plan = sy_steps(policy(), &vcpu_at(vcpu)->state);
	u32 steps = plan & ~(SY_STEPS_PLACE | SY_STEPS_QUEUE);
	u32 i;

	bpf_for(i, 0, 4)
	{
		u32 step = steps >> (i * SY_STEP_BITS) & ((1 << SY_STEP_BITS) - 1);

		if (step == SY_STEP_END)
			break;
		if (take_step(p, vcpu, step & (SY_STEP_ALSO - 1), plan) && !(step & SY_STEP_ALSO))
			break;
	}
}

/*
 * Where a woken vCPU should be queued at once: with SY_STEPS_PLACE, at the pCPU that the idle steps
 * will find. What follows then finds the same one as its last.
 */
static __always_inline void place(struct task_struct *p, u32 vcpu)
{
	struct vcpu *v = vcpu_at(vcpu);
	u32 idle;

	if (!(sy_steps(policy(), &v->state) & SY_STEPS_PLACE) || is_idle(v->state.pcpu))
		return;
	idle = find_idle(p, v->state.pcpu, NONE);
	if (idle != NONE)
		v->move_to = idle;
}

/* Puts a vCPU that does not run into its queue, or that of the pCPU where it shall go. */
static __always_inline void enqueue_vcpu(struct task_struct *p, u32 vcpu, u64 enq_flags)
{
	struct vcpu *v = vcpu_at(vcpu);
	struct domain *d = domain_at(v->domain);
	u32 weight = cgroup_weight(p), requests = 0, queue, woken, moved = 0;
	u64 now, key;

	if (v->woken)
		place(p, vcpu);
	if (!may_run(p, v->move_to == NONE ? v->state.pcpu : v->move_to))
		v->move_to = find_allowed(p);
	now = bpf_ktime_get_ns();

	bpf_spin_lock(&lock);
	if (weight != d->cgroup_weight) {
		struct sy_settings settings = settings_of(weight);

		d->cgroup_weight = weight;
		sy_domain_change(policy(), &governor, &d->state, &settings);
	}
	unqueue(v);
	if (v->move_to < pcpus_count) {
		requests = assign(vcpu, v->move_to, now);
		v->state.pcpu = v->move_to;
		moved = 1;
	}
	v->move_to = NONE;
	queue = v->queue;
	key = sy_key(policy(), &queue_at(queue)->state, &d->state, &v->state, now);
	v->queued = 1;
	v->rekey_due = 0;
	queue_at(queue)->state.queued++;
	woken = v->woken;
	v->woken = 0;
	bpf_spin_unlock(&lock);

	scx_bpf_dsq_insert_vtime(p, queue, SY_MS, key, enq_flags);
	if (requests & SY_RESCHEDULE)
		interrupt(queue_at(queue)->first_pcpu);
	if (woken || moved) {
		interrupt_for(p, vcpu);
	} else if (queue_at(queue)->state.pcpus > 1) {
		/* Another pCPU of the queue may be idle. */
		u32 idle = find_idle(p, v->state.pcpu, queue);

		if (idle != NONE)
			nudge(idle);
	}
}

static __always_inline void enqueue_other(struct task_struct *p, u64 enq_flags)
{
	bool wakes = enq_flags & SCX_ENQ_WAKEUP;

	if (wakes && p->flags & PF_KTHREAD) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, OTHER_SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	scx_bpf_dsq_insert(p, OTHERS_DSQ, OTHER_SLICE_NS, enq_flags);
	if (wakes) {
		u32 pcpu = scx_bpf_task_cpu(p);

		pcpu_at(pcpu)->other_had_turn = 0;
		if (!pcpu_at(pcpu)->other_runs)
			interrupt(pcpu);
	}
}

/* ---- The choice; the numbers are the steps at the head of steelyard.h ---- */

/* Asks again for the keys of a queue, or of those in it that are due, and sorts it; equals as they stand. */
static __noinline void resort(u32 queue, bool all)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *p;

	queue_at(queue)->rekey_due = 0;
	bpf_for_each(scx_dsq, p, queue, 0)
	{
		u32 vcpu = vcpu_of(p);
		struct vcpu *v = vcpu_at(vcpu);
		u64 key;

		if (vcpu == NONE || !(all || v->rekey_due))
			continue;
		v->rekey_due = 0;
		bpf_spin_lock(&lock);
		key = sy_key(policy(), &queue_at(queue)->state, &domain_at(v->domain)->state,
			     &v->state, now);
		bpf_spin_unlock(&lock);
		scx_bpf_dsq_move_set_vtime(&___it, key);
		scx_bpf_dsq_move_vtime(&___it, p, queue, 0);
	}
}

/* 2. Who ran, or comes from the pCPU's own queue. `seen`: how many were looked at. */
static __noinline u32 choose_here(u32 pcpu, u32 best, u64 now, u32 *seen)
{
	struct pcpu *c = pcpu_at(pcpu);
	u32 queue = c->queue, first = NONE;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, queue, 0)
	{
		u32 vcpu = vcpu_of(p);
		enum sy_verdict verdict;

		*seen += 1;
		if (vcpu == NONE || vcpu == best || !may_run(p, pcpu))
			continue;
		if (first == NONE)
			first = vcpu;
		bpf_spin_lock(&lock);
		verdict = sy_consider(policy(), &queue_at(queue)->state, &c->state,
				      state_or_null(best), &vcpu_at(vcpu)->state, now);
		bpf_spin_unlock(&lock);
		if (verdict == SY_TAKE)
			return vcpu;
		if (verdict == SY_STOP)
			break;
	}
	return best != NONE ? best : first;
}

/* 3. Who comes from another queue. */
__noinline u32 choose_elsewhere(u32 pcpu, u32 best, u64 now)
{
	struct pcpu *c = pcpu_at(pcpu);
	struct task_struct *p;
	u32 i;

	bpf_for(i, 1, pcpus_count)
	{
		u32 peer = pcpu + i;
		u32 queue;

		if (peer >= pcpus_count)
			peer -= pcpus_count;
		/* Each queue once, in the turn of its first pCPU. */
		queue = pcpu_at(peer)->queue;
		if (queue == c->queue || queue_at(queue)->first_pcpu != peer ||
		    !queue_at(queue)->state.queued)
			continue;
		bpf_for_each(scx_dsq, p, queue, 0)
		{
			u32 vcpu = vcpu_of(p);
			enum sy_verdict verdict;

			if (vcpu == NONE || !may_run(p, pcpu))
				continue;
			bpf_spin_lock(&lock);
			verdict = sy_steal(policy(), &c->state, state_or_null(best),
					   &queue_at(queue)->state, &vcpu_at(vcpu)->state, now);
			bpf_spin_unlock(&lock);
			if (verdict == SY_TAKE)
				return vcpu;
			if (verdict == SY_STOP)
				break;
		}
	}
	return NONE;
}

/* Moves a waiting vCPU out of its queue onto this pCPU; false if another pCPU was faster. */
__noinline bool take(u32 vcpu, u32 pcpu)
{
	struct vcpu *v = vcpu_at(vcpu);
	struct task_struct *p;
	bool moved = false;

	bpf_for_each(scx_dsq, p, v->queue, 0)
	{
		if (vcpu_of(p) == vcpu) {
			if (may_run(p, pcpu))
				moved = scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL, 0);
			break;
		}
	}
	if (!moved)
		return false;
	bpf_spin_lock(&lock);
	unqueue(v);
	bpf_spin_unlock(&lock);
	return true;
}

/* The first that waits in the queue, or NONE. */
static __noinline u32 first_of(u32 queue)
{
	struct task_struct *p;
	u32 first = NONE;

	bpf_for_each(scx_dsq, p, queue, 0)
	{
		first = vcpu_of(p);
		break;
	}
	return first;
}

/* 4. Whoever runs on the queue's pCPUs is charged before a reset. */
__noinline int reset_if_due(u32 pcpu, u32 chosen, u64 now)
{
	struct vcpu *v = vcpu_at(chosen);
	u32 queue = pcpu_at(pcpu)->queue, next, requests;
	struct queue *q = queue_at(queue);
	u64 units;
	u32 i;

	if (v->queue != queue)
		return 0;
	next = first_of(queue);
	bpf_spin_lock(&lock);
	units = sy_reset_due(policy(), &q->state, &v->state, state_or_null(next));
	if (units) {
		bpf_for(i, 0, pcpus_count)
		{
			if (pcpu_at(i)->queue == queue)
				charge(i, now);
		}
		requests = sy_reset(policy(), &q->state, &governor, &domain_at(v->domain)->state,
				    units, now);
		q->resets++;
		domain_at(v->domain)->resets++;
		if (requests & SY_REWEIGH)
			reweigh();
		answer_locked(queue, requests);
	}
	bpf_spin_unlock(&lock);
	return 0;
}

/* Time between ticks while a vCPU of this domain runs; 0: none. */
static __always_inline u64 tick_ns_of(const struct domain *d)
{
	u64 tick_ns = sy_tick_ns(policy()), own_ns = d->state.tick_ns;

	return own_ns ? sy_min(tick_ns, own_ns) : tick_ns;
}

/* 7. For how long; arms the pCPU's timer. */
__noinline u64 begin_slice(u32 pcpu, u64 now)
{
	u64 slice_ns = 0, wait_ns = 0;
	struct pcpu *c = pcpu_at(pcpu);
	u32 key = pcpu, next;
	struct timer *timer;

	if (pcpu >= pcpus_count)
		return 0;
	next = first_of(c->queue);
	bpf_spin_lock(&lock);
	if (c->current != NONE) {
		struct vcpu *v = vcpu_at(c->current);

		slice_ns = sy_slice(policy(), &queue_at(c->queue)->state, &c->state,
				    &domain_at(v->domain)->state, &v->state, state_or_null(next),
				    now);
		slice_ns = sy_clamp(slice_ns, 1, TIMER_MAX_NS);
		c->slice_end_ns = now + slice_ns;
		wait_ns = slice_ns;
		if (c->tick_due_ns)
			wait_ns = c->tick_due_ns > now ? sy_min(slice_ns, c->tick_due_ns - now) : 1;
	}
	bpf_spin_unlock(&lock);
	if (!wait_ns)
		return 0;
	timer = bpf_map_lookup_elem(&pcpu_timers, &key);
	if (timer)
		bpf_timer_start(&timer->timer, wait_ns, BPF_F_TIMER_CPU_PIN);
	return slice_ns;
}

/*
 * 1. Who ran: the task that the kernel says, or the vCPU that another task has interrupted since the
 * last choice, which waits in the queue by now.
 */
__noinline u32 who_ran(u32 pcpu, u32 ran, u64 now)
{
	struct pcpu *c = pcpu_at(pcpu);
	u32 best = NONE, interrupted;
	struct vcpu *v;

	bpf_spin_lock(&lock);
	interrupted = c->interrupted;
	c->interrupted = NONE;
	if (ran != NONE) {
		answer_locked(c->queue, charge(pcpu, now));
		if (vcpu_at(ran)->move_to == NONE && c->current == ran)
			best = ran;
	} else if (interrupted != NONE) {
		v = vcpu_at(interrupted);
		if (v->queued && v->queue == c->queue && v->state.pcpu == pcpu)
			best = interrupted;
	}
	bpf_spin_unlock(&lock);
	return best;
}

/* 1 to 4. Whether somebody was found: who ran, with a slice of its own, or another. */
static __always_inline bool choose(u32 pcpu, struct task_struct *prev, u32 ran)
{
	u64 now = bpf_ktime_get_ns();
	struct pcpu *c = pcpu_at(pcpu);
	u32 best, chosen, stolen, seen = 0, expected;
	bool further;

	__sync_fetch_and_add(&choices, 1);
	if (queue_at(c->queue)->rekey_due)
		resort(c->queue, false);
	best = who_ran(pcpu, ran, now);
	if (prev && best != NONE && best == ran && !may_run(prev, pcpu))
		best = NONE;
	chosen = choose_here(pcpu, best, now, &seen);

	bpf_spin_lock(&lock);
	further = sy_look_further(policy(), &c->state, state_or_null(chosen), now);
	expected = queue_at(c->queue)->state.queued;
	bpf_spin_unlock(&lock);
	if (further) {
		stolen = choose_elsewhere(pcpu, chosen, now);
		if (stolen != NONE)
			chosen = stolen;
	}
	if (chosen == NONE) {
		/* Somebody is on the way into the queue: look again. */
		if (seen < expected)
			interrupt(pcpu);
		return false;
	}
	if (chosen != ran && !take(chosen, pcpu)) {
		interrupt(pcpu);
		return false;
	}
	reset_if_due(pcpu, chosen, now);
	c->replaced = chosen != ran;
	c->coming = chosen != ran;
	if (prev && chosen == ran)
		set_slice(prev, sy_max(begin_slice(pcpu, now), 1));
	return true;
}

/* ---- The kernel's calls ---- */

SEC("struct_ops/steelyard_select_cpu")
s32 BPF_PROG(steelyard_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle = false;
	s32 cpu;

	if (vcpu_of(p) != NONE)
		return prev_cpu;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	if (idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, OTHER_SLICE_NS, 0);
	return cpu;
}

SEC("struct_ops/steelyard_runnable")
void BPF_PROG(steelyard_runnable, struct task_struct *p, u64 enq_flags)
{
	u32 vcpu = vcpu_of(p);

	if (vcpu != NONE)
		wake(vcpu);
}

/* A fault, for tests of what becomes of a task that nobody will ever run. */
static __always_inline bool is_lost(struct task_struct *p)
{
#ifdef STEELYARD_FAULTS
	u32 i;

	if (!lost_comm[0])
		return false;
	for (i = 0; i < TASK_COMM_LEN; i++) {
		if (p->comm[i] != lost_comm[i])
			return false;
		if (!lost_comm[i])
			break;
	}
	return true;
#else
	return false;
#endif
}

SEC("struct_ops/steelyard_enqueue")
void BPF_PROG(steelyard_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 *index = bpf_task_storage_get(&task_vcpu, p, NULL, 0);

	if (is_lost(p))
		return;
	if (index && !*index && looks_like_vcpu(p)) {
		u32 vcpu = adopt(p->pid, p->tgid, cgroup_weight(p), scx_bpf_task_cpu(p));

		if (vcpu != NONE) {
			*index = vcpu + 1;
			wake(vcpu);
		}
	}
	if (index && *index)
		enqueue_vcpu(p, *index - 1, enq_flags);
	else
		enqueue_other(p, enq_flags);
}

SEC("struct_ops/steelyard_dispatch")
void BPF_PROG(steelyard_dispatch, s32 cpu, struct task_struct *prev)
{
	struct pcpu *c = pcpu_at(cpu);
	bool goes_on = prev && prev->scx.flags & SCX_TASK_QUEUED;
	u32 ran = goes_on ? vcpu_of(prev) : NONE;

	/* In turns, so that neither vCPUs nor other tasks can keep each other waiting. */
	c->coming = 0;
	if (!c->other_had_turn && scx_bpf_dsq_move_to_local(OTHERS_DSQ)) {
		c->other_had_turn = 1;
		c->coming = 1;
		return;
	}
	c->other_had_turn = 0;
	if (choose(cpu, prev, ran))
		return;
	if (scx_bpf_dsq_move_to_local(OTHERS_DSQ)) {
		c->other_had_turn = 1;
		c->coming = 1;
		return;
	}
	/* One that has become a vCPU goes through enqueue(), which sees that. */
	if (goes_on && ran == NONE && !looks_like_vcpu(prev))
		set_slice(prev, OTHER_SLICE_NS);
}

SEC("struct_ops/steelyard_running")
void BPF_PROG(steelyard_running, struct task_struct *p)
{
	u32 vcpu = vcpu_of(p), pcpu = scx_bpf_task_cpu(p);
	struct pcpu *c = pcpu_at(pcpu);
	u64 now = bpf_ktime_get_ns(), tick_ns, slice_ns;
	struct vcpu *v;

	c->replaced = 0;
	c->coming = 0;
	if (vcpu == NONE) {
		c->other_runs = 1;
		return;
	}
	v = vcpu_at(vcpu);
	bpf_spin_lock(&lock);
	unqueue(v);
	if (v->queue != c->queue)
		assign(vcpu, pcpu, now);
	tick_ns = tick_ns_of(domain_at(v->domain));
	if (tick_ns && (c->tick_due_ns <= now || c->tick_ns != tick_ns)) {
		/* pCPUs tick in turn, not all at once. */
		u64 phase_ns = tick_ns * (2 * pcpu + 1) / (2 * pcpus_count);

		c->tick_ns = tick_ns;
		c->tick_due_ns = now + tick_ns - (now + tick_ns - phase_ns) % tick_ns;
	}
	set_status(v, STATUS_RUNNING, now);
	v->switches++;
	if (v->ran_on != NONE && v->ran_on != pcpu)
		v->migrations++;
	v->ran_on = pcpu;
	v->woken = 0;
	c->current = vcpu;
	c->charged_ns = now;
	c->state.busy = 1;
	c->state.started_ns = now;
	sy_start(policy(), &queue_at(v->queue)->state, &c->state, &domain_at(v->domain)->state, &v->state, now);
	v->state.pcpu = pcpu;
	bpf_spin_unlock(&lock);
	slice_ns = begin_slice(pcpu, now);
	set_slice(p, sy_max(slice_ns, 1));
}

SEC("struct_ops/steelyard_stopping")
void BPF_PROG(steelyard_stopping, struct task_struct *p, bool runnable)
{
	u32 vcpu = vcpu_of(p), pcpu = scx_bpf_task_cpu(p);
	struct pcpu *c = pcpu_at(pcpu);
	u64 now = bpf_ktime_get_ns();
	struct vcpu *v;

	c->other_runs = 0;
	if (vcpu == NONE)
		return;
	v = vcpu_at(vcpu);
	bpf_spin_lock(&lock);
	answer_locked(v->queue, charge(pcpu, now));
	c->current = NONE;
	c->state.busy = 0;
	if (!c->replaced && runnable)
		c->interrupted = vcpu;
	c->replaced = 0;
	if (runnable) {
		set_status(v, STATUS_WAITING, now);
		v->preemptions++;
		v->preempted = 1;
	} else {
		v->move_to = NONE;
		block_locked(v, now);
	}
	bpf_spin_unlock(&lock);
}

SEC("struct_ops/steelyard_quiescent")
void BPF_PROG(steelyard_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 vcpu = vcpu_of(p);
	u64 now = bpf_ktime_get_ns();

	if (vcpu == NONE)
		return;
	bpf_spin_lock(&lock);
	block_locked(vcpu_at(vcpu), now);
	bpf_spin_unlock(&lock);
}

/* What KVM noted of a vCPU's thread when it was stopped with work to do. */
static __always_inline bool in_guest_kernel(struct task_struct *p)
{
	const void *notifier = p->preempt_notifiers.first;
	const struct kvm_vcpu *v;

	if (!bpf_core_field_exists(struct kvm_vcpu, arch.preempted_in_kernel) || !notifier)
		return false;
	v = notifier - bpf_core_field_offset(struct kvm_vcpu, preempt_notifier.link);
	return BPF_CORE_READ(v, arch.preempted_in_kernel);
}

/* What summoning a vCPU that waits promises. */
__noinline u64 rank(u32 vcpu, u32 facts, u64 now)
{
	struct vcpu *v = vcpu_at(vcpu);
	struct queue *q = queue_at(v->queue);
	u64 waited_ns, promise;
	u32 requests;

	bpf_spin_lock(&lock);
	requests = charge_lone(v->queue, now);
	waited_ns = now > v->since_ns ? now - v->since_ns : 0;
	promise = sy_rank(policy(), &q->state, &domain_at(v->domain)->state, &v->state, facts,
			  waited_ns, now);
	bpf_spin_unlock(&lock);
	if (requests & SY_RESCHEDULE)
		interrupt(q->first_pcpu);
	return promise;
}

__noinline int summon(u32 vcpu)
{
	u64 now = bpf_ktime_get_ns();
	struct vcpu *v = vcpu_at(vcpu);
	struct queue *q = queue_at(v->queue);
	u32 requests;

	bpf_spin_lock(&lock);
	requests = sy_summon(policy(), &q->state, &domain_at(v->domain)->state, &v->state, now);
	if (requests & SY_REKEY) {
		v->rekey_due = 1;
		q->rekey_due = 1;
	}
	summoned++;
	bpf_spin_unlock(&lock);
	if (requests & SY_RESCHEDULE)
		interrupt(v->state.pcpu);
	return 0;
}

/*
 * Summons those siblings of a spinning vCPU that the policy wants; returns how many. The
 * kernel lets nobody sort a queue from here: who chooses from it next does that first.
 */
__noinline u32 summon_siblings(u32 domain, u32 gang, u64 now)
{
	u32 best = NONE, count = 0, i;
	u64 best_promise = 0;
	struct task_struct *p;

	bpf_for(i, 0, pcpus_count)
	{
		if (!queue_at(i)->state.queued)
			continue;
		bpf_for_each(scx_dsq, p, i, 0)
		{
			u32 vcpu = vcpu_of(p), facts = 0;
			struct vcpu *v = vcpu_at(vcpu);
			u64 promise;

			if (vcpu == NONE || v->domain != domain)
				continue;
			if (v->preempted)
				facts |= SY_PREEMPTED;
			if (in_guest_kernel(p))
				facts |= SY_IN_KERNEL;
			promise = rank(vcpu, facts, now);
			if (promise && gang == SY_GANG_ALL) {
				summon(vcpu);
				count++;
			} else if (promise > best_promise) {
				best_promise = promise;
				best = vcpu;
			}
		}
	}
	if (best == NONE)
		return count;
	summon(best);
	return count + 1;
}

/* A pause-loop exit; whether the pCPU shall choose again. */
__noinline bool spin(u32 vcpu, u32 pcpu)
{
	u64 now = bpf_ktime_get_ns();
	struct vcpu *v = vcpu_at(vcpu);
	u32 domain = v->domain, gang, siblings = 0, requests;

	__sync_fetch_and_add(&pause_loops, 1);
	bpf_spin_lock(&lock);
	answer_locked(v->queue, charge(pcpu, now));
	gang = forget(sy_spin(policy(), &domain_at(domain)->state, &v->state, now));
	bpf_spin_unlock(&lock);
	if (gang != SY_GANG_NONE)
		siblings = summon_siblings(domain, gang, now);
	bpf_spin_lock(&lock);
	requests = forget(sy_spun(policy(), &queue_at(v->queue)->state, &domain_at(domain)->state, &v->state,
				  siblings, now));
	answer_locked(v->queue, requests);
	bpf_spin_unlock(&lock);
	return requests & SY_RESCHEDULE;
}

/* A yield of a thread of the VMM, rather than of its guest. */
static __always_inline void yield(u32 vcpu, u32 pcpu)
{
	u64 now = bpf_ktime_get_ns();
	struct vcpu *v = vcpu_at(vcpu);

	bpf_spin_lock(&lock);
	answer_locked(v->queue, charge(pcpu, now));
	answer_locked(v->queue, sy_yield(policy(), &queue_at(v->queue)->state,
					 &domain_at(v->domain)->state, &v->state, now));
	bpf_spin_unlock(&lock);
}

/*
 * KVM yields to a sibling at a pause-loop exit. That there was one is what counts: whom to summon the
 * policy says, and KVM, told that this has been done, asks for no other.
 */
SEC("struct_ops/steelyard_yield")
bool BPF_PROG(steelyard_yield, struct task_struct *from, struct task_struct *to)
{
	u32 vcpu = vcpu_of(from), pcpu = scx_bpf_task_cpu(from);

	if (vcpu != NONE && to) {
		if (spin(vcpu, pcpu))
			set_slice(from, 0);
		return true;
	}
	if (vcpu != NONE)
		yield(vcpu, pcpu);
	set_slice(from, 0);
	return to != NULL;
}

/* With the lock held: what happened to the vCPU since it was adopted. */
static __always_inline void add_sums(const struct vcpu *v, struct sy_sample *sums, u64 now)
{
	u64 passed_ns = now > v->since_ns ? now - v->since_ns : 0;

	sums->gotten_ns += v->gotten_ns;
	sums->waited_ns += v->waited_ns;
	sums->waits += v->waits;
	sums->late_waits += v->late_waits;
	if (v->status == STATUS_RUNNING)
		sums->gotten_ns += passed_ns;
	else if (v->status == STATUS_WAITING)
		sums->waited_ns += passed_ns;
}

SEC("struct_ops.s/steelyard_init_task")
s32 BPF_PROG(steelyard_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	if (!bpf_task_storage_get(&task_vcpu, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return -ENOMEM;
	return 0;
}

SEC("struct_ops/steelyard_exit_task")
void BPF_PROG(steelyard_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 vcpu = vcpu_of(p);
	u64 now = bpf_ktime_get_ns();
	struct vcpu *v = vcpu_at(vcpu);
	struct domain *d;

	if (vcpu == NONE)
		return;
	bpf_spin_lock(&lock);
	d = domain_at(v->domain);
	block_locked(v, now);
	add_sums(v, &d->departed, now);
	answer_locked(v->queue, sy_leave(policy(), &queue_at(v->queue)->state, &d->state,
					 &v->state, now));
	sy_vcpu_destroy(policy(), &accounting, &d->state, &v->state);
	v->status = STATUS_FREE;
	if (!--d->state.vcpus)
		d->pid = 0;
	bpf_spin_unlock(&lock);
}

/* ---- Time that passes ---- */

/* With the lock held: load of a queue per pCPU. */
static __always_inline u64 load_of(u32 queue, u64 now)
{
	struct queue *q = queue_at(queue);

	return sy_load(policy(), &q->state, now) / sy_max(q->state.pcpus, 1);
}

/* With the lock held: the vCPU that is worth most to move, or NONE. */
static __noinline u32 find_best(u32 from, u32 to, u64 now)
{
	s64 greatest = 0;
	u32 best = NONE;
	u32 i;

	bpf_for(i, 0, vcpus_used)
	{
		struct vcpu *v = vcpu_at(i);
		s64 gain;

		if (v->status == STATUS_FREE || v->queue != from || v->move_to != NONE)
			continue;
		gain = sy_balance_gain(policy(), &queue_at(from)->state, &queue_at(to)->state,
				       &domain_at(v->domain)->state, &v->state, now);
		if (gain > greatest) {
			greatest = gain;
			best = i;
		}
	}
	return best;
}

/* Moves the vCPU that is worth most, if any, between this queue and the most loaded one. */
static __noinline void balance(u32 queue)
{
	u64 now = bpf_ktime_get_ns(), most;
	u32 from = queue, to, best = NONE;
	struct task_struct *p;
	struct vcpu *v;
	u32 i;

	to = queue_at(queue)->first_pcpu;
	bpf_spin_lock(&lock);
	queue_at(queue)->balance_due = 0;
	most = load_of(queue, now);
	bpf_for(i, 0, pcpus_count)
	{
		u32 other = pcpu_at(i)->queue;
		u64 load;

		if (queue_at(other)->first_pcpu != i || other == queue)
			continue;
		load = load_of(other, now);
		if (load > most) {
			most = load;
			from = other;
		}
	}
	if (from != queue)
		best = find_best(from, queue, now);
	if (best != NONE) {
		v = vcpu_at(best);
		if (v->status == STATUS_BLOCKED)
			assign(best, to, now);
		else
			v->move_to = to;
	}
	bpf_spin_unlock(&lock);
	if (best == NONE)
		return;
	v = vcpu_at(best);
	if (v->status == STATUS_RUNNING) {
		interrupt(v->ran_on);
		return;
	}
	/* One that waits is moved from queue to queue here. */
	bpf_for_each(scx_dsq, p, from, 0)
	{
		u64 key = 0;

		if (vcpu_of(p) != best || !may_run(p, to))
			continue;
		bpf_spin_lock(&lock);
		v->move_to = NONE;
		if (v->queued && v->queue == from) {
			unqueue(v);
			assign(best, to, now);
			v->state.pcpu = to;
			key = sy_key(policy(), &queue_at(queue)->state,
				     &domain_at(v->domain)->state, &v->state, now);
			v->queued = 1;
			queue_at(queue)->state.queued++;
		}
		bpf_spin_unlock(&lock);
		if (key) {
			scx_bpf_dsq_move_set_vtime(&___it, key);
			scx_bpf_dsq_move_vtime(&___it, p, queue, 0);
			if (is_idle(to))
				nudge(to);
		}
		break;
	}
}

/* A running vCPU moves to an idle pCPU if others wait for its own. */
static __always_inline void replace(u32 pcpu, u32 vcpu)
{
	u32 i;

	if (!queue_at(pcpu_at(pcpu)->queue)->state.queued)
		return;
	bpf_for(i, 0, pcpus_count)
	{
		if (is_idle(i)) {
			/* enqueue() checks that it may run there. */
			vcpu_at(vcpu)->move_to = i;
			interrupt(pcpu);
			break;
		}
	}
}

/* The end of a slice, or a tick. */
static int pcpu_timer(void *map, u32 *key, struct timer *timer)
{
	u64 now = bpf_ktime_get_ns(), due_ns, tick_ns;
	u32 pcpu = *key, vcpu, requests;
	struct pcpu *c = pcpu_at(pcpu);
	struct vcpu *v;

	bpf_spin_lock(&lock);
	vcpu = c->current;
	if (vcpu == NONE) {
		bpf_spin_unlock(&lock);
		return 0;
	}
	v = vcpu_at(vcpu);
	tick_ns = tick_ns_of(domain_at(v->domain));
	requests = charge(pcpu, now);
	if (tick_ns && now >= c->tick_due_ns) {
		c->tick_ns = tick_ns;
		c->tick_due_ns += tick_ns;
		if (c->tick_due_ns <= now)
			c->tick_due_ns = now + tick_ns;
		requests |= sy_tick(policy(), &accounting, &queue_at(c->queue)->state, &c->state,
				    &domain_at(v->domain)->state, &v->state, now);
	}
	if (now >= c->slice_end_ns) {
		requests |= SY_RESCHEDULE;
		c->slice_end_ns = now + TIMER_MAX_NS;
	}
	due_ns = c->slice_end_ns;
	if (tick_ns)
		due_ns = sy_min(due_ns, c->tick_due_ns);
	requests = forget(requests);
	answer_locked(c->queue, requests);
	bpf_spin_unlock(&lock);

	bpf_timer_start(&timer->timer, due_ns > now ? due_ns - now : 1, BPF_F_TIMER_CPU_PIN);
	if (requests & SY_RESORT)
		resort(c->queue, true);
	if (queue_at(c->queue)->balance_due)
		balance(c->queue);
	if (requests & SY_REPLACE)
		replace(pcpu, vcpu);
	if (requests & SY_RESCHEDULE)
		interrupt(pcpu);
	return 0;
}

/* With the lock held: this domain is visited first from now on; those before it come later. */
static __noinline void visit_first(u32 place)
{
	u32 carried = account_order[place & (MAX_DOMAINS - 1)];
	u32 i;

	bpf_for(i, 0, MAX_DOMAINS)
	{
		u32 here = account_order[i & (MAX_DOMAINS - 1)];

		account_order[i & (MAX_DOMAINS - 1)] = carried;
		if (i == place)
			break;
		carried = here;
	}
}

/* With the lock held: accounts for one domain and its vCPUs. */
static __noinline u32 account_domain(u32 domain)
{
	struct domain *d = domain_at(domain);
	u32 requests;
	u32 i;

	if (!d->pid)
		return 0;
	requests = sy_account_domain(policy(), &accounting, &d->state);
	if (requests & SY_VISIT) {
		bpf_for(i, 0, vcpus_used)
		{
			struct vcpu *v = vcpu_at(i);

			if (v->status != STATUS_FREE && v->domain == domain)
				sy_account_vcpu(policy(), &accounting, &d->state, &v->state);
		}
	}
	return requests;
}

static int account(void *map, u32 *key, struct timer *timer)
{
	u64 now = bpf_ktime_get_ns();
	u32 i;

	bpf_spin_lock(&lock);
	sy_account_begin(policy(), &accounting, now);
	bpf_for(i, 0, domains_used)
	{
		if (account_domain(account_order[i & (MAX_DOMAINS - 1)]) & SY_FIRST)
			visit_first(i);
	}
	sy_account_end(policy(), &accounting);
	bpf_spin_unlock(&lock);
	bpf_timer_start(&timer->timer, sy_account_ns(policy()), 0);
	return 0;
}

/* With the lock held: tells the governors of this domain, whose sums are of now. */
static __noinline void sample_domain(u32 domain, u64 now)
{
	struct domain *d = domain_at(domain);
	struct sy_sample sample;

	d->sums.interval_ns = now;
	d->sums.packets = d->packets;
	sample.interval_ns = d->sums.interval_ns - d->sampled.interval_ns;
	sample.gotten_ns = d->sums.gotten_ns - d->sampled.gotten_ns;
	sample.waited_ns = d->sums.waited_ns - d->sampled.waited_ns;
	sample.packets = d->sums.packets - d->sampled.packets;
	sample.waits = d->sums.waits - d->sampled.waits;
	sample.late_waits = d->sums.late_waits - d->sampled.late_waits;
	d->sampled = d->sums;
	sy_sample_domain(policy(), &governor, &d->state, &sample);
}

static int sample(void *map, u32 *key, struct timer *timer)
{
	u64 now = bpf_ktime_get_ns();
	u32 i;

	bpf_spin_lock(&lock);
	sy_sample_begin(policy(), &governor, pcpus_online, now);
	bpf_for(i, 0, domains_used)
		domain_at(i)
			->sums = domain_at(i)->departed;
	bpf_for(i, 0, vcpus_used)
	{
		struct vcpu *v = vcpu_at(i);

		if (v->status != STATUS_FREE)
			add_sums(v, &domain_at(v->domain)->sums, now);
	}
	bpf_for(i, 0, domains_used)
	{
		if (domain_at(i)->pid)
			sample_domain(i, now);
	}
	bpf_for(i, 0, domains_used)
	{
		if (domain_at(i)->pid)
			sy_sample_settle(policy(), &governor, &domain_at(i)->state);
	}
	bpf_spin_unlock(&lock);
	bpf_timer_start(&timer->timer, sy_sample_ns(policy()), 0);
	return 0;
}

/* ---- Beginning and end ---- */

/* One queue per pCPU, or as few as the policy allows: a host counts as one socket of whole cores. */
static __always_inline void init_queues(void)
{
	u64 size = 1, most = sy_queue_pcpus_max(policy());
	u32 i;

	if (sy_scope(policy()) >= SY_SCOPE_SOCKET)
		size = sy_max(sy_min(pcpus_count, most), 1);
	bpf_for(i, 0, pcpus_count)
	{
		struct pcpu *c = pcpu_at(i);
		u32 queue = i / size;

		c->state.id = i;
		c->current = NONE;
		c->interrupted = NONE;
		c->queue = queue;
		if (c->offline)
			continue;
		if (!queue_at(queue)->state.pcpus)
			queue_at(queue)->first_pcpu = i;
		queue_at(queue)->state.pcpus++;
	}
	bpf_for(i, 0, pcpus_count)
	{
		if (queue_at(i)->state.pcpus)
			sy_queue_init(policy(), &queue_at(i)->state, pcpus_online);
	}
	bpf_for(i, 0, MAX_DOMAINS)
		account_order[i & (MAX_DOMAINS - 1)] = i;
	sy_accounting_init(policy(), &accounting, pcpus_online);
}

SEC("struct_ops.s/steelyard_init")
s32 BPF_PROG(steelyard_init)
{
	struct timer *timer;
	u32 key = 0;
	s32 error;
	u32 i;

	init_queues();
	error = scx_bpf_create_dsq(OTHERS_DSQ, -1);
	if (error)
		return error;
	bpf_for(i, 0, pcpus_count)
	{
		error = scx_bpf_create_dsq(i, -1);
		if (error)
			return error;
		key = i;
		timer = bpf_map_lookup_elem(&pcpu_timers, &key);
		if (timer) {
			bpf_timer_init(&timer->timer, &pcpu_timers, CLOCK_MONOTONIC);
			bpf_timer_set_callback(&timer->timer, pcpu_timer);
		}
	}
	key = 0;
	timer = bpf_map_lookup_elem(&account_timer, &key);
	if (timer && sy_account_ns(policy())) {
		bpf_timer_init(&timer->timer, &account_timer, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&timer->timer, account);
		bpf_timer_start(&timer->timer, sy_account_ns(policy()), 0);
	}
	timer = bpf_map_lookup_elem(&sample_timer, &key);
	if (timer && sy_sample_ns(policy())) {
		bpf_timer_init(&timer->timer, &sample_timer, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&timer->timer, sample);
		bpf_timer_start(&timer->timer, sy_sample_ns(policy()), 0);
	}
	return 0;
}

SEC("struct_ops/steelyard_exit")
void BPF_PROG(steelyard_exit, struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(exit_reason, sizeof(exit_reason), info->reason);
	bpf_probe_read_kernel_str(exit_message, sizeof(exit_message), info->msg);
	exit_kind = info->kind;
}

SEC(".struct_ops.link")
struct sched_ext_ops steelyard_ops = {
	.select_cpu = (void *)steelyard_select_cpu,
	.enqueue = (void *)steelyard_enqueue,
	.dispatch = (void *)steelyard_dispatch,
	.runnable = (void *)steelyard_runnable,
	.running = (void *)steelyard_running,
	.stopping = (void *)steelyard_stopping,
	.quiescent = (void *)steelyard_quiescent,
	.yield = (void *)steelyard_yield,
	.init_task = (void *)steelyard_init_task,
	.exit_task = (void *)steelyard_exit_task,
	.init = (void *)steelyard_init,
	.exit = (void *)steelyard_exit,
	.flags = SCX_OPS_ENQ_LAST,
	.timeout_ms = 10000,
	.name = "steelyard",
};
