/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that are no vCPUs: what policy/engine/others.h says of them, in the kernel's queues. A line is one of them, and
 * a pCPU that gets nothing from its own asks all others.
 */
#ifndef STEELYARD_OTHERS_H
#define STEELYARD_OTHERS_H

/* The kernel's queue of the first line. */
#define OTHERS_DSQ 0x10000

struct line {
	struct engine_line engine;
} OWN_LINE;

struct line lines[MAX_PCPUS];
u32 vcpus_parts; /* by those of other tasks: written by the loader */

static __always_inline u32 parts_now(void)
{
	return sy_min(sy_max(*(volatile u32 *)&vcpus_parts, ENGINE_PARTS_MIN), ENGINE_PARTS_MAX);
}

static __always_inline struct engine_line *line_at(u32 line)
{
	barrier_var(line);
	return &lines[line & (MAX_PCPUS - 1)].engine;
}

/* That of a pCPU; of a CPU that is just coming, the first. */
static __always_inline u32 line_of(u32 pcpu)
{
	return pcpu == SY_NONE ? 0 : pcpu / level_pcpus[ENGINE_CACHE];
}

static __always_inline u32 lines_count(void)
{
	return line_of(pcpus_count - 1) + 1;
}

HOST_FN bool host_interrupt_other(struct engine *e, u32 pcpu, u64 now)
{
	struct pcpu *c = pcpu_at(pcpu);
	u64 at_ns = engine_other_yields_at(&c->others, parts_now(), now);

	if (!at_ns)
		return false;
	if (at_ns <= now) {
		scx_bpf_kick_cpu(kernel_cpu(pcpu), SCX_KICK_PREEMPT);
	} else {
		c->slice_end_ns = at_ns;
		arm(pcpu, now);
	}
	return true;
}

static __always_inline void start_other(struct pcpu *c, const struct task_struct *p, const struct thread *t, u64 now)
{
	engine_other_starts(&c->others, parts_now(), line_at(t->other.line), &t->other, p->flags & PF_KTHREAD, now);
}

static __always_inline void stop_other(struct pcpu *c, struct task_struct *p, struct thread *t, u64 now)
{
	if (c->others.run)
		c->counts[ENGINE_OTHERS_NS] += now > c->others.changed_ns ? now - c->others.changed_ns : 0;
	engine_other_stops(&c->others, parts_now(), &t->other, p->scx.weight, now);
}

/* Into a line. */
static __always_inline void join_line(struct task_struct *p, struct thread *t, u32 line, u64 enq_flags)
{
	engine_other_joins(&t->other, line_at(t->other.line), line_at(line), line, p->scx.weight);
	insert_by_time(p, OTHERS_DSQ + line, ENGINE_OTHER_SLICE_NS, t->other.time_ns, enq_flags);
}

static __always_inline void enqueue_other(struct task_struct *p, struct thread *t, u64 enq_flags)
{
	u32 cpu = scx_bpf_task_cpu(p), pcpu = pcpu_of(cpu);
	const struct engine_pcpu *c = &pcpu_at(pcpu)->engine;
	bool wakes = enq_flags & SCX_ENQ_WAKEUP;
	s32 idle;

	if (!t || (wakes && p->flags & PF_KTHREAD)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, ENGINE_OTHER_SLICE_NS, enq_flags | (wakes ? SCX_ENQ_PREEMPT : 0));
		return;
	}
	join_line(p, t, line_of(pcpu), enq_flags);
	if (wakes) {
		if (pcpu != SY_NONE && engine_other_interrupts(c))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Whether this line had one for the pCPU that dispatches. */
static __always_inline bool take_other(u32 line)
{
	return scx_bpf_dsq_move_to_local(OTHERS_DSQ + line);
}

/*
 * For how long at most the vCPUs have this pCPU now; 0: another task has come instead. A function of its own, so that the
 * choice that follows has its stack.
 */
__weak __noinline u64 vcpus_turn_ns(u32 pcpu, u32 line, bool goes_on, u64 now)
{
	const struct pcpu *c = pcpu_at(pcpu);
	bool waits = scx_bpf_dsq_nr_queued(OTHERS_DSQ + line);
	u32 parts = parts_now();
	u64 turn_ns = engine_vcpus_turn_ns(&c->others, parts, waits, goes_on, now);

	if (turn_ns || take_other(line))
		return turn_ns;
	return engine_vcpus_turn_ns(&c->others, parts, false, true, now);
}

/* Whether any had: its own first, then from there on round. */
__weak __noinline bool take_any_other(u32 own)
{
	u32 count = lines_count(), after;

	for (after = host_zero(&engine); after < count && can_loop; after++)
		if (take_other((own + after) % count))
			return true;
	/* The kernel gives up the run queue's lock for what it takes from another CPU: somebody may have come. */
	return take_other(own);
}

#endif
