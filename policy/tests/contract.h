/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every call into a policy keeps to, whoever makes it: it asks for nothing but what SY_ANSWERS allows, leaves
 * fields of the host alone, writes the domain only where it has said so and its lock is held, changes timers only when
 * it says so and knobs only where that is its job, and answers within range. Included between the core and the engine,
 * so that the engine's calls come through here; (sy_call)() does not. It needs check() and holds_domain(), whether a
 * domain's lock is held, and counts the calls.
 */
#ifndef STEELYARD_TESTS_CONTRACT_H
#define STEELYARD_TESTS_CONTRACT_H

#include <string.h>

static void check(bool holds, const char *format, ...);
static bool holds_domain(const struct sy_domain *d);

/* clang-format off */
#define CALLS(X) \
	X(writes_domain) X(scope) X(queue_pcpus_max) X(queue_requests) X(tick_ns) X(account_ns) X(cap_period_ns) X(reserves) X(sample_ns) X(late_ns) X(wants_packets) X(wants_offered) \
	X(accounting_init) X(queue_init) X(domain_init) X(vcpu_init) X(vcpu_destroy) X(join) X(leave) \
	X(survey_begin) X(survey_vcpu) X(wake) X(steps) X(is_lesser) X(block) X(yield) X(spin) X(rank) X(summon) X(spun) \
	X(charge) X(vcpu_timer_ns) X(vcpu_timer) X(domain_timer) X(key) X(lead) X(consider) X(look_further) X(steal) \
	X(reset_due) X(reset) X(reweigh) X(start) X(slice) X(tick) \
	X(account_begin) X(account_domain) X(account_vcpu) X(account_end) X(load) X(balance_gain) \
	X(domain_change) X(vcpu_reserve) X(vcpu_reserved) X(sample_begin) X(sample_domain) X(sample_settle) X(credit) X(class) X(boosted)
/* clang-format on */
#define CALL_INDEX(name) CALL_##name,
#define CALL_NAME(name) "sy_" #name,

enum call { CALLS(CALL_INDEX) CALL_COUNT };
static const char *const call_name[] = { CALLS(CALL_NAME) };
static u64 called[CALL_COUNT];

#define CALL_MAY(name, requests) [CALL_##name] = (requests),
static const u32 may_ask[CALL_COUNT] = { SY_ANSWERS(CALL_MAY) };

#define CALL_OF_DOMAIN(name) [CALL_##name] = SY_CALL_##name + 1,
/* 0: none of these calls. */
static const u32 domain_call[CALL_COUNT] = { SY_DOMAIN_CALLS(CALL_OF_DOMAIN) };
/* Those that always write the domain: about it, and about the beginning, end and accounting of a vCPU. */
static const bool writes_domain[CALL_COUNT] = {
	[CALL_domain_init] = true,
	[CALL_domain_change] = true,
	[CALL_domain_timer] = true,
	[CALL_vcpu_init] = true,
	[CALL_vcpu_destroy] = true,
	[CALL_account_domain] = true,
	[CALL_account_vcpu] = true,
	[CALL_reset] = true,
	[CALL_reweigh] = true,
	[CALL_sample_domain] = true,
	[CALL_sample_settle] = true,
};

/* Beside its job, what a call may change, as bits that are no requests. */
enum {
	MAY_SET_TIMERS = 1u << 30, /* without a word: the host looks anyway */
	MAY_TURN_KNOBS = 1u << 31
};

/* What a call was given, any of it null, and how that was. */
struct given {
	enum call call;
	const struct sy_policy *policy;
	const struct sy_queue *queue;
	const struct sy_domain *domain;
	const struct sy_vcpu *vcpu;
	const struct sy_pcpu *pcpu;
	u64 vcpu_timer_ns, domain_timer_ns, domain_id, domain_vcpus, weight, slice_ns;
	u32 queue_pcpus, queued, vcpu_pcpu, runnable, index, apart, pcpu_id, busy;
	bool writes; /* the domain */
	struct sy_domain before;
};

/* Whether the call may write its domain; then its lock is held. */
static bool may_write(enum call call, const struct sy_policy *p, const struct sy_domain *d, const struct sy_vcpu *v)
{
	bool writes = writes_domain[call];

	if (domain_call[call])
		writes = (sy_writes_domain)(p, d, v, (enum sy_domain_call)(domain_call[call] - 1));
	check(!writes || holds_domain(d), "%s() may write domain %llu, which is not held", call_name[call],
	      (unsigned long long)d->id);
	check(!writes || !v || !v->apart, "%s() may write a domain, and is told that it may not", call_name[call]);
	check(!domain_call[call] || v->apart || holds_domain(d), "%s() of a vCPU that is apart, and not told so",
	      call_name[call]);
	return writes;
}

/*
 * A call that is apart is tempted: by not being told so, since it has said that it writes nothing; or by a cap, a group
 * and a sibling in it that have come since it said so.
 */
static void tempt(const struct given *g)
{
	struct sy_domain *d = (struct sy_domain *)g->domain;

	if (called[g->call] % 2) {
		((struct sy_vcpu *)g->vcpu)->apart = 0;
		return;
	}
	d->settings.cap_percent += 1;
	d->settings.ungrouped = 0;
	d->vcpus += 1;
}

static void end_temptation(const struct given *g)
{
	struct sy_domain *d = (struct sy_domain *)g->domain;

	((struct sy_vcpu *)g->vcpu)->apart = 1;
	d->settings = g->before.settings;
	d->vcpus = g->before.vcpus;
}

static struct given given(enum call call, const struct sy_policy *p, const struct sy_queue *q,
			  const struct sy_domain *d, const struct sy_vcpu *v, const struct sy_pcpu *c)
{
	struct given g = { .call = call, .policy = p, .queue = q, .domain = d, .vcpu = v, .pcpu = c };

	called[call]++;
	if (q) {
		g.queue_pcpus = q->pcpus;
		g.queued = q->queued;
	}
	if (d) {
		g.domain_timer_ns = d->timer_ns;
		g.domain_id = d->id;
		g.domain_vcpus = d->vcpus;
		g.weight = d->weight;
		g.slice_ns = d->slice_ns;
		g.writes = may_write(call, p, d, v);
		g.before = *d;
	}
	if (v) {
		g.vcpu_timer_ns = (sy_vcpu_timer_ns)(p, v);
		g.vcpu_pcpu = v->pcpu;
		g.runnable = v->runnable;
		g.index = v->index;
		g.apart = v->apart;
	}
	if (c) {
		g.pcpu_id = c->id;
		g.busy = c->busy;
	}
	if (g.apart)
		tempt(&g);
	return g;
}

/* After the call, which asks for this. */
static void check_given(const struct given *g, u32 requests)
{
	const char *name = call_name[g->call];
	const struct sy_domain *d = g->domain;
	const struct sy_vcpu *v = g->vcpu;
	u32 asked = requests & ~(MAY_SET_TIMERS | MAY_TURN_KNOBS);

	if (g->apart)
		end_temptation(g);
	check(!(asked & ~may_ask[g->call]), "%s() asks for %x", name, asked);
	check(!(asked & (SY_SURVEY | SY_RESORT | SY_BALANCE) & ~sy_queue_requests(g->policy)),
	      "%s() asks for %x, which its policy never does", name, asked);
	check(!(asked & SY_PARK) || !(asked & SY_UNPARK), "%s() asks for PARK and UNPARK", name);
	check(!g->queue || (g->queue->pcpus == g->queue_pcpus && g->queue->queued == g->queued),
	      "%s() writes a field of the queue that is the host's", name);
	check(!g->pcpu || (g->pcpu->id == g->pcpu_id && g->pcpu->busy == g->busy),
	      "%s() writes a field of the pCPU that is the host's", name);
	check(!v || (v->pcpu == g->vcpu_pcpu && v->runnable == g->runnable && v->index == g->index &&
		     v->apart == g->apart),
	      "%s() writes a field of the vCPU that is the host's", name);
	check(!v || (sy_vcpu_timer_ns)(g->policy, v) == g->vcpu_timer_ns || requests & (SY_TIMER | MAY_SET_TIMERS),
	      "%s() changes the vCPU's timer and does not tell", name);
	if (!d)
		return;
	check(g->writes || !memcmp(d, &g->before, sizeof(*d)), "%s() writes domain %llu, and has not said so", name,
	      (unsigned long long)d->id);
	check(d->timer_ns == g->domain_timer_ns || requests & (SY_DOMAIN_TIMER | MAY_SET_TIMERS),
	      "%s() changes the domain's timer and does not tell", name);
	check(d->id == g->domain_id && (requests & MAY_TURN_KNOBS || d->vcpus == g->domain_vcpus),
	      "%s() writes a field of the domain that is the host's", name);
	check(requests & MAY_TURN_KNOBS || (d->weight == g->weight && d->slice_ns == g->slice_ns),
	      "%s() turns a knob", name);
	check(d->weight >= SY_WEIGHT_MIN && d->weight <= SY_WEIGHT_MAX, "%s(): a weight of %llu", name,
	      (unsigned long long)d->weight);
}

#define CALL(name, p, q, d, v, c, expression, requests) \
	({ \
		struct given given_ = given(CALL_##name, p, q, d, v, c); \
		__auto_type answer_ = (expression); \
\
		check_given(&given_, (requests)); \
		answer_; \
	})
/* The arguments of every call begin with the policy. */
#define POLICY_OF(p, ...) (p)
#define ASKS(name, q, d, v, c, ...) \
	CALL(name, POLICY_OF(__VA_ARGS__, ), q, d, v, c, (sy_##name)(__VA_ARGS__), answer_)
#define TELLS(name, q, d, v, c, ...) \
	CALL(name, POLICY_OF(__VA_ARGS__, ), q, d, v, c, (sy_##name)(__VA_ARGS__), 0)
#define DOES(name, q, d, v, c, may, ...) \
	((void)CALL(name, POLICY_OF(__VA_ARGS__, ), q, d, v, c, ((sy_##name)(__VA_ARGS__), 0), may))

/* ---- What is more to check of some ---- */

/* Where credit is given at accountings and resets, running earns none. */
static u32 checked_charge(const struct sy_policy *p, struct sy_queue *q, struct sy_domain *d, struct sy_vcpu *v,
			  u64 ran_ns, u64 now)
{
	s64 before = (sy_credit)(p, q, v);
	u32 requests = ASKS(charge, q, d, v, 0, p, q, d, v, ran_ns, now);

	called[CALL_credit]++;
	check((p->discipline != SY_CREDIT && p->discipline != SY_CREDIT2) || (sy_credit)(p, q, v) <= before,
	      "a vCPU's credit grows while it runs");
	return requests;
}

static enum sy_verdict checked_verdict(enum sy_verdict verdict, bool of_own_queue)
{
	check(verdict == SY_SKIP || verdict == SY_TAKE || verdict == SY_STOP ||
		      (of_own_queue && (verdict == SY_PREFER || verdict == SY_SKIP_MOVES)),
	      "verdict %d", (int)verdict);
	return verdict;
}

static u32 checked_steps(u32 steps)
{
	u32 kinds = steps & ~(SY_STEPS_PLACE | SY_STEPS_QUEUE | SY_STEPS_LESSER | SY_STEPS_AFTER_LAST);

	check(kinds < 1u << 4 * SY_STEP_BITS, "steps %x", steps);
	for (; kinds; kinds >>= SY_STEP_BITS)
		check((kinds & (SY_STEP_ALSO - 1)) <= SY_STEP_EVICT, "steps %x", steps);
	return steps;
}

static u64 checked_slice(u64 slice_ns)
{
	check(slice_ns >= 1 && slice_ns <= SY_FOREVER, "a slice of %llu ns", (unsigned long long)slice_ns);
	return slice_ns;
}

/* Near the ends of time all is defined, and no more. */
static bool extreme;
/* Of the last sy_reset_due(). */
static const struct sy_vcpu *reset_for;

/* Who is exactly as deep in debt as was given may need one reset more, but not for ever. */
static u32 checked_reset(const struct sy_policy *p, struct sy_queue *q, struct sy_governor *g, struct sy_domain *d,
			 u64 units, u64 now)
{
	u32 requests = ASKS(reset, q, d, 0, 0, p, q, g, d, units, now);
	struct sy_queue again = *q;

	units = (sy_reset_due)(p, &again, reset_for, 0);
	if (!units || extreme)
		return requests;
	(sy_reset)(p, &again, g, d, units, now);
	check(!(sy_reset_due)(p, &again, reset_for, 0), "two resets do not suffice");
	return requests;
}

/* ---- The calls that the engine makes ---- */

#define sy_writes_domain(p, d, v, call) TELLS(writes_domain, 0, d, v, 0, p, d, v, call)
#define sy_queue_init(p, q, ...) DOES(queue_init, q, 0, 0, 0, 0, p, q, __VA_ARGS__)
#define sy_accounting_init(...) DOES(accounting_init, 0, 0, 0, 0, 0, __VA_ARGS__)
#define sy_domain_init(p, d, ...) \
	DOES(domain_init, 0, d, 0, 0, MAY_SET_TIMERS | MAY_TURN_KNOBS, p, d, __VA_ARGS__)
#define sy_domain_change(p, g, d, ...) DOES(domain_change, 0, d, 0, 0, MAY_TURN_KNOBS, p, g, d, __VA_ARGS__)
#define sy_vcpu_reserve(p, v, asked) DOES(vcpu_reserve, 0, 0, v, 0, 0, p, v, asked)
#define sy_vcpu_reserved(p, d, v, reserved) DOES(vcpu_reserved, 0, d, v, 0, 0, p, d, v, reserved)
#define sy_vcpu_init(p, d, v, now) DOES(vcpu_init, 0, d, v, 0, MAY_SET_TIMERS, p, d, v, now)
#define sy_vcpu_destroy(p, a, d, v) DOES(vcpu_destroy, 0, d, v, 0, 0, p, a, d, v)
#define sy_join(p, q, d, v, now) ASKS(join, q, d, v, 0, p, q, d, v, now)
#define sy_leave(p, q, d, v, now) ASKS(leave, q, d, v, 0, p, q, d, v, now)
#define sy_survey_begin(p, q) DOES(survey_begin, q, 0, 0, 0, 0, p, q)
#define sy_survey_vcpu(p, q, d, v) DOES(survey_vcpu, q, d, v, 0, 0, p, q, d, v)
#define sy_wake(p, q, d, v, now) ASKS(wake, q, d, v, 0, p, q, d, v, now)
#define sy_steps(p, v) checked_steps(TELLS(steps, 0, 0, v, 0, p, v))
#define sy_is_lesser(p, v) TELLS(is_lesser, 0, 0, v, 0, p, v)
#define sy_block(p, q, d, v, now) ASKS(block, q, d, v, 0, p, q, d, v, now)
#define sy_yield(p, q, d, v, now) ASKS(yield, q, d, v, 0, p, q, d, v, now)
#define sy_spin(p, d, v, now) TELLS(spin, 0, d, v, 0, p, d, v, now)
#define sy_rank(p, q, d, v, ...) TELLS(rank, q, d, v, 0, p, q, d, v, __VA_ARGS__)
#define sy_summon(p, q, d, v, now) ASKS(summon, q, d, v, 0, p, q, d, v, now)
#define sy_spun(p, q, d, v, ...) ASKS(spun, q, d, v, 0, p, q, d, v, __VA_ARGS__)
#define sy_charge checked_charge
#define sy_vcpu_timer_ns(p, v) TELLS(vcpu_timer_ns, 0, 0, v, 0, p, v)
#define sy_vcpu_timer(p, q, d, v, now) ASKS(vcpu_timer, q, d, v, 0, p, q, d, v, now)
#define sy_domain_timer(p, d, now) ASKS(domain_timer, 0, d, 0, 0, p, d, now)
#define sy_key(p, q, d, v, now) TELLS(key, q, d, v, 0, p, q, d, v, now)
#define sy_lead(p, q, c, v, ...) TELLS(lead, q, 0, v, c, p, q, c, v, __VA_ARGS__)
#define sy_consider(p, q, c, best, v, now) \
	checked_verdict(TELLS(consider, q, 0, v, c, p, q, c, best, v, now), true)
#define sy_look_further(p, c, ...) TELLS(look_further, 0, 0, 0, c, p, c, __VA_ARGS__)
#define sy_steal(p, c, best, q, v, now) checked_verdict(TELLS(steal, q, 0, v, c, p, c, best, q, v, now), false)
#define sy_reset_due(p, q, v, next) (reset_for = (v), TELLS(reset_due, q, 0, v, 0, p, q, v, next))
#define sy_reset checked_reset
#define sy_reweigh(p, g, d) DOES(reweigh, 0, d, 0, 0, MAY_TURN_KNOBS, p, g, d)
#define sy_start(p, q, c, d, v, now) ASKS(start, q, d, v, c, p, q, c, d, v, now)
#define sy_slice(p, q, c, d, v, ...) checked_slice(TELLS(slice, q, d, v, c, p, q, c, d, v, __VA_ARGS__))
#define sy_tick(p, a, q, c, d, v, now) ASKS(tick, q, d, v, c, p, a, q, c, d, v, now)
#define sy_account_begin(...) DOES(account_begin, 0, 0, 0, 0, 0, __VA_ARGS__)
#define sy_account_domain(p, a, d) ASKS(account_domain, 0, d, 0, 0, p, a, d)
#define sy_account_vcpu(p, a, d, v) ASKS(account_vcpu, 0, d, v, 0, p, a, d, v)
#define sy_account_end(...) DOES(account_end, 0, 0, 0, 0, 0, __VA_ARGS__)
#define sy_load(p, q, now) TELLS(load, q, 0, 0, 0, p, q, now)
#define sy_balance_gain(p, from, to, d, v, now) TELLS(balance_gain, from, d, v, 0, p, from, to, d, v, now)
#define sy_sample_begin(...) DOES(sample_begin, 0, 0, 0, 0, 0, __VA_ARGS__)
#define sy_sample_domain(p, g, d, sample) DOES(sample_domain, 0, d, 0, 0, 0, p, g, d, sample)
#define sy_sample_settle(p, g, d) \
	CALL(sample_settle, p, 0, d, 0, 0, (sy_sample_settle)(p, g, d), answer_ | MAY_TURN_KNOBS)
#define sy_class(p, v) TELLS(class, 0, 0, v, 0, p, v)
#define sy_boosted(p, v) TELLS(boosted, 0, 0, v, 0, p, v)
#define sy_scope(p) TELLS(scope, 0, 0, 0, 0, p)
#define sy_queue_pcpus_max(p) TELLS(queue_pcpus_max, 0, 0, 0, 0, p)
#define sy_queue_requests(p) TELLS(queue_requests, 0, 0, 0, 0, p)
#define sy_tick_ns(p) TELLS(tick_ns, 0, 0, 0, 0, p)
#define sy_account_ns(p) TELLS(account_ns, 0, 0, 0, 0, p)
#define sy_cap_period_ns(p) TELLS(cap_period_ns, 0, 0, 0, 0, p)
#define sy_reserves(p) TELLS(reserves, 0, 0, 0, 0, p)
#define sy_sample_ns(p) TELLS(sample_ns, 0, 0, 0, 0, p)
#define sy_wants_packets(p) TELLS(wants_packets, 0, 0, 0, 0, p)
#define sy_wants_offered(p) TELLS(wants_offered, 0, 0, 0, 0, p)
#define sy_late_ns(p) TELLS(late_ns, 0, 0, 0, 0, p)

#endif
