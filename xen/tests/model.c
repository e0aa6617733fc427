/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler for Xen in a model of Xen (xen.h) under an adversary: 1 to 384 pCPUs with any sockets,
 * NUMA nodes, cores and threads, whose numbers follow each other or do not, two cpupools, any policy with any
 * parameters. vCPUs wake, block, poll, yield, are paused and get other affinities, and the scheduler is
 * told later; contexts are saved and softirqs and timers done in any order and after any delay, tasklets
 * come, pCPUs leave and join, domains come, go and move, weights, caps and parameters change; there is one governor more. Checked
 * throughout: nobody is lost or in two places, what the engine believes is what Xen has, pCPUs of a core,
 * of a node and of a socket are neighbours, once all have settled nobody waits beside an idle pCPU of its queue, and
 * by the parameters of the vintages nobody waits beside one of any queue longer than beside_idle_most_ns().
 * One seed repeats a failure.
 *
 *	model STEPS SEED...
 */
#define STEELYARD_CALLS any_discipline
#include "../../policy/tests/more_governors.h"
#include "../calls.c"
#include "../steelyard.c"
#undef current
#include "../../policy/tests/random.h"
#include "../../policy/tests/beside_idle.h"

enum {
	POOLS = 2,
	DOMAINS = 40,
	DOMAIN_VCPUS = 16,
	HOST_STEPS = 10000, /* before another host is drawn */
	EACH_DECISION_STEPS = 1000000 /* in which each kind of decision is made while a trace is kept */
};

struct model_domain {
	struct domain domain;
	struct sched_unit *unit[DOMAIN_VCPUS];
	bool there;
};

static struct scheduler schedulers[POOLS];
static struct cpupool pools[POOLS];
static struct model_domain domains[DOMAINS];
static struct vcpu idle_vcpu[NR_CPUS];
static struct sched_unit idle_unit[NR_CPUS];
static unsigned int domain_count, threads_per_core, cores_per_node, nodes_per_socket;
static bool nodes_span; /* all is one node */
static int leaving; /* pCPU on its way out of its pool, or -1 */
static spinlock_t model_free_lock = { .name = "another scheduler's" };
static bool interleaves; /* something may come between */
static bool smooth; /* and for now nothing does, and nothing is late */
static bool published; /* this host: the parameters are those of the vintage, and no domain asks for a slice */
static bool asked_last_first; /* this host, at some time */
static bool contended; /* this host: locks that are tried for are often not to be had */
static unsigned int contention; /* so often, until the next step */
static u64 seed, step, steps_total, choices, interleaved;

static void model_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "model: seed %" PRIu64 ", step %" PRIu64 ", %s, %u pCPUs: %s:%d: %s\n", seed, step,
		policy_name, nr_cpu_ids, file, line, what);
	exit(1);
}

#include "core.h"

/* ---- What must hold ---- */

static struct host *host_of_pool(unsigned int pool)
{
	return schedulers[pool].sched_data;
}

/*
 * It may use what affinity and cpupool leave; where that is nothing, what affinity and scheduler do. It prefers
 * the soft affinity of that, if that is some and not all.
 */
static void check_allowed(struct host *h, const struct sched_unit *unit)
{
	const struct host_vcpu *v = unit->priv;
	u32 allowed = 0, preferred = 0, i;
	cpumask_t may;

	cpumask_and(&may, unit->cpu_hard_affinity, unit->domain->cpupool->res_valid);
	if (cpumask_empty(&may))
		cpumask_and(&may, unit->cpu_hard_affinity, &h->pcpus);
	for (i = 0; i < h->engine.pcpus; i++) {
		bool expected = h->pcpu[i].cpu != SY_NONE && cpumask_test_cpu(h->pcpu[i].cpu, &may);

		ASSERT((v->allowed[i / 64] >> i % 64 & 1) == expected);
		allowed += expected;
		expected &= h->pcpu[i].cpu != SY_NONE &&
			    cpumask_test_cpu(h->pcpu[i].cpu, unit->cpu_soft_affinity);
		ASSERT((host_preferred_pcpus(&h->engine, v->number, i / 64) >> i % 64 & 1) == expected);
		preferred += expected;
	}
	ASSERT(host_prefers(&h->engine, v->number) == (preferred && preferred < allowed));
	ASSERT(v->engine.status != ENGINE_RUNNING || host_pcpu(&h->engine, v->engine.ran_on)->interrupted ||
	       engine_may_use(&h->engine, v->number, v->engine.ran_on));
}

/* Whether what its vCPUs may use is of now. */
static bool knows_pool(const struct host_queue *q)
{
	return !usable_changed(q);
}

static bool is_put_off(const struct host_vcpu *v)
{
	return !list_empty(&v->in_put_off);
}

static void check_unit(struct host *h, struct sched_unit *unit)
{
	const struct host_vcpu *v = unit->priv;
	const struct engine_vcpu *ev = &v->engine;
	const struct host_pcpu *c = &h->pcpu[ev->state.pcpu];
	bool waits = ev->status == ENGINE_WAITING, runs = ev->status == ENGINE_RUNNING;
	const struct vcpu *vcpu = unit->vcpu_list;

	ASSERT(v->unit == unit && vcpu_of(&h->engine, v->number) == v);
	ASSERT(unit->res->pool && unit->res->pool->sched->sched_data == h);
	ASSERT(ev->queue == c->engine.queue);
	ASSERT(ev->queue == h->pcpu[h->number[vcpu->processor]].engine.queue);
	ASSERT(c->engine.online || ((ev->saving || is_put_off(v)) && ev->move_to != SY_NONE));
	ASSERT(!v->stays && (!is_put_off(v) || queue_of(v)->later.active));
	ASSERT(ev->saving || is_put_off(v) || !ev->unplaced);
	ASSERT(unit->res->schedule_lock == &queue_of(v)->lock.lock);
	ASSERT(!runs || (c->engine.current == v->number && unit->res->curr == unit && unit->is_running));
	ASSERT(!runs || c->cpu == vcpu->processor);
	ASSERT(runs || unit->res->curr != unit);
	ASSERT(ev->saving == (!runs && unit->is_running));
	ASSERT(!waits || ev->queued != ev->parked || (ev->saving && !ev->queued));
	ASSERT(waits || !ev->queued);
	ASSERT(ev->saving || runs || is_put_off(v) || ev->move_to == SY_NONE);
	ASSERT(!waits || !ev->parked || v->timer.active || v->domain->timer.active || h->account.active);
	ASSERT(!ev->state.timer_ns || v->timer.active || ev->state.timer_ns <= model_now);
	/* Who is stolen may begin earlier than it was stopped, by what two clocks differ. */
	ASSERT(v->met.gotten_ns + v->met.waited_ns <= model_now + 200 * (1 + v->met.switches));
	ASSERT(waits || v->met.parked_ns <= v->met.waited_ns);
	if (knows_pool(queue_of(v)))
		check_allowed(h, unit);
	/* Who can run does or waits, unless the scheduler is told later; who cannot does not. */
	ASSERT(!runs || unit_runnable(unit) || vcpu->sleeps || model_softirq[vcpu->processor]);
	ASSERT(waits || runs || vcpu->wakes || !unit_runnable(unit));
	ASSERT(!waits || unit_runnable(unit) || vcpu->sleeps);
}

static void check_pcpu(struct host *h, const struct host_pcpu *c)
{
	u32 pcpu = c - h->pcpu;
	bool idle = h->idle[pcpu / 64] >> pcpu % 64 & 1;
	const struct sched_resource *res;

	if (c->cpu == SY_NONE || !c->engine.online) {
		ASSERT(!idle && !c->engine.interrupted && c->engine.current == SY_NONE);
		return;
	}
	res = get_sched_res(c->cpu);
	ASSERT(h->number[c->cpu] == pcpu && res->pool && res->pool->sched->sched_data == h);
	ASSERT(!c->engine.interrupted || model_softirq[c->cpu]);
	ASSERT((c->engine.current == SY_NONE) == is_idle_unit(res->curr));
	ASSERT(idle == (c->engine.current == SY_NONE && !c->engine.interrupted && !c->engine.occupied));
	ASSERT(!c->engine.occupied || res->tasklet || model_softirq[c->cpu]);
}

/* Who asks its last pCPU first, or did when it woke, may be kept waiting by that one's ratelimit, as in Xen's credit2. */
static bool asks_idle_first(const struct host_queue *q)
{
	return q->engine.state.pcpus == 1 || !asked_last_first;
}

static void note_who_is_asked(void)
{
	asked_last_first |= steelyard_policy.discipline == SY_CREDIT2 && steelyard_policy.parameter[CREDIT2_WAKE] != CREDIT2_WAKE_IDLE_FIRST;
}

/* settled: nobody is on the way to anything. */
static u32 check_queue(struct host *h, const struct host_queue *q, bool settled)
{
	const struct rb_node *node = rb_first(&q->by_key);
	const struct host_vcpu *v;
	u64 last = 0;
	u32 count = 0, pcpu;

	list_for_each_entry (v, &q->waiting, in_waiting) {
		ASSERT(node == &v->by_key);
		node = rb_next(node);
		count++;
		ASSERT(v->engine.queued && h->queue + v->engine.queue == q && v->engine.key >= last);
		last = v->engine.key;
		for (pcpu = q->engine.first_pcpu; settled && pcpu < q->engine.end_pcpu; pcpu++)
			ASSERT(!engine_is_idle(&h->engine, pcpu) || !asks_idle_first(q) ||
			       !engine_may_use(&h->engine, v->number, pcpu) || is_put_off(v));
	}
	ASSERT(!node && count == q->engine.state.queued);
	return count;
}

static void check_topology(struct host *h)
{
	const u32 *pcpus = h->engine.level_pcpus;
	u32 level, i, j;

	ASSERT(pcpus[ENGINE_CORE] == threads_per_core);
	ASSERT(pcpus[ENGINE_NODE] == threads_per_core * cores_per_node * (nodes_span ? nodes_per_socket : 1));
	ASSERT(pcpus[ENGINE_SOCKET] == threads_per_core * cores_per_node * nodes_per_socket);
	ASSERT(pcpus[ENGINE_CACHE] == pcpus[ENGINE_NODE] && !(h->engine.pcpus % pcpus[ENGINE_SOCKET]));
	for (i = 0; i < nr_cpu_ids; i++) {
		for (j = 0; j < i; j++) {
			bool near[ENGINE_LEVELS] = {
				[ENGINE_CORE] = cpumask_test_cpu(j, per_cpu(cpu_sibling_mask, i)),
				[ENGINE_NODE] = cpu_to_node(i) == cpu_to_node(j) && cpu_to_socket(i) == cpu_to_socket(j),
				[ENGINE_SOCKET] = cpu_to_socket(i) == cpu_to_socket(j),
			};

			near[ENGINE_CACHE] = near[ENGINE_NODE];
			for (level = 0; level < ENGINE_LEVELS; level++)
				ASSERT(near[level] == (h->number[i] / pcpus[level] == h->number[j] / pcpus[level]));
		}
	}
}

static void check_host(unsigned int pool, bool settled)
{
	struct host *h = host_of_pool(pool);
	u32 i, n, queued = 0;

	if (!h->begun)
		return;
	for (i = 0; i < domain_count; i++) {
		for (n = 0; domains[i].there && n < domains[i].domain.max_vcpus; n++) {
			if (domains[i].domain.cpupool == &pools[pool]) {
				check_unit(h, domains[i].unit[n]);
				queued += ((struct host_vcpu *)domains[i].unit[n]->priv)->engine.queued;
			}
		}
	}
	ASSERT(h->account.active == !!sy_account_ns(&steelyard_policy) && h->sample.active == !!sy_sample_ns(&steelyard_policy));
	for (i = 0; i < h->engine.pcpus; i++)
		check_pcpu(h, &h->pcpu[i]);
	for (i = 0; i < h->engine.queues; i++)
		queued -= check_queue(h, &h->queue[i], settled && knows_pool(&h->queue[i]));
	ASSERT(!queued);
}

static void check_all(bool settled)
{
	int urgent_count[NR_CPUS] = { 0 };
	unsigned int i, n;

	model_looks = true;
	for (i = 0; i < POOLS; i++)
		check_host(i, settled);
	for (i = 0; i < domain_count; i++)
		for (n = 0; domains[i].there && n < domains[i].domain.max_vcpus; n++)
			urgent_count[domains[i].unit[n]->vcpu_list->processor] +=
				domains[i].unit[n]->vcpu_list->is_urgent;
	for (i = 0; i < nr_cpu_ids; i++)
		ASSERT(urgent_count[i] == model_sched_urgent_count[i]);
	model_looks = false;
}

/* ---- What happens ---- */

static void do_timers(void)
{
	unsigned int calls = 0, most = 1000 + 100 * (nr_cpu_ids + domain_count * DOMAIN_VCPUS);
	struct list_head *here;
	bool again = true;

	while (again) {
		/* No time passes meanwhile: timers that set each other for now would never end. */
		ASSERT(calls++ < most);
		again = false;
		for (here = model_timers.next; here != &model_timers && !again; here = here->next) {
			struct timer *timer = list_entry(here, struct timer, in_timers);

			if (!timer->active || timer->expires > (s_time_t)model_now)
				continue;
			timer->active = false;
			model_cpu = below(nr_cpu_ids);
			timer->function(timer->data);
			/* Whom it did something to is anywhere in the list. */
			again = true;
		}
	}
}

/* What the scheduler is to be told; all of it, or some. */
static void tell_delayed(bool all)
{
	unsigned int i, n;

	for (i = 0; i < domain_count; i++) {
		for (n = 0; domains[i].there && n < domains[i].domain.max_vcpus; n++) {
			struct sched_unit *unit = domains[i].unit[n];

			if (unit->vcpu_list->sleeps && (all || below(2)))
				tell_sleep(unit);
			if (unit->vcpu_list->wakes && (all || below(2)))
				tell_wake(unit);
			if (all || below(2))
				migrate_finish(unit);
		}
	}
}

/* Softirqs and contexts; all, until nothing is left, or some of them. */
static void settle(bool all)
{
	unsigned int round, i;
	bool more = true;

	interleaves = !all;
	for (round = 0; more && (all || round < 2); round++) {
		unsigned int first = below(nr_cpu_ids);

		ASSERT(round < 1000);
		more = false;
		for (i = 0; i < nr_cpu_ids; i++) {
			unsigned int cpu = (first + i) % nr_cpu_ids;

			if (all || below(2))
				context_saved(cpu);
			if (model_softirq[cpu] && (all || below(2)))
				schedule(cpu);
		}
		if (all) {
			tell_delayed(true);
			do_timers();
		}
		for (i = 0; i < nr_cpu_ids; i++)
			more |= get_sched_res(i)->prev || model_softirq[i];
	}
	interleaves = !smooth;
}

static void whatever_is_due(void)
{
	unsigned int cpu;

	do_timers();
	tell_delayed(false);
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		struct sched_resource *res = get_sched_res(cpu);

		if (res->due_ns && res->due_ns <= model_now) {
			res->due_ns = 0;
			model_softirq[cpu] = true;
		}
		if (res->tasklet && below(2)) {
			res->tasklet = false;
			model_softirq[cpu] = true;
		}
	}
	if (leaving >= 0 && below(2))
		finish_leaving();
}

/* Flags change without the lock, and the scheduler is told at once or later. */
static void stop_later(struct sched_unit *unit, unsigned int flags)
{
	unit->vcpu_list->pause_flags |= flags;
	unit->vcpu_list->sleeps = true;
	if (below(2))
		tell_sleep(unit);
}

static void go_later(struct sched_unit *unit, unsigned int flags)
{
	unit->vcpu_list->pause_flags &= ~flags;
	unit->vcpu_list->wakes = true;
	if (below(2))
		tell_wake(unit);
}

/* To who runs on this pCPU, or on the next one where somebody does. */
static void happen_there(unsigned int cpu)
{
	struct sched_resource *res;
	struct sched_unit *unit;
	unsigned int i;

	for (i = 1; i < nr_cpu_ids && is_idle_unit(get_sched_res(cpu)->curr); i++)
		cpu = (cpu + 1) % nr_cpu_ids;
	res = get_sched_res(cpu);
	unit = res->curr;
	model_cpu = cpu;
	if (!is_free(unit->res->schedule_lock))
		return;
	if (is_idle_unit(unit)) {
		model_softirq[cpu] |= res->pool && !below(4);
		return;
	}
	if (below(3)) {
		unit->vcpu_list->pause_flags |= PAUSED_BLOCKED | (below(4) ? 0 : PAUSED_POLLING);
	} else {
		spinlock_t *lock = unit_schedule_lock_irq(unit);

		scheduler_of(unit)->yield(scheduler_of(unit), unit);
		unit_schedule_unlock_irq(lock, unit);
	}
	model_softirq[cpu] = true;
}

#include "toolstack.h"

static void happen_to_domain(unsigned int id)
{
	if (!domains[id].there)
		create_domain(id);
	else if (below(2))
		move_domain(&domains[id], &pools[below(POOLS)]);
	else if (id)
		destroy_domain(&domains[id]);
}

/* dom0 tells of a domain, which may not be there, what only it knows. */
static void tell_leaf(struct hypfs_entry_leaf *leaf)
{
	unsigned int id = below(domain_count + 1);
	char text[64];
	int result;

	snprintf(text, sizeof(text), below(16) ? "%u %" PRIu64 : "%u x%" PRIu64, id, magnitude());
	result = leaf->e.funcs->write(leaf, text, strlen(text) + 1);
	ASSERT(!result || result == -ENOENT || (result == -EINVAL && strchr(text, 'x')));
}

/* dom0 writes a parameter, with its ends more often than not, or what is none. */
static void write_leaf(void)
{
	struct hypfs_entry_leaf *leaf = model_leaves[below(model_leaf_count)];
	const struct sy_parameter *parameter;
	char text[64];
	u64 value;

	if (leaf->e.funcs == &packets_funcs || leaf->e.funcs == &loads_funcs)
		tell_leaf(leaf);
	if (leaf->e.funcs != &parameter_funcs || published)
		return;
	parameter = parameter_leaf(&leaf->e)->parameter;
	value = below(4) ? between(parameter->minimum, parameter->maximum) : below(2) ? 0 :
											magnitude();
	snprintf(text, sizeof(text), below(16) ? "%" PRIu64 : "x%" PRIu64, value);
	if (!leaf->e.funcs->write(leaf, text, strlen(text) + 1))
		ASSERT(value >= parameter->minimum && value <= parameter->maximum &&
		       *parameter_leaf(&leaf->e)->value == value);
	note_who_is_asked();
}

/* And reads of domains, which stops nobody from choosing. */
static char *read_leaf(const struct hypfs_entry_leaf *leaf)
{
	const struct hypfs_entry *entry = leaf->e.funcs->enter(&leaf->e);
	unsigned int size;
	char *text;

	ASSERT(!IS_ERR(entry));
	size = leaf->e.funcs->getsize(entry);
	text = malloc(size);
	ASSERT(!leaf->e.funcs->read(entry, text) && strlen(text) == size - 1);
	leaf->e.funcs->exit(entry);
	return text;
}

static void read_statistics(void)
{
	char *text = read_leaf(&statistics_leaf), *end;
	unsigned int lines = 0, i;

	for (end = text; (end = strchr(end, '\n')); end++)
		lines++;
	for (i = 0; i < domain_count; i++)
		lines -= domains[i].there ? domains[i].domain.max_vcpus : 0;
	ASSERT(lines == 1);
	free(text);
}

static int write_setting(const char *text)
{
	const struct hypfs_entry *entry = settings_leaf.e.funcs->enter(&settings_leaf.e);
	int result;

	ASSERT(!IS_ERR(entry));
	result = settings_leaf.e.funcs->write(&settings_leaf, text, strlen(text) + 1);
	settings_leaf.e.funcs->exit(entry);
	return result;
}

static struct sy_settings settings_of_domain(unsigned int id)
{
	return settings_of(domains[id].domain.sched_priv);
}

/* What is read may be written, changes nothing, and is all that the domain asks for. */
static void read_settings(unsigned int id)
{
	struct sy_settings before = settings_of_domain(id), now;
	char *text = read_leaf(&settings_leaf), *line = text, *end;
	unsigned int asked = 0, i;

	for (; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		ASSERT(!write_setting(line));
		asked += strtoul(line, NULL, 10) == domain_number(id);
	}
	for (i = 0; i < ARRAY_SIZE(sy_settings_described); i++)
		asked -= ((u64 *)&before)[i] != sy_settings_described[i].value[0];
	now = settings_of_domain(id);
	ASSERT(!*line && !asked && !memcmp(&before, &now, sizeof(now)));
	free(text);
}

/* dom0 asks for something for a domain, asks for it no longer, or writes what is no such thing; others stay as they are. */
static void change_setting(unsigned int id)
{
	unsigned int i = below(ARRAY_SIZE(sy_settings_described)), kind = below(8), other;
	const struct sy_parameter *setting = &sy_settings_described[i];
	u64 value = below(2) ? between(setting->minimum, setting->maximum) : magnitude();
	bool legal = domains[id].there && kind && value >= setting->minimum && value <= setting->maximum;
	struct sy_settings before = { 0 }, now;
	char text[VALUE_BYTES + 32];

	if (domains[id].there)
		before = settings_of_domain(id);
	snprintf(text, sizeof(text), kind ? "%u %s %" PRIu64 : "%u %sx %" PRIu64, domain_number(id), setting->name,
		 value);
	if (kind == 1) {
		*strrchr(text, ' ') = '\0';
		value = setting->value[0];
		legal = domains[id].there;
	}
	ASSERT(!write_setting(text) == legal);
	if (!domains[id].there)
		return;
	now = settings_of_domain(id);
	for (other = 0; other < ARRAY_SIZE(sy_settings_described); other++)
		ASSERT(((u64 *)&now)[other] == (legal && other == i ? value : ((u64 *)&before)[other]));
	read_settings(id);
}

/* What else happens while a lock is given back, by pCPUs that need none of those that are held still. */
static void come_between(void)
{
	unsigned int id = below(domain_count), cpu = below(nr_cpu_ids);
	struct sched_unit *unit = domains[id].there ? domains[id].unit[below(domains[id].domain.max_vcpus)] : NULL;

	switch (below(8)) {
	case 0:
		if (unit)
			stop_later(unit, PAUSED_BY_ADMINISTRATOR);
		break;
	case 1 ... 3:
		if (unit)
			go_later(unit, PAUSED_BLOCKED | PAUSED_POLLING);
		break;
	case 4:
		happen_there(cpu);
		break;
	case 5:
		if (!model_held[MODEL_FIRST][MODEL_RANK_QUEUE])
			do_timers();
		break;
	default:
		if (model_softirq[cpu])
			schedule(cpu);
		else
			context_saved(cpu);
		break;
	}
}

static void model_comes_between(void)
{
	unsigned int cpu = model_cpu;

	/* Nobody but the caller needs a queue's lock to be given back, but a domain's. */
	if (!interleaves || (model_last_held() > MODEL_RANK_QUEUE && model_last_held() < MODEL_RANKS) || below(16))
		return;
	interleaved++;
	model_context = MODEL_BETWEEN;
	model_interrupts_off[MODEL_BETWEEN] = false;
	come_between();
	ASSERT(model_last_held() == MODEL_RANKS);
	model_context = MODEL_FIRST;
	model_cpu = cpu;
}

static bool model_misses_lock(void)
{
	if (!contended || !contention || below(2))
		return false;
	contention--;
	return true;
}

static void happen(void)
{
	unsigned int id = below(domain_count), cpu = below(nr_cpu_ids);
	struct model_domain *d = domains[id].there ? &domains[id] : &domains[0];
	struct sched_unit *unit = d->unit[below(d->domain.max_vcpus)];
	switch (below(32)) {
	case 0:
		if (!below(4))
			happen_to_domain(id);
		break;
	case 1:
	case 2:
		change_affinity(unit);
		break;
	case 3:
		ask_as_toolstack(&d->domain);
		write_leaf();
		if (!published)
			change_setting(id);
		if (!below(8))
			read_statistics();
		break;
	case 4:
		stop_later(unit, PAUSED_BY_ADMINISTRATOR);
		break;
	case 5 ... 7:
		go_later(unit, PAUSED_BY_ADMINISTRATOR);
		break;
	case 8:
		if (get_sched_res(cpu)->pool) {
			get_sched_res(cpu)->tasklet = true;
			model_softirq[cpu] = true;
		}
		break;
	case 9:
		if (!below(4))
			change_pcpu(cpu);
		break;
	case 10 ... 19:
		happen_there(cpu);
		break;
	default:
		go_later(unit, PAUSED_BLOCKED | PAUSED_POLLING);
		break;
	}
}

#include "smooth.h"

/* ---- A host ---- */

static bool draw_value(const char *name, const struct sy_parameter *parameter, u64 *value, void *data)
{
	if (below(2))
		*value = between(parameter->minimum, parameter->maximum);
	return false;
}

/* Options that set nothing: each is taken as it is or not at all, and none that Xen may have cut or that has no room. */
static void draw_params(void)
{
	char text[128];

	opt_params[0] = '\0';
	params_refused = 0;
	while (below(16)) {
		/* Xen has 127 bytes for option, `=` and value. */
		size_t length = below(128 - sizeof("steelyard_params")), before = strlen(opt_params);
		unsigned int refused = params_refused;
		bool fits = length < 110 && before + length < 511;

		memset(text, 'x', length);
		text[length] = '\0';
		ASSERT(!model_add_params(text) == fits && params_refused == refused + !fits);
		ASSERT(strlen(opt_params) == before + (fits ? length + 1 : 0));
	}
}

/* As boot options say it. */
static void draw_policy(void)
{
	u64 discipline = below(SY_DISCIPLINES), vintages = 0, g;
	const struct sy_description *description = sy_disciplines[discipline];
	size_t length;

	while (vintages < SY_VINTAGES && description->vintage[vintages])
		vintages++;
	length = snprintf(opt_policy, sizeof(opt_policy), "%s@%s", description->name,
			  description->vintage[below(vintages)]);
	for (g = 0; g < SY_GOVERNORS; g++)
		if (sy_governors[g]->disciplines >> discipline & 1 && below(2))
			length += snprintf(opt_policy + length, sizeof(opt_policy) - length, "+%s",
					   sy_governors[g]->name);
	memcpy(opt_sched, "steelyard", sizeof("steelyard"));
	draw_params();
	ASSERT(!model_scheduler->global_init() && !strcmp(policy_name, opt_policy));
	if (!published)
		for_each_parameter(draw_value, NULL);
	asked_last_first = false;
	note_who_is_asked();
}

static void draw_topology(void)
{
	static const unsigned int cores[] = { 1, 1, 2, 3, 4, 8, 16, 48, 96 };
	unsigned int number[NR_CPUS], per_node, per_socket, i;

	threads_per_core = 1 + below(2);
	cores_per_node = cores[below(published ? 6 : 9)]; /* most of them small enough for pass_smoothly() */
	per_node = threads_per_core * cores_per_node;
	nodes_per_socket = 1 + below(min(NR_CPUS / per_node, 3u));
	nodes_span = below(2);
	per_socket = per_node * nodes_per_socket;
	nr_cpu_ids = per_socket * (1 + below(min(NR_CPUS / per_socket, 4u)));
	for (i = 0; i < nr_cpu_ids; i++)
		number[i] = i;
	for (i = nr_cpu_ids; below(2) && i > 1; i--) {
		unsigned int other = below(i), last = number[i - 1];

		number[i - 1] = number[other];
		number[other] = last;
	}
	memset(model_core, 0, sizeof(model_core));
	cpu_online_map = (cpumask_t){ 0 };
	for (i = 0; i < nr_cpu_ids; i++) {
		unsigned int core = number[i] / threads_per_core;

		model_socket[i] = number[i] / per_socket;
		model_node[i] = nodes_span ? 0 : number[i] / per_node;
		model_cpu_sibling_mask[i] = &model_core[core];
		cpumask_set_cpu(i, &model_core[core]);
	}
}

static void begin_host_model(void)
{
	bool some_come_later = !below(3);
	unsigned int i;

	model_now = 1 + magnitude() % (1ULL << 59);
	published = below(2);
	draw_topology();
	draw_policy();
	leaving = -1;
	for (i = 0; i < POOLS; i++) {
		schedulers[i] = *model_scheduler;
		pools[i] = (struct cpupool){ .sched = &schedulers[i], .sched_gran = 1 };
		ASSERT(!schedulers[i].init(&schedulers[i]));
		schedulers[i].cpupool = &pools[i];
	}
	memset(model_sched_urgent_count, 0, sizeof(model_sched_urgent_count));
	memset(model_softirq, 0, sizeof(model_softirq));
	for (i = 0; i < nr_cpu_ids; i++) {
		idle_vcpu[i] = (struct vcpu){ .sched_unit = &idle_unit[i], .processor = i, .is_idle = true };
		idle_unit[i] = (struct sched_unit){ .vcpu_list = &idle_vcpu[i], .res = get_sched_res(i) };
		*get_sched_res(i) = (struct sched_resource){
			.master_cpu = i, .schedule_lock = &model_free_lock, .curr = &idle_unit[i], .idle = &idle_unit[i]
		};
		model_cpu = 0;
		if (!i || !some_come_later || below(2))
			join_pool(i, &pools[0]);
	}
	domain_count = 1 + below(sy_clamp(nr_cpu_ids, 2, DOMAINS));
	for (i = 0; i < domain_count; i++)
		create_domain(i);
	ASSERT(!model_hypfs_init());
	contended = below(2);
	tb_init_done = below(2);
	interleaves = true;
	if (cpumask_weight(&cpu_online_map) == nr_cpu_ids)
		check_topology(host_of_pool(0));
}

static void end_host_model(void)
{
	unsigned int i;

	interleaves = contended = false;
	for (i = 0; i < model_leaf_count; i++)
		if (model_leaves[i]->e.funcs == &parameter_funcs)
			xfree(model_leaves[i]);
	model_leaf_count = 0;

	for (i = 0; i < domain_count; i++)
		if (domains[i].there)
			destroy_domain(&domains[i]);
	settle(true);
	interleaves = false;
	for (i = 0; i < nr_cpu_ids; i++) {
		if (!get_sched_res(i)->pool)
			continue;
		get_sched_res(i)->tasklet = false;
		if (leaving != (int)i)
			cpumask_clear_cpu(i, get_sched_res(i)->pool->res_valid);
		leaving = i;
		schedule(i);
		context_saved(i);
		finish_leaving();
		ASSERT(leaving < 0);
	}
	for (i = 0; i < POOLS; i++)
		schedulers[i].deinit(&schedulers[i]);
	ASSERT(list_empty(&model_timers) && list_empty(&hosts));
}

static void run_host(u64 steps)
{
	unsigned int every;

	step = 0;
	begin_host_model();
	/* Looking at everything takes as long as everything is large. */
	every = 1 + (nr_cpu_ids + domain_count * DOMAIN_VCPUS) / 32;
	for (step = 1; step <= steps; step++) {
		bool all = !below(4);

		model_now += pause_ns();
		contention = 16;
		if (!below(4))
			whatever_is_due();
		happen();
		if (all)
			tell_delayed(true);
		settle(all);
		if (!below(every))
			check_all(all);
	}
	steps_total += steps;
	if (nr_cpu_ids <= SMOOTH_CPUS && published)
		pass_smoothly();
	end_host_model();
}

/* Each kind of decision is met with, and recorded now and then. */
static void check_notes(u64 steps)
{
	u32 kind;

	for (kind = 0; kind < MODEL_KINDS; kind++) {
		if (!model_kinds[kind].name)
			continue;
		printf("%s %" PRIu64 " %" PRIu64 "\n", model_kinds[kind].name, model_counted[kind], model_recorded[kind]);
		ASSERT(model_recorded[kind] <= model_counted[kind]);
		ASSERT(steps < EACH_DECISION_STEPS || model_recorded[kind]);
	}
}

int main(int argc, char **argv)
{
	u64 steps = argc > 2 ? strtoull(argv[1], 0, 10) : 0, done;
	int n;

	if (!steps) {
		fprintf(stderr, "usage: model STEPS SEED...\n");
		return 2;
	}
	for (n = 2; n < argc; n++) {
		seed = strtoull(argv[n], 0, 10);
		random_state = seed;
		for (done = 0; done < steps; done += HOST_STEPS)
			run_host(min((u64)HOST_STEPS, steps - done));
	}
	check_notes(steps_total);
	printf("model: %" PRIu64 " steps, %" PRIu64 " choices, %" PRIu64 " locks, %" PRIu64 " of %" PRIu64
	       " tries missed, %" PRIu64 " interleaved\n",
	       steps_total, choices, model_locks, model_misses, model_tries, interleaved);
	return 0;
}
