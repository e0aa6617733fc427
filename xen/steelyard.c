/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steelyard in Xen: a scheduler that decides nothing itself. It is the host of a policy written in
 * the freestanding core (policy/steelyard.h), which also schedules a simulator and Linux.
 *
 * Design
 *
 * All that happens between an event and its effects is done by the engine (policy/engine/), which the
 * simulator and Linux stand on, too. Here is what it stands on: Xen's calls, told to it as events
 * (this file and calls.c), tables, queues, sets of pCPUs, softirqs and timers (host.h), numbers for pCPUs
 * (topology.h), what comes and goes (coming.h), what dom0 asks, writes and reads (toolstack.h, parameters.h, leaves.h,
 * statistics.h), and what xentrace and xenperf are told (notes.h, decisions.h).
 *
 * A vCPU here is one of Xen's scheduling units (one vCPU, unless sched-gran= says otherwise), a pCPU
 * one of its scheduling resources. An instance of the scheduler serves a cpupool; it numbers pCPUs and
 * makes queues when that gets its first domain. A domain's number is Xen's.
 *
 * Until Xen has saved the context of a vCPU that has stopped no other pCPU may take it: host_saves().
 * Xen moves a vCPU only while it sleeps; the engine moves it whenever its context is saved, by
 * unit->res. What a vCPU may use is the hard affinity and the cpupool's pCPUs, what it prefers is the soft
 * affinity of these, if that is some of them and not all, as in Xen's has_soft_affinity(). They are mapped
 * to numbers when one of them changes; Xen does not tell of the cpupool, so each call looks (arrive()).
 *
 * A vCPU that the policy parks stays off its queue; for Xen it is runnable all the while, and its
 * time parked counts as time waited.
 *
 * Locking
 *
 * A lock per run queue, which is the schedule lock of its pCPUs. It protects the queue, its pCPUs and the vCPUs that
 * belong to it; by its nature a vCPU's unit->res is at a pCPU of the queue that it belongs to, and changes with both
 * locks held. A lock per domain is for who writes what the engine knows of the domain, single words of which are read
 * without it; one per instance protects what the engine calls shared. These three kinds are taken with interrupts off.
 * What each call of the engine needs is said in policy/engine/host.h; what Xen holds when it calls:
 *
 *	wake, sleep, yield, adjust_affinity	the lock of the unit's queue
 *	pick_resource				that, and perhaps another one
 *	migrate					those of both queues
 *	do_schedule				the lock of the pCPU's queue
 *	switch_sched				that of another scheduler, with interrupts off
 *	everything else				none; deinit_pdata with interrupts off
 *
 * In the first row Xen counts on giving back the lock of the queue to which the unit belongs by then: the unit stays
 * there until the call is over (host_stays()). What has been put off, and balance, is done by a timer of the queue's
 * that expires at once.
 *
 * The lock of an instance protects which domains and vCPUs there are, the tables of their numbers and those of pCPUs,
 * and is held through accounting, samples and whatever else is done to each domain or vCPU in turn. Interrupts are
 * on meanwhile: a queue's lock is taken and given back for each vCPU. Who comes by a timer and does not get it comes
 * again a little later. A domain's list of vCPUs is also walked with a queue's lock alone, for a vCPU of the domain
 * that spins: none comes or goes while one of them runs. Before a vCPU or a domain is freed each queue's lock is taken
 * once (let_pass()).
 *
 * Until an instance has its first domain there are no queues; then the schedule lock of all its pCPUs is its idle
 * lock, and choices are for nobody.
 *
 * Ordering: hypfs lock, then that of a leaf's text, then `hosts_lock` (the list of instances), then an instance's lock,
 * then its idle lock, then the lock of one queue, then a domain's, then the shared one, then the locks of Xen's timers. A
 * second queue is only tried for, here; Xen takes two by their addresses (sched_spin_lock_double()). A schedule lock of
 * another scheduler may be held when one here is taken (a pCPU joins), never the other way round. Timers are killed with
 * no lock held.
 *
 * The policy is one per boot.
 *
 * Boot options
 *
 *	sched=steelyard
 *	steelyard_policy=DISCIPLINE[@VINTAGE][+GOVERNOR...], or a published policy's name
 *	steelyard_params=NAME=VALUE[,NAME=VALUE...], a governor's as GOVERNOR.NAME; may be repeated
 *
 *	steelyard_toolstack=credit2, or another of toolstack.h
 *
 * For dom0 it is credit2: it has that scheduler's number, so that the toolstack as it is sets weights
 * and caps (`xl sched-credit2`), and a cpupool made for credit2 runs steelyard as well. toolstack.h has what else it may
 * be. Beyond that there is /steelyard in hypfs, and debug key `r`.
 *
 * Limits
 *
 * When a cpupool's pCPUs change, the next call for a queue looks at all of that queue's vCPUs. A pCPU that was not even
 * present when its cpupool got the first domain may find no number left; it cannot join then.
 */
#include "arrive.h"
#include "calls.h"
#include "topology.h"
#include "parameters.h"

static LIST_HEAD(hosts);
static DEFINE_SPINLOCK(hosts_lock);
struct sy_policy __read_mostly steelyard_policy;
/* Those of its discipline. */
static const struct calls *__read_mostly calls;

/* ---- Time that passes ---- */

/*
 * Whether a timer got the lock of the instance, which may be held for as long as a walk over all of its vCPUs takes: who
 * did not comes again.
 */
static bool begin_walk(struct host *h, struct timer *timer)
{
	if (spin_trylock(&h->lock))
		return true;
	set_timer(timer, NOW() + SOONEST_NS);
	return false;
}

static void cf_check domain_timer(void *data)
{
	struct host_domain *d = data;
	u64 now, timer_ns;

	if (!begin_walk(d->host, &d->timer))
		return;
	now = NOW();
	take(&d->lock);
	timer_ns = d->engine.state.timer_ns;
	give(&d->lock);
	if (timer_ns && now >= timer_ns)
		engine_domain_timer(&d->host->engine, d->number, now);
	spin_unlock(&d->host->lock);
}

/* due_ns: when it was to come, or 0. */
static void set_next(struct timer *timer, u64 due_ns, u64 interval_ns, u64 now)
{
	set_or_stop(timer, engine_repeats_ns(due_ns, interval_ns, now), now);
}

static void cf_check account_timer(void *data)
{
	struct host *h = data;
	u64 now;

	if (!begin_walk(h, &h->account))
		return;
	now = NOW();
	engine_account(&h->engine, now);
	NOTE(account, NOW() - now);
	set_next(&h->account, 0, sy_account_ns(&steelyard_policy), now);
	spin_unlock(&h->lock);
}

static void cf_check sample_timer(void *data)
{
	struct host *h = data;
	u64 now;

	if (!begin_walk(h, &h->sample))
		return;
	now = NOW();
	engine_sample(&h->engine, now);
	NOTE(sample, NOW() - now);
	set_next(&h->sample, 0, sy_sample_ns(&steelyard_policy), now);
	spin_unlock(&h->lock);
}

static u64 due_ns(const struct timer *timer)
{
	return timer_is_active(timer) ? timer->expires : 0;
}

/* From now on accounting and samples come as often as the parameters say. */
static void repeat(struct host *h, u64 now)
{
	set_next(&h->account, due_ns(&h->account), sy_account_ns(&steelyard_policy), now);
	set_next(&h->sample, due_ns(&h->sample), sy_sample_ns(&steelyard_policy), now);
}

#include "coming.h"

/* ---- The toolstack ---- */

/* Sets a parameter of the policy that runs. */
static void change(u64 *parameter, u64 value)
{
	struct host *h;

	write_atomic(parameter, value);
	spin_lock(&hosts_lock);
	list_for_each_entry (h, &hosts, in_hosts) {
		spin_lock(&h->lock);
		if (h->begun)
			repeat(h, NOW());
		spin_unlock(&h->lock);
	}
	spin_unlock(&hosts_lock);
}

#include "statistics.h"
#pragma pop_macro("current")
#include "toolstack.h"

/* ---- Boot ---- */

/* No scheduler's number. */
#define NOT_IN_USE (~0U)

static int cf_check steelyard_global_init(void);

/* Xen wants some before it is known which. */
static void cf_check no_choice(const struct scheduler *ops, struct sched_unit *unit, s_time_t now,
			       bool tasklet_work_scheduled)
{
	BUG();
}

static struct scheduler __read_mostly sched_steelyard_def = {
	.name = "Steelyard",
	.opt_name = "steelyard",
	.sched_id = NOT_IN_USE,
	.global_init = steelyard_global_init,
	.init = steelyard_init,
	.deinit = steelyard_deinit,
	.alloc_pdata = steelyard_alloc_pdata,
	.deinit_pdata = steelyard_deinit_pdata,
	.alloc_domdata = steelyard_alloc_domdata,
	.free_domdata = steelyard_free_domdata,
	.alloc_udata = steelyard_alloc_udata,
	.free_udata = steelyard_free_udata,
	.switch_sched = steelyard_switch_sched,
	.insert_unit = steelyard_insert_unit,
	.remove_unit = steelyard_remove_unit,
	.do_schedule = no_choice,
	.pick_resource = steelyard_pick_resource,
	.migrate = steelyard_migrate,
	.adjust_affinity = steelyard_adjust_affinity,
	.dump_settings = steelyard_dump_settings,
	.dump_cpu_state = steelyard_dump_cpu_state,
	.move_timers = steelyard_move_timers,
};

static int __init cf_check steelyard_global_init(void)
{
	const struct toolstack *toolstack;

	if (read_options())
		return -EINVAL;
	toolstack = chosen_toolstack();
	calls = CALLS_OF(steelyard_policy.discipline);
	sched_steelyard_def.wake = calls->wake;
	sched_steelyard_def.sleep = calls->sleep;
	sched_steelyard_def.yield = calls->yield;
	sched_steelyard_def.context_saved = calls->context_saved;
	sched_steelyard_def.do_schedule = calls->do_schedule;
	sched_steelyard_def.adjust = toolstack->adjust;
	sched_steelyard_def.adjust_global = toolstack->adjust_global;
	/*
	 * Xen takes the first scheduler with a number, and this one is linked first: it stands before one of Xen's own only if
	 * it is the scheduler of the boot.
	 */
	if (toolstack->sched_id == STEELYARD_SCHEDULER || !strcmp(opt_sched, sched_steelyard_def.opt_name)) {
		sched_steelyard_def.sched_id = toolstack->sched_id;
		printk("Steelyard: policy %s, toolstack %s\n", policy_name, toolstack->name);
	}
	return 0;
}

REGISTER_SCHEDULER(sched_steelyard_def);

#ifdef CONFIG_HYPFS
#include "leaves.h"
#endif
