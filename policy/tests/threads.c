// SPDX-License-Identifier: GPL-2.0-only
/*
 * The engine on a host with real threads, for ThreadSanitizer: each pCPU is a thread, each queue, each domain and what
 * is shared has a lock of its own, and sets of pCPUs are words that change at once. Threads choose, block, spin, yield
 * and tick on their own pCPUs, wake, move and settle any vCPU, and take timers, accountings, samples and balances as
 * they come. What it shows: nothing is touched without its lock, nobody waits for a lock in a circle, and whenever all
 * stand still, everybody who can run does and what the engine believes goes together.
 *
 *	threads ROUNDS SEED...
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words of a domain that are read without its lock, in the way that ThreadSanitizer knows. */
#define SY_LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define SY_STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELAXED)
#define SY_APART(v) ((v)->apart)

#include "../core.c"
#include "random.h"

#define HOST_LOCKS
#include "../engine/host.h"

enum {
	PCPUS_MAX = 8, /* a thread each */
	DOMAINS = 5,
	DOMAIN_VCPUS = 4,
	VCPUS = DOMAINS * DOMAIN_VCPUS,
	ACTS = 2000 /* of each thread, before all stand still */
};

static struct engine engine;
static struct sy_policy policy;
static struct engine_vcpu vcpus[VCPUS];
static struct engine_domain domains[DOMAINS];
static struct engine_queue queues[PCPUS_MAX];
static struct engine_pcpu pcpus[PCPUS_MAX];

/* The host's own. Waiting vCPUs, lowest key first, belong to the queue's lock, times of ticks to the pCPU's queue. */
static u32 waiting[PCPUS_MAX][VCPUS], waiting_count[PCPUS_MAX];
static u64 tick_due_ns[PCPUS_MAX];
static pthread_mutex_t queue_lock[PCPUS_MAX], domain_lock[DOMAINS], shared_lock, host_lock;
static pthread_barrier_t still;
/* Without a lock. */
static _Atomic u64 idle, lesser, waited, clock_ns;
static _Atomic u64 allowed[VCPUS], preferred[VCPUS];
static _Atomic u32 queue_of[VCPUS];
static _Atomic u64 vcpu_due_ns[VCPUS], domain_due_ns[DOMAINS];
static _Atomic bool settles[VCPUS], unbalanced[PCPUS_MAX];
static _Atomic int interrupted[PCPUS_MAX]; /* choices that are asked for and not made */
static bool saves; /* this host */

static u64 seed;
static _Atomic u64 choices, missed;
static u32 rounds;
static char policy_text[64];

static void check(bool holds, const char *format, ...)
{
	va_list arguments;

	if (holds)
		return;
	fprintf(stderr, "threads: seed %llu, %s, %u pCPUs: ", (unsigned long long)seed, policy_text, engine.pcpus);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

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
	return &queues[queue];
}

HOST_FN struct engine_pcpu *host_pcpu(struct engine *e, u32 pcpu)
{
	return &pcpus[pcpu];
}

HOST_FN u32 host_next_waiting(struct engine *e, u32 queue, u32 *place)
{
	return *place < waiting_count[queue] ? waiting[queue][(*place)++] : SY_NONE;
}

HOST_FN u32 host_next_member(struct engine *e, u32 queue, u32 *place)
{
	while (*place < VCPUS) {
		if (queue_of[(*place)++] == queue)
			return *place - 1;
	}
	return SY_NONE;
}

HOST_FN u32 host_next_vcpu(struct engine *e, u32 domain, u32 *place)
{
	return *place < DOMAIN_VCPUS ? domain * DOMAIN_VCPUS + (*place)++ : SY_NONE;
}

HOST_FN u32 host_next_accounted(struct engine *e, u32 *place)
{
	return *place < DOMAINS ? (*place)++ : SY_NONE;
}

HOST_FN void host_account_first(struct engine *e, u32 place)
{
}

HOST_FN void host_insert(struct engine *e, u32 queue, u32 vcpu)
{
	u32 at = waiting_count[queue]++;

	for (; at && vcpus[waiting[queue][at - 1]].key > vcpus[vcpu].key; at--)
		waiting[queue][at] = waiting[queue][at - 1];
	waiting[queue][at] = vcpu;
}

HOST_FN void host_remove(struct engine *e, u32 queue, u32 vcpu)
{
	u32 at = 0;

	while (at < waiting_count[queue] && waiting[queue][at] != vcpu)
		at++;
	check(at < waiting_count[queue], "vCPU %u is not in queue %u", vcpu, queue);
	waiting_count[queue]--;
	memmove(&waiting[queue][at], &waiting[queue][at + 1], (waiting_count[queue] - at) * sizeof(u32));
}

HOST_FN void host_sort(struct engine *e, u32 queue)
{
	u32 count = waiting_count[queue], i;

	waiting_count[queue] = 0;
	for (i = 0; i < count; i++)
		host_insert(e, queue, waiting[queue][i]);
}

HOST_FN void host_change_queue(struct engine *e, u32 vcpu, u32 from, u32 to)
{
	queue_of[vcpu] = to;
}

HOST_FN u64 host_idle_pcpus(struct engine *e, u32 word)
{
	return idle;
}

static void set_bit(_Atomic u64 *set, u32 bit, bool value)
{
	if (value)
		atomic_fetch_or(set, 1ULL << bit);
	else
		atomic_fetch_and(set, ~(1ULL << bit));
}

HOST_FN void host_set_idle(struct engine *e, u32 pcpu, bool value)
{
	set_bit(&idle, pcpu, value);
}

HOST_FN u64 host_lesser_pcpus(struct engine *e, u32 word)
{
	return lesser;
}

HOST_FN void host_set_lesser(struct engine *e, u32 pcpu, bool value)
{
	set_bit(&lesser, pcpu, value);
}

HOST_FN u64 host_waited_queues(struct engine *e, u32 word)
{
	return waited;
}

HOST_FN void host_set_waited(struct engine *e, u32 queue, bool value)
{
	set_bit(&waited, queue, value);
}

HOST_FN u64 host_allowed_pcpus(struct engine *e, u32 vcpu, u32 word)
{
	return allowed[vcpu];
}

HOST_FN bool host_prefers(struct engine *e, u32 vcpu)
{
	return preferred[vcpu];
}

HOST_FN u64 host_preferred_pcpus(struct engine *e, u32 vcpu, u32 word)
{
	return preferred[vcpu];
}

HOST_FN void host_interrupt(struct engine *e, u32 pcpu)
{
	check(!interrupted[pcpu]++, "pCPU %u is interrupted twice", pcpu);
}

HOST_FN void host_balance(struct engine *e, u32 queue)
{
	unbalanced[queue] = true;
}

HOST_FN void host_vcpu_timer(struct engine *e, u32 vcpu)
{
	vcpu_due_ns[vcpu] = sy_vcpu_timer_ns(&policy, &vcpus[vcpu].state);
}

HOST_FN void host_tick(struct engine *e, u32 pcpu, u64 at_ns)
{
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

HOST_FN void host_sample(struct engine *e, u32 domain, struct sy_sample *sample, u64 at_ns)
{
	sample->interval_ns = 1 + below(SY_S);
	sample->gotten_ns = below(SY_S);
	sample->waited_ns = below(SY_S);
	sample->packets = below(1000);
	sample->waits = below(1000);
	sample->late_waits = below(1000);
	sample->offered_ns = below(SY_S);
	sample->offered_age_ns = below(SY_S);
}

HOST_FN void host_wakes(struct engine *e, u32 vcpu, u64 at_ns)
{
	check(vcpus[vcpu].status == ENGINE_BLOCKED, "vCPU %u wakes, but is not blocked", vcpu);
}

HOST_FN void host_starts(struct engine *e, u32 vcpu, u32 pcpu, u64 at_ns)
{
	check(vcpus[vcpu].status == ENGINE_WAITING && !vcpus[vcpu].queued && !vcpus[vcpu].parked &&
		      !vcpus[vcpu].saving && pcpus[pcpu].current == SY_NONE,
	      "vCPU %u starts, but cannot", vcpu);
}

HOST_FN void host_stops(struct engine *e, u32 vcpu, u32 pcpu, u32 status, u64 at_ns)
{
}

HOST_FN void host_unparks(struct engine *e, u32 vcpu, u64 at_ns)
{
}

/* ---- Locks ---- */

HOST_FN bool host_try_queue(struct engine *e, u32 queue)
{
	bool got = !pthread_mutex_trylock(&queue_lock[queue]);

	missed += !got;
	return got;
}

HOST_FN void host_lock_queue(struct engine *e, u32 queue)
{
	pthread_mutex_lock(&queue_lock[queue]);
}

HOST_FN void host_unlock_queue(struct engine *e, u32 queue)
{
	pthread_mutex_unlock(&queue_lock[queue]);
}

HOST_FN u32 host_lock_queue_of(struct engine *e, u32 vcpu)
{
	for (;;) {
		u32 queue = queue_of[vcpu];

		host_lock_queue(e, queue);
		if (queue_of[vcpu] == queue)
			return queue;
		host_unlock_queue(e, queue);
	}
}

HOST_FN u32 host_try_queue_of(struct engine *e, u32 own, u32 vcpu)
{
	u32 queue = queue_of[vcpu];

	if (queue == own)
		return own; /* nobody else can move it from there */
	if (!host_try_queue(e, queue))
		return SY_NONE;
	if (queue_of[vcpu] == queue)
		return queue;
	host_unlock_queue(e, queue);
	return SY_NONE;
}

HOST_FN void host_lock_domain(struct engine *e, u32 domain)
{
	pthread_mutex_lock(&domain_lock[domain]);
}

HOST_FN void host_unlock_domain(struct engine *e, u32 domain)
{
	pthread_mutex_unlock(&domain_lock[domain]);
}

HOST_FN void host_lock_shared(struct engine *e)
{
	pthread_mutex_lock(&shared_lock);
}

HOST_FN void host_unlock_shared(struct engine *e)
{
	pthread_mutex_unlock(&shared_lock);
}

HOST_FN void host_settle(struct engine *e, u32 vcpu)
{
	settles[vcpu] = true;
}

HOST_FN u32 host_queue_at(struct engine *e, u32 pcpu)
{
	return pcpus[pcpu].queue;
}

HOST_FN void host_domain_timer(struct engine *e, u32 domain)
{
	host_lock_domain(e, domain);
	domain_due_ns[domain] = domains[domain].state.timer_ns;
	host_unlock_domain(e, domain);
}

#include "../engine/engine.h"

static bool put_off(u32 vcpu)
{
	return settles[vcpu];
}

#include "beliefs.h"

/* ---- What threads do ---- */

/* Read with the lock held that a call needs. What it does in other queues may be told of a later time already. */
static u64 now(void)
{
	return atomic_fetch_add(&clock_ns, pause_ns());
}

static void saved(u32 vcpu)
{
	u32 queue = host_lock_queue_of(&engine, vcpu);

	if (vcpus[vcpu].saving)
		engine_saved(&engine, vcpu, now());
	host_unlock_queue(&engine, queue);
}

static void choose(u32 pcpu)
{
	u32 queue = host_queue_at(&engine, pcpu), ran;
	struct engine_pcpu *c = &pcpus[pcpu];

	host_lock_queue(&engine, queue);
	ran = c->current;
	interrupted[pcpu] = 0;
	c->interrupted = 0;
	host_set_idle(&engine, pcpu, false);
	engine_choose(&engine, pcpu, now());
	choices++;
	host_unlock_queue(&engine, queue);
	if (ran != SY_NONE)
		saved(ran);
}

/* What a vCPU that runs here does. */
static void run(u32 pcpu)
{
	u32 queue = host_queue_at(&engine, pcpu), ran;
	struct engine_pcpu *c = &pcpus[pcpu];

	host_lock_queue(&engine, queue);
	ran = c->current;
	if (ran != SY_NONE && !c->interrupted) {
		switch (below(8)) {
		case 0:
			engine_yield(&engine, pcpu, now());
			break;
		case 1:
			engine_spin(&engine, pcpu, now());
			break;
		case 2:
			engine_tick(&engine, pcpu, now());
			break;
		case 3:
			engine_interrupt(&engine, pcpu);
			break;
		default:
			engine_block(&engine, pcpu, now());
		}
	}
	host_unlock_queue(&engine, queue);
	if (ran != SY_NONE)
		saved(ran);
}

static void draw_affinity(u32 vcpu)
{
	u64 all = (1ULL << engine.pcpus) - 1, some = below(2) ? all : random_word() & all, liked = random_word() & some;

	allowed[vcpu] = some ? some : all;
	preferred[vcpu] = below(2) && liked != some ? liked : 0;
}

/* What is told of a vCPU by whatever thread. */
static void tell(u32 vcpu)
{
	u32 queue = host_lock_queue_of(&engine, vcpu);
	struct engine_vcpu *v = &vcpus[vcpu];

	if (settles[vcpu] && below(2)) {
		settles[vcpu] = false;
		engine_settle_later(&engine, vcpu, now());
	} else if (vcpu_due_ns[vcpu] && vcpu_due_ns[vcpu] <= clock_ns) {
		engine_vcpu_timer(&engine, vcpu, now());
	} else if (!below(16)) {
		draw_affinity(vcpu);
		engine_affinity_changed(&engine, vcpu, now());
	} else if (v->status == ENGINE_BLOCKED && !v->saving) {
		engine_wake(&engine, vcpu, now());
	} else if (v->status == ENGINE_WAITING && !v->saving && !below(16)) {
		engine_sleep(&engine, vcpu, now());
	}
	host_unlock_queue(&engine, queue);
}

/* What is told of a domain, of a queue or of the host; of the host by one at a time. */
static void pass(void)
{
	u32 domain = (u32)below(DOMAINS), queue = (u32)below(engine.queues);
	struct sy_settings settings = { .weight = between(SY_WEIGHT_MIN, SY_WEIGHT_MAX), .cap_percent = below(2) ? 0 : 1 + below(400) };
	const struct sy_reservation asked = { magnitude(), below(2) ? 0 : magnitude(), below(2) };

	if (domain_due_ns[domain] && domain_due_ns[domain] <= clock_ns)
		engine_domain_timer(&engine, domain, now());
	if (unbalanced[queue]) {
		unbalanced[queue] = false;
		host_lock_queue(&engine, queue);
		if (engine_balance_some(&engine, queue, now()))
			unbalanced[queue] = true;
		host_unlock_queue(&engine, queue);
	}
	if (pthread_mutex_trylock(&host_lock))
		return;
	switch (below(16)) {
	case 0:
		engine_vcpu_reserve(&engine, (u32)below(VCPUS), &asked);
		break;
	case 3:
		if (sy_account_ns(&policy))
			engine_account(&engine, now());
		break;
	case 1:
		if (sy_sample_ns(&policy))
			engine_sample(&engine, now());
		break;
	case 2:
		engine_domain_change(&engine, domain, &settings);
		break;
	}
	pthread_mutex_unlock(&host_lock);
}

/* All stand still but this thread: what was asked for and put off is done, and then nothing is left to do. */
static void check_still(void)
{
	bool left = true;
	u32 round, i, queue;

	for (round = 0; left; round++) {
		check(round < 10000, "interrupts without end");
		left = false;
		for (i = 0; i < VCPUS; i++) {
			if (!settles[i])
				continue;
			left = true;
			settles[i] = false;
			queue = host_lock_queue_of(&engine, i);
			engine_settle_later(&engine, i, now());
			host_unlock_queue(&engine, queue);
		}
		for (i = 0; i < engine.pcpus; i++) {
			left |= interrupted[i];
			if (interrupted[i])
				choose(i);
		}
	}
	for (i = 0; i < VCPUS; i++)
		check_beliefs_of_vcpu(i);
	for (i = 0; i < engine.pcpus; i++)
		check_beliefs_of_pcpu(i);
	for (i = 0; i < engine.queues; i++)
		check_beliefs_of_queue(i);
	for (i = 0; i < DOMAINS; i++)
		check_beliefs_of_domain(i);
}

static void *run_pcpu(void *first)
{
	u32 pcpu = (u32)((struct engine_pcpu *)first - pcpus), round, act;

	random_state = seed << 8 | pcpu;
	for (round = 0; round < rounds; round++) {
		for (act = 0; act < ACTS; act++) {
			if (interrupted[pcpu] || !below(64))
				choose(pcpu);
			else if (below(2))
				run(pcpu);
			else if (below(4))
				tell((u32)below(VCPUS));
			else
				pass();
		}
		if (pthread_barrier_wait(&still) == PTHREAD_BARRIER_SERIAL_THREAD)
			check_still();
		pthread_barrier_wait(&still);
	}
	return 0;
}

/* ---- A host ---- */

/* The disciplines in turn, each with all governors that it can have or with none, of each vintage. */
static void draw_policy(void)
{
	const struct sy_description *description;
	u64 g, n, vintages = 1, vintage;

	memset(&policy, 0, sizeof(policy));
	policy.discipline = seed % SY_DISCIPLINES;
	description = sy_describe(policy.discipline);
	while (vintages < SY_VINTAGES && description->vintage[vintages])
		vintages++;
	vintage = seed / SY_DISCIPLINES / 2 % vintages;
	for (n = 0; n < description->parameters; n++)
		policy.parameter[n] = description->parameter[n].value[vintage];
	for (g = 0; g < SY_GOVERNORS; g++) {
		const struct sy_description *governor = sy_describe_governor(g);

		if (!(governor->disciplines >> policy.discipline & 1) || seed / SY_DISCIPLINES % 2)
			continue;
		policy.governors |= 1ULL << g;
		for (n = 0; n < governor->parameters; n++)
			policy.governor_parameter[g][n] = governor->parameter[n].value[0];
	}
	snprintf(policy_text, sizeof(policy_text), "%s@%s, governors %llx", description->name,
		 description->vintage[vintage], (unsigned long long)policy.governors);
}

static void begin_vcpu(u32 vcpu)
{
	u32 home;

	draw_affinity(vcpu);
	queue_of[vcpu] = SY_NONE;
	home = engine_home(&engine, vcpu);
	engine_vcpu_begin(&engine, vcpu, vcpu / DOMAIN_VCPUS, vcpu % DOMAIN_VCPUS, home, clock_ns);
	vcpu_due_ns[vcpu] = sy_vcpu_timer_ns(&policy, &vcpus[vcpu].state);
}

static void begin_host(void)
{
	u32 i;

	memset(&engine, 0, sizeof(engine));
	memset(vcpus, 0, sizeof(vcpus));
	memset(domains, 0, sizeof(domains));
	memset(queues, 0, sizeof(queues));
	memset(pcpus, 0, sizeof(pcpus));
	memset(waiting_count, 0, sizeof(waiting_count));
	memset(tick_due_ns, 0, sizeof(tick_due_ns));
	idle = lesser = waited = 0;
	clock_ns = SY_S;
	draw_policy();
	saves = below(2);
	engine.began_ns = clock_ns;
	engine.pcpus = 4 << below(2);
	engine.level_pcpus[ENGINE_CORE] = 1 + (u32)below(2);
	for (i = ENGINE_CACHE; i < ENGINE_LEVELS; i++)
		engine.level_pcpus[i] = 4;
	engine_begin(&engine);
	for (i = 0; i < engine.pcpus; i += engine_queue_pcpus(&engine)) {
		struct engine_queue *q = &queues[engine.queues++];

		q->first_pcpu = i;
		q->end_pcpu = i + engine_queue_pcpus(&engine);
	}
	for (i = 0; i < engine.queues; i++) {
		unbalanced[i] = false;
		engine_queue_begin(&engine, i);
	}
	for (i = 0; i < engine.pcpus; i++) {
		interrupted[i] = 0;
		engine_pcpu_begin(&engine, i);
	}
	for (i = 0; i < DOMAINS; i++) {
		struct sy_settings settings = { .weight = between(SY_WEIGHT_MIN, SY_WEIGHT_MAX), .cap_percent = i % 2 ? 1 + below(400) : 0 };

		engine_domain_begin(&engine, i, &settings, DOMAIN_VCPUS, clock_ns);
		domain_due_ns[i] = 0;
	}
	for (i = 0; i < VCPUS; i++) {
		settles[i] = false;
		begin_vcpu(i);
	}
}

static void run_host(void)
{
	pthread_t thread[PCPUS_MAX];
	u32 i;

	random_state = seed;
	begin_host();
	pthread_barrier_init(&still, 0, engine.pcpus);
	for (i = 0; i < engine.pcpus; i++)
		check(!pthread_create(&thread[i], 0, run_pcpu, &pcpus[i]), "no thread");
	for (i = 0; i < engine.pcpus; i++)
		pthread_join(thread[i], 0);
	pthread_barrier_destroy(&still);
}

int main(int argc, char **argv)
{
	int n;

	rounds = argc > 2 ? (u32)strtoul(argv[1], 0, 10) : 0;
	if (!rounds) {
		fprintf(stderr, "usage: threads ROUNDS SEED...\n");
		return 2;
	}
	for (n = 0; n < PCPUS_MAX; n++)
		pthread_mutex_init(&queue_lock[n], 0);
	for (n = 0; n < DOMAINS; n++)
		pthread_mutex_init(&domain_lock[n], 0);
	pthread_mutex_init(&shared_lock, 0);
	pthread_mutex_init(&host_lock, 0);
	for (n = 2; n < argc; n++) {
		seed = strtoull(argv[n], 0, 10);
		run_host();
	}
	printf("threads: %d hosts, %llu choices, %llu queues not to be had\n", argc - 2, (unsigned long long)choices,
	       (unsigned long long)missed);
	return 0;
}
