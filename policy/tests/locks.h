/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The locks of the adversary's host, of which each call must hold those of what it touches: host.h of the engine says
 * which. Some hosts are contended: there another queue is often not to be had. Part of adversary.c.
 */
#ifndef STEELYARD_TESTS_LOCKS_H
#define STEELYARD_TESTS_LOCKS_H

static bool contended; /* this host */
static u32 contention; /* how often a queue is not to be had until the next step */
static bool held[PCPUS]; /* queues */
static u32 held_queues;
static u32 held_domain = SY_NONE;
static bool held_shared;
static bool told; /* the engine is at work */
static u32 begins = SY_NONE; /* vCPU that belongs to no queue yet */
static bool settles[VCPUS]; /* host_settle() */

static void hold(u32 queue)
{
	check(held_domain == SY_NONE && !held_shared, "queue %u is locked below a lock that comes last", queue);
	check(!held[queue], "queue %u is locked twice", queue);
	held[queue] = true;
	held_queues++;
}

HOST_FN bool host_try_queue(struct engine *e, u32 queue)
{
	if (held[queue])
		return false;
	if (contended && contention && below(2)) {
		contention--;
		return false;
	}
	hold(queue);
	return true;
}

HOST_FN void host_lock_queue(struct engine *e, u32 queue)
{
	check(!held_queues, "queue %u is waited for with another one held", queue);
	hold(queue);
}

HOST_FN void host_unlock_queue(struct engine *e, u32 queue)
{
	check(held[queue], "queue %u is unlocked, but was not held", queue);
	held[queue] = false;
	held_queues--;
}

HOST_FN u32 host_lock_queue_of(struct engine *e, u32 vcpu)
{
	host_lock_queue(e, vcpus[vcpu].queue);
	return vcpus[vcpu].queue;
}

HOST_FN u32 host_try_queue_of(struct engine *e, u32 own, u32 vcpu)
{
	u32 queue = vcpus[vcpu].queue;

	return queue == own || host_try_queue(e, queue) ? queue : SY_NONE;
}

HOST_FN void host_lock_domain(struct engine *e, u32 domain)
{
	check(held_domain == SY_NONE && !held_shared, "domain %u is locked below another lock", domain);
	held_domain = domain;
}

HOST_FN void host_unlock_domain(struct engine *e, u32 domain)
{
	check(held_domain == domain, "domain %u is unlocked, but was not held", domain);
	held_domain = SY_NONE;
}

HOST_FN void host_lock_shared(struct engine *e)
{
	check(!held_shared, "what is shared is locked twice");
	held_shared = true;
}

HOST_FN void host_unlock_shared(struct engine *e)
{
	check(held_shared, "what is shared is unlocked, but was not held");
	held_shared = false;
}

HOST_FN void host_settle(struct engine *e, u32 vcpu)
{
	settles[vcpu] = true;
}

HOST_FN u32 host_queue_at(struct engine *e, u32 pcpu)
{
	return pcpus[pcpu].queue;
}

/* Who tells may count on any vCPU's queue. */
HOST_FN bool host_stays(struct engine *e, u32 vcpu)
{
	if (!contended || !contention || below(4))
		return false;
	contention--;
	return true;
}

/* Before the engine is at work, and of a copy, nobody else knows. */
static bool holds_domain(const struct sy_domain *d)
{
	return !told || held_domain == (u32)d->id - 1;
}

static void check_held(u32 queue, const char *what, u32 number)
{
	check(!told || held[queue], "%s %u is touched, but queue %u is not held", what, number, queue);
}

static bool put_off(u32 vcpu)
{
	return settles[vcpu];
}

/* Tells the engine with this queue held, or none. */
#define TELL(queue, call) \
	do { \
		u32 own_ = (queue); \
\
		if (own_ != SY_NONE) \
			host_lock_queue(&engine, own_); \
		told = true; \
		call; \
		told = false; \
		if (own_ != SY_NONE) \
			host_unlock_queue(&engine, own_); \
		check(!held_queues && held_domain == SY_NONE && !held_shared, "a lock is kept"); \
	} while (0)

#endif
