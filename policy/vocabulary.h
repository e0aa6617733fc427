/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The vocabulary between a host and a policy: the state that a host owns, the
 * answers that a policy gives, and how a parameter is described. A host is the
 * simulator, the Linux kernel (sched_ext) or Xen; none is named here.
 *
 * Rules of the core
 *  1. Freestanding C11: no floating point, allocation, recursion, unbounded
 *     loop, hidden global, clock, lock or call out. All a policy knows is in
 *     its arguments.
 *  2. Hosts iterate, policies decide. A policy never walks a list of vCPUs or
 *     domains; the host calls it once per item.
 *  3. Hosts keep queues, policies give keys. The lower key runs first; equal
 *     keys are first come, first served.
 *  4. Constant time per decision.
 *  5. State is plain structs that the host owns and zeroes before init. What is
 *     words there is a struct to whom they are for, so compilers must be told
 *     -fno-strict-aliasing. Arithmetic is defined for every input: weights are
 *     clamped to 1..65535, a division by zero cannot happen, sums saturate or
 *     wrap as unsigned.
 *  6. The choice between policies is a switch over a constant.
 *
 * To a policy, and in this file, the engine is part of the host: it makes all
 * calls.
 *
 * Locking is the engine's (engine/host.h): a call may touch every object that
 * it is given, and nothing else. A domain is what vCPUs of different queues
 * share, so a call about a vCPU only reads words of it, by SY_LOAD(), while
 * others may write them; it writes its domain if sy_writes_domain() says so.
 *
 * The host provides u8, u16, u32, u64, s32, s64 and bool before including
 * this file. All times are ns on one monotonic clock that starts above zero.
 */
#ifndef STEELYARD_VOCABULARY_H
#define STEELYARD_VOCABULARY_H

/* A function of the core: private to the file that includes it, unless the host wants symbols. */
#ifndef SY_FN
#define SY_FN static inline __attribute__((unused))
#endif

#define SY_US 1000ULL
#define SY_MS 1000000ULL
#define SY_S 1000000000ULL

#define SY_WEIGHT_MIN 1u
#define SY_WEIGHT_MAX 65535u
#define SY_WEIGHT_DEFAULT 256u

/* Fixed point of the factors by which governors multiply a knob. */
#define SY_FACTOR_ONE (1ULL << 16)

/* CPU time per time is in millionths of a pCPU, up to so many pCPUs; so many are a percent. */
#define SY_MILLIONTHS 1000000ULL
#define SY_PERCENT (SY_MILLIONTHS / 100)
#define SY_PCPUS_MAX 65535ULL

/* No pCPU, no time limit. */
#define SY_NONE 0xffffffffu
#define SY_FOREVER 0x7fffffffffffffffULL

/*
 * Groups for which a queue has room as entities of their own, as Linux's control groups are: a host that stands for Linux's
 * own scheduler has some.
 */
#ifndef SY_QUEUE_GROUPS
#define SY_QUEUE_GROUPS 0
#endif

/* Room for a policy's parameters and for the private state of a discipline, in 64-bit words. */
#define SY_PARAMETER_WORDS 40
#define SY_VCPU_WORDS 14
#define SY_DOMAIN_WORDS 10
#define SY_QUEUE_WORDS 14
#define SY_GROUP_WORDS 20
#define SY_PCPU_WORDS 4
#define SY_ACCOUNTING_WORDS 15
/* The same for the parameters of a governor; room for its state is what it says in the list of governors. */
#define SY_GOVERNOR_PARAMETER_WORDS 16

#include "governors.h"
#include "settings.h"

/*
 * A word of a domain, read by calls that need not hold its lock, and written where they may read it: of several words
 * that change together such a call may see some as they were. And whether a call about this vCPU is to leave the domain
 * alone. A host may have its own, as one with a single lock for all, for which words are words and no call is apart.
 */
#ifndef SY_LOAD
#define SY_LOAD(word) (*(const volatile __typeof__(word) *)&(word))
#define SY_STORE(word, value) (*(volatile __typeof__(word) *)&(word) = (value))
#define SY_APART(v) ((v)->apart)
#endif

enum sy_discipline {
	SY_SEDF,
	SY_CREDIT,
	SY_CREDIT2,
	SY_FAIR,
	SY_DISCIPLINES
};

/*
 * A host may change parameters, each of which is a word, at any time, and keep all of it in read-only memory if not. Each
 * is within the range of its description.
 */
struct sy_policy {
	u64 discipline; /* enum sy_discipline */
	u64 governors; /* bit 1 << enum sy_governor_kind for each one that works */
	u64 parameter[SY_PARAMETER_WORDS]; /* indexed by the discipline's own enum */
	u64 governor_parameter[SY_GOVERNORS][SY_GOVERNOR_PARAMETER_WORDS];
};

/*
 * How a policy is read: parameters that are numbers, and choices between ways to do something. A host may have constants
 * for all but the numbers, by which what does not concern its policy is dead code.
 */
#ifndef SY_PARAMETER
#define SY_DISCIPLINE(p) ((p)->discipline)
#define SY_GOVERNORS_OF(p) ((p)->governors)
#define SY_PARAMETER(p, name) ((p)->parameter[name])
#define SY_CHOICE(p, name) SY_PARAMETER(p, name)
#define SY_GOVERNOR_PARAMETER(p, governor, name) ((p)->governor_parameter[governor][name])
#define SY_GOVERNOR_CHOICE(p, governor, name) SY_GOVERNOR_PARAMETER(p, governor, name)
#endif

struct sy_domain {
	u64 id; /* unique on the host, above 0; written by the host before init */
	struct sy_settings settings;
	/* Knobs: written by init and by governors, read by disciplines. */
	u64 weight; /* in effect, 1..65535 */
	u64 slice_ns; /* in effect; 0: the discipline's own */
	u64 tick_ns; /* while a vCPU of it runs, if shorter than sy_tick_ns() and that is not 0; 0: that */
	u64 account_ns; /* between two accountings of each of its vCPUs, if shorter than sy_account_ns(); 0: that */
	u64 vcpus; /* number of vCPUs */
	u64 timer_ns; /* when the host must call sy_domain_timer(); 0: never */
	struct sy_domain *group; /* of domains, that it is in, itself one without vCPUs; or 0; written by the host before init */
	u64 state[SY_DOMAIN_WORDS];
	SY_GOVERNORS_OWN(DOMAIN);
};

struct sy_vcpu {
	u64 timer_ns; /* the discipline's part of sy_vcpu_timer_ns(); 0: never */
	u32 pcpu; /* pCPU it runs on or last ran on; written by the host */
	u32 runnable; /* 1: running or waiting; written by the host before the call that tells it */
	u32 index; /* number in its domain, from 0; written by the host before init */
	u32 apart; /* 1: during this call its domain may only be read; written by the host */
	/* Knobs: written by governors, read and taken by disciplines. */
	u32 first; /* 1: it comes first in its queue until it starts */
	u64 boost_ns; /* time that it may still run in the highest priority */
	struct sy_reservation asked; /* for it alone */
	u64 state[SY_VCPU_WORDS];
	SY_GOVERNORS_OWN(VCPU);
};

struct sy_queue {
	u32 pcpus; /* pCPUs that this queue serves */
	u32 queued; /* vCPUs that wait in it, the running ones not counted; written by the host */
	u64 state[SY_QUEUE_WORDS];
	SY_GOVERNORS_OWN(QUEUE);
#if SY_QUEUE_GROUPS
	u64 group[SY_QUEUE_GROUPS][SY_GROUP_WORDS];
#endif
};

struct sy_pcpu {
	u32 id;
	u32 busy; /* 1 while a vCPU runs here; written by the host */
	u64 started_ns; /* when the vCPU that runs here was chosen last after another; written by the host */
	u64 state[SY_PCPU_WORDS];
};

/* What accounting carries between its calls and from one to the next; one per host. */
struct sy_accounting {
	u64 pcpus;
	u64 state[SY_ACCOUNTING_WORDS];
};

/* What governors remember of the whole host; one per host. */
struct sy_governor {
	u64 reweigh[2]; /* after REWEIGH: ids of the domains for sy_reweigh(), or 0 */
	SY_GOVERNORS_OWN(HOST);
};

/* What the host measured of a domain since the sample before, or since the domain began. */
struct sy_sample {
	u64 interval_ns; /* how long that is */
	u64 gotten_ns; /* CPU time of its vCPUs together */
	u64 waited_ns; /* time that they were runnable, not running and not parked, together */
	u64 packets; /* received from the network */
	u64 waits; /* that ended, parked or not; counted only if sy_late_ns() is not SY_FOREVER */
	u64 late_waits; /* those longer than sy_late_ns() */
	u64 offered_ns; /* CPU time of the work that arrived, served or not, as far as somebody tells */
	u64 offered_age_ns; /* how long ago it was told, 1 at least; 0: never */
};

/* What a sample is about. */
struct sy_sampling {
	u64 sample_ns; /* between two samples */
	u64 base_slice_ns; /* the slice of a domain that asks for none; 0: the discipline has no slices */
	u64 pcpus;
	u64 now;
};

/* Which pCPUs share a run queue; the order is that of credit2_runqueue= in Xen. */
enum sy_scope {
	SY_SCOPE_PCPU,
	SY_SCOPE_CORE,
	SY_SCOPE_SOCKET,
	SY_SCOPE_NODE, /* of memory, or of it what is in one socket */
	SY_SCOPE_ALL
};

/* What a call asks of the host, as a set of bits. */
enum sy_request {
	SY_RESCHEDULE = 1 << 0, /* the pCPU of this vCPU must choose again; from sy_sample_settle(): that of each of the domain's */
	SY_PARK = 1 << 1, /* keep this vCPU off the run queue, runnable or not, until it is unparked */
	SY_UNPARK = 1 << 2, /* end that; from sy_domain_timer(): for each vCPU of the domain */
	SY_TIMER = 1 << 3, /* sy_vcpu_timer_ns() of this vCPU has changed */
	SY_DOMAIN_TIMER = 1 << 4, /* timer_ns of this domain has changed */
	SY_RESORT = 1 << 5, /* ask again for the keys of this queue and sort it, equal keys as they stand */
	SY_REKEY = 1 << 6, /* ask again for the key of this vCPU if it waits, and whom it preempts */
	SY_BALANCE = 1 << 7, /* compare this queue with the others: sy_balance_*() */
	SY_REPLACE = 1 << 8, /* move this running vCPU if a less shared pCPU is idle */
	SY_SURVEY = 1 << 9, /* sy_survey_begin(), then sy_survey_vcpu() for each vCPU that belongs to the queue */
	SY_VISIT = 1 << 10, /* from sy_account_domain(): sy_account_vcpu() for each vCPU of the domain */
	SY_FIRST = 1 << 11, /* from sy_account_domain(): visit this domain before the others from the next accounting on */
	SY_REWEIGH = 1 << 12, /* sy_reweigh() for the domains that the governors' state names */
};

/*
 * What each call may ask for; a call that is not here asks for nothing. Hosts carry out all of it. Tests
 * check that nothing else is asked for.
 */
#define SY_ANSWERS(X) \
	X(join, 0) \
	X(leave, SY_SURVEY | SY_TIMER | SY_DOMAIN_TIMER) \
	X(wake, SY_PARK | SY_UNPARK | SY_TIMER | SY_DOMAIN_TIMER | SY_SURVEY) \
	X(block, SY_UNPARK | SY_TIMER | SY_DOMAIN_TIMER) \
	X(yield, 0) \
	X(summon, SY_REKEY | SY_RESCHEDULE) \
	X(spun, SY_PARK | SY_TIMER | SY_DOMAIN_TIMER | SY_RESCHEDULE) \
	X(start, SY_TIMER) \
	X(charge, SY_PARK | SY_UNPARK | SY_TIMER | SY_DOMAIN_TIMER | SY_RESCHEDULE | SY_SURVEY) \
	X(vcpu_timer, SY_PARK | SY_UNPARK | SY_TIMER | SY_DOMAIN_TIMER | SY_REKEY | SY_RESCHEDULE) \
	X(domain_timer, SY_UNPARK | SY_DOMAIN_TIMER) \
	X(tick, SY_RESCHEDULE | SY_RESORT | SY_BALANCE | SY_REPLACE) \
	X(account_domain, SY_VISIT | SY_FIRST) \
	X(account_vcpu, SY_PARK | SY_UNPARK | SY_TIMER) \
	X(reset, SY_RESORT | SY_BALANCE | SY_REWEIGH) \
	X(sample_settle, SY_RESCHEDULE)

#define SY_ANSWER(call, requests) SY_MAY_##call = (requests),
enum sy_answer { SY_ANSWERS(SY_ANSWER) };

/*
 * Which calls about a vCPU may write its domain, of those that are made while it lives and outside accounting;
 * sy_writes_domain() says which of them do. A policy that is told that the vCPU is apart leaves the domain alone in any
 * case: what the answer hung on may have changed since.
 */
/* clang-format off */
#define SY_DOMAIN_CALLS(X) \
	X(join) X(leave) X(wake) X(block) X(summon) X(spun) X(charge) X(vcpu_timer) X(key) X(tick)
/* clang-format on */

#define SY_DOMAIN_CALL(call) SY_CALL_##call,
enum sy_domain_call { SY_DOMAIN_CALLS(SY_DOMAIN_CALL) };

/* Whom a spinning vCPU would have summoned, of its siblings that wait in a queue. */
enum sy_gang {
	SY_GANG_NONE,
	SY_GANG_BEST, /* sy_rank() for each, then sy_summon() for the one with the greatest above 0 */
	SY_GANG_ALL /* sy_summon() for each with sy_rank() above 0 */
};

/* What the host knows of a sibling that waits, as a set of bits. */
enum sy_fact {
	SY_PREEMPTED = 1 << 0, /* it was stopped while it had work; otherwise it has woken */
	SY_IN_KERNEL = 1 << 1 /* when it ran last it was in the guest's kernel */
};

/* Whether the host's walk over waiting vCPUs, lowest key first, goes on. */
enum sy_verdict {
	SY_SKIP, /* not this one; look at the next */
	SY_TAKE, /* this one, and look no further */
	SY_STOP, /* not this one, and look no further */
	SY_PREFER, /* this one rather than whom was preferred before; look at the next */
	SY_SKIP_MOVES /* as SY_SKIP, and from here on the same for whoever ran on another pCPU last and is not put first */
};

/*
 * Who is interrupted when a vCPU has woken and been queued: the host takes the
 * steps in order, four bits each from the lowest, and ends at the first that
 * finds a pCPU, unless that step carries SY_STEP_ALSO. Where it may run, it looks
 * first where the vCPU would rather run; to an idle pCPU there it moves one that
 * was elsewhere, before any step.
 */
enum sy_step {
	SY_STEP_END,
	SY_STEP_LAST_IDLE, /* the pCPU it last ran on, if idle */
	SY_STEP_LAST_LEAD, /* the pCPU it last ran on, if sy_lead() > 0 over who runs there */
	SY_STEP_ONE_IDLE, /* one idle pCPU that it may use, nearest to its last, idle cores first */
	SY_STEP_NEXT_IDLE, /* one idle pCPU that it may use, in rotation */
	SY_STEP_ALL_IDLE, /* every idle pCPU that it may use */
	SY_STEP_LEAST, /* after LAST_LEAD: the other pCPU of its queue where sy_lead() is greatest and > 0 */
	SY_STEP_EVICT, /* as LAST_LEAD if some pCPU is idle but none that it may use; who ran there moves to an idle one */
	SY_STEP_ALSO = 8
};
#define SY_STEP_BITS 4
/* With this bit the woken vCPU moves to the queue of the idle pCPU that was found; without it that pCPU only looks. */
#define SY_STEPS_PLACE (1u << 31)
/* With this bit only idle pCPUs of the woken vCPU's own queue count: others would find nothing. */
#define SY_STEPS_QUEUE (1u << 30)
/* With this bit, where no step finds a pCPU, it goes to the nearest one that it may use where sy_is_lesser() runs, if it leads there. */
#define SY_STEPS_LESSER (1u << 29)
/*
 * With this bit the rotation of SY_STEP_NEXT_IDLE begins after the woken vCPU's last pCPU, not after the one found last;
 * and so an idle pCPU of its queue is found for one that was preempted, not the nearest.
 */
#define SY_STEPS_AFTER_LAST (1u << 28)

#define SY_STEPS(a, b, c, d) \
	((u32)(a) | (u32)(b) << 4 | (u32)(c) << 8 | (u32)(d) << 12)

/*
 * In which class a discipline has a vCPU, where its kind of scheduler tells classes apart; names are in
 * catalogue.h.
 */
enum sy_class {
	SY_CLASS_NONE,
	SY_CLASS_PARKED, /* kept off the queue: cap or reservation used up, or asleep for a pause loop */
	/* credit: priorities, the first before the second before the third */
	SY_CLASS_BOOST, /* it woke with credits left, or has a boost to spend */
	SY_CLASS_UNDER, /* it had credits left at the last accounting */
	SY_CLASS_OVER, /* it had none */
	/* sedf: likewise */
	SY_CLASS_RESERVED, /* within the slice of its period */
	SY_CLASS_CLAIM, /* made good in spare time for a slice that it lost */
	SY_CLASS_EXTRA, /* in spare time */
	SY_CLASSES
};

/*
 * A named constant of a policy. Each discipline lists its own once, as
 *	X(NAME, "name", "unit", min, max, "help", "source", default per vintage...)
 * and this describes one for `steelyard policies` and for checking input.
 */
#define SY_VINTAGES 5

#define SY_PARAMETER_INDEX(NAME, ...) NAME,

/* Only user space has a use for the descriptions. */
#ifdef SY_DESCRIBE
struct sy_parameter {
	const char *name;
	const char *unit; /* "ns", "percent", ..., or the names of the values from 0 on: "flat|exact" */
	u64 minimum;
	u64 maximum;
	const char *help;
	const char *source;
	u64 value[SY_VINTAGES]; /* default of each vintage */
};

struct sy_description {
	const char *name;
	const char *help;
	const char *vintage[SY_VINTAGES]; /* ours, then those of releases, oldest first; then null */
	u64 parameters;
	const struct sy_parameter *parameter;
	/* What whoever compares a vintage should know of it, or null; of a governor the first. */
	const char *known[SY_VINTAGES];
	/* Of a governor: a bit 1 << enum sy_discipline for each that it suits; why not the others. */
	u64 disciplines;
	const char *reason;
};

#define SY_PARAMETER_DESCRIPTION(NAME, name, unit, minimum, maximum, help, source, ...) \
	{ name, unit, minimum, maximum, help, source, { __VA_ARGS__ } },
#endif

/* min, max and clamp for 64-bit values */
static inline u64 sy_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 sy_max(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline s64 sy_smin(s64 a, s64 b)
{
	return a < b ? a : b;
}

static inline s64 sy_smax(s64 a, s64 b)
{
	return a > b ? a : b;
}

static inline u64 sy_clamp(u64 value, u64 low, u64 high)
{
	return sy_min(sy_max(value, low), high);
}

/* a + b, at most `most`; a is no more than that */
static inline u64 sy_add(u64 a, u64 b, u64 most)
{
	return a + sy_min(b, most - sy_min(a, most));
}

/* value / divisor; 0 where the divisor is 0 */
static inline u64 sy_divide(u64 value, u64 divisor)
{
	return divisor ? value / divisor : 0;
}

/* gotten / interval, of at least 1 ms */
static inline u64 sy_millionths(u64 gotten_ns, u64 interval_ns)
{
	return sy_min(gotten_ns / (sy_max(interval_ns, SY_MS) / SY_MILLIONTHS),
		      SY_PCPUS_MAX * SY_MILLIONTHS);
}

/*
 * Whether a governor's interval ends with this sample; if so the next begins. began_ns: when it
 * began, 0 before the first sample. Intervals are whole numbers of samples, to the nearest.
 */
static inline bool sy_interval_ends(u64 *began_ns, u64 interval_ns, u64 sample_ns, u64 now)
{
	u64 passed_ns;

	if (!*began_ns)
		*began_ns = now > sample_ns ? now - sample_ns : 1;
	passed_ns = now > *began_ns ? now - *began_ns : 0;
	if (passed_ns < interval_ns && interval_ns - passed_ns > sample_ns / 2)
		return false;
	*began_ns = sy_max(now, 1);
	return true;
}

/*
 * Whether to summon somebody else than a vCPU that spins itself, of which it is remembered here: yes
 * every first time, no every second. Of a ticket lock's waiters the next in line spins too, and the
 * others wait for it.
 */
static inline bool sy_pass_over(u32 *passed_over)
{
	*passed_over = !*passed_over;
	return *passed_over;
}

/* A signed value as a key: the order of s64 becomes that of u64. */
static inline u64 sy_signed_key(s64 value)
{
	return (u64)value ^ (1ULL << 63);
}

#endif
