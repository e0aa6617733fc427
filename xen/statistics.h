/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What vCPUs got and met with, as text.
 */

#define STATISTICS_HEAD "domain vcpu pcpu weight weight_now slice_now_ns cap_percent gotten_ns waited_ns " \
			"worst_wait_ns switches migrations resets credit class boosted\n"

static s64 credit(struct host *h, const struct host_vcpu *v)
{
	return sy_credit(&policy, &h->queue[v->engine.queue].engine.state, &v->engine.state);
}

/* One line for a vCPU, as of now; resets are those that its domain caused; "-" is no class. */
static int statistics_line(char *text, size_t size, struct host *h, const struct host_vcpu *v)
{
	const struct engine_domain *d = &v->domain->engine;
	const char *class = sy_class_names[sy_class(&policy, &v->engine.state)];
	u64 since_ns = h->now - v->engine.since_ns;
	u64 runs_ns = v->engine.status == ENGINE_RUNNING ? since_ns : 0;
	u64 waits_ns = v->engine.status == ENGINE_WAITING ? since_ns : 0;

	return scnprintf(text, size,
			 "%u %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %s %u\n",
			 v->domain->number, v->unit->unit_id, h->pcpu[v->engine.state.pcpu].cpu,
			 d->state.settings.weight, d->state.weight, d->state.slice_ns,
			 d->state.settings.cap_percent, v->met.gotten_ns + runs_ns, v->met.waited_ns + waits_ns,
			 max(v->met.worst_wait_ns, waits_ns), v->met.switches, v->met.migrations, d->resets,
			 credit(h, v), class ?: "-", sy_boosted(&policy, &v->engine.state));
}

static void cf_check steelyard_dump_settings(const struct scheduler *ops)
{
	struct host *h = ops->sched_data;
	const struct host_domain *d;
	const struct host_vcpu *v;
	unsigned long flags;
	char line[256];

	printk("policy %s\n" STATISTICS_HEAD, policy_name);
	enter(h, &flags);
	list_for_each_entry (d, &h->domain_list, in_host) {
		list_for_each_entry (v, &d->vcpus, in_domain) {
			statistics_line(line, sizeof(line), h, v);
			printk("%s", line);
		}
	}
	leave(h, flags);
}

static void cf_check steelyard_dump_cpu_state(const struct scheduler *ops, int cpu)
{
	struct host *h = ops->sched_data;
	const struct host_pcpu *c;
	const struct host_queue *q;
	unsigned long flags;
	struct rb_node *node;

	spin_lock_irqsave(&h->lock, flags);
	if (h->begun && cpumask_test_cpu(cpu, &h->pcpus)) {
		c = &h->pcpu[h->number[cpu]];
		q = &h->queue[c->engine.queue];
		printk("queue %u: %u pCPUs, %u wait; runs ", c->engine.queue, q->engine.state.pcpus,
		       q->engine.state.queued);
		if (c->engine.current == SY_NONE)
			printk("nobody\n");
		else
			printk("%pv\n", vcpu_of(&h->engine, c->engine.current)->unit->vcpu_list);
		for (node = rb_first(&q->waiting); node; node = rb_next(node)) {
			const struct host_vcpu *v = waiting_vcpu(node);

			printk("  %pv key %" PRIu64 " credit %" PRId64 "\n", v->unit->vcpu_list, v->engine.key,
			       credit(h, v));
		}
	}
	spin_unlock_irqrestore(&h->lock, flags);
}
