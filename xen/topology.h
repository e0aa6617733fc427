/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine's numbers of pCPUs. Those of a core, and the cores of a socket, must follow each other,
 * which Xen's need not. What is not known yet when a cpupool gets its first domain, such as a pCPU
 * that is offline, gets a number when it joins: one that its core or its socket has free, or another.
 */

static bool same_socket(unsigned int a, unsigned int b)
{
	return cpu_to_socket(a) == cpu_to_socket(b);
}

/* How many threads, cores and sockets the numbers of these pCPUs have room for, and some to come. */
static void find_shape(struct engine *e, const cpumask_t *cpus, unsigned int present)
{
	unsigned int threads = 1, cores = 1, sockets = 0, cpu, other;
	cpumask_t left;

	for_each_cpu (cpu, cpus) {
		unsigned int here = 0, first = SY_NONE;

		cpumask_and(&left, cpus, per_cpu(cpu_sibling_mask, cpu));
		threads = max(threads, (unsigned int)cpumask_weight(&left));
		cpumask_copy(&left, cpus);
		for_each_cpu (other, &left) {
			if (!same_socket(cpu, other))
				continue;
			first = min(first, other);
			here++;
			cpumask_andnot(&left, &left, per_cpu(cpu_sibling_mask, other));
		}
		cores = max(cores, here);
		sockets += first == cpu;
	}
	e->threads_per_core = threads;
	e->pcpus_per_socket = threads * cores;
	e->pcpus = e->pcpus_per_socket * max(sockets, DIV_ROUND_UP(present, e->pcpus_per_socket));
}

/* The first of so many free numbers side by side, at a multiple of that many; or SY_NONE. */
static u32 free_numbers(const struct host *h, u32 from, u32 end, u32 count)
{
	u32 i;

	for (; from < end; from += count) {
		for (i = 0; i < count && h->pcpu[from + i].cpu == SY_NONE; i++)
			;
		if (i == count)
			return from;
	}
	return SY_NONE;
}

/* Gives the pCPU a number, unless it has one; false: there is none. */
static bool give_number(struct host *h, unsigned int cpu)
{
	u32 threads = h->engine.threads_per_core, per_socket = h->engine.pcpus_per_socket;
	u32 core = SY_NONE, socket = SY_NONE, number = SY_NONE, i;

	if (h->number[cpu] != SY_NONE)
		return true;
	for (i = 0; i < h->engine.pcpus; i++) {
		unsigned int other = h->pcpu[i].cpu;

		if (other == SY_NONE || !same_socket(cpu, other))
			continue;
		socket = i - i % per_socket;
		if (cpumask_test_cpu(other, per_cpu(cpu_sibling_mask, cpu)))
			core = i - i % threads;
	}
	if (core != SY_NONE)
		number = free_numbers(h, core, core + threads, 1);
	if (number == SY_NONE && socket != SY_NONE)
		number = free_numbers(h, socket, socket + per_socket, threads);
	if (number == SY_NONE)
		number = free_numbers(h, 0, h->engine.pcpus, per_socket);
	if (number == SY_NONE)
		number = free_numbers(h, 0, h->engine.pcpus, 1);
	if (number == SY_NONE)
		return false;
	h->number[cpu] = number;
	h->pcpu[number].cpu = cpu;
	return true;
}

/* How many numbers side by side share a queue. */
static u32 queue_pcpus(const struct engine *e)
{
	switch (sy_scope(&policy)) {
	case SY_SCOPE_CORE:
		return e->threads_per_core;
	case SY_SCOPE_SOCKET:
		return e->pcpus_per_socket;
	case SY_SCOPE_ALL:
		return e->pcpus;
	default:
		return 1;
	}
}

/* Queues of whole groups, split where they are too large. */
static void begin_queues(struct host *h)
{
	u32 group = queue_pcpus(&h->engine), most = sy_clamp(sy_queue_pcpus_max(&policy), 1, group), first, i;

	for (first = 0; first < h->engine.pcpus; first += group) {
		for (i = 0; i < group; i += most) {
			struct host_queue *q = &h->queue[h->engine.queues++];

			q->waiting = RB_ROOT;
			INIT_LIST_HEAD(&q->members);
			q->engine.first_pcpu = first + i;
			q->engine.end_pcpu = first + min(i + most, group);
		}
	}
	for (i = 0; i < h->engine.queues; i++)
		engine_queue_begin(&h->engine, i);
}
