/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What must hold whenever no CPU is in the middle of anything. Part of model.c.
 */
#ifndef STEELYARD_MODEL_CHECKS_H
#define STEELYARD_MODEL_CHECKS_H

/* When a task that is no vCPU makes room, after it began, rounded up. */
#define OTHERS_LEAD_MOST_NS ((ENGINE_OTHERS_LEAD_NS + 1) * ENGINE_PARTS_EQUAL / ENGINE_PARTS_MIN)

static u64 began_ns[MAX_VCPUS]; /* of each vCPU, */
static s32 began_pid[MAX_VCPUS]; /* when it was of this thread */
static struct task *thread[MAX_VCPUS];

static void find_threads(void)
{
	struct task *t;

	memset(thread, 0, sizeof(thread));
	for_each_task(t)
	{
		u32 vcpu = t->thread.vcpu - 1;

		if (!t->thread.vcpu)
			continue;
		check(vcpu >= first_vcpu && vcpu < vcpus_used && !thread[vcpu], "vCPU %u is that of two threads", vcpu);
		check(vcpus[vcpu].pid == t->seen.pid, "vCPU %u is of thread %d, not of %d", vcpu, t->seen.pid,
		      vcpus[vcpu].pid);
		thread[vcpu] = t;
	}
}

/* ---- Lists ---- */

/* Both directions agree; how many are in it, each of which is `marked` from then on. */
static u32 check_list(const struct list *list, u32 which, const char *name, u32 *marks)
{
	u32 here_ = list->first, before = 0, count = 0;

	for (; here_; before = here_, here_ = vcpus[here_ - 1].links[which].next) {
		check(here_ <= vcpus_used && ++count <= vcpus_used, "list of %s without end", name);
		check(vcpus[here_ - 1].links[which].previous == before, "list of %s: vCPU %u", name, here_ - 1);
		marks[here_ - 1]++;
	}
	check(list->last == before, "list of %s ends elsewhere", name);
	return count;
}

static u32 check_domain_list(const struct list *list, bool used, const char *name)
{
	u32 here_ = list->first, before = 0, count = 0;

	for (; here_; before = here_, here_ = domains[here_ - 1].link.next) {
		check(here_ <= domains_used && ++count <= domains_used, "list of %s without end", name);
		check(domains[here_ - 1].link.previous == before, "list of %s: domain %u", name, here_ - 1);
		check(!!domains[here_ - 1].pid == used, "list of %s: domain %u has pid %d", name, here_ - 1,
		      domains[here_ - 1].pid);
	}
	check(list->last == before, "list of %s ends elsewhere", name);
	return count;
}

/* No two have the same one. */
static void check_indices(u32 domain)
{
	u32 place = 0, vcpu;
	s64 last = -1;

	while ((vcpu = host_next_vcpu(&engine, domain, &place)) != SY_NONE) {
		check(vcpus[vcpu].engine.state.index > last, "domain %u has two vCPUs %u", domain,
		      vcpus[vcpu].engine.state.index);
		last = vcpus[vcpu].engine.state.index;
	}
}

static void check_lists(void)
{
	static u32 waiting[MAX_VCPUS], member[MAX_VCPUS], inside[MAX_VCPUS], unused[MAX_VCPUS];
	u32 i, count = 0;

	for (i = first_vcpu; i < vcpus_used; i++)
		waiting[i] = member[i] = inside[i] = unused[i] = 0;
	for (i = 0; i < engine.queues; i++) {
		check_list(&queues[i].waiting, IN_WAITING, "who waits", waiting);
		check_list(&queues[i].members, IN_QUEUE, "members", member);
	}
	check_list(&free_vcpus, IN_QUEUE, "free slots", unused);
	for (i = first_domain; i < domains_used; i++) {
		u32 members = domains[i].pid ? check_list(&domains[i].vcpus, IN_DOMAIN, "a domain's", inside) : 0;

		check(!domains[i].pid || members == domains[i].engine.state.vcpus, "domain %u has %u vCPUs, not %llu",
		      i, members, domains[i].engine.state.vcpus);
		if (domains[i].pid)
			check_indices(i);
	}
	count = check_domain_list(&accounted, true, "who is accounted");
	count += check_domain_list(&free_domains, false, "free domains");
	check(count == domains_used - first_domain, "%u domains are in lists, not %u", count,
	      domains_used - first_domain);
	for (i = first_vcpu; i < vcpus_used; i++) {
		check(inside[i] == !!vcpus[i].pid && unused[i] == !vcpus[i].pid, "vCPU %u is in %u lists of domains", i, inside[i]);
		check(belongs_to(i) == (vcpus[i].pid ? vcpus[i].engine.queue : SY_NONE), "vCPU %u belongs elsewhere", i);
		check(member[i] == !!vcpus[i].pid && !!thread[i] == !!vcpus[i].pid, "vCPU %u is a member of %u queues",
		      i, member[i]);
		check(waiting[i] == (vcpus[i].pid && vcpus[i].engine.queued), "vCPU %u waits in %u places", i,
		      waiting[i]);
	}
}

/* ---- What the engine believes is what the kernel has ---- */

/* The kernel does not ask about it where it goes. */
static bool is_never_asked(const struct task *t)
{
	return t->seen.flags & PF_EXITING || t->stays;
}

/* Or did not, and it has its turn as another task has, though it may migrate again by now. */
static bool is_unasked(const struct task *t)
{
	bool runs = rqs[cpu_of(t)].current == t;

	return is_never_asked(t) || (runs && t->thread.vcpu && vcpus[t->thread.vcpu - 1].unasked);
}

/* It is in a queue of the kernel's, or on the way there, or runs and is on the way off. */
static bool is_on_the_way(const struct task *t)
{
	const struct run_queue *rq = &rqs[cpu_of(t)];

	if (rq->current == t)
		return rq->resched || rq->preempts || wants_higher(rq);
	return t->listed;
}

static void check_place(u32 i, bool settled)
{
	const struct engine_vcpu *v = &vcpus[i].engine;
	const struct task *t = thread[i];
	u32 cpu = cpu_of(t);
	bool runs = rqs[cpu].current == t, arrived = runs && v->status == ENGINE_RUNNING && v->ran_on == pcpu_of(cpu);

	check(!is_queued(t) || runs || t->listed || t->state == OPS_QUEUED, "vCPU %u: its thread is lost", i);
	check(runs + !!t->listed + (t->state == OPS_QUEUED) <= 1, "vCPU %u: its thread is in two places", i);
	if (is_unasked(t))
		return;
	if (!is_queued(t))
		check(v->status == ENGINE_BLOCKED && !v->saving, "vCPU %u has status %u, but has nothing to do", i,
		      v->status);
	else if (t->state == OPS_QUEUED)
		check(v->status == ENGINE_WAITING && !v->saving, "vCPU %u has status %u, and nobody has it", i,
		      v->status);
	else
		check(arrived || is_on_the_way(t), "vCPU %u runs on CPU %u, where it should not be", i, cpu);
	/* What has been put off until another task has had its turn. */
	if (settled && is_queued(t) && !arrived && t->state != OPS_QUEUED)
		check(t->listed && rqs[cpu].current, "vCPU %u runs on CPU %u and should not", i, cpu);
}

static void check_times(u32 i, u64 now)
{
	const struct vcpu *v = &vcpus[i];
	u64 ns = v->engine.since_ns - v->met.gotten_ns - v->met.waited_ns - v->met.blocked_ns;

	if (began_pid[i] != v->pid)
		began_ns[i] = ns;
	began_pid[i] = v->pid;
	check(began_ns[i] == ns, "vCPU %u: time is lost or counted twice: %lld ns", i, (s64)(ns - began_ns[i]));
	check(v->engine.since_ns <= now && v->engine.status <= ENGINE_RUNNING, "vCPU %u is ahead of its time", i);
	check(v->met.parked_ns <= v->met.waited_ns + (v->engine.status == ENGINE_WAITING ? now - v->engine.since_ns : 0),
	      "vCPU %u was parked for longer than it waited", i);
	check(v->met.switches <= v->met.waits && v->met.late_waits <= v->met.waits, "vCPU %u: counts are wrong", i);
}

static bool is_armed(void *map, u32 key, u64 at_ns)
{
	struct clock *c = &clocks[map_base(map) + key];

	return c->place && c->due_ns <= sy_max(at_ns, model_now) + SOONEST_NS;
}

/* Whether the domain's timer takes none of its vCPUs to be parked for want of a budget. */
static bool is_forgotten(struct sy_domain *d)
{
	if (policy.discipline == SY_CREDIT2)
		return !credit2_domain(d)->budget.parked;
	return policy.discipline == SY_FAIR && !fair_domain(d)->budget.parked;
}

static void check_vcpu(u32 i, bool settled)
{
	const struct vcpu *v = &vcpus[i];
	const struct domain *d = &domains[v->engine.domain];
	u32 cpu, left = 0;

	check_beliefs_of_vcpu(i);
	check_place(i, settled);
	check_times(i, model_now);
	check(d->pid == thread[i]->seen.tgid, "vCPU %u is in the wrong domain", i);
	for_each_cpu(cpu) if (rqs[cpu].there)
	{
		check(has_bit(v->allowed, pcpu_of(cpu)) == may_use(thread[i], cpu), "vCPU %u: whether it may use CPU %u is forgotten",
		      i, cpu);
		left -= may_use(thread[i], cpu);
	}
	for (cpu = 0; cpu < PCPU_WORDS; cpu++)
		left += __builtin_popcountll(v->allowed[cpu]);
	check(!left, "vCPU %u may use pCPUs that are not there", i);
	check(!v->timer_ns || is_armed(&vcpu_timers, i, v->timer_ns) || bit_of(untimed_vcpus, i), "vCPU %u: its timer is forgotten", i);
	check(!d->timer_ns || is_armed(&domain_timers, v->engine.domain, d->timer_ns) || bit_of(untimed_domains, v->engine.domain),
	      "domain %u: its timer is forgotten", v->engine.domain);
	check(v->timer_ns == sy_vcpu_timer_ns(host_policy(&engine), &v->engine.state),
	      "vCPU %u: its timer was changed and not told", i);
	check(v->engine.status != ENGINE_WAITING || !v->engine.parked || v->timer_ns ||
		      sy_account_ns(host_policy(&engine)) || (d->timer_ns && !is_forgotten(&domains[v->engine.domain].engine.state)),
	      "vCPU %u is parked, and nothing ends it", i);
}

/* Of this CPU. settled: nothing is on the way to it. */
static void check_pcpu(u32 cpu, bool settled)
{
	u32 i = pcpu_of(cpu);
	const struct pcpu *c = pcpu_at(i);
	const struct run_queue *rq = &rqs[cpu];
	u64 due_ns = c->slice_end_ns;

	if (!rq->there)
		return;
	check(kernel_cpu(i) == cpu && c->engine.online && i < pcpus_count, "CPU %u is not pCPU %u", cpu, i);
	if (c->tick_due_ns && (!due_ns || c->tick_due_ns < due_ns))
		due_ns = c->tick_due_ns;
	/* One that could not be set is tried again by the next call; the kernel ends the slice itself. */
	check(!due_ns || is_armed(&pcpu_timers, i, due_ns) || (!c->armed_ns && clocks[map_base(&pcpu_timers) + i].failed),
	      "pCPU %u: its timer is forgotten", i);
	check(c->engine.current == SY_NONE || thread[c->engine.current], "pCPU %u runs nobody", i);
	/* What runs there makes room for a vCPU that woke, and for no other. */
	check(!c->engine.occupied || c->slice_end_ns <= c->others.changed_ns + OTHERS_LEAD_MOST_NS,
	      "pCPU %u: a slice ends that is of no vCPU", i);
	if (!settled)
		return;
	/* Unless it was idle, the kernel says that another class takes it. */
	check(rq->current != &higher_task || !rq->released || c->engine.current == SY_NONE,
	      "pCPU %u is taken, and vCPU %u waits for it", i, c->engine.current);
	if (wants_higher(rq))
		return;
	check(!rq->local.first || rq->current, "CPU %u idles beside its own queue", i);
	check(!c->engine.interrupted, "pCPU %u never chooses", i);
	check(!c->engine.occupied || (rq->current && (!rq->current->thread.vcpu || is_unasked(rq->current))) ||
		      rq->local.first,
	      "pCPU %u is taken by nobody", i);
	check(c->engine.current != SY_NONE || !rq->current || !rq->current->thread.vcpu || is_unasked(rq->current),
	      "pCPU %u runs a vCPU unknowingly", i);
}

/* A task that is no vCPU. */
static void check_other(const struct task *t, bool settled)
{
	const struct run_queue *rq = &rqs[cpu_of(t)];

	if (t->thread.vcpu || !is_queued(t))
		return;
	check(rq->current == t || t->listed, "task %d is lost, state %u", t->seen.pid, t->state);
	check(!settled || rq->current, "task %d waits for an idle CPU", t->seen.pid);
	check(!settled || !is_line(t->listed) || t->woken != rq->rounds + 1 ||
		      pcpus[pcpu_of(cpu_of(t))].engine.current == SY_NONE,
	      "task %d woke, and its CPU does not look for it", t->seen.pid);
}

/* Nothing that was put off is forgotten, whatever timer could not be set. settled: what is idle has chosen since. */
static void check_put_off(bool settled)
{
	bool comes = later == LATER_FAILED || clocks[map_base(&later_timer)].place;
	u32 i;

	for (i = 0; i < PCPU_WORDS; i++)
		check(comes || !unbalanced_queues[i], "balancing is forgotten");
	for (i = 0; i < VCPU_WORDS; i++)
		check(comes || !(unsettled_vcpus[i] | untimed_vcpus[i]), "settling is forgotten");
	for (i = 0; i < MAX_DOMAINS / 64; i++)
		check(comes || !untimed_domains[i], "timers of domains are forgotten");
	check(comes || !untimed_round, "the round is forgotten");
	check(!(account_due_ns || sample_due_ns) || clocks[map_base(&round_timer)].place || untimed_round,
	      "no accounting, no samples");
	for_each_cpu(i)
		check(!settled || later != LATER_FAILED || !rqs[i].there || rqs[i].current,
		      "CPU %u has not tried to set a timer again", i);
}

static void check_all(bool settled)
{
	struct task *t;
	u32 i, queued = 0;

	find_threads();
	check_lists();
	for (i = first_vcpu; i < vcpus_used; i++) {
		if (thread[i])
			check_vcpu(i, settled);
		queued += thread[i] && vcpus[i].engine.queued;
	}
	for_each_cpu(i)
		check_pcpu(i, settled);
	for (i = 0; i < pcpus_count; i++)
		check_beliefs_of_pcpu(i);
	for (i = 0; i < engine.queues; i++)
		queued -= check_beliefs_of_queue(i);
	for (i = first_domain; i < domains_used; i++) {
		if (domains[i].pid)
			check_beliefs_of_domain(i);
	}
	check(!queued, "%u are not in their queues", queued);
	for_each_task(t)
		check_other(t, settled);
	check_put_off(settled);
	check(engine.accounting.pcpus == engine.online, "accounting counts other pCPUs");
}

#endif
