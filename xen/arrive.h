/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine in Xen, and how a call into it begins and ends: for steelyard.c, which says what is locked when, and for
 * calls.c.
 */
#ifndef STEELYARD_ARRIVE_H
#define STEELYARD_ARRIVE_H

#include <xen/cpumask.h>
#include <xen/event.h>
#include <xen/guest_access.h>
#include <xen/hypfs.h>
#include <xen/init.h>
#include <xen/lib.h>
#include <xen/list.h>
#include <xen/numa.h>
#include <xen/param.h>
#include <xen/perfc.h>
#include <xen/rbtree.h>
#include <xen/sched.h>
#include <xen/softirq.h>
#include <xen/spinlock.h>
#include <xen/timer.h>
#include <xen/trace.h>

#include "private.h"

/* Xen has u8 to u64 of the core's types. */
typedef int32_t s32;
typedef int64_t s64;

/* Policies and engine use a word that is a macro here. */
#pragma push_macro("current")
#undef current
#define SY_DESCRIBE
#define HOST_LOCKS
#define HOST_STAYS
#define HOST_NOTES
#define ENGINE struct engine *e
/*
 * A call costs as much as what many of these do: inline a choice takes a twentieth and a wake an eighth fewer
 * instructions, in twice the code: for what Xen calls most.
 */
#ifdef STEELYARD_CALLS
#define ENGINE_FN static inline __attribute__((__always_inline__, __unused__))
#else
#define ENGINE_FN static inline __attribute__((__unused__))
#endif
#define ENGINE_CALL static inline __attribute__((__unused__))
#define ENGINE_HOT ENGINE_FN
#define SY_FN ENGINE_FN
#include "policy/steelyard.h"
#include "policy/catalogue.h"
#include "policy/engine/measure.h"
#include "host.h"
#include "policy/engine/engine.h"

/* ---- Calls begin and end ---- */

/* Writes the set by the engine's numbers; whether that makes a difference. */
static bool map_set(const struct host *h, u64 *words, const cpumask_t *cpus)
{
	bool changed = false;
	u32 word, i;

	for (word = 0; word < h->words; word++) {
		u64 set = 0;

		for (i = 0; i < 64 && word * 64 + i < h->engine.pcpus; i++) {
			unsigned int cpu = h->pcpu[word * 64 + i].cpu;

			set |= (u64)(cpu != SY_NONE && cpumask_test_cpu(cpu, cpus)) << i;
		}
		changed |= words[word] != set;
		words[word] = set;
	}
	return changed;
}

/*
 * Since the cpupool or the affinities, which are to be `hard` and `soft`, have changed; whether that makes a
 * difference.
 */
static bool map_affinity(struct host *h, struct host_vcpu *v, const cpumask_t *hard, const cpumask_t *soft)
{
	cpumask_t may, rather;
	bool changed;

	cpumask_and(&may, h->scheduler->cpupool->res_valid, &h->pcpus);
	cpumask_and(&may, &may, hard);
	/* Between two steps of Xen's nothing may be left: a pCPU that leaves serves those pinned to it. */
	if (cpumask_empty(&may))
		cpumask_and(&may, &h->pcpus, hard);
	if (cpumask_empty(&may))
		cpumask_copy(&may, &h->pcpus);
	cpumask_and(&rather, &may, soft);
	v->prefers = !cpumask_empty(&rather) && !cpumask_equal(&rather, &may);
	changed = map_set(h, v->allowed, &may);
	return map_set(h, v->allowed + h->words, &rather) || changed;
}

/* Whether its pCPUs are no longer those that its vCPUs were told of. For every choice cpumask_equal() is long. */
HOST_FN bool usable_changed(const struct host_queue *q)
{
	const unsigned long *valid = cpumask_bits(q->host->scheduler->cpupool->res_valid);
	const unsigned long *ours = cpumask_bits(&q->host->pcpus), *known = cpumask_bits(&q->usable);
	unsigned int i;

	for (i = 0; i < BITS_TO_LONGS(nr_cpu_ids); i++)
		if ((valid[i] & ours[i]) != known[i])
			return true;
	return false;
}

static void map_queue(struct host_queue *q)
{
	struct host *h = q->host;
	struct host_vcpu *v, *next;

	cpumask_and(&q->usable, h->scheduler->cpupool->res_valid, &h->pcpus);
	list_for_each_entry_safe (v, next, &q->members, in_queue)
		if (map_affinity(h, v, v->unit->cpu_hard_affinity, v->unit->cpu_soft_affinity))
			engine_affinity_changed(&h->engine, v->number, q->now);
}

/*
 * What Xen tells of a queue, whose lock is held, and what its timers do come after this; its time, which never goes
 * back. Contexts that are saved, timers of vCPUs and walks do without: the next call finds what has changed.
 */
HOST_FN u64 arrive(struct host_queue *q, u64 now)
{
	q->now = max(q->now, now);
	if (unlikely(usable_changed(q)))
		map_queue(q);
	return q->now;
}

/* The same where Xen tells of a unit, which it counts on to stay in its queue until the end of the call. */
HOST_FN u64 told_of(struct host_vcpu *v)
{
	v->stays = true;
	return arrive(queue_of(v), NOW());
}

/* The same where the lock is not held yet. */
static u64 enter(struct host_queue *q)
{
	take(&q->lock);
	return arrive(q, NOW());
}

static void leave(struct host_queue *q)
{
	give(&q->lock);
}

/* That of a pCPU by Xen's number. */
static inline struct host_queue *queue_at(const struct host *h, unsigned int cpu)
{
	return &h->queue[h->pcpu[h->number[cpu]].engine.queue];
}

#endif
