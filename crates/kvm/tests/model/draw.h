/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which policy the next host has, which kernel, and which CPUs of which numbers. Part of model.c.
 */
#ifndef STEELYARD_MODEL_DRAW_H
#define STEELYARD_MODEL_DRAW_H

#include "tests/draw_policy.h"

static void draw_policy(void)
{
	u64 discipline = below(SY_DISCIPLINES);

	published = below(2);
	draw_policy_of(discipline, published);
	*(struct sy_policy *)&policy_constant = policy;
}

/* As the loader finds it: groups of any size, and CPUs that are there have any numbers, others none. */
static void draw_numbers(void)
{
	static const u32 sizes[] = { 1, 1, 2, 3, 4 };
	u32 pcpu, cpu, level, pcpus_of_level = 1, count = 0;

	for_each_cpu(cpu) count += rqs[cpu].there;
	for (level = 0; level < ENGINE_LEVELS; level++) {
		u32 most = sy_max(count / pcpus_of_level, 1);

		pcpus_of_level *= sy_min(level == ENGINE_CORE ? 1 + below(2) : sizes[below(5)], most);
		((volatile u32 *)level_pcpus)[level] = pcpus_of_level;
	}
	/* Now and then more than there are CPUs. */
	count = (count + (below(2) ? 0 : below(count + 1)) + pcpus_of_level - 1) / pcpus_of_level * pcpus_of_level;
	count = count > MAX_PCPUS ? MAX_PCPUS / pcpus_of_level * pcpus_of_level : count;
	*(volatile u32 *)&pcpus_count = count;
	*(volatile u32 *)&cpus_count = cpus;
	for (pcpu = 0; pcpu < MAX_PCPUS; pcpu++)
		pcpus[pcpu].offline = 1;
	for_each_cpu(cpu)
	{
		pcpu = rqs[cpu].there ? below(count) : NO_PCPU;
		while (rqs[cpu].there && !pcpus[pcpu].offline)
			pcpu = (pcpu + 1) % count;
		((volatile u16 *)pcpu_of_cpu)[cpu] = pcpu;
		if (!rqs[cpu].there)
			continue;
		((volatile u16 *)cpu_of_pcpu)[pcpu] = cpu;
		pcpus[pcpu].offline = 0;
	}
}

static void draw_kernel(void)
{
	static const u32 most[] = { 1, 2, 3, 4, 8, 16, 64, CPUS };
	u32 i;

	model_kvm_is_there = below(4);
	model_exists_scx_bpf_task_set_slice = below(2);
	model_exists_scx_bpf_task_set_dsq_vtime = model_exists_scx_bpf_task_set_slice;
	model_exists_scx_bpf_reenqueue_local = below(8);
	model_exists___scx_bpf_dsq_insert_vtime = below(2);
	pinned_stay = below(2);
	pins_itself = !pinned_stay || below(2);
	cpus = 1 + below(most[below(8)]);
	for_each_cpu(i)
	{
		rqs[i].there = i == cpus / 2 || below(8) || cpus < 3;
		rqs[i].idle = rqs[i].there;
	}
	draw_numbers();
	parts_most = below(2) ? ENGINE_PARTS_EQUAL : ENGINE_PARTS_EQUAL + below(ENGINE_PARTS_MAX - ENGINE_PARTS_EQUAL + 1);
	draw_parts();
	for (i = 0; i < GROUPS; i++) {
		groups[i].parent = i ? &groups[below(i)] : NULL;
		groups[i].scx.weight = below(2) ? 0 : below(2) ? CGROUP_WEIGHT_DFL :
								 1 + below(10000);
	}
}

#endif
