/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What vCPUs got and met with, as text. It is taken one vCPU at a time, each with its queue's lock and its domain's,
 * and written when they have been given back.
 */

#define STATISTICS_HEAD "domain vcpu pcpu weight weight_now slice_now_ns cap_percent gotten_ns waited_ns " \
			"worst_wait_ns switches migrations resets credit class boosted\n"
/* 275 are used at most: three numbers of 32 bits, eleven of 64, a class, a flag, and what stands between them. */
#define STATISTICS_LINE_BYTES 320

/* Of a vCPU, as of now. */
struct statistics {
	unsigned int pcpu; /* Xen's number */
	u64 weight, weight_now, slice_now_ns, cap_percent;
	struct engine_met met; /* so far, runs and waits that have not ended included */
	u64 resets; /* that its domain caused */
	s64 credit;
	const char *class; /* or null */
	bool boosted;
};

static s64 credit(const struct host_vcpu *v)
{
	return sy_credit(&steelyard_policy, &queue_of(v)->engine.state, &v->engine.state);
}

static void statistics_take(const struct host_vcpu *v, struct statistics *s)
{
	struct host *h = v->domain->host;
	u32 queue = host_lock_queue_of(&h->engine, v->number);
	const struct engine_domain *d = &v->domain->engine;
	u64 since_ns = measure_passed_ns(v->engine.since_ns, h->queue[queue].now);

	s->pcpu = h->pcpu[v->engine.state.pcpu].cpu;
	s->met = v->met;
	if (v->engine.status == ENGINE_RUNNING)
		s->met.gotten_ns += since_ns;
	if (v->engine.status == ENGINE_WAITING) {
		s->met.waited_ns += since_ns;
		s->met.worst_wait_ns = max(s->met.worst_wait_ns, since_ns);
	}
	s->credit = credit(v);
	s->class = sy_class_names[sy_class(&steelyard_policy, &v->engine.state)];
	s->boosted = sy_boosted(&steelyard_policy, &v->engine.state);
	take(&v->domain->lock);
	s->weight = d->state.settings.weight;
	s->weight_now = d->state.weight;
	s->slice_now_ns = d->state.slice_ns;
	s->cap_percent = d->state.settings.cap_percent;
	s->resets = d->resets;
	give(&v->domain->lock);
	host_unlock_queue(&h->engine, queue);
}

/* One line; "-" is no class. */
static int statistics_line(char *text, size_t size, const struct host_vcpu *v)
{
	struct statistics s;

	statistics_take(v, &s);
	return scnprintf(text, size,
			 "%u %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %s %u\n",
			 v->domain->number, v->unit->unit_id, s.pcpu, s.weight, s.weight_now, s.slice_now_ns,
			 s.cap_percent, s.met.gotten_ns, s.met.waited_ns, s.met.worst_wait_ns, s.met.switches,
			 s.met.migrations, s.resets, s.credit, s.class ?: "-", s.boosted);
}

static void cf_check steelyard_dump_settings(const struct scheduler *ops)
{
	struct host *h = ops->sched_data;
	const struct host_domain *d;
	const struct host_vcpu *v;
	char line[STATISTICS_LINE_BYTES];

	printk("policy %s\n" STATISTICS_HEAD, policy_name);
	spin_lock(&h->lock);
	list_for_each_entry (d, &h->domain_list, in_host) {
		list_for_each_entry (v, &d->vcpus, in_domain) {
			statistics_line(line, sizeof(line), v);
			printk("%s", line);
		}
	}
	spin_unlock(&h->lock);
}

static void dump_queue(struct host *h, u32 pcpu)
{
	struct host_queue *q = &h->queue[host_queue_at(&h->engine, pcpu)];
	u32 current_vcpu;
	const struct host_vcpu *v;

	take(&q->lock);
	current_vcpu = h->pcpu[pcpu].engine.current;
	printk("queue %u: %u pCPUs, %u wait; runs ", host_queue_at(&h->engine, pcpu), q->engine.state.pcpus,
	       q->engine.state.queued);
	if (current_vcpu == SY_NONE)
		printk("nobody\n");
	else
		printk("%pv\n", vcpu_of(&h->engine, current_vcpu)->unit->vcpu_list);
	list_for_each_entry (v, &q->waiting, in_waiting)
		printk("  %pv key %" PRIu64 " credit %" PRId64 "\n", v->unit->vcpu_list, v->engine.key, credit(v));
	give(&q->lock);
}

static void cf_check steelyard_dump_cpu_state(const struct scheduler *ops, int cpu)
{
	struct host *h = ops->sched_data;

	if (h->begun && cpumask_test_cpu(cpu, &h->pcpus))
		dump_queue(h, h->number[cpu]);
}
