/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which threads are vCPUs, whose they are, what weight they have and where they may run; and the slots of the
 * tables for vCPUs and domains.
 */
#ifndef STEELYARD_VCPUS_H
#define STEELYARD_VCPUS_H

/* Levels of control groups that are looked at for a weight. */
#define CGROUP_LEVELS 8

/*
 * A preempt notifier is there while a thread is in an ioctl of a vCPU, which may also be one of the VMM's that
 * sets it up. KVM notes who was in KVM_RUN last (kvm_vcpu_ioctl()); where it cannot be asked, since it was not there as
 * this program was loaded, the name decides that QEMU and others give.
 */
static __always_inline bool looks_like_vcpu(struct task_struct *p)
{
	const struct hlist_node *notifier = p->preempt_notifiers.first;

	if (!notifier)
		return false;
	if (bpf_core_field_exists(struct kvm_vcpu, pid))
		return BPF_CORE_READ(kvm_vcpu_of(notifier), pid) == p->thread_pid;
	return p->comm[0] == 'C' && p->comm[1] == 'P' && p->comm[2] == 'U' && p->comm[3] == ' ';
}

/*
 * cpu.weight of the nearest control group that has another than the default: until the loader, which looks at all groups,
 * has asked (src/asked.rs).
 */
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

/* With the host's lock held, and the vCPU's queue's if it has one: the set of pCPUs that a thread may use, of those
 * that are there. */
static __always_inline void allow(u32 vcpu, const struct cpumask *mask)
{
	u32 pcpu;

	bpf_probe_read_kernel(mask_words, (cpus_count + 63) / 64 * sizeof(u64), mask->bits);
	for (pcpu = host_zero(&engine); pcpu < pcpus_count && can_loop; pcpu++) {
		u32 cpu = kernel_cpu(pcpu);

		set_bit_of(word_of(vcpu_at(vcpu)->allowed, pcpu / 64), pcpu,
			   bit_of(present_pcpus, pcpu) && bit_of(mask_words, cpu));
	}
}

/* With the host's lock held: the domain of the process, or SY_NONE. */
static __always_inline u32 domain_of(s32 pid)
{
	u32 *found = bpf_map_lookup_elem(&domain_of_pid, &pid);

	return found ? *found : SY_NONE;
}

/* With the host's lock held: a vCPU joins the domain of its process, made if it is not there. SY_NONE: no slot is free. */
static __always_inline u32 join_domain(s32 pid, u32 weight, u64 now)
{
	struct sy_settings settings = {
		.weight = sy_max((u64)weight * SY_WEIGHT_DEFAULT / CGROUP_WEIGHT_DFL, 1),
		.extra_time = 1, /* until the loader tells what is asked */
	};
	u32 found = domain_of(pid);
	struct domain *d;

	if (found != SY_NONE) {
		host_lock_domain(&engine, found);
		domain_at(found)->engine.state.vcpus++;
		host_unlock_domain(&engine, found);
		return found;
	}
	if (free_domains.first) {
		found = free_domains.first - 1;
		take_out(&free_domains, OF_DOMAINS, found);
	} else if (domains_used < MAX_DOMAINS) {
		found = domains_used++;
	} else {
		return SY_NONE;
	}
	if (bpf_map_update_elem(&domain_of_pid, &pid, &found, BPF_ANY)) {
		insert_after(&free_domains, OF_DOMAINS, found, 0);
		return SY_NONE;
	}
	d = domain_at(found);
	/* But for its lock. */
	__builtin_memset(&d->engine, 0, sizeof(*d) - __builtin_offsetof(struct domain, engine));
	d->pid = pid;
	d->samples.sampled.interval_ns = now;
	insert_after(&accounted, OF_DOMAINS, found, accounted.last);
	engine_domain_begin(&engine, found, &settings, 1, now);
	return found;
}

/* The index after this one's of a domain, which is named as links do. */
static __always_inline u32 next_index(u32 after)
{
	return after ? vcpu_at(after - 1)->engine.state.index + 1 : 0;
}

/*
 * With the host's lock held: after whom a domain's new vCPU comes, to have the lowest index that is free; they are in the
 * order of these. The domain counts the new one already.
 */
static __always_inline u32 find_index(const struct domain *d)
{
	u32 after = d->vcpus.last, next;

	if (next_index(after) == d->engine.state.vcpus - 1)
		return after;
	for (after = 0; can_loop; after = next) {
		next = after ? vcpu_at(after - 1)->links[IN_DOMAIN].next : d->vcpus.first;
		if (!next || vcpu_at(next - 1)->engine.state.index != next_index(after))
			break;
	}
	return after;
}

/* With the host's lock held: from now on this is its thread. */
static __always_inline void hold_task(u32 vcpu, struct task_struct *p)
{
	struct vcpu_task *held = bpf_map_lookup_elem(&vcpu_tasks, &vcpu);
	struct task_struct *task, *before;

	if (!held)
		return;
	task = bpf_task_acquire(p);
	if (!task)
		return;
	before = bpf_kptr_xchg(&held->task, task);
	if (before)
		bpf_task_release(before);
}

/* With the host's lock held: it has none any more. */
static __always_inline void drop_task(u32 vcpu)
{
	struct vcpu_task *held = bpf_map_lookup_elem(&vcpu_tasks, &vcpu);
	struct task_struct *before;

	if (!held)
		return;
	before = bpf_kptr_xchg(&held->task, NULL);
	if (before)
		bpf_task_release(before);
}

/* With the host's lock held: room for a vCPU, or SY_NONE. */
static __always_inline u32 find_vcpu(void)
{
	u32 found;

	if (free_vcpus.first) {
		found = free_vcpus.first - 1;
		take_out(&free_vcpus, IN_QUEUE, found);
		return found;
	}
	return vcpus_used < MAX_VCPUS ? vcpus_used++ : SY_NONE;
}

static __always_inline void free_vcpu(u32 vcpu)
{
	vcpu_at(vcpu)->pid = 0;
	vcpu_at(vcpu)->timer_ns = 0;
	set_bit_of(word_of(unsettled_vcpus, vcpu / 64), vcpu, false);
	insert_after(&free_vcpus, IN_QUEUE, vcpu, 0);
}

/* With the host's lock held: the vCPU leaves its domain, which ends with its last one. What goes on with either goes on
 * with the next. */
static __always_inline void leave_domain(u32 vcpu, u32 domain)
{
	struct domain *d = domain_at(domain);
	u64 left;

	if (the_round.visits == domain + 1 && the_round.visited == vcpu + 1)
		the_round.visited = vcpu_at(vcpu)->links[IN_DOMAIN].previous;
	if (d->unparked == vcpu + 1)
		d->unparked = vcpu_at(vcpu)->links[IN_DOMAIN].previous;
	take_out(&d->vcpus, IN_DOMAIN, vcpu);
	host_lock_domain(&engine, domain);
	left = --d->engine.state.vcpus;
	host_unlock_domain(&engine, domain);
	if (left)
		return;
	if (the_round.visits == domain + 1)
		the_round.visits = 0;
	if (the_round.place == domain + 1)
		the_round.place = d->link.next ? d->link.next : SY_NONE;
	bpf_map_delete_elem(&domain_of_pid, &d->pid);
	d->pid = 0;
	d->timer_ns = 0;
	d->unparks = 0;
	take_out(&accounted, OF_DOMAINS, domain);
	insert_after(&free_domains, OF_DOMAINS, domain, 0);
}

#endif
