/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Linux as a host of Steelyard's policies: a sched_ext scheduler that tells the engine (policy/engine)
 * what happens and does what it asks for; host.h is what it is given.
 *
 * Who is scheduled how. A thread that has been seen in KVM_RUN, by its preempt notifier, is a vCPU; where that is not to
 * be seen, one of that name is (vcpus.h). Its process is the domain, of which the loader tells what an administrator asks
 * for. Every other task waits in a line, in turns with the vCPUs on each pCPU (others.h); kernel threads that wake go
 * first. They are not left to the kernel's fair class (SCX_OPS_SWITCH_PARTIAL): that is above this class, so that any busy
 * task would keep all vCPUs from running, and moving a thread between classes would outlive this program.
 *
 * Two that must agree. vCPUs wait here, in lists, and the kernel has them in no queue. dispatch() is the
 * choice: from then on the engine has the chosen one running, and the kernel is given it by its number.
 * What the kernel does otherwise it tells by later calls: an inserted thread that has left meanwhile is
 * dropped by the kernel, and quiescent() has said or will say so; one that runs where it was not chosen is
 * taken off at once and comes to enqueue(), which hands it to where it was chosen. Who stops with work left
 * cannot be chosen again before it has come to enqueue() (host_saves()). A vCPU that the kernel takes
 * off without a choice was interrupted by something that is no vCPU: engine_occupy(). Some threads the kernel keeps
 * on a pCPU without asking: those that exit and, since 6.14, those that may not migrate for a moment. They run as other
 * tasks do.
 *
 * Time. Slices and ticks of vCPUs are a timer per pCPU: the kernel's own tick, which ends those of other tasks, is too coarse.
 *
 * Locking. A lock per queue, as the engine has it (policy/engine/host.h); lock.h says what kind and in which order,
 * host.h what the host's guards. Events take that of the queue concerned, and no other's but by trying. Who begins or
 * ends, and whose settings change, takes the host's first. An accounting or a sample gives both back, and interrupts on,
 * after each domain and each vCPU.
 *
 * Functions that are not static are verified once, by themselves, whatever calls them.
 */
#include "kernel.h"

/* BPF hands over at most five arguments, policies' own functions may have more. */
#define inline inline __attribute__((always_inline))
#define SY_FN static inline __attribute__((unused))
#include "live.h"
#include "steelyard.h"

/* To the verifier a function that is weak may do anything with what it is handed; to the compiler too. */
#define ENGINE struct engine *e __attribute__((btf_decl_tag("arg:nonnull")))
#define ENGINE_FN static inline __attribute__((unused))
#define ENGINE_CALL __weak __noinline
#define HOST_LOCKS
#define HOST_NOTES
#define HOST_OTHERS
#include "engine/measure.h"
#include "engine/others.h"
#include "state.h"

char gpl[] SEC("license") = "GPL";

/*
 * The engine's numbers of pCPUs, in which those of a group follow each other; so many, some of which no CPU has: see
 * pcpu.offline. Of the kernel's, so many are possible. CPUs that are offline have no number of the engine's.
 */
const volatile u32 pcpus_count = 1, cpus_count = 1;
const volatile u32 level_pcpus[ENGINE_LEVELS] = { 1, 1, 1, 1 };
const volatile u16 pcpu_of_cpu[MAX_PCPUS], cpu_of_pcpu[MAX_PCPUS];
#ifdef STEELYARD_FAULTS
/* A test loses the tasks of this name on purpose. */
const volatile char lost_comm[TASK_COMM_LEN];
#endif
/* For who reads the status or a dump. */
char policy_name[128];

/* What the kernel said at the end. */
u32 exit_kind;
s64 exit_code;
char exit_reason[128];
char exit_dump[32768]; /* as long as the kernel makes it if nobody asks for another length */
char exit_message[512];

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* Into a queue of the kernel's that is ordered by a time. */
static __always_inline void insert_by_time(struct task_struct *p, u64 queue, u64 slice_ns, u64 time_ns, u64 flags)
{
	struct scx_bpf_dsq_insert_vtime_args how = {
		.dsq_id = queue,
		.slice = slice_ns,
		.vtime = time_ns,
		.enq_flags = flags,
	};

	if (bpf_ksym_exists(__scx_bpf_dsq_insert_vtime))
		__scx_bpf_dsq_insert_vtime(p, &how);
	else
		scx_bpf_dsq_insert_vtime(p, queue, slice_ns, time_ns, flags);
}

static __always_inline void set_slice(struct task_struct *p, u64 slice_ns)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice_ns);
	else
		p->scx.slice = slice_ns;
}

#include "host.h"
#include "engine/engine.h"
#include "vcpus.h"

/* With the lock of the queue held: its time of this call, which never goes back. */
static __always_inline u64 time_since(u32 queue, u64 now)
{
	struct queue *q = queue_at(queue);

	q->time_ns = sy_max(now, q->time_ns);
	return q->time_ns;
}

static __always_inline u64 time_of(u32 queue)
{
	return time_since(queue, bpf_ktime_get_ns());
}

/* The queue that a pCPU belongs to, locked. */
static __always_inline u32 lock_queue_at(u32 pcpu)
{
	u32 queue = host_queue_at(&engine, pcpu);

	host_lock_queue(&engine, queue);
	return queue;
}

static __always_inline void unlock_queue(u32 queue)
{
	host_unlock_queue(&engine, queue);
}

/* With the lock of its queue held: when something is due; 0: nothing is. */
static __always_inline u64 due_at(const struct pcpu *c)
{
	u64 tick_ns = c->tick_due_ns, end_ns = c->slice_end_ns;

	return tick_ns && (!end_ns || tick_ns < end_ns) ? tick_ns : end_ns;
}

/* With the lock of its queue held. One that could not be set is tried again by the next call. */
static __always_inline void arm(u32 pcpu, u64 now)
{
	struct pcpu *c = pcpu_at(pcpu);

	arm_timer(&pcpu_timers, pcpu, &c->armed_ns, due_at(c), LATE_NS, now, BPF_F_TIMER_CPU_PIN);
}

#include "others.h"

static __always_inline struct thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, NULL, 0);
}

/*
 * The thread's vCPU; or SY_NONE, and *t is what is known of the thread then, if anything is. Nearly always its number
 * stands where the kernel keeps the time of who waits in a queue that is ordered by it, as vCPUs do not: which is faster
 * to be had.
 */
static __always_inline u32 vcpu_or_thread(struct task_struct *p, struct thread **t)
{
	u32 vcpu = p->scx.dsq_vtime;

	if (vcpu_at(vcpu)->pid == p->pid)
		return vcpu & (MAX_VCPUS - 1);
	*t = thread_of(p);
	return *t && (*t)->vcpu ? (*t)->vcpu - 1 : SY_NONE;
}

static __always_inline u32 vcpu_of(struct task_struct *p)
{
	struct thread *t;

	return vcpu_or_thread(p, &t);
}

static __always_inline void note_vcpu(struct task_struct *p, u32 vcpu)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime))
		scx_bpf_task_set_dsq_vtime(p, vcpu);
	else
		p->scx.dsq_vtime = vcpu;
}

/* Makes a thread a vCPU, blocked. SY_NONE if there is no room. */
__weak __noinline u32 adopt(struct task_struct *p __arg_trusted, u32 weight)
{
	u32 found, domain, after, home, queue;
	struct domain *d;
	struct vcpu *v;

	take_lock(&host_lock);
	found = find_vcpu();
	if (found == SY_NONE)
		goto out;
	domain = join_domain(p->tgid, weight, bpf_ktime_get_ns());
	if (domain == SY_NONE) {
		free_vcpu(found);
		found = SY_NONE;
		goto out;
	}
	v = vcpu_at(found);
	d = domain_at(domain);
	after = find_index(d);
	__builtin_memset(v, 0, sizeof(*v));
	v->pid = p->pid;
	hold_task(found, p);
	allow(found, p->cpus_ptr);
	home = engine_home(&engine, found);
	if (home == SY_NONE)
		home = pcpu_of(scx_bpf_task_cpu(p));
	queue = lock_queue_at(home);
	engine_vcpu_begin(&engine, found, domain, next_index(after), home, time_of(queue));
	host_vcpu_timer(&engine, found);
	unlock_queue(queue);
	insert_after(&d->vcpus, IN_DOMAIN, found, after);
out:
	give_lock(&host_lock);
	return found;
}

/* ---- What happens to vCPUs; each of these takes the lock of its queue ---- */

/* Its thread has work and can be taken. The pCPU that it is to be handed to, or SY_NONE: it waits. */
__weak __noinline u32 arrive(u32 vcpu)
{
	u32 queue = lock_queue_of(vcpu), to = SY_NONE;
	struct vcpu *v = vcpu_at(vcpu);

	if (queue == SY_NONE)
		return SY_NONE;
	v->unasked = 0;
	if (v->engine.status == ENGINE_BLOCKED)
		engine_wake(&engine, vcpu, time_of(queue));
	else if (v->engine.status == ENGINE_RUNNING)
		to = v->engine.ran_on;
	else if (v->engine.saving)
		engine_saved(&engine, vcpu, time_of(queue));
	unlock_queue(queue);
	return to;
}

/* With the lock held: its thread has no work any more, wherever it was. */
static __always_inline void block(u32 vcpu, u64 now)
{
	struct vcpu *v = vcpu_at(vcpu);

	v->unasked = 0;
	if (v->engine.status == ENGINE_RUNNING)
		engine_block(&engine, v->engine.ran_on, now);
	else if (v->engine.status == ENGINE_WAITING)
		engine_sleep(&engine, vcpu, now);
	/* The kernel keeps it from running in two places. */
	if (v->engine.saving)
		engine_saved(&engine, vcpu, now);
}

__weak __noinline int depart(u32 vcpu)
{
	u32 queue = lock_queue_of(vcpu);

	if (queue == SY_NONE)
		return 0;
	block(vcpu, time_of(queue));
	unlock_queue(queue);
	return 0;
}

/* Its thread is gone, and has departed. */
__weak __noinline int end(u32 vcpu)
{
	u32 domain = vcpu_at(vcpu)->engine.domain, queue;
	u64 now;

	take_lock(&host_lock);
	queue = lock_queue_of(vcpu);
	if (queue != SY_NONE) {
		now = time_of(queue);
		measure_ends(&engine, vcpu, now);
		engine_vcpu_end(&engine, vcpu, now);
		unlock_queue(queue);
		leave_domain(vcpu, domain);
		drop_task(vcpu);
		free_vcpu(vcpu);
	}
	give_lock(&host_lock);
	return 0;
}

/* It may use other pCPUs. */
__weak __noinline int allowed_changed(u32 vcpu, const struct cpumask *mask __arg_trusted)
{
	u32 queue;

	take_lock(&host_lock);
	queue = lock_queue_of(vcpu);
	if (queue != SY_NONE) {
		allow(vcpu, mask);
		engine_affinity_changed(&engine, vcpu, time_of(queue));
		unlock_queue(queue);
	}
	give_lock(&host_lock);
	return 0;
}

/* Something that is no vCPU takes the pCPU, from `vcpu` or whoever is to run there. */
__weak __noinline int occupy(u32 pcpu, u32 vcpu)
{
	struct pcpu *c = pcpu_at(pcpu);
	u32 queue = lock_queue_at(pcpu);

	if (!c->engine.occupied && (vcpu == SY_NONE || c->engine.current == vcpu)) {
		/* The slice that ends was a vCPU's: what takes its place is not interrupted by that. */
		c->slice_end_ns = 0;
		engine_occupy(&engine, pcpu, time_of(queue));
	}
	unlock_queue(queue);
	return 0;
}

/* The chosen one comes from the engine's lists into the kernel's hands, unless it has left meanwhile. */
static __always_inline void hand_over(u32 vcpu, u64 slice_ns)
{
	struct task_struct *p = task_of_vcpu(vcpu);

	if (p)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
}

/*
 * The choice: who runs from now on, for `turn_ns` at most, or SY_NONE. Another than `ran` is handed over before others
 * may learn of it: the kernel drops who has left since it was handed over, and would take who has left and come back
 * before, allowed here or not.
 */
__weak __noinline u32 choose(u32 pcpu, u32 ran, u64 turn_ns, u64 now)
{
	struct pcpu *c = pcpu_at(pcpu);
	u32 queue = lock_queue_at(pcpu), chosen;

	now = time_since(queue, now);
	/* Kept here: BPF has little stack. */
	c->slice_ns = sy_min(turn_ns, TIMER_MAX_NS);
	/* The kernel may let it choose of its own accord. */
	host_set_idle(&engine, pcpu, false);
	c->engine.interrupted = 0;
	/* The kernel's tick ends it, too, should the timer not. */
	c->slice_ns = sy_min(engine_choose(&engine, pcpu, now), c->slice_ns);
	chosen = c->engine.current;
	c->slice_end_ns = chosen == SY_NONE ? 0 : now + c->slice_ns;
	arm(pcpu, now);
	if (chosen != SY_NONE && chosen != ran)
		hand_over(chosen, c->slice_ns);
	unlock_queue(queue);
	return chosen;
}

/* A pause-loop exit, or a yield of a thread of the VMM. Whether the pCPU shall choose again. */
__weak __noinline bool let_others(u32 vcpu, u32 pcpu, bool spins)
{
	struct engine_pcpu *c = &pcpu_at(pcpu)->engine;
	u32 queue = lock_queue_at(pcpu);
	bool let;

	if (c->current == vcpu && spins)
		engine_spin(&engine, pcpu, time_of(queue));
	else if (c->current == vcpu)
		engine_yield(&engine, pcpu, time_of(queue));
	let = c->current != vcpu || c->interrupted;
	unlock_queue(queue);
	return let;
}

/* ---- The kernel's calls ---- */

SEC("struct_ops/steelyard_select_cpu")
s32 BPF_PROG(steelyard_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle = false;
	s32 cpu;

	if (vcpu_of(p) != SY_NONE)
		return prev_cpu;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	if (idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, ENGINE_OTHER_SLICE_NS, 0);
	return cpu;
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

/*
 * It may not migrate at the moment. Before 6.14 the kernel asks about it all the same, and ends a scheduler that sends it
 * elsewhere. Nor may whoever runs here while this program does.
 */
static __always_inline bool must_stay(struct task_struct *p)
{
	return p->migration_disabled > (p == bpf_get_current_task_btf());
}

SEC("struct_ops/steelyard_enqueue")
void BPF_PROG(steelyard_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct thread *t = NULL;
	u32 vcpu = vcpu_or_thread(p, &t), to;

	if (is_lost(p))
		return;
	if (pcpu_of(scx_bpf_task_cpu(p)) == SY_NONE) {
		enqueue_other(p, thread_of(p), enq_flags);
		return;
	}
	if (vcpu == SY_NONE) {
		if (t && !must_stay(p) && (t->runs_guest || looks_like_vcpu(p))) {
			vcpu = adopt(p, cgroup_weight(p));
			t->vcpu = vcpu + 1;
		}
		if (vcpu == SY_NONE) {
			enqueue_other(p, t, enq_flags);
			return;
		}
	} else if (must_stay(p)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, ENGINE_OTHER_SLICE_NS, enq_flags);
		return;
	}
	if (t)
		note_vcpu(p, vcpu);
	to = arrive(vcpu);
	if (to != SY_NONE)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | kernel_cpu(to), pcpu_at(to)->slice_ns, enq_flags);
}

/* Whether a task runs as one that is no vCPU. One that has become a vCPU goes through enqueue(), which sees that. */
static __always_inline bool is_other(struct task_struct *p, u32 vcpu)
{
	return vcpu == SY_NONE ? !looks_like_vcpu(p) : vcpu_at(vcpu)->unasked;
}

static __always_inline void go_on(struct task_struct *p, u32 pcpu)
{
	set_slice(p, ENGINE_OTHER_SLICE_NS);
	occupy(pcpu, SY_NONE);
}

SEC("struct_ops/steelyard_dispatch")
void BPF_PROG(steelyard_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 pcpu = pcpu_of(cpu);
	struct pcpu *c = pcpu_at(pcpu);
	bool goes_on = prev && prev->scx.flags & SCX_TASK_QUEUED;
	u32 ran = goes_on ? vcpu_of(prev) : SY_NONE, line = line_of(pcpu), chosen;
	u64 now = bpf_ktime_get_ns(), turn_ns;

	if (later == LATER_FAILED)
		arm_later();
	if (pcpu == SY_NONE) {
		take_other(line);
		return;
	}
	turn_ns = vcpus_turn_ns(pcpu, line, goes_on && ran == SY_NONE, now);
	if (!turn_ns)
		return;
	chosen = choose(pcpu, ran, turn_ns, now);
	if (chosen == SY_NONE) {
		if (take_any_other(line))
			return;
		if (goes_on && is_other(prev, ran))
			go_on(prev, pcpu);
		/*
		 * The kernel may keep it for this pCPU, which would idle beside it; and it forgets a kick that came while it had
		 * given up its lock for a task of another CPU.
		 */
		else if (goes_on || c->engine.interrupted)
			scx_bpf_kick_cpu(cpu, 0);
	} else if (chosen == ran) {
		set_slice(prev, c->slice_ns);
	}
}

SEC("struct_ops/steelyard_running")
void BPF_PROG(steelyard_running, struct task_struct *p)
{
	struct thread *t = NULL;
	u32 vcpu = vcpu_or_thread(p, &t), cpu = scx_bpf_task_cpu(p), pcpu = pcpu_of(cpu);
	struct engine_pcpu *c = &pcpu_at(pcpu)->engine;

	if (pcpu == SY_NONE)
		return;
	if (vcpu == SY_NONE) {
		if (t)
			start_other(pcpu_at(pcpu), p, t, bpf_ktime_get_ns());
		if (!c->occupied)
			occupy(pcpu, SY_NONE);
	} else if (c->current != vcpu && vcpu_at(vcpu)->unasked) {
		go_on(p, pcpu);
	} else if (c->current != vcpu || c->interrupted) {
		/* It was not chosen to be here, or may not be any more. */
		set_slice(p, 0);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

SEC("struct_ops/steelyard_stopping")
void BPF_PROG(steelyard_stopping, struct task_struct *p, bool runnable)
{
	struct thread *t = NULL;
	u32 vcpu = vcpu_or_thread(p, &t), pcpu = pcpu_of(scx_bpf_task_cpu(p));

	if (vcpu == SY_NONE && t && pcpu != SY_NONE)
		stop_other(pcpu_at(pcpu), p, t, bpf_ktime_get_ns());
	if (vcpu == SY_NONE || !runnable)
		return;
	/* Else the kernel would keep it for this pCPU. */
	set_slice(p, 0);
	vcpu_at(vcpu)->unasked = 1;
	if (pcpu != SY_NONE && pcpu_at(pcpu)->engine.current == vcpu)
		occupy(pcpu, vcpu);
}

/* A vCPU that always sleeps outside its ioctl, and is never preempted in there, is known by this. */
SEC("struct_ops/steelyard_tick")
void BPF_PROG(steelyard_tick, struct task_struct *p)
{
	struct thread *t = NULL;

	if (looks_like_vcpu(p) && vcpu_or_thread(p, &t) == SY_NONE && t)
		t->runs_guest = 1;
}

SEC("struct_ops/steelyard_quiescent")
void BPF_PROG(steelyard_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 vcpu = vcpu_of(p);

	if (vcpu != SY_NONE)
		depart(vcpu);
}

/*
 * KVM yields to a sibling at a pause-loop exit. That there was one is what counts: whom to summon the
 * policy says, and KVM, told that this has been done, asks for no other.
 */
SEC("struct_ops/steelyard_yield")
bool BPF_PROG(steelyard_yield, struct task_struct *from, struct task_struct *to)
{
	u32 vcpu = vcpu_of(from), pcpu = pcpu_of(scx_bpf_task_cpu(from));

	if (vcpu == SY_NONE || pcpu == SY_NONE || let_others(vcpu, pcpu, to))
		set_slice(from, 0);
	return to != NULL;
}

SEC("struct_ops/steelyard_set_cpumask")
void BPF_PROG(steelyard_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	u32 vcpu = vcpu_of(p);

	if (vcpu != SY_NONE)
		allowed_changed(vcpu, mask);
}

/* A task of a higher class takes the pCPU. Who was handed over and has not run comes to enqueue() again. */
SEC("struct_ops/steelyard_cpu_release")
void BPF_PROG(steelyard_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	u32 pcpu = pcpu_of(cpu);

	if (pcpu != SY_NONE)
		occupy(pcpu, SY_NONE);
	if (bpf_ksym_exists(scx_bpf_reenqueue_local))
		scx_bpf_reenqueue_local();
}

SEC("struct_ops.s/steelyard_init_task")
s32 BPF_PROG(steelyard_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	if (!bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return -ENOMEM;
	return 0;
}

SEC("struct_ops/steelyard_exit_task")
void BPF_PROG(steelyard_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 vcpu = vcpu_of(p);

	if (vcpu == SY_NONE)
		return;
	depart(vcpu);
	end(vcpu);
}

#include "timers.h"

/* ---- What an administrator asks for ---- */

/* Written by the loader, which then runs steelyard_ask(). */
struct {
	s32 pid; /* of the domain's process */
	struct sy_settings settings;
} asked;

__weak __noinline int change(void)
{
	struct sy_settings settings = asked.settings;
	u32 domain;

	take_lock(&host_lock);
	domain = domain_of(asked.pid);
	if (domain != SY_NONE)
		engine_domain_change(&engine, domain, &settings);
	give_lock(&host_lock);
	return domain == SY_NONE ? -ESRCH : 0;
}

SEC("syscall")
int steelyard_ask(void *context)
{
	return SAFELY(change());
}

/* The loader has changed parameters of the policy, which are read wherever they are needed. */
SEC("syscall")
int steelyard_follow(void *context)
{
	SAFELY(repeat());
	return 0;
}

#include "dump.h"

/* ---- Beginning and end ---- */

/* No lock is needed yet. */
__weak __noinline int begin(void)
{
	u32 first, end, pcpu;

	engine.began_ns = 0;
	engine.pcpus = pcpus_count;
	engine.level_pcpus[ENGINE_CORE] = level_pcpus[ENGINE_CORE];
	engine.level_pcpus[ENGINE_CACHE] = level_pcpus[ENGINE_CACHE];
	engine.level_pcpus[ENGINE_NODE] = level_pcpus[ENGINE_NODE];
	engine.level_pcpus[ENGINE_SOCKET] = level_pcpus[ENGINE_SOCKET];
	engine.queues = host_zero(&engine);
	engine_begin(&engine);
	for (first = host_zero(&engine); first < pcpus_count && can_loop; first = end) {
		struct engine_queue *q = &queue_at(engine.queues)->engine;

		end = engine_queue_end(&engine, first);
		q->first_pcpu = first;
		q->end_pcpu = end;
		engine_queue_begin(&engine, engine.queues++);
	}
	for (pcpu = host_zero(&engine); pcpu < pcpus_count && can_loop; pcpu++) {
		if (pcpu_at(pcpu)->offline)
			continue;
		set_bit_of(word_of(present_pcpus, pcpu / 64), pcpu, true);
		engine_pcpu_begin(&engine, pcpu);
	}
	return 0;
}

/* A timer of each item of the map is made ready. */
#define READY(map, count, callback) \
	bpf_for(i, 0, (count)) \
	{ \
		struct timer *timer; \
		u32 key = i; \
\
		timer = bpf_map_lookup_elem(&map, &key); \
		if (!timer) \
			continue; \
		error = bpf_timer_init(&timer->timer, &map, CLOCK_MONOTONIC); \
		if (!error) \
			error = bpf_timer_set_callback(&timer->timer, callback); \
		if (error) \
			return error; \
	}

SEC("struct_ops.s/steelyard_init")
s32 BPF_PROG(steelyard_init)
{
	s32 error;
	u32 i;

	begin();
	bpf_for(i, 0, lines_count())
	{
		error = scx_bpf_create_dsq(OTHERS_DSQ + i, -1);
		if (error)
			return error;
	}
	READY(pcpu_timers, pcpus_count, pcpu_timer);
	READY(vcpu_timers, MAX_VCPUS, vcpu_timer);
	READY(domain_timers, MAX_DOMAINS, domain_timer);
	READY(later_timer, 1, later_due);
	READY(round_timer, 1, round_due);
	SAFELY(repeat());
	return 0;
}

SEC("struct_ops/steelyard_exit")
void BPF_PROG(steelyard_exit, struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(exit_reason, sizeof(exit_reason), info->reason);
	bpf_probe_read_kernel_str(exit_message, sizeof(exit_message), info->msg);
	bpf_probe_read_kernel_str(exit_dump, sizeof(exit_dump), info->dump);
	exit_code = info->exit_code;
	exit_kind = info->kind;
}

SEC(".struct_ops.link")
struct sched_ext_ops steelyard_ops = {
	.select_cpu = (void *)steelyard_select_cpu,
	.enqueue = (void *)steelyard_enqueue,
	.dispatch = (void *)steelyard_dispatch,
	.running = (void *)steelyard_running,
	.stopping = (void *)steelyard_stopping,
	.tick = (void *)steelyard_tick,
	.quiescent = (void *)steelyard_quiescent,
	.yield = (void *)steelyard_yield,
	.set_cpumask = (void *)steelyard_set_cpumask,
	.cpu_release = (void *)steelyard_cpu_release,
	.init_task = (void *)steelyard_init_task,
	.exit_task = (void *)steelyard_exit_task,
	.init = (void *)steelyard_init,
	.exit = (void *)steelyard_exit,
	.dump = (void *)steelyard_dump,
	.dump_cpu = (void *)steelyard_dump_cpu,
	.dump_task = (void *)steelyard_dump_task,
	.flags = SCX_OPS_ENQ_LAST,
	.timeout_ms = 10000,
	.name = "steelyard",
};
