// SPDX-License-Identifier: GPL-2.0-only
/*
 * A host that does nothing sensible, but all of it by the contract at the head of steelyard.h:
 * random pCPUs, queues, domains, parameters, times and order of events, for every discipline and
 * vintage. It is built with sanitizers, and checks what a real host relies on: answers are in
 * range, the order of a queue stays while vCPUs wait (it keeps keys as they were when it queued
 * them), fields of the host are left alone, timers move only when announced and into the future,
 * who is parked with work has something that unparks it, and no pCPU with a queue of its own idles
 * while a vCPU waits there.
 *
 *	random_host [DISCIPLINE] SEED...
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core.c"
#include "random.h"

enum {
	HOSTS = 40, /* per seed, discipline and vintage */
	STEPS = 5000, /* per host */
	PCPUS = 8,
	PCPUS_PER_CORE = 2,
	PCPUS_PER_SOCKET = 4,
	DOMAINS = 6,
	DOMAIN_VCPUS = 4,
	VCPUS = DOMAINS * DOMAIN_VCPUS,
	NOBODY = -1
};

/* Up to 18 years after the clock's start all is checked, beyond that only that all is defined. */
#define NOW_MAX (1ULL << 59)
#define NOW_EXTREME (1ULL << 63)

/* Beside each object: what the host believes of it, to find what the policy changed. */
struct vcpu {
	struct sy_vcpu *state;
	int domain;
	int queue;
	u64 affinity; /* a bit per pCPU */
	u64 key;
	u64 charged_ns;
	u64 timer_ns;
	u32 pcpu;
	u32 runnable;
	int on; /* pCPU it runs on, or NOBODY */
	bool waiting;
	bool parked;
	bool woken; /* queued, but nobody was interrupted for it yet */
	bool replace;
	bool accounted; /* since it was queued: its key may have changed, with a RESORT to follow */
};

struct domain {
	struct sy_domain *state;
	u64 timer_ns;
	u64 weight;
	u64 slice_ns;
	u64 vcpus;
};

struct queue {
	struct sy_queue *state;
	u32 pcpus;
	u32 queued;
	int waiting[VCPUS]; /* by key */
	bool balance;
};

struct pcpu {
	struct sy_pcpu *state;
	int queue;
	int runs; /* vCPU, or NOBODY */
	u64 choose_ns; /* when its slice ends */
	u64 tick_ns; /* when its next tick is due */
	bool choose;
};

static struct sy_policy policy;
static struct sy_accounting *accounting;
static struct sy_governor *governor;
static struct vcpu vcpus[VCPUS];
static struct domain domains[DOMAINS];
static struct queue queues[PCPUS];
static struct pcpu pcpus[PCPUS];
static int vcpu_count, domain_count, queue_count, pcpu_count;
static int account_order[DOMAINS];
static u64 now, account_ns, tick_ns, account_due_ns, sample_ns, sample_due_ns;
static bool governed; /* knobs are turned at random: keys may change with them */
static bool extreme; /* times near the ends of their type */

static const char *running_what;
static const char *last_call;
static u64 seed, step;
static u64 calls_total;

/* clang-format off */
#define CALLS(X) \
	X(scope) X(queue_pcpus_max) X(tick_ns) X(account_ns) X(cap_period_ns) X(reserves) X(accounting_init) X(queue_init) \
	X(domain_init) X(vcpu_init) X(join) X(leave) X(survey_begin) X(survey_vcpu) X(wake) X(steps) \
	X(block) X(yield) X(spin) X(rank) X(summon) X(spun) X(charge) X(vcpu_timer) X(domain_timer) X(key) X(lead) X(consider) \
	X(look_further) X(steal) X(reset_due) X(reset) X(start) X(slice) X(tick) X(account_begin) \
	X(account_domain) X(account_vcpu) X(account_end) X(load) X(balance_gain) X(reweigh) \
	X(domain_change) X(vcpu_destroy) X(credit) X(class) X(boosted) \
	X(sample_ns) X(late_ns) X(sample_begin) X(sample_domain) X(sample_settle)
/* clang-format on */
#define CALL_INDEX(name) CALL_##name,
#define CALL_NAME(name) "sy_" #name,

enum call { CALLS(CALL_INDEX) CALL_COUNT };
static const char *const call_name[] = { CALLS(CALL_NAME) };
static u64 called[CALL_COUNT];
static enum call last;

#define CALL_MAY(name, requests) [CALL_##name] = (requests),
static const u32 may_ask[CALL_COUNT] = { SY_ANSWERS(CALL_MAY) };

static void check(bool holds, const char *format, ...)
{
	va_list arguments;

	if (holds)
		return;
	fflush(stdout);
	fprintf(stderr, "random-host: %s, seed %llu, step %llu, after %s: ", running_what,
		(unsigned long long)seed, (unsigned long long)step, last_call);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

static void count(enum call call)
{
	last = call;
	last_call = call_name[call];
	called[call]++;
	calls_total++;
}

static void *allocate(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		abort();
	return memory;
}

static struct sy_queue *queue_of(int i)
{
	return queues[vcpus[i].queue].state;
}

static struct sy_domain *domain_of(int i)
{
	return domains[vcpus[i].domain].state;
}

/* Time between ticks while vCPU i runs */
static u64 tick_of(int i)
{
	u64 own_ns = domain_of(i)->tick_ns;

	return own_ns ? sy_min(own_ns, tick_ns) : tick_ns;
}

static bool allowed(int i, int c)
{
	return vcpus[i].affinity >> c & 1;
}

/* A pCPU of this queue where vCPU i may run, or NOBODY */
static int pcpu_in(int i, int queue)
{
	for (int c = 0; c < pcpu_count; c++)
		if (pcpus[c].queue == queue && allowed(i, c))
			return c;
	return NOBODY;
}

static void set_runnable(int i, u32 runnable)
{
	vcpus[i].runnable = vcpus[i].state->runnable = runnable;
}

static void set_pcpu(int i, u32 c)
{
	vcpus[i].pcpu = vcpus[i].state->pcpu = c;
}

/* ---- The queues ---- */

static void enqueue(int i)
{
	struct queue *queue = &queues[vcpus[i].queue];
	u32 at;

	check(!vcpus[i].waiting && vcpus[i].on == NOBODY && !vcpus[i].parked, "host: vCPU %d", i);
	count(CALL_key);
	vcpus[i].key = sy_key(&policy, queue->state, domain_of(i), vcpus[i].state, now);
	for (at = queue->queued; at && vcpus[queue->waiting[at - 1]].key > vcpus[i].key; at--)
		queue->waiting[at] = queue->waiting[at - 1];
	queue->waiting[at] = i;
	queue->queued++;
	queue->state->queued = queue->queued;
	vcpus[i].waiting = true;
	vcpus[i].accounted = false;
}

static void dequeue(int i)
{
	struct queue *queue = &queues[vcpus[i].queue];
	u32 at = 0;

	while (queue->waiting[at] != i)
		at++;
	queue->queued--;
	for (; at < queue->queued; at++)
		queue->waiting[at] = queue->waiting[at + 1];
	queue->state->queued = queue->queued;
	vcpus[i].waiting = false;
}

static void resort(int queue)
{
	int before[VCPUS];
	u32 length = queues[queue].queued;

	memcpy(before, queues[queue].waiting, sizeof(before));
	for (u32 at = 0; at < length; at++)
		dequeue(before[at]);
	for (u32 at = 0; at < length; at++)
		enqueue(before[at]);
}

/* Who waits has not moved past another: asked again, the keys are in the order of the queue. */
static void check_order(void)
{
	if (governed || extreme)
		return;
	for (int q = 0; q < queue_count; q++) {
		u64 before = 0;

		for (u32 at = 0; at < queues[q].queued; at++) {
			int i = queues[q].waiting[at];
			struct sy_queue queue = *queues[q].state;
			struct sy_domain domain = *domain_of(i);
			struct sy_vcpu vcpu = *vcpus[i].state;
			u64 key;

			if (vcpus[i].accounted)
				continue;
			last_call = "sy_key, asked again";
			key = sy_key(&policy, &queue, &domain, &vcpu, now);
			check(key >= before, "vCPU %d waits in place %u with key %llx, now %llx, behind one with %llx",
			      i, at, (unsigned long long)vcpus[i].key, (unsigned long long)key,
			      (unsigned long long)before);
			before = key;
		}
	}
}

/* ---- After a call: what it changed, what it asks for ---- */

static void check_vcpu(int i, u32 requests)
{
	struct vcpu *vcpu = &vcpus[i];

	check(vcpu->state->pcpu == vcpu->pcpu && vcpu->state->runnable == vcpu->runnable,
	      "vCPU %d: a field of the host was written", i);
	if (requests & SY_TIMER)
		vcpu->timer_ns = vcpu->state->timer_ns;
	check(vcpu->state->timer_ns == vcpu->timer_ns,
	      "vCPU %d: timer_ns went from %llu to %llu without SY_TIMER", i,
	      (unsigned long long)vcpu->timer_ns, (unsigned long long)vcpu->state->timer_ns);
}

/*
 * PARKED is told of those with work that the host was asked to park, and of nobody else; boosted, of
 * those who come first in their queues.
 */
static void check_class(int i)
{
	enum sy_class class = sy_class(&policy, vcpus[i].state);

	count(CALL_class);
	count(CALL_boosted);
	check(class < SY_CLASSES && !sy_class_name(class) == (class == SY_CLASS_NONE), "class %d",
	      (int)class);
	check(!vcpus[i].runnable || vcpus[i].parked == (class == SY_CLASS_PARKED),
	      "vCPU %d is %s, of class %d", i, vcpus[i].parked ? "parked" : "not parked", (int)class);
	check(!sy_boosted(&policy, vcpus[i].state) || !vcpus[i].waiting || vcpus[i].accounted || !vcpus[i].key,
	      "vCPU %d is boosted, but comes not first in its queue", i);
}

static void check_domain(int d, u32 requests)
{
	struct domain *domain = &domains[d];

	check(domain->state->weight == domain->weight && domain->state->slice_ns == domain->slice_ns &&
		      domain->state->vcpus == domain->vcpus,
	      "domain %d: a knob was written", d);
	if (requests & SY_DOMAIN_TIMER)
		domain->timer_ns = domain->state->timer_ns;
	check(domain->state->timer_ns == domain->timer_ns,
	      "domain %d: timer_ns went from %llu to %llu without SY_DOMAIN_TIMER", d,
	      (unsigned long long)domain->timer_ns, (unsigned long long)domain->state->timer_ns);
}

static void check_queue(int q)
{
	check(queues[q].state->pcpus == queues[q].pcpus && queues[q].state->queued == queues[q].queued,
	      "queue %d: a field of the host was written", q);
}

static void check_pcpu(int c)
{
	check(pcpus[c].state->id == (u32)c && pcpus[c].state->busy == (pcpus[c].runs != NOBODY),
	      "pCPU %d: a field of the host was written", c);
}

static void stop(int i)
{
	struct pcpu *pcpu = &pcpus[vcpus[i].on];

	pcpu->runs = NOBODY;
	pcpu->state->busy = 0;
	pcpu->choose = true;
	vcpus[i].on = NOBODY;
}

static void unpark(int i)
{
	if (!vcpus[i].parked)
		return;
	vcpus[i].parked = false;
	if (vcpus[i].runnable && vcpus[i].on == NOBODY) {
		enqueue(i);
		vcpus[i].woken = true;
	}
}

static void survey(int q)
{
	count(CALL_survey_begin);
	sy_survey_begin(&policy, queues[q].state);
	for (int i = 0; i < vcpu_count; i++) {
		if (vcpus[i].queue != q)
			continue;
		count(CALL_survey_vcpu);
		sy_survey_vcpu(&policy, queues[q].state, domain_of(i), vcpus[i].state);
		check_vcpu(i, 0);
		check_domain(vcpus[i].domain, 0);
	}
	check_queue(q);
}

/* The last call may have asked for this. */
static void check_answer(u32 requests)
{
	check(!(requests & ~may_ask[last]), "requests %x", requests);
}

/* After a call that was given vCPU i. */
static void after(u32 requests, int i)
{
	struct vcpu *vcpu = &vcpus[i];

	check_answer(requests);
	check(!(requests & SY_PARK) || !(requests & SY_UNPARK), "both PARK and UNPARK");
	check_vcpu(i, requests);
	check_domain(vcpu->domain, requests);
	check_queue(vcpu->queue);
	if (requests & SY_RESCHEDULE)
		pcpus[vcpu->pcpu].choose = true;
	if (requests & SY_PARK) {
		if (vcpu->waiting)
			dequeue(i);
		if (vcpu->on != NOBODY)
			pcpus[vcpu->on].choose = true;
		vcpu->parked = true;
		vcpu->woken = false;
	}
	if (requests & SY_UNPARK)
		unpark(i);
	if (requests & SY_RESORT)
		resort(vcpu->queue);
	if (requests & SY_REKEY && vcpu->waiting) {
		dequeue(i);
		enqueue(i);
		vcpu->woken = true;
	}
	if (requests & SY_BALANCE)
		queues[vcpu->queue].balance = true;
	if (requests & SY_REPLACE)
		vcpu->replace = true;
	if (requests & SY_SURVEY)
		survey(vcpu->queue);
}

static s64 credit(int i)
{
	count(CALL_credit);
	return sy_credit(&policy, queue_of(i), vcpus[i].state);
}

/* Where credit is given at accountings and resets, running earns none. */
static void charge(int i)
{
	u64 ran_ns = now - vcpus[i].charged_ns;
	s64 credit_before = credit(i);
	u32 requests;

	vcpus[i].charged_ns = now;
	count(CALL_charge);
	requests = sy_charge(&policy, queue_of(i), domain_of(i), vcpus[i].state, ran_ns, now);
	check((policy.discipline != SY_CREDIT && policy.discipline != SY_CREDIT2) ||
		      credit(i) <= credit_before,
	      "vCPU %d: its credit grew while it ran", i);
	last = CALL_charge;
	last_call = call_name[last];
	after(requests, i);
}

/* ---- Moving, waking, interrupting ---- */

/* To the queue of pCPU c; vCPU i neither runs nor waits. */
static void move(int i, int c)
{
	if (vcpus[i].queue != pcpus[c].queue) {
		count(CALL_leave);
		after(sy_leave(&policy, queue_of(i), domain_of(i), vcpus[i].state, now), i);
		vcpus[i].queue = pcpus[c].queue;
		set_pcpu(i, (u32)c);
		count(CALL_join);
		after(sy_join(&policy, queue_of(i), domain_of(i), vcpus[i].state, now), i);
	}
	set_pcpu(i, (u32)c);
}

static void enqueue_woken(int i)
{
	if (!vcpus[i].parked && !vcpus[i].waiting) {
		enqueue(i);
		vcpus[i].woken = true;
	}
}

static void move_waiting(int i, int c)
{
	dequeue(i);
	move(i, c);
	enqueue_woken(i);
}

/* Takes away from vCPU i the pCPU it runs on, and moves it to pCPU c, if it may run there. */
static void move_running(int i, int c)
{
	charge(i);
	if (vcpus[i].on == NOBODY || vcpus[i].parked)
		return;
	stop(i);
	if (allowed(i, c))
		move(i, c);
	enqueue_woken(i);
}

/* An idle pCPU where vCPU i may run, or any for NOBODY; queue: only of that one, or any for NOBODY. */
static int idle_for(int i, int queue)
{
	int first = (int)below((u64)pcpu_count);

	for (int n = 0; n < pcpu_count; n++) {
		int c = (first + n) % pcpu_count;

		if (pcpus[c].runs == NOBODY && (i == NOBODY || allowed(i, c)) &&
		    (queue == NOBODY || pcpus[c].queue == queue))
			return c;
	}
	return NOBODY;
}

static s64 lead_on(int i, int c)
{
	if (pcpus[c].runs == NOBODY || pcpus[c].queue != vcpus[i].queue || !allowed(i, c))
		return 0;
	charge(pcpus[c].runs);
	if (!vcpus[i].waiting || pcpus[c].runs == NOBODY)
		return 0;
	count(CALL_lead);
	return sy_lead(&policy, queue_of(i), pcpus[c].state, vcpus[i].state,
		       vcpus[pcpus[c].runs].state, now);
}

static int least(int i)
{
	s64 best = 0;
	int found = NOBODY;

	for (int c = 0; c < pcpu_count; c++) {
		s64 lead = lead_on(i, c);

		if (lead > best) {
			best = lead;
			found = c;
		}
	}
	return found;
}

/* Whom the woken, waiting vCPU i interrupts. */
static void interrupt(int i)
{
	u32 steps;
	bool place;
	int queue;

	count(CALL_steps);
	steps = sy_steps(&policy, vcpus[i].state);
	place = steps & SY_STEPS_PLACE;
	queue = steps & SY_STEPS_QUEUE ? vcpus[i].queue : NOBODY;
	steps &= ~(SY_STEPS_PLACE | SY_STEPS_QUEUE);
	check(steps < 1u << 4 * SY_STEP_BITS, "steps %x", steps);
	for (; steps && vcpus[i].waiting; steps >>= SY_STEP_BITS) {
		int last = (int)vcpus[i].pcpu;
		int idle = NOBODY;
		bool found = false;

		switch (steps & (SY_STEP_ALSO - 1)) {
		case SY_STEP_LAST_IDLE:
			if (pcpus[last].runs == NOBODY && allowed(i, last) &&
			    (queue == NOBODY || pcpus[last].queue == queue))
				idle = last;
			break;
		case SY_STEP_LAST_LEAD:
			found = lead_on(i, last) > 0;
			break;
		case SY_STEP_ONE_IDLE:
		case SY_STEP_NEXT_IDLE:
			idle = idle_for(i, queue);
			break;
		case SY_STEP_ALL_IDLE:
			for (int c = 0; c < pcpu_count; c++) {
				if (pcpus[c].runs == NOBODY && allowed(i, c) &&
				    (queue == NOBODY || pcpus[c].queue == queue)) {
					pcpus[c].choose = true;
					idle = c;
				}
			}
			break;
		case SY_STEP_LEAST:
			last = least(i);
			found = last != NOBODY;
			break;
		case SY_STEP_EVICT:
			if (idle_for(NOBODY, NOBODY) != NOBODY && idle_for(i, queue) == NOBODY &&
			    lead_on(i, last) > 0) {
				move_running(pcpus[last].runs, idle_for(NOBODY, NOBODY));
				found = true;
			}
			break;
		default:
			check(false, "a step after the last");
		}
		if (idle != NOBODY) {
			pcpus[idle].choose = true;
			if (place && vcpus[i].waiting && vcpus[i].queue != pcpus[idle].queue) {
				move_waiting(i, idle);
				vcpus[i].woken = false;
			}
		}
		if (found)
			pcpus[last].choose = true;
		if ((found || idle != NOBODY) && !(steps & SY_STEP_ALSO))
			break;
	}
}

/* ---- A choice, by the steps at the head of steelyard.h ---- */

static int walk_own(int c, int best)
{
	struct queue *queue = &queues[pcpus[c].queue];
	int first = NOBODY;

	for (u32 at = 0; at < queue->queued; at++) {
		int i = queue->waiting[at];
		enum sy_verdict verdict;

		if (!allowed(i, c))
			continue;
		if (first == NOBODY)
			first = i;
		count(CALL_consider);
		verdict = sy_consider(&policy, queue->state, pcpus[c].state,
				      best == NOBODY ? 0 : vcpus[best].state, vcpus[i].state, now);
		check(verdict == SY_SKIP || verdict == SY_TAKE || verdict == SY_STOP, "verdict %d",
		      (int)verdict);
		if (verdict == SY_TAKE)
			return i;
		if (verdict == SY_STOP)
			break;
	}
	return best == NOBODY ? first : best;
}

static int walk_others(int c, int best)
{
	for (int n = 1; n < queue_count; n++) {
		int q = (pcpus[c].queue + n) % queue_count;

		for (u32 at = 0; at < queues[q].queued; at++) {
			int i = queues[q].waiting[at];
			enum sy_verdict verdict;

			if (!allowed(i, c))
				continue;
			count(CALL_steal);
			verdict = sy_steal(&policy, pcpus[c].state, best == NOBODY ? 0 : vcpus[best].state,
					   queues[q].state, vcpus[i].state, now);
			check(verdict == SY_SKIP || verdict == SY_TAKE || verdict == SY_STOP,
			      "verdict %d", (int)verdict);
			if (verdict == SY_TAKE)
				return i;
			if (verdict == SY_STOP)
				break;
		}
	}
	return best;
}

/* A governor may have changed what is in effect. */
static void note_knobs(int d)
{
	u64 weight = domains[d].state->weight;

	check(weight >= SY_WEIGHT_MIN && weight <= SY_WEIGHT_MAX, "weight %llu",
	      (unsigned long long)weight);
	domains[d].weight = weight;
	domains[d].slice_ns = domains[d].state->slice_ns;
}

static void reweigh(void)
{
	for (int n = 0; n < 2; n++) {
		u64 id = governor->reweigh[n];

		check(id <= (u64)domain_count, "domain %llu", (unsigned long long)id);
		if (!id)
			continue;
		count(CALL_reweigh);
		sy_reweigh(&policy, governor, domains[id - 1].state);
		note_knobs((int)id - 1);
	}
}

/* Who waits first, or null. */
static struct sy_vcpu *first_of(const struct queue *queue)
{
	return queue->queued ? vcpus[queue->waiting[0]].state : 0;
}

static void reset_if_due(int q, int chosen)
{
	struct sy_queue *queue = queues[q].state;
	u64 units;
	u32 requests;

	count(CALL_reset_due);
	units = sy_reset_due(&policy, queue, vcpus[chosen].state, first_of(&queues[q]));
	if (!units)
		return;
	for (int c = 0; c < pcpu_count; c++)
		if (pcpus[c].queue == q && pcpus[c].runs != NOBODY)
			charge(pcpus[c].runs);
	count(CALL_reset);
	requests = sy_reset(&policy, queue, governor, domain_of(chosen), units, now);
	check_answer(requests);
	check_queue(q);
	if (requests & SY_REWEIGH)
		reweigh();
	if (requests & SY_RESORT)
		resort(q);
	if (requests & SY_BALANCE)
		queues[q].balance = true;
	if (requests & SY_SURVEY)
		survey(q);
	/* Who is exactly as deep in debt as was given may need one unit more, but not for ever. */
	units = sy_reset_due(&policy, queue, vcpus[chosen].state, 0);
	if (units && !extreme) {
		struct sy_queue again = *queue;

		sy_reset(&policy, &again, governor, domain_of(chosen), units, now);
		last_call = call_name[CALL_reset];
		check(!sy_reset_due(&policy, &again, vcpus[chosen].state, 0), "two resets do not suffice");
	}
}

static void choose(int c, bool blocks)
{
	struct pcpu *pcpu = &pcpus[c];
	struct queue *queue = &queues[pcpu->queue];
	int ran = pcpu->runs, chosen;
	u64 slice_ns;

	if (ran != NOBODY) {
		charge(ran);
		if (blocks) {
			stop(ran);
			set_runnable(ran, 0);
			count(CALL_block);
			after(sy_block(&policy, queue->state, domain_of(ran), vcpus[ran].state, now), ran);
			ran = NOBODY;
		} else if (vcpus[ran].parked) {
			stop(ran);
			ran = NOBODY;
		}
	}
	pcpu->choose = false;

	chosen = walk_own(c, ran);
	count(CALL_look_further);
	if (sy_look_further(&policy, pcpu->state, chosen == NOBODY ? 0 : vcpus[chosen].state, now))
		chosen = walk_others(c, chosen);
	check_pcpu(c);
	if (chosen != NOBODY && vcpus[chosen].queue != pcpu->queue) {
		dequeue(chosen);
		move(chosen, c);
	}
	if (chosen != NOBODY && !vcpus[chosen].parked)
		reset_if_due(pcpu->queue, chosen);
	if (chosen != NOBODY && vcpus[chosen].parked) {
		chosen = NOBODY;
		pcpu->choose = true;
	}
	if (ran != NOBODY && ran != chosen) {
		stop(ran);
		pcpu->choose = chosen == NOBODY;
		if (!vcpus[ran].parked) {
			enqueue(ran);
			for (int idle = 0; idle < pcpu_count; idle++)
				if (idle != c && pcpus[idle].queue == pcpu->queue && pcpus[idle].runs == NOBODY)
					pcpus[idle].choose = true;
		}
	}
	if (chosen == NOBODY)
		return;
	if (chosen != ran) {
		if (vcpus[chosen].waiting)
			dequeue(chosen);
		vcpus[chosen].on = c;
		vcpus[chosen].woken = false;
		vcpus[chosen].charged_ns = now;
		pcpu->runs = chosen;
		pcpu->state->busy = 1;
		pcpu->state->started_ns = now;
		pcpu->tick_ns = now + tick_of(chosen);
		count(CALL_start);
		sy_start(&policy, queue->state, pcpu->state, vcpus[chosen].state, now);
		after(0, chosen);
		check_pcpu(c);
		set_pcpu(chosen, (u32)c);
	}
	count(CALL_slice);
	slice_ns = sy_slice(&policy, queue->state, pcpu->state, domain_of(chosen), vcpus[chosen].state,
			    first_of(queue), now);
	check(slice_ns >= 1 && slice_ns <= SY_FOREVER, "slice of %llu ns", (unsigned long long)slice_ns);
	pcpu->choose_ns = now + slice_ns;
}

/* ---- Balance ---- */

static u64 load_per_pcpu(int q)
{
	u64 load;

	count(CALL_load);
	load = sy_load(&policy, queues[q].state, now);
	check_queue(q);
	return load / queues[q].pcpus;
}

static void balance(int q)
{
	u64 most = load_per_pcpu(q);
	int busiest = q, mover = NOBODY, to;
	s64 best = 0;

	for (int other = 0; other < queue_count; other++) {
		u64 load = load_per_pcpu(other);

		if (load > most) {
			most = load;
			busiest = other;
		}
	}
	if (busiest == q)
		busiest = (q + 1) % queue_count;
	if (busiest == q)
		return;
	for (int i = 0; i < vcpu_count; i++) {
		int other = vcpus[i].queue == q ? busiest : q;
		s64 gain;

		if ((vcpus[i].queue != q && vcpus[i].queue != busiest) || pcpu_in(i, other) == NOBODY ||
		    vcpus[i].on != NOBODY)
			continue;
		count(CALL_balance_gain);
		gain = sy_balance_gain(&policy, queue_of(i), queues[other].state, domain_of(i),
				       vcpus[i].state, now);
		if (gain > best) {
			best = gain;
			mover = i;
		}
	}
	if (mover == NOBODY)
		return;
	to = pcpu_in(mover, vcpus[mover].queue == q ? busiest : q);
	if (vcpus[mover].waiting)
		move_waiting(mover, to);
	else
		move(mover, to);
}

/* ---- What is due, and what was asked for ---- */

static void domain_timer(int d)
{
	u32 requests;

	count(CALL_domain_timer);
	requests = sy_domain_timer(&policy, domains[d].state, now);
	check_answer(requests);
	check_domain(d, requests);
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].domain == d && requests & SY_UNPARK)
			unpark(i);
}

/* From the next accounting on, domain d comes before the others. */
static void account_first(int d)
{
	int at = 0;

	while (account_order[at] != d)
		at++;
	for (; at; at--)
		account_order[at] = account_order[at - 1];
	account_order[0] = d;
}

static void account(void)
{
	int order[DOMAINS];

	memcpy(order, account_order, sizeof(order));
	count(CALL_account_begin);
	sy_account_begin(&policy, accounting, now);
	for (int n = 0; n < domain_count; n++) {
		int d = order[n];
		u32 requests;

		count(CALL_account_domain);
		requests = sy_account_domain(&policy, accounting, domains[d].state);
		check_answer(requests);
		check_domain(d, requests);
		if (requests & SY_FIRST)
			account_first(d);
		for (int i = 0; i < vcpu_count; i++) {
			if (vcpus[i].domain != d || !(requests & SY_VISIT))
				continue;
			vcpus[i].accounted = true;
			count(CALL_account_vcpu);
			after(sy_account_vcpu(&policy, accounting, domains[d].state, vcpus[i].state), i);
		}
	}
	count(CALL_account_end);
	sy_account_end(&policy, accounting);
	check(accounting->pcpus == (u64)pcpu_count, "the accounting's pcpus was written");
}

/* What is measured need not make sense. */
static void take_sample(void)
{
	count(CALL_sample_begin);
	sy_sample_begin(&policy, governor, (u64)pcpu_count, now);
	for (int d = 0; d < domain_count; d++) {
		struct sy_sample sample;

		sample.interval_ns = below(2) ? sample_ns : magnitude();
		sample.gotten_ns = below(2) ? below(sample_ns * DOMAIN_VCPUS) : magnitude();
		sample.waited_ns = below(2) ? below(sample_ns * DOMAIN_VCPUS) : magnitude();
		sample.packets = magnitude();
		sample.waits = magnitude();
		sample.late_waits = magnitude();
		count(CALL_sample_domain);
		sy_sample_domain(&policy, governor, domains[d].state, &sample);
		check_domain(d, 0);
	}
	for (int d = 0; d < domain_count; d++) {
		count(CALL_sample_settle);
		sy_sample_settle(&policy, governor, domains[d].state);
		note_knobs(d);
		check_domain(d, 0);
	}
}

static bool due(u64 timer_ns)
{
	return timer_ns && timer_ns <= now;
}

/* A late timer may need a second call until it points to the future again, but not one per period. */
static void whatever_is_due(void)
{
	for (int i = 0; i < vcpu_count; i++) {
		for (int round = 0; due(vcpus[i].timer_ns); round++) {
			if (vcpus[i].on != NOBODY)
				charge(i);
			if (!due(vcpus[i].timer_ns))
				break;
			count(CALL_vcpu_timer);
			after(sy_vcpu_timer(&policy, queue_of(i), domain_of(i), vcpus[i].state, now), i);
			if (round == 2) {
				check(extreme, "vCPU %d: timer does not reach the future", i);
				break;
			}
		}
	}
	for (int d = 0; d < domain_count; d++) {
		for (int round = 0; due(domains[d].timer_ns); round++) {
			domain_timer(d);
			if (round == 2) {
				check(extreme, "domain %d: timer does not reach the future", d);
				break;
			}
		}
	}
	if (account_ns && account_due_ns <= now) {
		account();
		account_due_ns = now + account_ns;
	}
	if (sample_ns && sample_due_ns <= now) {
		take_sample();
		sample_due_ns = now + sample_ns;
	}
	for (int c = 0; c < pcpu_count; c++) {
		int i = pcpus[c].runs;

		if (i == NOBODY)
			continue;
		if (tick_ns && pcpus[c].tick_ns <= now) {
			charge(i);
			count(CALL_tick);
			after(sy_tick(&policy, accounting, queue_of(i), pcpus[c].state, domain_of(i),
				      vcpus[i].state, now),
			      i);
			check_pcpu(c);
			pcpus[c].tick_ns = now + tick_of(i);
		}
		if (pcpus[c].choose_ns <= now)
			pcpus[c].choose = true;
	}
}

/* Until nothing is asked for. A policy whose requests feed each other would never come to an end. */
static void settle(void)
{
	bool again = true;

	for (int round = 0; again; round++) {
		check(extreme || round < 1000, "requests without end");
		if (round == 1000)
			break;
		again = false;
		for (int i = 0; i < vcpu_count; i++) {
			if (vcpus[i].woken) {
				vcpus[i].woken = false;
				again = true;
				if (vcpus[i].waiting)
					interrupt(i);
			}
			if (vcpus[i].replace) {
				int c = idle_for(i, NOBODY);

				vcpus[i].replace = false;
				if (vcpus[i].on != NOBODY && c != NOBODY)
					move_running(i, c);
			}
		}
		for (int c = 0; c < pcpu_count; c++) {
			if (pcpus[c].choose) {
				again = true;
				choose(c, false);
			}
		}
		for (int q = 0; q < queue_count; q++) {
			if (queues[q].balance) {
				queues[q].balance = false;
				again = true;
				balance(q);
			}
		}
	}
	/* Where several pCPUs share a queue, a ratelimit may let it pass. */
	for (int c = 0; c < pcpu_count; c++)
		check(extreme || pcpus[c].runs != NOBODY || queues[pcpus[c].queue].pcpus > 1 || !queues[pcpus[c].queue].queued,
		      "pCPU %d is idle and vCPU %d waits for it", c, queues[pcpus[c].queue].waiting[0]);
	for (int i = 0; i < vcpu_count; i++)
		check(extreme || !vcpus[i].parked || !vcpus[i].runnable || account_ns || vcpus[i].timer_ns ||
			      domains[vcpus[i].domain].timer_ns,
		      "vCPU %d is parked and nothing will unpark it", i);
	for (int i = 0; i < vcpu_count; i++)
		check_class(i);
}

/* ---- Creation ---- */

static struct sy_settings random_settings(void)
{
	struct sy_settings settings;

	settings.weight = below(4) ? between(0, SY_WEIGHT_MAX) : magnitude();
	settings.cap_percent = below(2) ? 0 : between(1, below(2) ? 800 : UINT64_MAX);
	settings.period_ns = below(2) ? 0 : magnitude();
	settings.slice_ns = below(2) ? 0 : magnitude();
	settings.reserved_ns = below(2) ? 0 : magnitude();
	settings.extra_time = below(2);
	settings.boost_limit_ns = below(2) ? 0 : magnitude();
	settings.boost_percent = below(2) ? 0 : magnitude();
	return settings;
}

static void create_domain(int d)
{
	struct sy_settings settings = random_settings();
	struct domain *domain = &domains[d];

	memset(domain->state, 0, sizeof(*domain->state));
	domain->state->id = (u64)d + 1;
	domain->vcpus = DOMAIN_VCPUS;
	count(CALL_domain_init);
	sy_domain_init(&policy, domain->state, &settings, DOMAIN_VCPUS, now);
	domain->weight = domain->state->weight;
	domain->slice_ns = domain->state->slice_ns;
	check(domain->weight >= SY_WEIGHT_MIN && domain->weight <= SY_WEIGHT_MAX, "weight %llu",
	      (unsigned long long)domain->weight);
	check_domain(d, SY_DOMAIN_TIMER);
}

static void create_vcpu(int i)
{
	struct vcpu *vcpu = &vcpus[i];
	u32 c;

	memset(vcpu->state, 0, sizeof(*vcpu->state));
	do {
		vcpu->affinity = below(2) ? ~0ULL : random_word();
	} while (!(vcpu->affinity & ((1ULL << pcpu_count) - 1)));
	do {
		c = (u32)below((u64)pcpu_count);
	} while (!allowed(i, (int)c));
	vcpu->domain = i / DOMAIN_VCPUS;
	vcpu->queue = pcpus[c].queue;
	vcpu->on = NOBODY;
	vcpu->waiting = vcpu->parked = vcpu->woken = vcpu->replace = false;
	set_pcpu(i, c);
	set_runnable(i, 0);
	vcpu->state->index = (u32)i % DOMAIN_VCPUS;
	count(CALL_vcpu_init);
	sy_vcpu_init(&policy, domain_of(i), vcpu->state, now);
	check_vcpu(i, SY_TIMER);
	count(CALL_join);
	after(sy_join(&policy, queue_of(i), domain_of(i), vcpu->state, now), i);
}

static void recreate_vcpu(int i)
{
	if (vcpus[i].runnable)
		return;
	count(CALL_leave);
	after(sy_leave(&policy, queue_of(i), domain_of(i), vcpus[i].state, now), i);
	count(CALL_vcpu_destroy);
	sy_vcpu_destroy(&policy, accounting, domain_of(i), vcpus[i].state);
	create_vcpu(i);
}

static void recreate_domain(int d)
{
	for (int i = d * DOMAIN_VCPUS; i < (d + 1) * DOMAIN_VCPUS; i++)
		if (vcpus[i].runnable)
			return;
	for (int i = d * DOMAIN_VCPUS; i < (d + 1) * DOMAIN_VCPUS; i++) {
		count(CALL_leave);
		after(sy_leave(&policy, queue_of(i), domain_of(i), vcpus[i].state, now), i);
		count(CALL_vcpu_destroy);
		sy_vcpu_destroy(&policy, accounting, domain_of(i), vcpus[i].state);
	}
	create_domain(d);
	for (int i = d * DOMAIN_VCPUS; i < (d + 1) * DOMAIN_VCPUS; i++)
		create_vcpu(i);
}

static void create_queues(void)
{
	u64 pcpus_max = sy_queue_pcpus_max(&policy);
	int group = 1;

	count(CALL_queue_pcpus_max);
	check(pcpus_max > 0, "a queue for no pCPU");
	count(CALL_scope);
	switch (sy_scope(&policy)) {
	case SY_SCOPE_PCPU:
		group = 1;
		break;
	case SY_SCOPE_CORE:
		group = PCPUS_PER_CORE;
		break;
	case SY_SCOPE_SOCKET:
		group = PCPUS_PER_SOCKET;
		break;
	case SY_SCOPE_ALL:
		group = PCPUS;
		break;
	default:
		check(false, "no such scope");
	}
	group = (int)sy_min((u64)group, pcpus_max);
	queue_count = (pcpu_count + group - 1) / group;
	for (int q = 0; q < queue_count; q++) {
		struct queue *queue = &queues[q];

		memset(queue->state, 0, sizeof(*queue->state));
		queue->queued = 0;
		queue->balance = false;
		queue->pcpus = (u32)sy_min((u64)group, (u64)(pcpu_count - q * group));
		queue->state->pcpus = queue->pcpus;
		count(CALL_queue_init);
		sy_queue_init(&policy, queue->state, (u64)pcpu_count);
		check_queue(q);
	}
	for (int c = 0; c < pcpu_count; c++) {
		struct pcpu *pcpu = &pcpus[c];

		memset(pcpu->state, 0, sizeof(*pcpu->state));
		pcpu->state->id = (u32)c;
		pcpu->queue = c / group;
		pcpu->runs = NOBODY;
		pcpu->choose = false;
	}
}

static void create_policy(u64 discipline, const struct sy_description *description, int vintage)
{
	bool published = !below(3);

	memset(&policy, 0, sizeof(policy));
	policy.discipline = discipline;
	for (u64 g = 0; g < SY_GOVERNORS; g++) {
		const struct sy_description *suited = sy_describe_governor(g);

		if (!(suited->disciplines >> discipline & 1) || below(2))
			continue;
		policy.governors |= 1ULL << g;
		for (u64 n = 0; n < suited->parameters; n++)
			policy.governor_parameter[g][n] =
				below(2) ? suited->parameter[n].value[0] :
					   between(suited->parameter[n].minimum, suited->parameter[n].maximum);
	}
	for (u64 n = 0; n < description->parameters; n++) {
		const struct sy_parameter *parameter = &description->parameter[n];

		policy.parameter[n] = published || below(2) ?
					      parameter->value[vintage] :
					      between(parameter->minimum, parameter->maximum);
	}
}

static void create_host(void)
{
	pcpu_count = 1 + (int)below(PCPUS);
	domain_count = 1 + (int)below(DOMAINS);
	vcpu_count = domain_count * DOMAIN_VCPUS;
	governed = !below(4);
	extreme = !below(8);
	now = 1 + magnitude() % (extreme ? NOW_EXTREME : NOW_MAX);

	create_queues();
	count(CALL_tick_ns);
	tick_ns = sy_tick_ns(&policy);
	count(CALL_cap_period_ns);
	check(sy_cap_period_ns(&policy) <= SY_S, "a cap holds within a second");
	count(CALL_reserves);
	check(sy_reserves(&policy) == (policy.discipline == SY_SEDF), "only sedf reserves");
	count(CALL_account_ns);
	account_ns = sy_account_ns(&policy);
	account_due_ns = now + account_ns;
	count(CALL_sample_ns);
	sample_ns = sy_sample_ns(&policy);
	sample_due_ns = now + sample_ns;
	count(CALL_late_ns);
	check(sy_late_ns(&policy) > 0, "every wait is late");
	memset(accounting, 0, sizeof(*accounting));
	count(CALL_accounting_init);
	sy_accounting_init(&policy, accounting, (u64)pcpu_count);
	memset(governor, 0, sizeof(*governor));
	for (int d = 0; d < domain_count; d++) {
		account_order[d] = d;
		create_domain(d);
	}
	for (int i = 0; i < vcpu_count; i++)
		create_vcpu(i);
}

/* ---- Something happens ---- */

static void wake(int i)
{
	if (vcpus[i].runnable)
		return;
	set_runnable(i, 1);
	count(CALL_wake);
	after(sy_wake(&policy, queue_of(i), domain_of(i), vcpus[i].state, now), i);
	enqueue_woken(i);
}

static void yield(int i)
{
	if (vcpus[i].on == NOBODY)
		return;
	charge(i);
	if (vcpus[i].parked)
		return;
	count(CALL_yield);
	after(sy_yield(&policy, queue_of(i), domain_of(i), vcpus[i].state, now), i);
	pcpus[vcpus[i].on].choose = true;
}

static void summon(int i)
{
	count(CALL_summon);
	after(sy_summon(&policy, queue_of(i), domain_of(i), vcpus[i].state, now), i);
}

/* A pause-loop exit */
static void spin(int i)
{
	int best = NOBODY;
	u64 best_rank = 0;
	u32 summoned = 0;
	enum sy_gang gang;

	if (vcpus[i].on == NOBODY)
		return;
	charge(i);
	if (vcpus[i].parked)
		return;
	count(CALL_spin);
	gang = sy_spin(&policy, domain_of(i), vcpus[i].state, now);
	after(0, i);
	check(gang == SY_GANG_NONE || gang == SY_GANG_BEST || gang == SY_GANG_ALL, "gang %d", (int)gang);
	for (int n = 0; n < DOMAIN_VCPUS && gang != SY_GANG_NONE; n++) {
		int sibling = vcpus[i].domain * DOMAIN_VCPUS + n;
		u64 rank;

		if (!vcpus[sibling].waiting)
			continue;
		count(CALL_rank);
		rank = sy_rank(&policy, queue_of(sibling), domain_of(sibling), vcpus[sibling].state,
			       (u32)below(4), magnitude(), now);
		after(0, sibling);
		if (rank && gang == SY_GANG_ALL) {
			summon(sibling);
			summoned++;
		} else if (rank > best_rank) {
			best_rank = rank;
			best = sibling;
		}
	}
	if (best != NOBODY) {
		summon(best);
		summoned++;
	}
	count(CALL_spun);
	after(sy_spun(&policy, queue_of(i), domain_of(i), vcpus[i].state, summoned, now), i);
}

/* Another affinity, for one that does not run; it moves if it may no longer stay. */
static void pin(int i)
{
	u64 affinity = below(2) ? ~0ULL : random_word();
	int c = (int)below((u64)pcpu_count);

	if (vcpus[i].on != NOBODY)
		return;
	vcpus[i].affinity = affinity | 1ULL << c;
	if (pcpu_in(i, vcpus[i].queue) != NOBODY && below(2))
		return;
	if (vcpus[i].waiting)
		move_waiting(i, c);
	else
		move(i, c);
}

/* What governors and administrators do. */
static void turn_knob(int d)
{
	if (!governed)
		return;
	if (below(4) == 0) {
		struct sy_settings settings = random_settings();

		/* Caps change with the domain's creation only. */
		settings.cap_percent = domains[d].state->settings.cap_percent;
		count(CALL_domain_change);
		sy_domain_change(&policy, governor, domains[d].state, &settings);
		note_knobs(d);
	} else if (below(2))
		domains[d].weight = domains[d].state->weight = between(SY_WEIGHT_MIN, SY_WEIGHT_MAX);
	else
		domains[d].slice_ns = domains[d].state->slice_ns = below(2) ? 0 : magnitude();
}

static void happen(void)
{
	int i = (int)below((u64)vcpu_count);
	int c = (int)below((u64)pcpu_count);

	switch (below(32)) {
	case 0:
		recreate_vcpu(i);
		break;
	case 1:
		recreate_domain(vcpus[i].domain);
		break;
	case 2:
		pin(i);
		break;
	case 3:
		turn_knob(vcpus[i].domain);
		break;
	case 4:
		yield(i);
		break;
	case 5:
		spin(i);
		break;
	case 6:
		queues[vcpus[i].queue].balance = true;
		break;
	case 7:
		pcpus[c].choose = true;
		break;
	case 8:
		if (vcpus[i].on != NOBODY)
			charge(i);
		break;
	case 9:
	case 10:
	case 11:
	case 12:
	case 13:
	case 14:
	case 15:
	case 16:
		if (pcpus[c].runs != NOBODY)
			choose(c, true);
		break;
	default:
		wake(i);
		break;
	}
}

static u64 pause_ns(bool jumps)
{
	switch (below(jumps ? 100 : 95)) {
	case 0 ... 19:
		return 0;
	case 20 ... 64:
		return below(SY_MS);
	case 65 ... 89:
		return below(30 * SY_MS);
	case 90 ... 94:
		return below(SY_S);
	default:
		return magnitude() >> 8;
	}
}

static void run_host(u64 discipline, const struct sy_description *description, int vintage)
{
	bool jumps = !below(3);

	create_policy(discipline, description, vintage);
	create_host();
	for (step = 0; step < STEPS; step++) {
		now = sy_min(now + pause_ns(jumps), extreme ? NOW_EXTREME : NOW_MAX);
		if (below(4)) { /* or what is due comes late, after something else */
			whatever_is_due();
			settle();
			check_order();
		}
		happen();
		settle();
		check_order();
	}
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 && (argv[1][0] < '0' || argv[1][0] > '9') ? argv[1] : 0;
	u64 hosts = 0;

	accounting = allocate(sizeof(*accounting));
	governor = allocate(sizeof(*governor));
	for (int i = 0; i < VCPUS; i++)
		vcpus[i].state = allocate(sizeof(*vcpus[i].state));
	for (int d = 0; d < DOMAINS; d++)
		domains[d].state = allocate(sizeof(*domains[d].state));
	for (int c = 0; c < PCPUS; c++) {
		queues[c].state = allocate(sizeof(*queues[c].state));
		pcpus[c].state = allocate(sizeof(*pcpus[c].state));
	}

	for (int n = only ? 2 : 1; n < argc; n++) {
		seed = strtoull(argv[n], 0, 10);
		for (u64 discipline = 0; discipline < SY_DISCIPLINES; discipline++) {
			const struct sy_description *description = sy_describe(discipline);

			if (only && strcmp(only, description->name))
				continue;
			for (int vintage = 0; vintage < SY_VINTAGES && description->vintage[vintage]; vintage++) {
				char what[64];

				snprintf(what, sizeof(what), "%s %s", description->name,
					 description->vintage[vintage]);
				running_what = what;
				random_state = seed << 16 | discipline << 8 | (u64)vintage;
				for (int host = 0; host < HOSTS; host++, hosts++)
					run_host(discipline, description, vintage);
			}
		}
	}

	running_what = "all disciplines";
	check(hosts, "usage: random_host [DISCIPLINE] SEED...");
	for (int call = 0; call < CALL_COUNT; call++)
		check(only || called[call], "%s was never called", call_name[call]);
	printf("random-host: %llu hosts, %llu steps, %llu calls\n", (unsigned long long)hosts,
	       (unsigned long long)hosts * STEPS, (unsigned long long)calls_total);
	return 0;
}
