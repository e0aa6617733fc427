/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Governors: what turns knobs while a discipline schedules, any set of them. This list is the only place that names
 * them all: bits, room, descriptions and calls follow from it, in this order.
 *
 * A governor is governor/NAME.h: parameters, state, description, and hooks, each of which it announces by
 *	#define NAME_has_HOOK 1
 * The calls of steelyard.h go to the hooks of those that govern. p, g, d, v are the policy, what governors keep of the
 * host, the domain and the vCPU.
 *
 *	u64 NAME_sample_ns(p)			how often it wants a sample; SY_FOREVER: never
 *	u64 NAME_late_ns(p)			waits longer than this are counted for samples; SY_FOREVER: none
 *	void NAME_sample_begin(p, g, sampling)	a sample begins
 *	void NAME_sample_domain(p, g, d, sample) what was measured of a domain
 *	void NAME_sample_settle(p, g, d)	all were measured; weight and slice are worked out after this
 *	u32 NAME_reset(p, g, d, now)		a vCPU of this domain had a queue reset; what it asks for
 *	u64 NAME_weight(p, g, d, weight)	the weight instead of this one, which is at most 2^36
 *	void NAME_slice(p, d)			may shorten d->slice_ns and set d->tick_ns
 *	NAME_has_packets alone			samples shall tell of packets
 *	u64 NAME_room_ns(p, d, v)		how much more boost the vCPU may save, at an accounting
 *	void NAME_save(p, d, v, unused_ns, account_ns)	after that, if there is room: what it left unused
 *	enum sy_gang NAME_spin(p, d, v, now)	the vCPU spins: whom to summon; the next four are of who has this one
 *	u64 NAME_ahead_ns(p)			who has had so much more than its part is not summoned
 *	u64 NAME_rank(p, v, facts, waited_ns)	what summoning the sibling promises
 *	u32 NAME_summon(p, v)			it is summoned: v->first
 *	u64 NAME_moment_ns(p)			who was summoned runs for so long at most
 *	bool NAME_stays(p)			the spinner does not yield
 */
#ifndef STEELYARD_GOVERNORS_H
#define STEELYARD_GOVERNORS_H

#define SY_GOVERNORS_LIST(X) \
	X(SY_RESET_BOOST, reset_boost) \
	X(SY_LOAD_WEIGHT, load_weight) \
	X(SY_APP_SLICE, app_slice) \
	X(SY_BOOST_CREDIT, boost_credit) \
	X(SY_COSCHED, cosched)

#define SY_GOVERNOR_BIT(BIT, name) BIT,
enum sy_governor_kind { SY_GOVERNORS_LIST(SY_GOVERNOR_BIT) SY_GOVERNORS };

/* SY_HOOK(BIT, NAME_has_HOOK, statement): the statement where the governor governs, if it has this hook. */
#define SY_HOOK(BIT, has, ...) SY_HOOK_OF(BIT, has, __VA_ARGS__)
#define SY_HOOK_OF(BIT, has, ...) SY_HOOK_PICK(SY_ANNOUNCED_##has, SY_HOOK_THERE, SY_HOOK_NONE, 0)(BIT, __VA_ARGS__)
#define SY_HOOK_PICK(...) SY_HOOK_THIRD(__VA_ARGS__)
#define SY_HOOK_THIRD(first, second, third, ...) third
#define SY_HOOK_THERE(BIT, ...) \
	if (p->governors & 1 << (BIT)) { \
		__VA_ARGS__ \
	}
#define SY_HOOK_NONE(BIT, ...)
/* An announcement is one argument more than none. */
#define SY_ANNOUNCED_1 0, 0

#endif
