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

/* With the lock held: the set of pCPUs that a thread may use, of those that are there. */
static __always_inline void allow(u32 vcpu, const struct cpumask *mask)
{
	u32 pcpu;

	bpf_probe_read_kernel(mask_words, (cpus_count + 63) / 64 * sizeof(u64), mask->bits);
	for (pcpu = host_zero(&engine); pcpu < pcpus_count && can_loop; pcpu++) {
		u32 cpu = kernel_cpu(pcpu);
		bool present = *word_of(present_pcpus, pcpu / 64) >> pcpu % 64 & 1;

		set_bit_of(vcpu_at(vcpu)->allowed, pcpu,
			   present && *word_of(mask_words, cpu / 64) >> cpu % 64 & 1);
	}
}

/* With the lock held: the domain of the process, made if it is not there. SY_NONE: no slot is free. */
static __always_inline u32 find_domain(s32 pid, u32 weight, u64 now)
{
	struct sy_settings settings = settings_of(weight);
	u32 place = 0, found;
	struct domain *d;

	while ((found = host_next_accounted(&engine, &place)) != SY_NONE) {
		if (domain_at(found)->pid == pid) {
			domain_at(found)->engine.state.vcpus++;
			return found;
		}
	}
	if (free_domains.first) {
		found = free_domains.first - 1;
		take_out(&free_domains, OF_DOMAINS, found);
	} else if (domains_used < MAX_DOMAINS) {
		found = domains_used++;
	} else {
		return SY_NONE;
	}
	d = domain_at(found);
	__builtin_memset(d, 0, sizeof(*d));
	d->pid = pid;
	d->cgroup_weight = weight;
	d->samples.sampled.interval_ns = now;
	insert_after(&accounted, OF_DOMAINS, found, accounted.last);
	engine_domain_begin(&engine, found, &settings, 1, now);
	return found;
}

/* With the lock held: room for a vCPU, or SY_NONE. */
static __always_inline u32 find_vcpu(void)
{
	u32 found;

	if (free_vcpus.first) {
		found = free_vcpus.first - 1;
		take_out(&free_vcpus, IN_DOMAIN, found);
		return found;
	}
	return vcpus_used < MAX_VCPUS ? vcpus_used++ : SY_NONE;
}

static __always_inline void free_vcpu(u32 vcpu)
{
	vcpu_at(vcpu)->pid = 0;
	vcpu_at(vcpu)->timer_ns = 0;
	insert_after(&free_vcpus, IN_DOMAIN, vcpu, 0);
}

#endif
