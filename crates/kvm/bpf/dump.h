/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel writes down of this scheduler when it ends it, or when somebody asks (SysRq-D): who waits since when,
 * which locks are held, what each pCPU is believed to do.
 *
 * No lock is taken: one that is kept may be why the kernel asks. So what is told together may be of different moments.
 */
#ifndef STEELYARD_DUMP_H
#define STEELYARD_DUMP_H

/* Of enum engine_status, and of what is none. */
static char status_names[4][8] = { "blocked", "waiting", "running", "?" };

/* The kernel takes no constant for a format; each value is a u64. */
#define DUMP(words, ...) \
	({ \
		static char format[] = words; \
		u64 values[] = { __VA_ARGS__ }; \
\
		if (bpf_ksym_exists(scx_bpf_dump_bstr)) \
			scx_bpf_dump_bstr(format, values, sizeof(values)); \
	})

/* In us, as all times here; 0 if that is still to come. */
static __always_inline u64 us_since(u64 then_ns)
{
	u64 now = bpf_ktime_get_ns();

	return then_ns < now ? (now - then_ns) / SY_US : 0;
}

static __always_inline u64 us_until(u64 then_ns)
{
	u64 now = bpf_ktime_get_ns();

	return then_ns > now ? (then_ns - now) / SY_US : 0;
}

static __always_inline u64 is_held(const struct lock *lock)
{
	return *(volatile u32 *)&lock->state & LOCK_HELD;
}

/* It changes meanwhile: no list is longer than all vCPUs. */
static __always_inline u64 length_of(const struct list *list, u32 which)
{
	u32 place = host_zero(&engine);
	u64 length = host_zero(&engine);

	while (length < MAX_VCPUS && next_vcpu(list, which, &place) != SY_NONE)
		length++;
	return length;
}

/* A queue that nobody waits in, and whose lock is free, is none to tell of. */
__weak __noinline int dump_queue(u32 queue)
{
	struct queue *q = queue_at(queue);
	u64 waiting = length_of(&q->waiting, IN_WAITING), held = is_held(&q->lock);
	u32 first = *(volatile u32 *)&q->waiting.first;

	if (!waiting && !held)
		return 0;
	DUMP("queue %llu of pCPUs %llu to %llu: %llu wait, %llu belong there; lock held %llu\n", queue,
	     q->engine.first_pcpu, q->engine.end_pcpu - 1, waiting, length_of(&q->members, IN_QUEUE), held);
	if (first)
		DUMP("  next: vCPU %llu, key %llu, waits for %llu us\n", first - 1, vcpu_at(first - 1)->engine.key,
		     us_since(vcpu_at(first - 1)->engine.since_ns));
	return 0;
}

SEC("struct_ops/steelyard_dump")
void BPF_PROG(steelyard_dump, struct scx_dump_ctx *context)
{
	u32 queue;

	DUMP("%s: slots %llu of vCPUs, %llu of domains; locks held: host %llu, shared %llu\n", (u64)policy_name,
	     vcpus_used, domains_used, is_held(&host_lock), is_held(&shared_lock));
	for (queue = host_zero(&engine); queue < engine.queues && can_loop; queue++)
		dump_queue(queue);
}

/* The kernel leaves out an idle CPU of which nothing is said. */
SEC("struct_ops/steelyard_dump_cpu")
void BPF_PROG(steelyard_dump_cpu, struct scx_dump_ctx *context, s32 cpu, bool idle)
{
	u32 pcpu = pcpu_of(cpu);
	struct pcpu *c;

	if (pcpu == SY_NONE)
		return;
	c = pcpu_at(pcpu);
	if (c->engine.current != SY_NONE)
		DUMP("pCPU %llu of queue %llu: vCPU %llu, slice ends in %llu us\n", pcpu, c->engine.queue,
		     c->engine.current, us_until(c->slice_end_ns));
	else if (!idle)
		DUMP("pCPU %llu of queue %llu: no vCPU\n", pcpu, c->engine.queue);
	if (c->engine.current != SY_NONE || !idle)
		DUMP("  occupied %llu, interrupted %llu, others ahead by %llu ns, %llu choices\n", c->engine.occupied,
		     c->engine.interrupted, c->others.ahead_ns, c->counts[ENGINE_CHOICES]);
}

/* Of each task that can run. */
SEC("struct_ops/steelyard_dump_task")
void BPF_PROG(steelyard_dump_task, struct scx_dump_ctx *context, struct task_struct *p)
{
	u32 vcpu = vcpu_of(p);
	struct engine_vcpu *e;

	if (vcpu == SY_NONE)
		return;
	e = &vcpu_at(vcpu)->engine;
	DUMP("vCPU %llu of domain %llu, process %llu: %s for %llu us in queue %llu, on pCPU %lld\n", vcpu, e->domain,
	     domain_at(e->domain)->pid, (u64)status_names[e->status & 3], us_since(e->since_ns), e->queue,
	     (u64)(s64)(s32)e->ran_on);
	DUMP("  key %llu, queued %llu, parked %llu, saving %llu, unasked %llu\n", e->key, e->queued, e->parked,
	     e->saving, vcpu_at(vcpu)->unasked);
}

#endif
