// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policies and the engine under an adversary: a model of a host with 1 to 384 pCPUs, of any topology, with any
 * policy and parameters. vCPUs wake, block, yield, spin, begin and end in bursts; affinities and settings change; pCPUs
 * come, go, or run something else; contexts are saved later, every timer is late, and pCPUs choose in any order.
 * Checked throughout: nobody is lost or in two places, the engine believes what the host has, who stops was charged,
 * who is kept off a queue has something that ends it, no pCPU is idle while somebody who may use it waits in its queue;
 * affinity.h, nearness.h, of the policies contract.h, and that the order of a queue stays. Some hosts live near the
 * ends of time, where all must be defined. One seed repeats a failure.
 *
 *	adversary [DISCIPLINE] STEPS SEED...
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "more_governors.h"
#define SY_QUEUE_GROUPS 3
#include "../core.c"
#include "random.h"
#include "contract.h"
#define HOST_LOCKS
#define HOST_STAYS
#include "../engine/host.h"

enum {
	PCPUS = 384,
	WORDS = PCPUS / 64,
	DOMAINS = 48,
	DOMAIN_VCPUS = 32,
	VCPUS = DOMAINS * DOMAIN_VCPUS,
	SMALL_PCPUS = 8, /* of three hosts in four, at most */
	HOST_STEPS = 5000 /* before another host is drawn */
};

/* Up to 18 years after the clock's start all is checked, beyond that only that all is defined. */
#define NOW_MAX (1ULL << 59)
#define NOW_EXTREME (1ULL << 63)

static struct engine engine;
static struct sy_policy policy;
static struct engine_vcpu vcpus[VCPUS];
static struct engine_domain domains[DOMAINS];
static struct engine_queue queues[PCPUS];
static struct engine_pcpu pcpus[PCPUS];

/* The host's own. */
static u64 allowed[VCPUS][WORDS], preferred[VCPUS][WORDS];
static bool prefers[VCPUS], there[VCPUS];
static u64 idle[WORDS], lesser[WORDS], waited[WORDS];
static u32 waiting[PCPUS][VCPUS], waiting_count[PCPUS];
static u64 wanted[VCPUS][WORDS], liked[VCPUS][WORDS]; /* as `allowed` and `preferred`, whatever is there */
static bool saves; /* this host */
static bool softly; /* vCPUs prefer some pCPUs */
static bool governed; /* knobs are turned at random: keys may change with them */
static bool accounted[VCPUS]; /* since it was queued: its key may have changed, with a RESORT to follow */
static u64 vcpu_due_ns[VCPUS], domain_due_ns[DOMAINS], tick_due_ns[PCPUS], slice_due_ns[PCPUS];
static u64 account_due_ns, sample_due_ns, now;
static u32 account_order[DOMAINS], domain_count, domain_vcpus, interrupts;
static bool interrupted[PCPUS], unbalanced[PCPUS];

static const char *only; /* discipline, or null: any */
static u64 seed, step, steps_total, choices;
static char policy_text[64];

static void check(bool holds, const char *format, ...)
{
	va_list arguments;

	if (holds)
		return;
	fprintf(stderr, "adversary: seed %llu, step %llu, %s, %u pCPUs: ", (unsigned long long)seed,
		(unsigned long long)step, policy_text, engine.pcpus);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

#include "locks.h"

/* ---- The host's operations ---- */

HOST_FN bool host_goes_on(struct engine *e)
{
	return true;
}

HOST_FN u32 host_zero(struct engine *e)
{
	return 0;
}

HOST_FN const struct sy_policy *host_policy(struct engine *e)
{
	return &policy;
}

HOST_FN struct engine_vcpu *host_vcpu(struct engine *e, u32 vcpu)
{
	if (vcpu != begins)
		check_held(vcpus[vcpu].queue, "vCPU", vcpu);
	return &vcpus[vcpu];
}

HOST_FN struct engine_domain *host_domain(struct engine *e, u32 domain)
{
	return &domains[domain];
}

HOST_FN bool host_has_domain(struct engine *e, u32 domain)
{
	return true;
}

HOST_FN struct engine_queue *host_queue(struct engine *e, u32 queue)
{
	check_held(queue, "queue", queue);
	return &queues[queue];
}

HOST_FN struct engine_pcpu *host_pcpu(struct engine *e, u32 pcpu)
{
	check_held(pcpus[pcpu].queue, "pCPU", pcpu);
	return &pcpus[pcpu];
}

HOST_FN u32 host_next_waiting(struct engine *e, u32 queue, u32 *place)
{
	return *place < waiting_count[queue] ? waiting[queue][(*place)++] : SY_NONE;
}

HOST_FN u32 host_next_member(struct engine *e, u32 queue, u32 *place)
{
	while (*place < domain_count * domain_vcpus) {
		u32 vcpu = (*place)++;

		if (there[vcpu] && vcpus[vcpu].queue == queue)
			return vcpu;
	}
	return SY_NONE;
}

HOST_FN u32 host_next_vcpu(struct engine *e, u32 domain, u32 *place)
{
	while (*place < domain_vcpus) {
		u32 vcpu = domain * domain_vcpus + (*place)++;

		if (there[vcpu])
			return vcpu;
	}
	return SY_NONE;
}

HOST_FN u32 host_next_accounted(struct engine *e, u32 *place)
{
	return *place < domain_count ? account_order[(*place)++] : SY_NONE;
}

HOST_FN void host_insert(struct engine *e, u32 queue, u32 vcpu)
{
	u32 at = waiting_count[queue]++;

	for (; at && vcpus[waiting[queue][at - 1]].key > vcpus[vcpu].key; at--)
		waiting[queue][at] = waiting[queue][at - 1];
	waiting[queue][at] = vcpu;
	accounted[vcpu] = false;
}

HOST_FN void host_remove(struct engine *e, u32 queue, u32 vcpu)
{
	u32 at = 0;

	while (at < waiting_count[queue] && waiting[queue][at] != vcpu)
		at++;
	check(at < waiting_count[queue], "vCPU %u is not in queue %u", vcpu, queue);
	waiting_count[queue]--;
	memmove(&waiting[queue][at], &waiting[queue][at + 1],
		(waiting_count[queue] - at) * sizeof(waiting[queue][0]));
}

HOST_FN void host_sort(struct engine *e, u32 queue)
{
	u32 count = waiting_count[queue], i;

	waiting_count[queue] = 0;
	for (i = 0; i < count; i++)
		host_insert(e, queue, waiting[queue][i]);
}

/* Where one pCPU has a queue of its own, that queue's time is of now. */
static void check_charged(u32 queue)
{
	u32 i;

	if (queue == SY_NONE || queues[queue].state.pcpus > 1)
		return;
	for (i = queues[queue].first_pcpu; i < queues[queue].end_pcpu; i++)
		check(pcpus[i].current == SY_NONE || pcpus[i].charged_ns == now,
		      "queue %u changes, but who runs there was not charged", queue);
}

HOST_FN void host_change_queue(struct engine *e, u32 vcpu, u32 from, u32 to)
{
	check_charged(from);
	check_charged(to);
}

HOST_FN void host_account_first(struct engine *e, u32 place)
{
	u32 domain = account_order[place - 1];

	memmove(&account_order[1], &account_order[0], (place - 1) * sizeof(account_order[0]));
	account_order[0] = domain;
}

static void set_bit(u64 *set, u32 bit, bool value)
{
	set[bit / 64] = (set[bit / 64] & ~(1ULL << bit % 64)) | (u64)value << bit % 64;
}

HOST_FN u64 host_idle_pcpus(struct engine *e, u32 word)
{
	return idle[word];
}

HOST_FN void host_set_idle(struct engine *e, u32 pcpu, bool value)
{
	set_bit(idle, pcpu, value);
}

HOST_FN u64 host_lesser_pcpus(struct engine *e, u32 word)
{
	return lesser[word];
}

HOST_FN void host_set_lesser(struct engine *e, u32 pcpu, bool value)
{
	set_bit(lesser, pcpu, value);
}

HOST_FN u64 host_waited_queues(struct engine *e, u32 word)
{
	return waited[word];
}

HOST_FN void host_set_waited(struct engine *e, u32 queue, bool value)
{
	set_bit(waited, queue, value);
}

HOST_FN u64 host_allowed_pcpus(struct engine *e, u32 vcpu, u32 word)
{
	return allowed[vcpu][word];
}

HOST_FN bool host_prefers(struct engine *e, u32 vcpu)
{
	return prefers[vcpu];
}

HOST_FN u64 host_preferred_pcpus(struct engine *e, u32 vcpu, u32 word)
{
	return preferred[vcpu][word];
}

HOST_FN void host_interrupt(struct engine *e, u32 pcpu)
{
	check(!interrupted[pcpu], "pCPU %u is interrupted twice", pcpu);
	interrupted[pcpu] = true;
	interrupts++;
}

HOST_FN void host_balance(struct engine *e, u32 queue)
{
	unbalanced[queue] = true;
}

HOST_FN void host_vcpu_timer(struct engine *e, u32 vcpu)
{
	vcpu_due_ns[vcpu] = sy_vcpu_timer_ns(&policy, &vcpus[vcpu].state);
}

HOST_FN void host_domain_timer(struct engine *e, u32 domain)
{
	domain_due_ns[domain] = domains[domain].state.timer_ns;
}

HOST_FN void host_tick(struct engine *e, u32 pcpu, u64 at_ns)
{
	check(extreme || at_ns >= now, "the next tick of pCPU %u is past", pcpu);
	tick_due_ns[pcpu] = at_ns;
}

HOST_FN bool host_ticks(struct engine *e, u32 pcpu)
{
	return tick_due_ns[pcpu];
}

HOST_FN bool host_saves(struct engine *e)
{
	return saves;
}

HOST_FN bool host_in_kernel(struct engine *e, u32 vcpu)
{
	return below(2);
}

/* What is measured need not make sense. */
HOST_FN void host_sample(struct engine *e, u32 domain, struct sy_sample *sample, u64 at_ns)
{
	sample->interval_ns = magnitude();
	sample->gotten_ns = magnitude();
	sample->waited_ns = magnitude();
	sample->packets = magnitude();
	sample->waits = magnitude();
	sample->late_waits = magnitude();
	sample->offered_ns = magnitude();
	sample->offered_age_ns = below(2) ? 0 : magnitude();
}

HOST_FN void host_wakes(struct engine *e, u32 vcpu, u64 at_ns)
{
	check(vcpus[vcpu].status == ENGINE_BLOCKED, "vCPU %u wakes, but is not blocked", vcpu);
}

HOST_FN void host_starts(struct engine *e, u32 vcpu, u32 pcpu, u64 at_ns)
{
	check(vcpus[vcpu].status == ENGINE_WAITING && !vcpus[vcpu].queued && !vcpus[vcpu].parked,
	      "vCPU %u starts, but does not wait", vcpu);
	check(!vcpus[vcpu].saving, "vCPU %u starts, but its context is not saved", vcpu);
	check(pcpus[pcpu].online && !pcpus[pcpu].occupied, "vCPU %u starts where it cannot", vcpu);
	check(pcpus[pcpu].current == SY_NONE, "vCPU %u starts where another runs", vcpu);
	check(allowed[vcpu][pcpu / 64] >> pcpu % 64 & 1, "vCPU %u may not use pCPU %u", vcpu, pcpu);
}

HOST_FN void host_stops(struct engine *e, u32 vcpu, u32 pcpu, u32 status, u64 at_ns)
{
	if (pcpu == SY_NONE) {
		check(vcpus[vcpu].status == ENGINE_WAITING, "vCPU %u does not wait", vcpu);
		return;
	}
	check(vcpus[vcpu].status == ENGINE_RUNNING && vcpus[vcpu].ran_on == pcpu,
	      "vCPU %u stops, but does not run", vcpu);
	check(pcpus[pcpu].charged_ns == at_ns, "vCPU %u was not charged up to its stop", vcpu);
}

HOST_FN void host_unparks(struct engine *e, u32 vcpu, u64 at_ns)
{
}

/* The state of a vCPU is where its struct begins. */
static u32 account_vcpu(struct sy_accounting *a, struct sy_domain *d, struct sy_vcpu *v)
{
	accounted[(struct engine_vcpu *)v - vcpus] = true;
	return sy_account_vcpu(&policy, a, d, v);
}
#undef sy_account_vcpu
#define sy_account_vcpu(p, a, d, v) account_vcpu(a, d, v)

static bool rescheduled[DOMAINS]; /* by the sample that is taken */

static u32 sample_settle(struct sy_governor *g, struct sy_domain *d)
{
	u32 requests = sy_sample_settle(&policy, g, d);

	rescheduled[d->id - 1] = requests & SY_RESCHEDULE;
	return requests;
}
#undef sy_sample_settle
#define sy_sample_settle(p, g, d) sample_settle(g, d)

#include "../engine/engine.h"

#include "invariants.h"
#include "affinity.h"
#include "nearness.h"
#include "draw.h"

/* ---- What happens ---- */

static bool due(u64 time_ns)
{
	return time_ns && time_ns <= now;
}

/* Who was interrupted on this pCPU and has lost its turn: a governor has put somebody first who is next here. */
static u32 outranked(u32 pcpu)
{
	u32 paused = pcpus[pcpu].paused, place = 0, vcpu;

	if (!sy_puts_first(&policy) || pcpus[pcpu].current != SY_NONE || paused == SY_NONE ||
	    vcpus[paused].state.first || sy_in_moment(&policy, &vcpus[paused].state, now))
		return SY_NONE;
	while ((vcpu = host_next_waiting(&engine, pcpus[pcpu].queue, &place)) != SY_NONE)
		if (engine_takeable(&engine, vcpu, pcpu))
			return vcpus[vcpu].state.first ? paused : SY_NONE;
	return SY_NONE;
}

static void choose(u32 pcpu)
{
	u32 ran = pcpus[pcpu].current, lost = outranked(pcpu);
	bool returns = ran != SY_NONE && engine_better_idle(&engine, ran, pcpu) != SY_NONE;
	u64 slice_ns;

	if (interrupted[pcpu]) {
		interrupted[pcpu] = false;
		interrupts--;
	}
	pcpus[pcpu].interrupted = 0;
	TELL(pcpus[pcpu].queue, slice_ns = engine_choose(&engine, pcpu, now));
	check(!returns || pcpus[pcpu].current != ran, "vCPU %u stays on pCPU %u; it prefers an idle one", ran, pcpu);
	check(lost == SY_NONE || pcpus[pcpu].current != lost, "vCPU %u goes on though another is first", lost);
	choices++;
	slice_due_ns[pcpu] = pcpus[pcpu].current == SY_NONE ? 0 : now + slice_ns;
}

/* Lets pCPUs that were interrupted choose, in any order; all of them, or until it is enough for now. */
static void settle(bool all)
{
	u32 round;

	for (round = 0; interrupts; round++) {
		u32 first = (u32)below(engine.pcpus), i;

		check(round < 10000, "interrupts without end");
		if (!all && !below(8))
			return;
		for (i = 0; i < engine.pcpus; i++) {
			u32 pcpu = (first + i) % engine.pcpus;

			if (interrupted[pcpu] && (all || below(2)))
				choose(pcpu);
		}
	}
}

static void saved(u32 vcpu)
{
	TELL(vcpus[vcpu].queue, engine_saved(&engine, vcpu, now));
}

static void settle_later(u32 vcpu)
{
	settles[vcpu] = false;
	TELL(vcpus[vcpu].queue, engine_settle_later(&engine, vcpu, now));
}

/* A late timer may need a second call until it points to the future again, but not one per period. */
static bool late(u32 round, const char *whose, u32 number)
{
	if (round < 2)
		return false;
	check(extreme, "%s %u: its timer does not reach the future", whose, number);
	return true;
}

static void whatever_is_due(void)
{
	u32 i, round;

	for (i = 0; i < domain_count * domain_vcpus; i++) {
		for (round = 0; there[i] && due(vcpu_due_ns[i]) && !late(round, "vCPU", i); round++) {
			accounted[i] |= SY_DISCIPLINE(&policy) == SY_CREDIT; /* by itself; sorted at a tick */
			TELL(vcpus[i].queue, engine_vcpu_timer(&engine, i, now));
		}
	}
	for (i = 0; i < domain_count; i++) {
		for (round = 0; due(domain_due_ns[i]); round++) {
			TELL(SY_NONE, engine_domain_timer(&engine, i, now));
			if (late(round, "domain", i))
				break;
		}
	}
	for (i = 0; i < domain_count * domain_vcpus; i++) {
		if (there[i] && vcpus[i].saving && below(2))
			saved(i);
		if (settles[i] && below(2))
			settle_later(i);
	}
	for (i = 0; i < engine.pcpus; i++) {
		if (pcpus[i].occupied && below(2))
			choose(i);
		if (due(tick_due_ns[i])) {
			tick_due_ns[i] = 0;
			TELL(pcpus[i].queue, engine_tick(&engine, i, now));
			check_tick(i);
		}
		if (due(slice_due_ns[i]) && pcpus[i].current != SY_NONE)
			TELL(pcpus[i].queue, engine_interrupt(&engine, i));
	}
	if (due(account_due_ns)) {
		account_due_ns = now + sy_account_ns(&policy);
		TELL(SY_NONE, engine_account(&engine, now));
	}
	if (due(sample_due_ns)) {
		sample_due_ns = now + sy_sample_ns(&policy);
		TELL(SY_NONE, engine_sample(&engine, now));
		check_rescheduled();
	}
	for (i = 0; i < engine.queues; i++) {
		if (unbalanced[i] && below(2)) {
			bool more;

			unbalanced[i] = false;
			TELL(i, more = engine_balance_some(&engine, i, now));
			unbalanced[i] |= more;
		}
	}
}

/*
 * Which of the pCPUs that are there a vCPU may use: those that are wanted, one of them at least. And which of
 * these it prefers: those that it likes, if they are some of them and not all.
 */
static bool set_allowed(u32 vcpu)
{
	u64 any = 0, any_liked = 0, any_not_liked = 0, there_now;
	u32 word, i;

	for (word = 0; word < WORDS; word++) {
		there_now = 0;
		for (i = word * 64; i < sy_min(word * 64 + 64, engine.pcpus); i++)
			there_now |= (u64)pcpus[i].online << i % 64;
		allowed[vcpu][word] = wanted[vcpu][word] & there_now;
		preferred[vcpu][word] = allowed[vcpu][word] & liked[vcpu][word];
		any |= allowed[vcpu][word];
		any_liked |= preferred[vcpu][word];
		any_not_liked |= allowed[vcpu][word] & ~preferred[vcpu][word];
	}
	prefers[vcpu] = any_liked && any_not_liked;
	return any;
}

/* Some pCPUs, one that is there at least. */
static void draw_allowed(u32 vcpu)
{
	u32 kind = (u32)below(4), word, one = (u32)below(engine.pcpus);

	while (!pcpus[one].online)
		one = (one + 1) % engine.pcpus;
	for (word = 0; word < WORDS; word++) {
		u32 first = word * 64;
		u64 all = engine.pcpus >= first + 64 ? ~0ULL :
			  engine.pcpus > first	     ? (1ULL << (engine.pcpus - first)) - 1 :
						       0;

		wanted[vcpu][word] = all & (kind < 2 ? ~0ULL : kind == 2 ? random_word() :
									   0);
	}
	set_bit(wanted[vcpu], one, true);
	set_allowed(vcpu);
}

/* No preference, some pCPUs, a few or one. */
static void draw_liked(u32 vcpu)
{
	u32 kind = softly ? (u32)below(4) : 0, word;

	for (word = 0; word < WORDS; word++)
		liked[vcpu][word] = kind % 3 ? random_word() & (kind == 1 ? ~0ULL : random_word()) : 0;
	if (kind == 3)
		set_bit(liked[vcpu], (u32)below(engine.pcpus), true);
	set_allowed(vcpu);
}

static void occupy(u32 pcpu)
{
	TELL(pcpus[pcpu].queue, engine_occupy(&engine, pcpu, now));
	if (interrupted[pcpu]) {
		interrupted[pcpu] = false;
		interrupts--;
	}
}

/* The pCPU goes, unless somebody may use no other. */
static void end_pcpu(u32 pcpu)
{
	bool gone = false;
	u32 i;

	pcpus[pcpu].online = 0;
	for (i = 0; i < domain_count * domain_vcpus; i++) {
		if (there[i] && !set_allowed(i))
			break;
	}
	pcpus[pcpu].online = 1;
	if (i < domain_count * domain_vcpus) {
		while (there[i] ? set_allowed(i), i-- : i--)
			;
		return;
	}
	occupy(pcpu);
	for (i = 0; i < domain_count * domain_vcpus; i++) {
		if (there[i] && vcpus[i].saving)
			saved(i);
	}
	while (!gone)
		TELL(pcpus[pcpu].queue, gone = engine_pcpu_end(&engine, pcpu, now));
}

static void change_pcpu(u32 pcpu)
{
	u32 i;

	if (pcpus[pcpu].online) {
		end_pcpu(pcpu);
		return;
	}
	TELL(pcpus[pcpu].queue, engine_pcpu_begin(&engine, pcpu));
	for (i = 0; i < domain_count * domain_vcpus; i++)
		set_allowed(i);
	TELL(pcpus[pcpu].queue, engine_interrupt(&engine, pcpu));
}

static void begin_vcpu(u32 vcpu)
{
	u32 pcpu = (u32)below(engine.pcpus);

	while (!pcpus[pcpu].online)
		pcpu = (pcpu + 1) % engine.pcpus;
	memset(&vcpus[vcpu], 0, sizeof(vcpus[vcpu]));
	draw_allowed(vcpu);
	draw_liked(vcpu);
	while (!engine_may_use(&engine, vcpu, pcpu))
		pcpu = (pcpu + 1) % engine.pcpus;
	if (below(2)) {
		pcpu = engine_home(&engine, vcpu);
		check(pcpu != SY_NONE && engine_may_use(&engine, vcpu, pcpu), "vCPU %u has no home", vcpu);
		check(!engine_averse(&engine, vcpu, pcpu), "vCPU %u begins where it would rather not be", vcpu);
	}
	there[vcpu] = true;
	begins = vcpu;
	TELL(pcpus[pcpu].queue,
	     engine_vcpu_begin(&engine, vcpu, vcpu / domain_vcpus, vcpu % domain_vcpus, pcpu, now));
	begins = SY_NONE;
	vcpu_due_ns[vcpu] = sy_vcpu_timer_ns(&policy, &vcpus[vcpu].state);
}

static void change_vcpu(u32 vcpu)
{
	if (vcpus[vcpu].status != ENGINE_BLOCKED)
		return;
	if (vcpus[vcpu].saving)
		saved(vcpu);
	there[vcpu] = false;
	settles[vcpu] = false;
	TELL(vcpus[vcpu].queue, engine_vcpu_end(&engine, vcpu, now));
	begin_vcpu(vcpu);
}

/* A reservation for one vCPU, or none; what is asked is what there is. */
static void reserve(u32 vcpu)
{
	const struct sy_reservation asked = { magnitude(), below(2) ? 0 : magnitude(), below(2) };
	struct sy_reservation reserved = asked;

	TELL(SY_NONE, engine_vcpu_reserve(&engine, vcpu, &asked));
	if (sy_reserves(&policy) && asked.slice_ns)
		TELL(SY_NONE, reserved = engine_vcpu_reserved(&engine, vcpu));
	check(reserved.slice_ns <= asked.slice_ns && reserved.extra_time == asked.extra_time, "vCPU %u has another reservation",
	      vcpu);
}

/* What governors and administrators do. */
static void turn_knob(u32 domain)
{
	struct sy_domain *d = &domains[domain].state;
	struct sy_settings settings;

	if (!governed)
		return;
	switch (below(4)) {
	case 0:
		settings = draw_settings();
		/* Caps change with the domain's beginning only. */
		settings.cap_percent = d->settings.cap_percent;
		TELL(SY_NONE, engine_domain_change(&engine, domain, &settings));
		break;
	case 1:
		d->weight = between(SY_WEIGHT_MIN, SY_WEIGHT_MAX);
		break;
	case 2:
		reserve(domain * domain_vcpus + (u32)below(domain_vcpus));
		break;
	default:
		d->slice_ns = below(2) ? 0 : magnitude();
	}
}

static void happen(void)
{
	u32 vcpu = (u32)below(domain_count * domain_vcpus), pcpu = (u32)below(engine.pcpus);
	bool runs = pcpus[pcpu].current != SY_NONE;

	switch (below(32)) {
	case 0:
		change_vcpu(vcpu);
		break;
	case 1:
		if (below(2))
			draw_allowed(vcpu);
		else
			draw_liked(vcpu);
		TELL(vcpus[vcpu].queue, engine_affinity_changed(&engine, vcpu, now));
		check_placed(vcpu);
		break;
	case 2:
		turn_knob(vcpu / domain_vcpus);
		break;
	case 3:
		if (runs && !pcpus[pcpu].interrupted)
			TELL(pcpus[pcpu].queue, engine_yield(&engine, pcpu, now));
		break;
	case 4:
	case 5:
		if (runs && !pcpus[pcpu].interrupted)
			TELL(pcpus[pcpu].queue, engine_spin(&engine, pcpu, now));
		break;
	case 6:
		unbalanced[pcpus[pcpu].queue] = true;
		break;
	case 7:
		if (pcpus[pcpu].online)
			TELL(pcpus[pcpu].queue, engine_interrupt(&engine, pcpu));
		break;
	case 8:
		if (vcpus[vcpu].status == ENGINE_WAITING)
			TELL(vcpus[vcpu].queue, engine_sleep(&engine, vcpu, now));
		break;
	case 9:
		if (!pcpus[pcpu].online)
			break;
		occupy(pcpu);
		break;
	case 10:
		if (!below(4))
			change_pcpu(pcpu);
		break;
	case 11 ... 18:
		if (runs)
			TELL(pcpus[pcpu].queue, engine_block(&engine, pcpu, now));
		break;
	default:
		if (vcpus[vcpu].status == ENGINE_BLOCKED)
			wake(vcpu);
		break;
	}
}

/* ---- A host ---- */

/* Each pCPU is of one queue, a queue of one group, and two of a group are as many only where one would be too large. */
static void check_queue(const struct engine_queue *q, u32 first)
{
	u32 group = engine_queue_pcpus(&engine), pcpus_ = q->end_pcpu - q->first_pcpu;

	check(q->first_pcpu == first && q->end_pcpu > first && q->end_pcpu <= engine.pcpus, "a queue from pCPU %u to %u",
	      q->first_pcpu, q->end_pcpu);
	check(q->first_pcpu / group == (q->end_pcpu - 1) / group && pcpus_ <= sy_queue_pcpus_max(&policy),
	      "a queue of %u pCPUs", pcpus_);
	check(pcpus_ == sy_queue_pcpus_max(&policy) || q->end_pcpu % group == 0, "a queue ends at pCPU %u", q->end_pcpu);
}

static void begin_queues(void)
{
	u32 first, end;

	for (first = 0; first < engine.pcpus; first = end) {
		struct engine_queue *q = &queues[engine.queues++];

		end = engine_queue_end(&engine, first);
		q->first_pcpu = first;
		q->end_pcpu = end;
		check_queue(q, first);
	}
	for (first = 0; first < engine.queues; first++)
		engine_queue_begin(&engine, first);
	for (first = 0; first < engine.pcpus; first++)
		engine_pcpu_begin(&engine, first);
}

static void check_constants(void)
{
	check(sy_cap_period_ns(&policy) <= SY_S, "a cap does not hold within a second");
	check(sy_reserves(&policy) == (policy.discipline == SY_SEDF), "only sedf reserves");
	check(sy_late_ns(&policy) > 0, "every wait is late");
	check(!sy_wants_packets(&policy) || sy_sample_ns(&policy), "packets without samples");
	check(!sy_wants_offered(&policy) || sy_sample_ns(&policy), "offered load without samples");
	check(sy_queue_pcpus_max(&policy) > 0, "a queue for no pCPU");
	check_reach();
}

static void begin_host(void)
{
	u32 i, most;

	memset(&engine, 0, sizeof(engine));
	memset(vcpus, 0, sizeof(vcpus));
	memset(domains, 0, sizeof(domains));
	memset(queues, 0, sizeof(queues));
	memset(pcpus, 0, sizeof(pcpus));
	memset(idle, 0, sizeof(idle));
	memset(lesser, 0, sizeof(lesser));
	memset(waited, 0, sizeof(waited));
	memset(waiting_count, 0, sizeof(waiting_count));
	memset(there, 0, sizeof(there));
	memset(vcpu_due_ns, 0, sizeof(vcpu_due_ns));
	memset(domain_due_ns, 0, sizeof(domain_due_ns));
	memset(tick_due_ns, 0, sizeof(tick_due_ns));
	memset(slice_due_ns, 0, sizeof(slice_due_ns));
	memset(interrupted, 0, sizeof(interrupted));
	memset(unbalanced, 0, sizeof(unbalanced));
	memset(settles, 0, sizeof(settles));
	interrupts = 0;
	memset(accounted, 0, sizeof(accounted));
	draw_policy();
	saves = below(2);
	softly = below(2);
	contended = !below(4);
	governed = !below(4);
	extreme = !below(8);
	now = 1 + magnitude() % (extreme ? NOW_EXTREME : NOW_MAX);
	engine.began_ns = now;
	draw_topology(below(4) ? SMALL_PCPUS : PCPUS);
	/* Mostly few for each pCPU, or there is nothing to be wrong about. */
	domain_vcpus = 1 + (u32)below(DOMAIN_VCPUS);
	most = (u32)sy_clamp(1 + engine.pcpus * 4ULL / domain_vcpus, 1, DOMAINS);
	domain_count = 1 + (u32)below(most);
	engine_begin(&engine);
	begin_queues();
	draw_groups();
	for (i = 0; i < domain_count; i++) {
		struct sy_settings settings = draw_settings();

		account_order[i] = i;
		engine_domain_begin(&engine, i, &settings, domain_vcpus, now);
	}
	for (i = 0; i < domain_count * domain_vcpus; i++)
		begin_vcpu(i);
	check_constants();
	account_due_ns = sy_account_ns(&policy) ? now + sy_account_ns(&policy) : 0;
	sample_due_ns = sy_sample_ns(&policy) ? now + sy_sample_ns(&policy) : 0;
}

static void run_host(u64 steps)
{
	bool jumps = !below(3);
	u64 pass_ns;
	u32 every;

	begin_host();
	check_all();
	/* Looking at everything takes as long as everything is large. */
	every = 1 + (engine.pcpus + domain_count * domain_vcpus) / 32;
	for (step = 0; step < steps; step++) {
		pass_ns = jumps && !below(20) ? magnitude() >> 8 : pause_ns();
		now = sy_min(now + pass_ns, extreme ? NOW_EXTREME : NOW_MAX);
		contention = 100;
		if (!below(4))
			whatever_is_due();
		happen();
		settle(below(2));
		if (below(every))
			continue;
		check_all();
		check_nearest_idle((u32)below(domain_count * domain_vcpus));
		check_steal((u32)below(engine.pcpus));
	}
	steps_total += steps;
}

int main(int argc, char **argv)
{
	int n = argc > 1 && (argv[1][0] < '0' || argv[1][0] > '9') ? 2 : 1;
	u64 steps = argc > n + 1 ? strtoull(argv[n], 0, 10) : 0, done, call;

	only = n > 1 ? argv[1] : 0;
	for (call = 0; only && call < SY_DISCIPLINES && strcmp(only, sy_describe(call)->name); call++)
		;
	if (!steps || (only && call == SY_DISCIPLINES)) {
		fprintf(stderr, "usage: adversary [DISCIPLINE] STEPS SEED...\n");
		return 2;
	}
	for (n++; n < argc; n++) {
		seed = strtoull(argv[n], 0, 10);
		random_state = seed;
		for (done = 0; done < steps; done += HOST_STEPS)
			run_host(sy_min(HOST_STEPS, steps - done));
	}
	for (call = 0; call < CALL_COUNT; call++)
		check(only || steps_total < 1000000 || called[call], "%s() was never called", call_name[call]);
	printf("adversary: %llu steps, %llu choices\n", (unsigned long long)steps_total,
	       (unsigned long long)choices);
	return 0;
}
