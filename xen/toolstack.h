/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What dom0's toolstack asks by Xen's own calls. They have a form for each of Xen's schedulers, by whose number that is
 * found; which of them is spoken here is the boot option steelyard_toolstack=:
 *
 *	credit2		weight and cap of a domain, ratelimit (xl sched-credit2); if nothing is said
 *	credit		the same, slice and migration delay (xl sched-credit)
 *	rtds		reservations of domains and of single vCPUs, under sedf (xl sched-rtds)
 *	steelyard	none: a number of its own, for tools that know it. They ask by hypfs (leaves.h).
 *
 * Under the first three a cpupool made for that scheduler runs steelyard instead. Under the last Xen's own are all there as
 * well, and steelyard can have a cpupool beside any of them.
 */

/* As Xen's public/domctl.h counts its own: 5 and up. The letters SY. */
#define STEELYARD_SCHEDULER 0x5359

/* ---- Parameters ---- */

/* A word of a form, the most that Xen lets it be, and the parameter that it stands for. */
struct parameter_word {
	const char *name;
	u32 unit_ns;
	u32 most;
	u32 *word;
};

static bool can_be(const struct parameter_word *word, const struct named_parameter *named)
{
	u64 asked = (u64)*word->word * word->unit_ns;

	if (!named->value)
		return !asked;
	return *word->word <= word->most && asked >= named->parameter->minimum && asked <= named->parameter->maximum;
}

/* Sets the parameters to these words, all or none, and then these to what is set; what the policy has not is 0. */
static int exchange(bool put, const struct parameter_word *words, unsigned int count)
{
	bool any = !put;
	unsigned int i;

	for (i = 0; put && i < count; i++) {
		const struct named_parameter named = parameter_of(words[i].name);

		if (!can_be(&words[i], &named))
			return -EINVAL;
		any |= named.value != NULL;
	}
	/* A policy that has none of them is not told that it took them. */
	if (!any)
		return -EINVAL;
	for (i = 0; i < count; i++) {
		const struct named_parameter named = parameter_of(words[i].name);

		if (put && named.value)
			change(named.value, (u64)*words[i].word * words[i].unit_ns);
		*words[i].word = named.value ? *named.value / words[i].unit_ns : 0;
	}
	return 0;
}

static int cf_check adjust_global_credit2(const struct scheduler *ops, struct xen_sysctl_scheduler_op *sc)
{
	const struct parameter_word words[] = {
		{ "ratelimit_ns", SY_US, XEN_SYSCTL_SCHED_RATELIMIT_MAX, &sc->u.sched_credit2.ratelimit_us },
	};

	return exchange(sc->cmd == XEN_SYSCTL_SCHEDOP_putinfo, words, ARRAY_SIZE(words));
}

static int cf_check adjust_global_credit(const struct scheduler *ops, struct xen_sysctl_scheduler_op *sc)
{
	const struct parameter_word words[] = {
		{ "slice_ns", SY_MS, XEN_SYSCTL_CSCHED_TSLICE_MAX, &sc->u.sched_credit.tslice_ms },
		{ "ratelimit_ns", SY_US, XEN_SYSCTL_SCHED_RATELIMIT_MAX, &sc->u.sched_credit.ratelimit_us },
		{ "migration_delay_ns", SY_US, XEN_SYSCTL_CSCHED_MGR_DLY_MAX_US, &sc->u.sched_credit.vcpu_migr_delay_us },
	};

	return exchange(sc->cmd == XEN_SYSCTL_SCHEDOP_putinfo, words, ARRAY_SIZE(words));
}

/* ---- Settings of a domain ---- */

static struct sy_settings settings_of(struct host_domain *d)
{
	struct sy_settings settings;

	take(&d->lock);
	settings = d->engine.state.settings;
	give(&d->lock);
	return settings;
}

/* Of credit and credit2, whose forms are alike. */
static int cf_check adjust_shares(const struct scheduler *ops, struct domain *domain,
				  struct xen_domctl_scheduler_op *op)
{
	struct host *h = ops->sched_data;
	struct host_domain *d = domain->sched_priv;
	struct sy_settings settings;
	int result = 0;

	spin_lock(&h->lock);
	settings = settings_of(d);
	switch (op->cmd) {
	case XEN_DOMCTL_SCHEDOP_getinfo:
		op->u.credit2.weight = settings.weight;
		/* The greatest stands for "as it is" when it comes back with another weight. */
		op->u.credit2.cap = min(settings.cap_percent, (u64)(uint16_t)~0);
		break;
	case XEN_DOMCTL_SCHEDOP_putinfo:
		/* 0 and 65535 stand for "as it is". */
		if (op->u.credit2.weight)
			settings.weight = op->u.credit2.weight;
		if (op->u.credit2.cap != (uint16_t)~0)
			settings.cap_percent = op->u.credit2.cap;
		engine_domain_change(&h->engine, d->number, &settings);
		break;
	default:
		result = -EINVAL;
		break;
	}
	spin_unlock(&h->lock);
	return result;
}

/* ---- Reservations ---- */

static struct sy_reservation reservation_of(const struct xen_domctl_sched_rtds *form)
{
	return (struct sy_reservation){ form->period * SY_US, form->budget * SY_US,
					!!(form->flags & XEN_DOMCTL_SCHEDRT_extra) };
}

static struct xen_domctl_sched_rtds form_of(const struct sy_reservation *r)
{
	return (struct xen_domctl_sched_rtds){ r->period_ns / SY_US, r->slice_ns / SY_US,
					       r->extra_time ? XEN_DOMCTL_SCHEDRT_extra : 0 };
}

#define SETTING(field) (offsetof(struct sy_settings, field) / sizeof(u64))

/* As what `xenhypfs` writes is checked. */
static bool can_reserve(const struct sy_reservation *r)
{
	const struct sy_parameter *period = &sy_settings_described[SETTING(period_ns)];
	const struct sy_parameter *slice = &sy_settings_described[SETTING(reserved_ns)];

	return r->period_ns >= period->minimum && r->period_ns <= period->maximum && r->slice_ns >= slice->minimum &&
	       r->slice_ns <= r->period_ns;
}

/* One vCPU's; it may be one of several in a unit. */
static int adjust_vcpu(struct host *h, struct domain *domain, bool put, struct xen_domctl_schedparam_vcpu *asked)
{
	const struct sy_reservation reservation = reservation_of(&asked->u.rtds);
	const struct host_vcpu *v;
	struct sy_reservation reserved;

	if (asked->vcpuid >= domain->max_vcpus || !domain->vcpu[asked->vcpuid])
		return -EINVAL;
	if (put && !can_reserve(&reservation))
		return -EINVAL;
	v = domain->vcpu[asked->vcpuid]->sched_unit->priv;
	spin_lock(&h->lock);
	if (put)
		engine_vcpu_reserve(&h->engine, v->number, &reservation);
	reserved = put ? reservation : engine_vcpu_reserved(&h->engine, v->number);
	spin_unlock(&h->lock);
	asked->u.rtds = form_of(&reserved);
	return 0;
}

/* Several vCPUs' ones; at most so many without a look whether something else is to be done. */
#define VCPUS_AT_A_TIME 64

static int adjust_vcpus(struct host *h, struct domain *domain, struct xen_domctl_scheduler_op *op)
{
	bool put = op->cmd == XEN_DOMCTL_SCHEDOP_putvcpuinfo;
	struct xen_domctl_schedparam_vcpu asked;
	uint32_t i;
	int result;

	for (i = 0; i < op->u.v.nr_vcpus && !(i >= VCPUS_AT_A_TIME && hypercall_preempt_check()); i++) {
		if (copy_from_guest_offset(&asked, op->u.v.vcpus, i, 1))
			return -EFAULT;
		result = adjust_vcpu(h, domain, put, &asked);
		if (result)
			return result;
		if (!put && copy_to_guest_offset(op->u.v.vcpus, i, &asked, 1))
			return -EFAULT;
	}
	/* So many are done; who called goes on from there. */
	op->u.v.nr_vcpus = i;
	return 0;
}

/* A domain's counts for all its vCPUs, also for those that had one of their own. */
static int reserve_for_all(struct host *h, struct host_domain *d, const struct sy_reservation *asked)
{
	const struct sy_reservation none = { 0 };
	struct sy_settings settings = settings_of(d);
	const struct host_vcpu *v;

	if (!can_reserve(asked))
		return -EINVAL;
	settings.period_ns = asked->period_ns;
	settings.reserved_ns = asked->slice_ns;
	settings.extra_time = asked->extra_time;
	engine_domain_change(&h->engine, d->number, &settings);
	list_for_each_entry (v, &d->vcpus, in_domain)
		engine_vcpu_reserve(&h->engine, v->number, &none);
	return 0;
}

/* As of a new domain of rtds, which `xl create` asks for then: RTDS_DEFAULT_PERIOD, RTDS_DEFAULT_BUDGET of Xen's rt.c. */
static const struct sy_reservation reserved_if_not_asked = { 10 * SY_MS, 4 * SY_MS, 1 };

static int cf_check adjust_reservations(const struct scheduler *ops, struct domain *domain,
					struct xen_domctl_scheduler_op *op)
{
	struct host *h = ops->sched_data;
	struct host_domain *d = domain->sched_priv;
	struct sy_reservation reservation;
	struct sy_settings settings;
	int result;

	switch (op->cmd) {
	case XEN_DOMCTL_SCHEDOP_getvcpuinfo:
	case XEN_DOMCTL_SCHEDOP_putvcpuinfo:
		return adjust_vcpus(h, domain, op);
	case XEN_DOMCTL_SCHEDOP_getinfo:
		settings = settings_of(d);
		reservation = (struct sy_reservation){ settings.period_ns, settings.reserved_ns, settings.extra_time };
		if (!reservation.slice_ns || !reservation.period_ns)
			reservation = reserved_if_not_asked;
		op->u.rtds = form_of(&reservation);
		return 0;
	case XEN_DOMCTL_SCHEDOP_putinfo:
		reservation = reservation_of(&op->u.rtds);
		spin_lock(&h->lock);
		result = reserve_for_all(h, d, &reservation);
		spin_unlock(&h->lock);
		return result;
	default:
		return -EINVAL;
	}
}

/* ---- As which of them steelyard is known ---- */

static const struct toolstack {
	const char *name;
	u32 sched_id;
	int (*adjust)(const struct scheduler *ops, struct domain *domain, struct xen_domctl_scheduler_op *op);
	int (*adjust_global)(const struct scheduler *ops, struct xen_sysctl_scheduler_op *sc);
} toolstacks[] = {
	{ "credit2", XEN_SCHEDULER_CREDIT2, adjust_shares, adjust_global_credit2 },
	{ "credit", XEN_SCHEDULER_CREDIT, adjust_shares, adjust_global_credit },
	{ "rtds", XEN_SCHEDULER_RTDS, adjust_reservations, NULL },
	{ "steelyard", STEELYARD_SCHEDULER, NULL, NULL },
};

static char __initdata opt_toolstack[16];
string_param("steelyard_toolstack", opt_toolstack);

/* The one of the option, or the first. */
static const struct toolstack *__init chosen_toolstack(void)
{
	unsigned int i;

	for (i = 0; opt_toolstack[0] && i < ARRAY_SIZE(toolstacks); i++) {
		if (strcmp(opt_toolstack, toolstacks[i].name))
			continue;
		if (toolstacks[i].adjust != adjust_reservations || sy_reserves(&steelyard_policy))
			return &toolstacks[i];
		printk(XENLOG_ERR "steelyard: steelyard_toolstack=rtds is for sedf, and the policy is %s\n", policy_name);
		return toolstacks;
	}
	if (opt_toolstack[0])
		printk(XENLOG_ERR "steelyard: no toolstack '%s'\n", opt_toolstack);
	return toolstacks;
}
