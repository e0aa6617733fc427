/* SPDX-License-Identifier: GPL-2.0-only */
/* Part of model.c: dom0's toolstack asks at random, as of each scheduler whose forms are spoken (toolstack.h). */

static u64 draw_time_us(void)
{
	return below(4) ? between(1, 20 * 1000 * 1000) : below(2) ? 0 :
								    below(~0U);
}

static struct xen_domctl_sched_rtds draw_form(void)
{
	struct xen_domctl_sched_rtds form = { draw_time_us(), 0, below(2) };

	form.budget = below(4) && form.period ? between(1, form.period) : draw_time_us();
	return form;
}

/* What was said of a vCPU is told again from its next period on. */
static void ask_for_vcpus(const struct scheduler *ops, struct domain *d)
{
	struct xen_domctl_schedparam_vcpu asked[3];
	struct xen_domctl_scheduler_op op = { .cmd = XEN_DOMCTL_SCHEDOP_putvcpuinfo };
	unsigned int i;
	int result;

	for (i = 0; i < ARRAY_SIZE(asked); i++) {
		asked[i].vcpuid = below(d->max_vcpus + !below(16));
		asked[i].u.rtds = draw_form();
	}
	op.u.v.vcpus = asked;
	op.u.v.nr_vcpus = 1 + below(ARRAY_SIZE(asked));
	result = adjust_reservations(ops, d, &op);
	for (i = 0; !result && i < op.u.v.nr_vcpus; i++) {
		const struct sy_reservation said = reservation_of(&asked[i].u.rtds);

		ASSERT(asked[i].vcpuid < d->max_vcpus && can_reserve(&said));
	}
	if (!result) {
		const struct host_vcpu *v = d->vcpu[asked[op.u.v.nr_vcpus - 1].vcpuid]->sched_unit->priv;
		const struct sy_reservation said = reservation_of(&asked[op.u.v.nr_vcpus - 1].u.rtds);

		ASSERT(!memcmp(&v->engine.state.asked, &said, sizeof(said)));
	}
	op.cmd = XEN_DOMCTL_SCHEDOP_getvcpuinfo;
	if (adjust_reservations(ops, d, &op))
		return;
	for (i = 0; i < op.u.v.nr_vcpus; i++)
		ASSERT(asked[i].u.rtds.period && asked[i].u.rtds.budget <= asked[i].u.rtds.period);
}

static void ask_for_reservations(const struct scheduler *ops, struct domain *d)
{
	struct xen_domctl_scheduler_op op = { .cmd = XEN_DOMCTL_SCHEDOP_putinfo }, got = { .cmd = XEN_DOMCTL_SCHEDOP_getinfo };
	const struct host_vcpu *v = d->vcpu[below(d->max_vcpus)]->sched_unit->priv;

	op.u.rtds = draw_form();
	if (adjust_reservations(ops, d, &op))
		return;
	ASSERT(!adjust_reservations(ops, d, &got) && !memcmp(&got.u.rtds, &op.u.rtds, sizeof(op.u.rtds)));
	ASSERT(!v->engine.state.asked.slice_ns);
}

/* What the toolstack is told it can tell again, such as a cap beside another weight: nothing changes. */
static void tell_again(const struct scheduler *ops, struct domain *d)
{
	struct sy_settings before = settings_of(d->sched_priv), now;
	struct xen_domctl_scheduler_op op = { .cmd = XEN_DOMCTL_SCHEDOP_getinfo };

	adjust_shares(ops, d, &op);
	ASSERT(op.u.credit2.weight == before.weight && op.u.credit2.cap == min(before.cap_percent, (u64)65535));
	op.cmd = XEN_DOMCTL_SCHEDOP_putinfo;
	adjust_shares(ops, d, &op);
	now = settings_of(d->sched_priv);
	ASSERT(!memcmp(&before, &now, sizeof(now)));
}

/* All of it or none; then it is told again. */
static void ask_for_parameters(const struct scheduler *ops)
{
	struct xen_sysctl_scheduler_op sc = { .cmd = XEN_SYSCTL_SCHEDOP_putinfo }, got = { .cmd = XEN_SYSCTL_SCHEDOP_getinfo };

	sc.u.sched_credit.tslice_ms = below(1100);
	sc.u.sched_credit.ratelimit_us = below(600 * 1000);
	sc.u.sched_credit.vcpu_migr_delay_us = below(200 * 1000);
	if (!adjust_global_credit(ops, &sc)) {
		ASSERT(!adjust_global_credit(ops, &got));
		ASSERT(!memcmp(&got.u.sched_credit, &sc.u.sched_credit, sizeof(sc.u.sched_credit)));
	}
	sc.u.sched_credit2.ratelimit_us = below(600 * 1000);
	if (sc.u.sched_credit2.ratelimit_us > XEN_SYSCTL_SCHED_RATELIMIT_MAX || !parameter_of("ratelimit_ns").value)
		ASSERT(adjust_global_credit2(ops, &sc) == -EINVAL);
	else
		adjust_global_credit2(ops, &sc);
}

static void ask_as_toolstack(struct domain *d)
{
	struct xen_domctl_scheduler_op op = { .cmd = XEN_DOMCTL_SCHEDOP_putinfo };
	const struct scheduler *ops = d->cpupool->sched;

	op.u.credit2.weight = magnitude();
	op.u.credit2.cap = below(2) ? 0 : 1 + below(800);
	adjust_shares(ops, d, &op);
	tell_again(ops, d);
	if (!published && !below(8))
		ask_for_parameters(ops);
	if (sy_reserves(&steelyard_policy) && below(2))
		ask_for_vcpus(ops, d);
	if (sy_reserves(&steelyard_policy) && below(2))
		ask_for_reservations(ops, d);
	if (!below(8)) {
		ops->dump_settings(ops);
		ops->dump_cpu_state(ops, below(nr_cpu_ids));
	}
}
