/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The simulated host, as far as it is mechanism: where everything is, in tables that the simulator
 * owns (engine.rs), and what it is told. Times are those of the policies' clock.
 *
 * It is compiled for each discipline (build.rs), SIMULATED_DISCIPLINE: what any other would do is left out.
 */
#include "types.h"
#define HOST_OTHERS
#include "engine/host.h"

struct waiting {
	u64 key;
	u32 vcpu;
};

/* The beginnings of the simulator's own structs. */
struct simulated_vcpu {
	struct engine_vcpu engine;
	u32 allowed; /* set of pCPUs that it may use */
	u32 preferred; /* of those that it prefers; the same set: none */
};

struct simulated_domain {
	struct engine_domain engine;
	u32 first_vcpu;
	u32 end_vcpu;
};

struct simulated_queue {
	struct engine_queue engine;
	const struct waiting *waiting;
	const u32 *members;
	u32 waiting_count;
	u32 members_count;
};

struct simulated_pcpu {
	struct engine_pcpu engine;
};

/* Where everything is. */
struct simulated_tables {
	u8 *vcpus;
	u8 *domains;
	u8 *queues;
	u8 *pcpus;
	/* How far apart they are, in bytes. */
	u32 vcpu_bytes;
	u32 domain_bytes;
	u32 queue_bytes;
	u32 pcpu_bytes;
	/* Sets, of so many words each. */
	const u64 *sets;
	const u64 *idle;
	u64 *waited;
	u64 *lesser;
	u32 words;
	u32 account_count;
	const u32 *account_order;
};

struct simulated_host {
	struct engine engine;
	const struct sy_policy *policy;
	void *simulation;
	struct simulated_tables tables;
};

/* What the simulator does, in host.rs. */
void simulated_insert(void *simulation, u32 queue, u32 vcpu);
void simulated_remove(void *simulation, u32 queue, u32 vcpu);
void simulated_sort(void *simulation, u32 queue);
void simulated_change_queue(void *simulation, u32 vcpu, u32 from, u32 to);
void simulated_account_first(void *simulation, u32 place);
void simulated_set_idle(void *simulation, u32 pcpu, bool idle);
void simulated_interrupt(void *simulation, u32 pcpu);
bool simulated_interrupt_other(void *simulation, u32 pcpu, u64 now);
void simulated_balance(void *simulation, u32 queue);
void simulated_vcpu_timer(void *simulation, u32 vcpu);
void simulated_domain_timer(void *simulation, u32 domain);
void simulated_tick(void *simulation, u32 pcpu, u64 at_ns);
bool simulated_ticks(void *simulation, u32 pcpu);
bool simulated_in_kernel(void *simulation, u32 vcpu);
void simulated_sample(void *simulation, u32 domain, struct sy_sample *sample);
void simulated_wakes(void *simulation, u32 vcpu);
void simulated_starts(void *simulation, u32 vcpu, u32 pcpu);
void simulated_stops(void *simulation, u32 vcpu, u32 pcpu, bool preempted);
void simulated_unparks(void *simulation, u32 vcpu);

static inline struct simulated_host *host_of(struct engine *e)
{
	return (struct simulated_host *)e;
}

static inline const struct simulated_tables *tables(struct engine *e)
{
	return &host_of(e)->tables;
}

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
	const struct sy_policy *p = host_of(e)->policy;

	if (p->discipline != SIMULATED_DISCIPLINE)
		__builtin_unreachable();
	return p;
}

HOST_FN struct engine_vcpu *host_vcpu(struct engine *e, u32 vcpu)
{
	return (struct engine_vcpu *)(tables(e)->vcpus + (u64)vcpu * tables(e)->vcpu_bytes);
}

HOST_FN struct engine_domain *host_domain(struct engine *e, u32 domain)
{
	return (struct engine_domain *)(tables(e)->domains +
					(u64)domain * tables(e)->domain_bytes);
}

HOST_FN bool host_has_domain(struct engine *e, u32 domain)
{
	return true;
}

HOST_FN struct engine_queue *host_queue(struct engine *e, u32 queue)
{
	return (struct engine_queue *)(tables(e)->queues + (u64)queue * tables(e)->queue_bytes);
}

HOST_FN struct engine_pcpu *host_pcpu(struct engine *e, u32 pcpu)
{
	return (struct engine_pcpu *)(tables(e)->pcpus + (u64)pcpu * tables(e)->pcpu_bytes);
}

HOST_FN u32 host_next_waiting(struct engine *e, u32 queue, u32 *place)
{
	const struct simulated_queue *q = (const struct simulated_queue *)host_queue(e, queue);

	return *place < q->waiting_count ? q->waiting[(*place)++].vcpu : SY_NONE;
}

HOST_FN u32 host_next_member(struct engine *e, u32 queue, u32 *place)
{
	const struct simulated_queue *q = (const struct simulated_queue *)host_queue(e, queue);

	return *place < q->members_count ? q->members[(*place)++] : SY_NONE;
}

HOST_FN u32 host_next_vcpu(struct engine *e, u32 domain, u32 *place)
{
	const struct simulated_domain *d = (const struct simulated_domain *)host_domain(e, domain);

	return *place < d->end_vcpu - d->first_vcpu ? d->first_vcpu + (*place)++ : SY_NONE;
}

HOST_FN u32 host_next_accounted(struct engine *e, u32 *place)
{
	return *place < tables(e)->account_count ? tables(e)->account_order[(*place)++] : SY_NONE;
}

HOST_FN void host_insert(struct engine *e, u32 queue, u32 vcpu)
{
	simulated_insert(host_of(e)->simulation, queue, vcpu);
}

HOST_FN void host_remove(struct engine *e, u32 queue, u32 vcpu)
{
	simulated_remove(host_of(e)->simulation, queue, vcpu);
}

HOST_FN void host_sort(struct engine *e, u32 queue)
{
	simulated_sort(host_of(e)->simulation, queue);
}

HOST_FN void host_change_queue(struct engine *e, u32 vcpu, u32 from, u32 to)
{
	simulated_change_queue(host_of(e)->simulation, vcpu, from, to);
}

HOST_FN void host_account_first(struct engine *e, u32 place)
{
	simulated_account_first(host_of(e)->simulation, place);
}

static inline void set_bit(u64 *set, u32 bit, bool value)
{
	u64 mask = 1ULL << bit % 64;

	set[bit / 64] = value ? set[bit / 64] | mask : set[bit / 64] & ~mask;
}

HOST_FN u64 host_idle_pcpus(struct engine *e, u32 word)
{
	return tables(e)->idle[word];
}

HOST_FN void host_set_idle(struct engine *e, u32 pcpu, bool idle)
{
	simulated_set_idle(host_of(e)->simulation, pcpu, idle);
}

HOST_FN u64 host_lesser_pcpus(struct engine *e, u32 word)
{
	return tables(e)->lesser[word];
}

HOST_FN void host_set_lesser(struct engine *e, u32 pcpu, bool lesser)
{
	set_bit(tables(e)->lesser, pcpu, lesser);
}

HOST_FN u64 host_waited_queues(struct engine *e, u32 word)
{
	return tables(e)->waited[word];
}

HOST_FN void host_set_waited(struct engine *e, u32 queue, bool waited)
{
	set_bit(tables(e)->waited, queue, waited);
}

static inline const struct simulated_vcpu *vcpu_of(struct engine *e, u32 vcpu)
{
	return (const struct simulated_vcpu *)host_vcpu(e, vcpu);
}

HOST_FN u64 host_allowed_pcpus(struct engine *e, u32 vcpu, u32 word)
{
	return tables(e)->sets[vcpu_of(e, vcpu)->allowed * tables(e)->words + word];
}

HOST_FN bool host_prefers(struct engine *e, u32 vcpu)
{
	return vcpu_of(e, vcpu)->preferred != vcpu_of(e, vcpu)->allowed;
}

HOST_FN u64 host_preferred_pcpus(struct engine *e, u32 vcpu, u32 word)
{
	return tables(e)->sets[vcpu_of(e, vcpu)->preferred * tables(e)->words + word];
}

HOST_FN void host_interrupt(struct engine *e, u32 pcpu)
{
	simulated_interrupt(host_of(e)->simulation, pcpu);
}

HOST_FN bool host_interrupt_other(struct engine *e, u32 pcpu, u64 now)
{
	return simulated_interrupt_other(host_of(e)->simulation, pcpu, now);
}

HOST_FN void host_balance(struct engine *e, u32 queue)
{
	simulated_balance(host_of(e)->simulation, queue);
}

HOST_FN void host_vcpu_timer(struct engine *e, u32 vcpu)
{
	simulated_vcpu_timer(host_of(e)->simulation, vcpu);
}

HOST_FN void host_domain_timer(struct engine *e, u32 domain)
{
	simulated_domain_timer(host_of(e)->simulation, domain);
}

HOST_FN void host_tick(struct engine *e, u32 pcpu, u64 at_ns)
{
	simulated_tick(host_of(e)->simulation, pcpu, at_ns);
}

HOST_FN bool host_ticks(struct engine *e, u32 pcpu)
{
	return simulated_ticks(host_of(e)->simulation, pcpu);
}

/* Nothing happens between a choice and what comes of it. */
HOST_FN bool host_saves(struct engine *e)
{
	return false;
}

HOST_FN bool host_in_kernel(struct engine *e, u32 vcpu)
{
	return simulated_in_kernel(host_of(e)->simulation, vcpu);
}

HOST_FN void host_sample(struct engine *e, u32 domain, struct sy_sample *sample, u64 now)
{
	simulated_sample(host_of(e)->simulation, domain, sample);
}

HOST_FN void host_wakes(struct engine *e, u32 vcpu, u64 now)
{
	simulated_wakes(host_of(e)->simulation, vcpu);
}

HOST_FN void host_starts(struct engine *e, u32 vcpu, u32 pcpu, u64 now)
{
	simulated_starts(host_of(e)->simulation, vcpu, pcpu);
}

HOST_FN void host_stops(struct engine *e, u32 vcpu, u32 pcpu, u32 status, u64 now)
{
	simulated_stops(host_of(e)->simulation, vcpu, pcpu, status == ENGINE_WAITING);
}

HOST_FN void host_unparks(struct engine *e, u32 vcpu, u64 now)
{
	simulated_unparks(host_of(e)->simulation, vcpu);
}

#include "engine/engine.h"

/* ---- What the simulator calls ---- */

static void simulated_begin(struct simulated_host *h)
{
	engine_begin(&h->engine);
}

/* And all its pCPUs. */
static u32 simulated_queue_end(struct simulated_host *h, u32 first)
{
	return engine_queue_end(&h->engine, first);
}

static void simulated_queue_begin(struct simulated_host *h, u32 queue)
{
	struct engine_queue *q = host_queue(&h->engine, queue);
	u32 pcpu;

	engine_queue_begin(&h->engine, queue);
	for (pcpu = q->first_pcpu; pcpu < q->end_pcpu; pcpu++)
		engine_pcpu_begin(&h->engine, pcpu);
}

/* A group of domains, which is in another or, if that is 0, in none. They stay where they are. */
static void simulated_group_begin(struct simulated_host *h, struct simulated_domain *group,
				  struct simulated_domain *around, u64 id, const struct sy_settings *settings, u64 now)
{
	struct sy_domain *d = &group->engine.state;

	d->id = id;
	d->group = around ? &around->engine.state : 0;
	sy_domain_init(host_policy(&h->engine), d, settings, 0, now);
}

static void simulated_domain_begin(struct simulated_host *h, u32 domain, struct simulated_domain *group,
				   const struct sy_settings *settings, u64 vcpus, u64 now)
{
	host_domain(&h->engine, domain)->state.group = group ? &group->engine.state : 0;
	engine_domain_begin(&h->engine, domain, settings, vcpus, now);
}

static void simulated_vcpu_begin(struct simulated_host *h, u32 vcpu, u32 domain, u32 index, u32 pcpu,
				 u64 now)
{
	engine_vcpu_begin(&h->engine, vcpu, domain, index, pcpu, now);
}

static void simulated_wake(struct simulated_host *h, u32 vcpu, u64 now)
{
	engine_wake(&h->engine, vcpu, now);
}

static void simulated_block(struct simulated_host *h, u32 pcpu, u64 now)
{
	engine_block(&h->engine, pcpu, now);
}

static void simulated_spin(struct simulated_host *h, u32 pcpu, u64 now)
{
	engine_spin(&h->engine, pcpu, now);
}

static void simulated_interrupt_pcpu(struct simulated_host *h, u32 pcpu)
{
	engine_interrupt(&h->engine, pcpu);
}

static u64 simulated_choose(struct simulated_host *h, u32 pcpu, u64 now)
{
	return engine_choose(&h->engine, pcpu, now);
}

static void simulated_occupy(struct simulated_host *h, u32 pcpu, u64 now)
{
	engine_occupy(&h->engine, pcpu, now);
}

static void simulated_balance_queue(struct simulated_host *h, u32 queue, u64 now)
{
	engine_balance(&h->engine, queue, now);
}

static void simulated_tick_of(struct simulated_host *h, u32 pcpu, u64 now)
{
	engine_tick(&h->engine, pcpu, now);
}

static void simulated_vcpu_timer_of(struct simulated_host *h, u32 vcpu, u64 now)
{
	engine_vcpu_timer(&h->engine, vcpu, now);
}

static void simulated_domain_timer_of(struct simulated_host *h, u32 domain, u64 now)
{
	engine_domain_timer(&h->engine, domain, now);
}

static void simulated_account(struct simulated_host *h, u64 now)
{
	engine_account(&h->engine, now);
}

static void simulated_sample_all(struct simulated_host *h, u64 now)
{
	engine_sample(&h->engine, now);
}

/* All of that, of this discipline. */
extern const struct simulated_calls {
	void (*begin)(struct simulated_host *h);
	u32 (*queue_end)(struct simulated_host *h, u32 first);
	void (*queue_begin)(struct simulated_host *h, u32 queue);
	void (*group_begin)(struct simulated_host *h, struct simulated_domain *group, struct simulated_domain *around, u64 id,
			    const struct sy_settings *settings, u64 now);
	void (*domain_begin)(struct simulated_host *h, u32 domain, struct simulated_domain *group,
			     const struct sy_settings *settings, u64 vcpus, u64 now);
	void (*vcpu_begin)(struct simulated_host *h, u32 vcpu, u32 domain, u32 index, u32 pcpu, u64 now);
	void (*wake)(struct simulated_host *h, u32 vcpu, u64 now);
	void (*block)(struct simulated_host *h, u32 pcpu, u64 now);
	void (*spin)(struct simulated_host *h, u32 pcpu, u64 now);
	void (*interrupt_pcpu)(struct simulated_host *h, u32 pcpu);
	u64 (*choose)(struct simulated_host *h, u32 pcpu, u64 now);
	void (*occupy)(struct simulated_host *h, u32 pcpu, u64 now);
	void (*balance_queue)(struct simulated_host *h, u32 queue, u64 now);
	void (*tick_of)(struct simulated_host *h, u32 pcpu, u64 now);
	void (*vcpu_timer_of)(struct simulated_host *h, u32 vcpu, u64 now);
	void (*domain_timer_of)(struct simulated_host *h, u32 domain, u64 now);
	void (*account)(struct simulated_host *h, u64 now);
	void (*sample_all)(struct simulated_host *h, u64 now);
} SIMULATED_CALLS;

const struct simulated_calls SIMULATED_CALLS = {
	.begin = simulated_begin,
	.queue_end = simulated_queue_end,
	.queue_begin = simulated_queue_begin,
	.group_begin = simulated_group_begin,
	.domain_begin = simulated_domain_begin,
	.vcpu_begin = simulated_vcpu_begin,
	.wake = simulated_wake,
	.block = simulated_block,
	.spin = simulated_spin,
	.interrupt_pcpu = simulated_interrupt_pcpu,
	.choose = simulated_choose,
	.occupy = simulated_occupy,
	.balance_queue = simulated_balance_queue,
	.tick_of = simulated_tick_of,
	.vcpu_timer_of = simulated_vcpu_timer_of,
	.domain_timer_of = simulated_domain_timer_of,
	.account = simulated_account,
	.sample_all = simulated_sample_all,
};
