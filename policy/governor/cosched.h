/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cosched: when a vCPU spins, the siblings that may hold the lock run for a moment.
 *
 * Mechanism: a guest's spin lock whose holder has lost its pCPU makes its siblings spin, and the
 * hardware reports each (a pause-loop exit). On such an exit siblings that wait because they were
 * preempted are summoned: they come first in their queues, run for a moment at most, and then
 * compete as before. The three published policies differ in who is summoned, and when it runs:
 *  - instant: every preempted sibling, now, in place of who runs where it waits;
 *  - selective: now, but only who is likely to hold a lock: preempted in the guest's kernel and not
 *    spinning itself (see spinners);
 *  - deferred: every preempted sibling, at the next choice of the pCPU where it waits.
 * The discipline charges a moment like any run, so whoever borrows time waits longer afterwards, and
 * who has borrowed too much is not summoned: in fair, who is ahead_ns ahead of its part; in credit,
 * which forgives debts, who has no credit left. A moment ends early when the vCPU blocks or
 * spins.
 *
 * Source: Zhang, Chen, Dong, Liu, "Lock-visor: An Efficient Transitory Co-scheduling for MP Guest",
 * ICPP 2012; abstract of the journal version, 15 April 2014. With fair@cfs it is `lockvisor`.
 *
 * State: of a vCPU when its moment ends, how long it has run since its last pause-loop exit, and
 * whether it was passed over. Nothing of a domain or the host.
 *
 * Signal: sy_spin(). Knob: v->first, who comes first in a queue. Has a meaning where what is borrowed is paid
 * back. A reservation of sedf's is a promise that a moment would break. A reset of credit2's clips
 * the credit of those who were kept waiting: beside a spinning domain a rival that only computes was
 * measured at 77 to 99 % of its part.
 *
 * Open readings, as parameters; the publication tells of neither moment nor ranking:
 *  - moment_ns: 100 us is what Linux 2.6.38 gives the holder, by letting the spinner sleep so long.
 *    It has to exceed a switch with its cache refill (tens of us), and to stay far below a slice.
 *  - siblings: all is the plural of the text. best is one: who was in the guest's kernel before
 *    who was not, who does not spin before who does, then who has waited longest.
 *  - spinners: never is the literal reading of selective. It is right for locks that go to whoever
 *    sees them free. A ticket lock (Linux from 2.6.25) goes to the next in line, who may have been
 *    preempted while it spun: nobody gets further without it. So alternately, as KVM does since
 *    2012, is the default: passed over once, then summoned.
 *  - ahead_ns: who was preempted at the end of its turn has had more than its part by that turn, so
 *    the bound has to exceed turns: 30 ms is more than fair's latency, 24 ms on eight pCPUs.
 *  - spinner: a spinner that stays finds the lock free at once; each of its exits is a choice for
 *    its own pCPU if a sibling was summoned.
 */
#ifndef STEELYARD_COSCHED_H
#define STEELYARD_COSCHED_H

#include "../vocabulary.h"

/* clang-format off */
#define COSCHED_PARAMETERS(X) \
	X(COSCHED_POLICY, "policy", "instant|selective|deferred", 0, 2, \
	  "who is summoned, and when it runs", "Zhang et al. 2012", COSCHED_SELECTIVE) \
	X(COSCHED_MOMENT_NS, "moment_ns", "ns", SY_US, SY_S, \
	  "longest run of who was summoned", "ours; 2.6.38's kvm_vcpu_on_spin()", 100 * SY_US) \
	X(COSCHED_SIBLINGS, "siblings", "all|best", 0, 1, \
	  "how many are summoned of those that qualify", "Zhang et al. 2012, text", COSCHED_ALL) \
	X(COSCHED_SPINNING_NS, "spinning_ns", "ns", 0, SY_S, \
	  "who has run for less since its last pause-loop exit spins still", \
	  "ours: a few windows of 4096 cycles", 10 * SY_US) \
	X(COSCHED_SPINNERS, "spinners", "never|alternately", 0, 1, \
	  "policy selective: whether one that spins itself is summoned", \
	  "Zhang et al. 2012: never; kvm_vcpu_eligible_for_directed_yield()", COSCHED_ALTERNATELY) \
	X(COSCHED_AHEAD_NS, "ahead_ns", "ns", 0, 10 * SY_S, \
	  "fair: who has had so much more than its part is not summoned", "ours: above any turn", 30 * SY_MS) \
	X(COSCHED_SPINNER, "spinner", "stays|yields", 0, 1, \
	  "what the spinner itself does", "ours", COSCHED_STAYS)
/* clang-format on */

enum {
	COSCHED_INSTANT,
	COSCHED_SELECTIVE,
	COSCHED_DEFERRED,
};

enum {
	COSCHED_ALL,
	COSCHED_BEST,
};

enum {
	COSCHED_NEVER,
	COSCHED_ALTERNATELY,
};

enum {
	COSCHED_STAYS,
	COSCHED_YIELDS,
};

enum cosched_parameter { COSCHED_PARAMETERS(SY_PARAMETER_INDEX) COSCHED_PARAMETER_COUNT };
_Static_assert((int)COSCHED_PARAMETER_COUNT <= SY_GOVERNOR_PARAMETER_WORDS, "parameters fit");

struct cosched_vcpu {
	u64 moment_ns; /* when the moment ends for which it was summoned */
	u64 unspun_ns; /* run time since its last pause-loop exit */
	u32 passed_over; /* 1: it spun and was not summoned the last time; see sy_pass_over() */
	u32 summoned; /* 1: until it starts */
};

SY_GOVERNOR_FITS(SY_COSCHED_VCPU_AT, struct cosched_vcpu);

/* Ranks: above any wait. */
#define COSCHED_WAITED_MAX_NS (1ULL << 50)
#define COSCHED_NOT_SPINNING (1ULL << 51)
#define COSCHED_IN_KERNEL (1ULL << 52)

static inline u64 cosched_parameter(const struct sy_policy *p, enum cosched_parameter name)
{
	return SY_GOVERNOR_PARAMETER(p, SY_COSCHED, name);
}

static inline struct cosched_vcpu *cosched_vcpu(struct sy_vcpu *v)
{
	return (struct cosched_vcpu *)(v->governor + SY_COSCHED_VCPU_AT);
}

SY_FN void cosched_vcpu_init(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	struct cosched_vcpu *cv = cosched_vcpu(v);

	cv->moment_ns = 0;
	cv->unspun_ns = SY_FOREVER / 2;
}

SY_FN u32 cosched_block(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			struct sy_vcpu *v, u64 now)
{
	cosched_vcpu(v)->moment_ns = 0;
	cosched_vcpu(v)->summoned = 0;
	return 0;
}

SY_FN void cosched_key(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		       struct sy_vcpu *v, u64 now)
{
	cosched_vcpu(v)->moment_ns = 0;
}

SY_FN u32 cosched_start(const struct sy_policy *p, struct sy_queue *q, struct sy_pcpu *c,
			struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	struct cosched_vcpu *cv = cosched_vcpu(v);

	/* Others put vCPUs first, too. */
	if (v->first && cv->summoned)
		cv->moment_ns = now + cosched_parameter(p, COSCHED_MOMENT_NS);
	cv->summoned = 0;
	return 0;
}

SY_FN u32 cosched_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
			 struct sy_vcpu *v, u64 ran_ns, u64 now)
{
	cosched_vcpu(v)->unspun_ns += ran_ns;
	return 0;
}

SY_FN bool cosched_in_moment(const struct sy_policy *p, const struct sy_vcpu *v, u64 now)
{
	return ((const struct cosched_vcpu *)(v->governor + SY_COSCHED_VCPU_AT))->moment_ns > now;
}

SY_FN u64 cosched_slice_ns(const struct sy_policy *p, const struct sy_queue *q, const struct sy_pcpu *c,
			   const struct sy_domain *d, const struct sy_vcpu *v, u64 now)
{
	const struct cosched_vcpu *cv = (const struct cosched_vcpu *)(v->governor + SY_COSCHED_VCPU_AT);

	return cv->moment_ns > now ? cv->moment_ns - now : SY_FOREVER;
}

/* This vCPU spins. If it was summoned that was in vain: its moment is over. */
SY_FN enum sy_gang cosched_spin(const struct sy_policy *p, struct sy_domain *d, struct sy_vcpu *v, u64 now)
{
	struct cosched_vcpu *cv = cosched_vcpu(v);

	cv->unspun_ns = 0;
	cv->moment_ns = cv->moment_ns > now ? now : 0;
	return SY_GOVERNOR_CHOICE(p, SY_COSCHED, COSCHED_SIBLINGS) == COSCHED_BEST ? SY_GANG_BEST : SY_GANG_ALL;
}

SY_FN u64 cosched_ahead_ns(const struct sy_policy *p)
{
	return cosched_parameter(p, COSCHED_AHEAD_NS);
}

/* Of one that may borrow time. */
SY_FN u64 cosched_rank(const struct sy_policy *p, const struct sy_queue *q, const struct sy_domain *d,
		       struct sy_vcpu *v, u32 facts, u64 waited_ns, u64 now)
{
	struct cosched_vcpu *cv = cosched_vcpu(v);
	bool spins = cv->unspun_ns < cosched_parameter(p, COSCHED_SPINNING_NS);
	u64 rank = 1 + sy_min(waited_ns, COSCHED_WAITED_MAX_NS);

	if (v->first || !(facts & SY_PREEMPTED))
		return 0;
	if (!spins)
		rank += COSCHED_NOT_SPINNING;
	if (facts & SY_IN_KERNEL)
		rank += COSCHED_IN_KERNEL;
	if (SY_GOVERNOR_CHOICE(p, SY_COSCHED, COSCHED_POLICY) != COSCHED_SELECTIVE)
		return rank;
	if (!(facts & SY_IN_KERNEL))
		return 0;
	if (spins && (SY_GOVERNOR_CHOICE(p, SY_COSCHED, COSCHED_SPINNERS) == COSCHED_NEVER || sy_pass_over(&cv->passed_over)))
		return 0;
	return rank;
}

SY_FN u32 cosched_summon(const struct sy_policy *p, const struct sy_queue *q, struct sy_domain *d,
			 struct sy_vcpu *v, u64 now)
{
	v->first = 1;
	cosched_vcpu(v)->summoned = 1;
	if (SY_GOVERNOR_CHOICE(p, SY_COSCHED, COSCHED_POLICY) == COSCHED_DEFERRED)
		return SY_REKEY;
	return SY_REKEY | SY_RESCHEDULE;
}

/* The pCPU of one whose moment is over chooses again, as where somebody was summoned. */
SY_FN u32 cosched_spun(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d,
		       struct sy_vcpu *v, u32 summoned, u64 now)
{
	return summoned || cosched_vcpu(v)->moment_ns ? SY_RESCHEDULE : 0;
}

SY_FN bool cosched_stays(const struct sy_policy *p)
{
	return SY_GOVERNOR_CHOICE(p, SY_COSCHED, COSCHED_SPINNER) == COSCHED_STAYS;
}

#define cosched_has_vcpu_init 1
#define cosched_has_block 1
#define cosched_has_key 1
#define cosched_has_start 1
#define cosched_has_charge 1
#define cosched_has_slice_ns 1
#define cosched_has_first 1
#define cosched_has_spin 1

#ifdef SY_DESCRIBE
static const struct sy_parameter cosched_parameters[] = { COSCHED_PARAMETERS(
	SY_PARAMETER_DESCRIPTION) };

static const struct sy_description cosched_description = {
	.name = "cosched",
	.help = "Lock-visor's governor: siblings of a spinning vCPU run for a moment",
	.parameters = COSCHED_PARAMETER_COUNT,
	.parameter = cosched_parameters,
	.disciplines = 1 << SY_CREDIT | 1 << SY_FAIR,
	.reason = "sedf promises time that a moment would take, and credit2's resets forgive what is borrowed",
};
#endif

#endif
