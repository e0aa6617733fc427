/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a host supplies, and all of it: mechanism. It defines each of these before it includes
 * engine.h. None of them calls the engine: what an effect asks for is done after the call.
 */
#ifndef STEELYARD_ENGINE_HOST_H
#define STEELYARD_ENGINE_HOST_H

#include "counts.h"
#include "state.h"

/* Spelt so, since kernels have macros of the other names. */
#define HOST_FN static inline __attribute__((__always_inline__, __unused__))

/*
 * The engine's own functions. Those that are ENGINE_CALLs take ENGINE and at most four numbers more and
 * give a number: BPF's verifier, which follows every path, reads each of them once by itself. ENGINE_HOT are those
 * of them that most choices or wakes make. A host may define the four before.
 */
#ifndef ENGINE_CALL
#define ENGINE struct engine *e
#define ENGINE_FN static inline __attribute__((unused))
#define ENGINE_CALL ENGINE_FN
#endif
#ifndef ENGINE_HOT
#define ENGINE_HOT ENGINE_CALL
#endif

/*
 * For hosts whose verifier must be sure of loops' ends: each loop ends when host_goes_on() is false (walks ask it
 * themselves), and what counts its rounds begins with host_zero() rather than 0, lest each round be another
 * to it; to what a round learns by comparing, for the next, it is added. Others have true and 0 here.
 */
HOST_FN bool host_goes_on(struct engine *e);
HOST_FN u32 host_zero(struct engine *e);

/* ---- Tables ---- */

HOST_FN const struct sy_policy *host_policy(struct engine *e);
HOST_FN struct engine_vcpu *host_vcpu(struct engine *e, u32 vcpu);
HOST_FN struct engine_domain *host_domain(struct engine *e, u32 domain);
/* Whether there is such a domain still. */
HOST_FN bool host_has_domain(struct engine *e, u32 domain);
HOST_FN struct engine_queue *host_queue(struct engine *e, u32 queue);
HOST_FN struct engine_pcpu *host_pcpu(struct engine *e, u32 pcpu);

/*
 * Walks: each gives the next one after *place, which begins as 0 and means nothing else, and moves
 * *place on; SY_NONE at the end. Nothing is inserted or removed meanwhile.
 */
HOST_FN u32 host_next_waiting(struct engine *e, u32 queue, u32 *place); /* lowest key first */
HOST_FN u32 host_next_member(struct engine *e, u32 queue,
			     u32 *place); /* who belongs to the queue */
/* Where vCPUs may begin and end meanwhile, it may give one that has ended, or begun anew in another domain. */
HOST_FN u32 host_next_vcpu(struct engine *e, u32 domain, u32 *place);
HOST_FN u32 host_next_accounted(struct engine *e,
				u32 *place); /* every domain, see host_account_first() */

/* ---- Locks ---- */

/*
 * A queue's lock guards the queue, its pCPUs and the vCPUs that belong to it. What happens to a vCPU or to a pCPU
 * is told with the lock of its queue held, its own; what concerns a domain or the host with none: each lock that such a
 * call takes is given back before the next. Other queues are reached from an own one by host_try_queue() alone, so
 * that nobody waits for one queue with another one held: where that fails, what was wanted is left, or put off by
 * host_settle(). A vCPU that has left for another queue is not touched again.
 *
 * A domain's lock is for who writes the domain, and for who wants more than a word of it; the shared one guards what
 * the engine calls its own in struct engine, but for a word that says otherwise, and both structs of the core there.
 * Each is held for one call into the core, the domain's before the shared one, and nothing else is taken then. Of the
 * calls that choices and wakes make most need neither (sy_writes_domain()).
 *
 * Sets of pCPUs and of queues are read without a lock; what they say of other queues is believed once it is held.
 *
 * A host with one lock for all, held in each call, defines none of these.
 *
 * Where who tells of a vCPU counts on its queue being the same when the call ends, host_stays() says so; then it
 * leaves once host_settle() is answered, with nobody interrupted for it before. Such a host defines HOST_STAYS.
 */
HOST_FN bool host_try_queue(struct engine *e, u32 queue);
HOST_FN void host_lock_queue(struct engine *e, u32 queue);
HOST_FN void host_unlock_queue(struct engine *e, u32 queue);
/* The queue that the vCPU belongs to, locked, or SY_NONE: it has ended; or, where that is only tried, is not to be had. */
HOST_FN u32 host_lock_queue_of(struct engine *e, u32 vcpu);
HOST_FN u32 host_try_queue_of(struct engine *e, u32 own, u32 vcpu);
HOST_FN void host_lock_domain(struct engine *e, u32 domain);
HOST_FN void host_unlock_domain(struct engine *e, u32 domain);
HOST_FN void host_lock_shared(struct engine *e);
HOST_FN void host_unlock_shared(struct engine *e);
/* engine_settle_later() of this vCPU soon, if it is still there; once is enough. */
HOST_FN void host_settle(struct engine *e, u32 vcpu);
/* To which queue a pCPU belongs, which never changes. */
HOST_FN u32 host_queue_at(struct engine *e, u32 pcpu);
HOST_FN bool host_stays(struct engine *e, u32 vcpu);

#ifndef HOST_STAYS
HOST_FN bool host_stays(struct engine *e, u32 vcpu)
{
	return false;
}
#endif

#ifndef HOST_LOCKS
HOST_FN bool host_try_queue(struct engine *e, u32 queue)
{
	return true;
}

HOST_FN void host_lock_queue(struct engine *e, u32 queue)
{
}

HOST_FN void host_unlock_queue(struct engine *e, u32 queue)
{
}

HOST_FN u32 host_lock_queue_of(struct engine *e, u32 vcpu)
{
	return host_vcpu(e, vcpu)->queue;
}

HOST_FN u32 host_try_queue_of(struct engine *e, u32 own, u32 vcpu)
{
	return host_vcpu(e, vcpu)->queue;
}

HOST_FN void host_lock_domain(struct engine *e, u32 domain)
{
}

HOST_FN void host_unlock_domain(struct engine *e, u32 domain)
{
}

HOST_FN void host_lock_shared(struct engine *e)
{
}

HOST_FN void host_unlock_shared(struct engine *e)
{
}

HOST_FN void host_settle(struct engine *e, u32 vcpu)
{
}

HOST_FN u32 host_queue_at(struct engine *e, u32 pcpu)
{
	return host_pcpu(e, pcpu)->queue;
}
#endif

/* ---- Queues ---- */

/* After its equals, by v->key. */
HOST_FN void host_insert(struct engine *e, u32 queue, u32 vcpu);
HOST_FN void host_remove(struct engine *e, u32 queue, u32 vcpu);
/* Any v->key of those that wait may have changed; equals stay as they stand. */
HOST_FN void host_sort(struct engine *e, u32 queue);
/* It belongs to `to` from now on; SY_NONE: before its beginning, after its end. */
HOST_FN void host_change_queue(struct engine *e, u32 vcpu, u32 from, u32 to);
/* The domain that the walk met last before `place` is met first from the next accounting on. */
HOST_FN void host_account_first(struct engine *e, u32 place);

/* ---- Sets of pCPUs and of queues, 64 to a word ---- */

HOST_FN u64 host_idle_pcpus(struct engine *e, u32 word);
HOST_FN void host_set_idle(struct engine *e, u32 pcpu, bool idle);
HOST_FN u64 host_lesser_pcpus(struct engine *e, u32 word);
HOST_FN void host_set_lesser(struct engine *e, u32 pcpu, bool lesser);
HOST_FN u64 host_waited_queues(struct engine *e, u32 word);
HOST_FN void host_set_waited(struct engine *e, u32 queue, bool waited);
/* Where it may run, of the pCPUs that are there. */
HOST_FN u64 host_allowed_pcpus(struct engine *e, u32 vcpu, u32 word);
/* Whether it would rather run on some of those than on others; then on which, one at least. */
HOST_FN bool host_prefers(struct engine *e, u32 vcpu);
HOST_FN u64 host_preferred_pcpus(struct engine *e, u32 vcpu, u32 word);

/* ---- Effects ---- */

/* The pCPU calls engine_choose() soon; once for each call of this. */
HOST_FN void host_interrupt(struct engine *e, u32 pcpu);
/*
 * The same of an occupied pCPU if what runs there makes room for vCPUs: now, or once it has had its part; whether it does.
 * Who has such, as others.h says, defines HOST_OTHERS.
 */
HOST_FN bool host_interrupt_other(struct engine *e, u32 pcpu, u64 now);

#ifndef HOST_OTHERS
HOST_FN bool host_interrupt_other(struct engine *e, u32 pcpu, u64 now)
{
	return false;
}
#endif
/* engine_balance() of this queue soon; once is enough. */
HOST_FN void host_balance(struct engine *e, u32 queue);
/* engine_vcpu_timer() at sy_vcpu_timer_ns(), or at no time if that is 0. */
HOST_FN void host_vcpu_timer(struct engine *e, u32 vcpu);
HOST_FN void host_domain_timer(struct engine *e, u32 domain);
/* engine_tick() at this time, instead of when it was due; host_ticks(): whether one is due. */
HOST_FN void host_tick(struct engine *e, u32 pcpu, u64 at_ns);
HOST_FN bool host_ticks(struct engine *e, u32 pcpu);

/* ---- What the host knows, and what it measures ---- */

/* Whether another pCPU must not take a vCPU that has stopped before engine_saved(). */
HOST_FN bool host_saves(struct engine *e);
/* Whether the vCPU was in its guest's kernel when it ran last. */
HOST_FN bool host_in_kernel(struct engine *e, u32 vcpu);
/* What happened to the domain since the sample before. */
HOST_FN void host_sample(struct engine *e, u32 domain, struct sy_sample *sample, u64 now);
/* For who measures: it was blocked and waits now; it starts where `pcpu` was idle or ran another;
 * it stops, or waits no longer where `pcpu` is SY_NONE. */
HOST_FN void host_wakes(struct engine *e, u32 vcpu, u64 now);
HOST_FN void host_starts(struct engine *e, u32 vcpu, u32 pcpu, u64 now);
HOST_FN void host_stops(struct engine *e, u32 vcpu, u32 pcpu, u32 status, u64 now);
/* A waiting vCPU is no longer parked. */
HOST_FN void host_unparks(struct engine *e, u32 vcpu, u64 now);
/*
 * One more of what counts.h lists, of this pCPU, whose queue's lock is held but for what concerns the host; of which vCPU,
 * or SY_NONE, and with which number, for a host that keeps a trace: the queue that it came from, units of a reset, else 0.
 * Who counts or keeps a trace defines HOST_NOTES.
 */
HOST_FN void host_notes(struct engine *e, enum engine_count kind, u32 pcpu, u32 vcpu, u64 number);

#ifndef HOST_NOTES
HOST_FN void host_notes(struct engine *e, enum engine_count kind, u32 pcpu, u32 vcpu, u64 number)
{
}
#endif

#endif
