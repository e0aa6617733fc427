/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine's numbers of pCPUs. Those of a core, of a NUMA node and of a socket must follow each other, which Xen's
 * need not. What is not known yet when a cpupool gets its first domain, such as a pCPU that is offline, gets a number
 * when it joins: one that its core, its node or its socket has free, or another. Xen does not say who shares a cache:
 * the cores of a node are taken to.
 */

/* Whether both are in one group of this level, and so in one of each level after it. */
static bool together(unsigned int level, unsigned int a, unsigned int b)
{
	return cpu_to_socket(a) == cpu_to_socket(b) && (level >= ENGINE_SOCKET || cpu_to_node(a) == cpu_to_node(b)) &&
	       (level > ENGINE_CORE || cpumask_test_cpu(b, per_cpu(cpu_sibling_mask, a)));
}

/* Takes those of this pCPU's group out of the set. */
static void take_group(cpumask_t *set, unsigned int level, unsigned int cpu)
{
	unsigned int other;

	for_each_cpu (other, set)
		if (together(level, cpu, other))
			cpumask_clear_cpu(other, set);
}

/* The most that a group of this level has of the level before. */
static unsigned int parts_of_group(const cpumask_t *cpus, unsigned int level)
{
	unsigned int most = 1, cpu, other;
	cpumask_t left, parts;

	cpumask_copy(&left, cpus);
	for_each_cpu (cpu, &left) {
		unsigned int here = 0;

		cpumask_copy(&parts, &left);
		for_each_cpu (other, &parts) {
			if (!together(level, cpu, other))
				continue;
			here++;
			if (level > ENGINE_CORE)
				take_group(&parts, level - 1, other);
		}
		most = max(most, here);
		take_group(&left, level, cpu);
	}
	return most;
}

/* How far the numbers of these pCPUs go, and some to come. */
static void find_shape(struct engine *e, const cpumask_t *cpus, unsigned int present)
{
	unsigned int pcpus = 1, sockets = 0, level, cpu;
	cpumask_t left;

	for (level = 0; level < ENGINE_LEVELS; level++) {
		pcpus *= parts_of_group(cpus, level);
		e->level_pcpus[level] = pcpus;
	}
	cpumask_copy(&left, cpus);
	for_each_cpu (cpu, &left) {
		take_group(&left, ENGINE_SOCKET, cpu);
		sockets++;
	}
	e->pcpus = pcpus * max(sockets, DIV_ROUND_UP(present, pcpus));
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

/* A free number in the nearest group that has one, at the beginning of a part that is free; or SY_NONE. */
static u32 free_number_near(const struct host *h, unsigned int cpu)
{
	u32 part = 1, number = SY_NONE, level, i;

	for (level = 0; level < ENGINE_LEVELS && number == SY_NONE; level++) {
		u32 pcpus = h->engine.level_pcpus[level];

		for (i = 0; i < h->engine.pcpus && number == SY_NONE; i++) {
			unsigned int other = h->pcpu[i].cpu;

			if (other != SY_NONE && together(level, cpu, other))
				number = free_numbers(h, i - i % pcpus, i - i % pcpus + pcpus, part);
		}
		part = pcpus;
	}
	return number;
}

/* Gives the pCPU a number, unless it has one; false: there is none. */
static bool give_number(struct host *h, unsigned int cpu)
{
	u32 number;

	if (h->number[cpu] != SY_NONE)
		return true;
	number = free_number_near(h, cpu);
	if (number == SY_NONE)
		number = free_numbers(h, 0, h->engine.pcpus, h->engine.level_pcpus[ENGINE_SOCKET]);
	if (number == SY_NONE)
		number = free_numbers(h, 0, h->engine.pcpus, 1);
	if (number == SY_NONE)
		return false;
	h->number[cpu] = number;
	h->pcpu[number].cpu = cpu;
	return true;
}

static void begin_queue(struct host *h, u32 first, u32 end, void (*later)(void *data))
{
	u32 queue = h->engine.queues++, i;
	struct host_queue *q = &h->queue[queue];

	q->host = h;
	q->by_key = RB_ROOT;
	INIT_LIST_HEAD(&q->waiting);
	INIT_LIST_HEAD(&q->members);
	INIT_LIST_HEAD(&q->put_off);
	init_timer(&q->later, later, q, smp_processor_id());
	spin_lock_init(&q->lock.lock);
	q->engine.first_pcpu = first;
	q->engine.end_pcpu = end;
	for (i = first; i < end; i++)
		h->pcpu[i].engine.queue = queue;
	take(&q->lock);
	engine_queue_begin(&h->engine, queue);
	give(&q->lock);
}

static void begin_queues(struct host *h, void (*later)(void *data))
{
	u32 first, end;

	for (first = 0; first < h->engine.pcpus; first = end) {
		end = engine_queue_end(&h->engine, first);
		begin_queue(h, first, end, later);
	}
}
