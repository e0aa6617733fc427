/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Governors: what turns knobs while a discipline schedules, any set of them. This list is the only place that names
 * them all: bits, room, descriptions and calls follow from it, in this order.
 *
 * A governor is governor/NAME.h: parameters, state, description, and hooks, each of which it announces by
 *	#define NAME_has_HOOK 1
 * The calls of steelyard.h go to the hooks of those that govern. p, g, q, c, d, v are the policy, what governors keep
 * of the host, the queue, the pCPU, the domain and the vCPU.
 *
 * Its state is in words of its own, zeroed before init: of the host, of each domain, vCPU and queue, as many as its
 * line says, from BIT_HOST_AT, BIT_DOMAIN_AT, BIT_VCPU_AT, BIT_QUEUE_AT on in `governor` of the struct (BIT: the first
 * word of its line). The domain's it writes where a sample or a reset tells it, and reads elsewhere, by SY_LOAD(). In
 * the walks over those who wait it has the vCPU's alone: what it needs of the domain there it copies.
 *
 * Hooks of calls, after which the discipline is asked unless they say otherwise. What they return is added to the
 * call's answer, within SY_ANSWERS:
 *	void NAME_vcpu_init(p, d, v, now)
 *	u32 NAME_join(p, q, d, v, now)
 *	u32 NAME_leave(p, q, d, v, now)
 *	u32 NAME_wake(p, q, d, v, now)
 *	u32 NAME_block(p, q, d, v, now)
 *	void NAME_key(p, q, d, v, now)		the vCPU comes into its queue, or its place there is asked for again
 *	u32 NAME_start(p, q, c, d, v, now)	v->first still says whether it came first
 *	u32 NAME_charge(p, q, d, v, ran_ns, now)
 *	u64 NAME_slice_ns(p, q, c, d, v, now)	it runs for so long at most before the next choice, 1 at least
 *	u32 NAME_reset(p, q, g, d, units, now)	a vCPU of this domain had the queue reset
 *	void NAME_sample_begin(p, g, sampling)	a sample begins
 *	void NAME_sample_domain(p, g, d, sample) what was measured of a domain
 *	u32 NAME_sample_settle(p, g, d)		all were measured; weight and slice are worked out after this
 *
 * A timer of its own for each vCPU; one hook of the two is announced, timer_ns:
 *	u64 NAME_timer_ns(v)			when it wants the other one, 0: never; changes are told as SY_TIMER
 *	u32 NAME_vcpu_timer(p, q, d, v, now)	that has passed
 *
 * What it wants measured, and how often:
 *	u64 NAME_sample_ns(p)			how often it wants a sample; SY_FOREVER: never
 *	u64 NAME_late_ns(p)			waits longer than this are counted for samples; SY_FOREVER: none
 *	NAME_has_packets alone			samples shall tell of packets
 *	NAME_has_offered alone			samples shall tell of the load that is offered
 *
 * Knobs:
 *	u64 NAME_weight(p, g, d, weight)	the weight instead of this one, which is at most 2^36
 *	void NAME_slice(p, d, slice_ns, tick_ns, account_ns)	may shorten the slice, set the tick and the accounting
 *	NAME_has_first alone			it sets v->first, of one that is about to be queued (wake) or waits (then
 *						with SY_REKEY): at the next choice of its queue that one is taken,
 *						under credit after who is in BOOST and came before it;
 *						whom it interrupts till then, its discipline says as ever
 *	u64 NAME_room_ns(p, d, v)		how much more boost the vCPU may save, at an accounting
 *	void NAME_save(p, d, v, unused_ns, account_ns)	after that, if there is room: what it left unused
 *	u64 NAME_given_ns(p, d, account_ns)	boost of all its vCPUs at an accounting, in place of credits; 0: none
 *
 * Pause loops, all or none, announced by spin:
 *	enum sy_gang NAME_spin(p, d, v, now)	the vCPU spins: whom to summon; the discipline is not asked
 *	u64 NAME_ahead_ns(p)			who has had so much more than its part is not summoned
 *	u64 NAME_rank(p, q, d, v, facts, waited_ns, now)	what summoning the sibling promises
 *	u32 NAME_summon(p, q, d, v, now)	it is summoned: v->first
 *	bool NAME_in_moment(p, v, now)		it runs because it was summoned: nobody takes its pCPU
 *	u32 NAME_spun(p, q, d, v, summoned, now)	so many were summoned
 *	bool NAME_stays(p)			the spinner does not yield
 */
#ifndef STEELYARD_GOVERNORS_H
#define STEELYARD_GOVERNORS_H

/* Tests have one more. */
#ifndef SY_GOVERNORS_MORE
#define SY_GOVERNORS_MORE(X, ...)
#endif

/* Bit and name; words of its own of the host, of a domain, of a vCPU and of a queue; what X is told beside. */
#define SY_GOVERNORS_LIST(X, ...) \
	X(SY_RESET_BOOST, reset_boost, 7, 2, 0, 0, __VA_ARGS__) \
	X(SY_LOAD_WEIGHT, load_weight, 4, 7, 0, 0, __VA_ARGS__) \
	X(SY_APP_SLICE, app_slice, 5, 16, 0, 0, __VA_ARGS__) \
	X(SY_BOOST_CREDIT, boost_credit, 0, 0, 0, 0, __VA_ARGS__) \
	X(SY_COSCHED, cosched, 0, 0, 3, 0, __VA_ARGS__) \
	SY_GOVERNORS_MORE(X, __VA_ARGS__)

#define SY_GOVERNOR_BIT(BIT, ...) BIT,
enum sy_governor_kind { SY_GOVERNORS_LIST(SY_GOVERNOR_BIT, ) SY_GOVERNORS };

/* Where each one's words begin, and how many there are: those of all, since hosts make room before they know a policy. */
#define SY_GOVERNOR_WORDS(AT, words) AT, AT##_LAST = AT - 1 + (words)
#define SY_GOVERNOR_HOST(BIT, name, host, domain, vcpu, queue, ...) SY_GOVERNOR_WORDS(BIT##_HOST_AT, host),
#define SY_GOVERNOR_DOMAIN(BIT, name, host, domain, vcpu, queue, ...) SY_GOVERNOR_WORDS(BIT##_DOMAIN_AT, domain),
#define SY_GOVERNOR_VCPU(BIT, name, host, domain, vcpu, queue, ...) SY_GOVERNOR_WORDS(BIT##_VCPU_AT, vcpu),
#define SY_GOVERNOR_QUEUE(BIT, name, host, domain, vcpu, queue, ...) SY_GOVERNOR_WORDS(BIT##_QUEUE_AT, queue),
enum { SY_GOVERNORS_LIST(SY_GOVERNOR_HOST, ) SY_GOVERNORS_HOST_WORDS };
enum { SY_GOVERNORS_LIST(SY_GOVERNOR_DOMAIN, ) SY_GOVERNORS_DOMAIN_WORDS };
enum { SY_GOVERNORS_LIST(SY_GOVERNOR_VCPU, ) SY_GOVERNORS_VCPU_WORDS };
enum { SY_GOVERNORS_LIST(SY_GOVERNOR_QUEUE, ) SY_GOVERNORS_QUEUE_WORDS };

/* All of one kind, at the end of a struct; none if nobody has any. */
#define SY_GOVERNORS_OWN(KIND) __extension__ u64 governor[SY_GOVERNORS_##KIND##_WORDS]
/* What is kept from AT on has just its room. */
#define SY_GOVERNOR_FITS(AT, type) \
	_Static_assert(sizeof(type) == (AT##_LAST - AT + 1) * sizeof(u64), "its line in governors.h says so")

/* SY_HOOK(BIT, NAME_has_HOOK, statement): the statement where the governor governs, if it has this hook. */
#define SY_HOOK(BIT, has, ...) SY_HOOK_OF(BIT, has, __VA_ARGS__)
#define SY_HOOK_OF(BIT, has, ...) SY_HOOK_PICK(SY_ANNOUNCED_##has, SY_HOOK_THERE, SY_HOOK_NONE, 0)(BIT, __VA_ARGS__)
#define SY_HOOK_PICK(...) SY_HOOK_THIRD(__VA_ARGS__)
#define SY_HOOK_THIRD(first, second, third, ...) third
#define SY_HOOK_THERE(BIT, ...) \
	if (SY_GOVERNORS_OF(p) & 1 << (BIT)) { \
		__VA_ARGS__ \
	}
#define SY_HOOK_NONE(BIT, ...)
/* An announcement is one argument more than none. */
#define SY_ANNOUNCED_1 0, 0

#endif
