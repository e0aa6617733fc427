/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time that passes: what the timers of pCPUs, vCPUs, domains and of the host call, each with interrupts off.
 */
#ifndef STEELYARD_TIMERS_H
#define STEELYARD_TIMERS_H

/* What a call gives that is made with interrupts off. */
#define SAFELY(call) \
	({ \
		unsigned long flags_; \
		__typeof__(call) result_; \
\
		bpf_local_irq_save(&flags_); \
		result_ = (call); \
		bpf_local_irq_restore(&flags_); \
		result_; \
	})

/* What a timer calls; *key: which of its map it is. */
#define CALLBACK(name, call) \
	static int name(void *map, u32 *key, struct timer *timer) \
	{ \
		call; \
		return 0; \
	}

/* The end of a slice, or a tick. When the timer is to fire again; 0: it is not. */
__weak __noinline u64 time_passed(u32 pcpu)
{
	struct pcpu *c = pcpu_at(pcpu);
	u32 queue = lock_queue_at(pcpu);
	u64 now = time_of(queue), due_ns, expected_ns = 0;

	if (c->tick_due_ns && now >= c->tick_due_ns) {
		c->tick_due_ns = 0;
		engine_tick(&engine, pcpu, now);
	}
	if (c->slice_end_ns && now >= c->slice_end_ns) {
		c->slice_end_ns = 0;
		if (c->engine.occupied) {
			host_interrupt_other(&engine, pcpu, now);
			goto out;
		}
		/* Whoever comes now most likely has as long. */
		expected_ns = now + c->slice_ns + LATE_NS;
		/* Asked for already, it may not have been heard. */
		if (c->engine.interrupted)
			host_interrupt(&engine, pcpu);
		else
			engine_interrupt(&engine, pcpu);
	}
out:
	due_ns = due_at(c);
	if (!due_ns || (expected_ns && expected_ns < due_ns))
		due_ns = expected_ns;
	c->armed_ns = due_ns;
	unlock_queue(queue);
	return due_ns;
}

/*
 * With interrupts off a timer costs the kernel memory and an interrupt from 7.0 on (bpf_async_schedule_op()): most are set
 * here. Who sets it meanwhile has said so before.
 */
static int pcpu_timer(void *map, u32 *key, struct timer *timer)
{
	u64 *armed_ns = &pcpu_at(*key)->armed_ns, due_ns = SAFELY(time_passed(*key)), now_ns;

	while (due_ns && can_loop) {
		if (!start_timer(&pcpu_timers, *key, due_ns, 0, BPF_F_TIMER_CPU_PIN)) {
			*armed_ns = 0;
			break;
		}
		now_ns = *(volatile u64 *)armed_ns;
		if (now_ns == due_ns)
			break;
		due_ns = now_ns;
	}
	return 0;
}

__weak __noinline int vcpu_time(u32 vcpu)
{
	u32 queue = lock_queue_of(vcpu);
	struct vcpu *v = vcpu_at(vcpu);
	u64 now;

	/* It has ended. */
	if (queue == SY_NONE)
		return 0;
	now = time_of(queue);
	v->armed_ns = 0;
	if (v->timer_ns > now) {
		arm_vcpu(vcpu);
	} else if (v->timer_ns) {
		v->timer_ns = 0;
		engine_vcpu_timer(&engine, vcpu, now);
	}
	unlock_queue(queue);
	return 0;
}

CALLBACK(vcpu_timer, SAFELY(vcpu_time(*key)))

/* Whether its vCPUs are to be unparked: all, those that are there when it comes to them. */
__weak __noinline bool domain_time(u32 domain)
{
	struct domain *d = domain_at(domain);
	u64 now = bpf_ktime_get_ns();
	bool due;

	take_lock(&host_lock);
	host_lock_domain(&engine, domain);
	d->armed_ns = 0;
	due = d->timer_ns && d->timer_ns <= now;
	if (due)
		d->timer_ns = 0;
	else
		arm_domain(domain);
	host_unlock_domain(&engine, domain);
	if (due && engine_domain_due(&engine, domain, now)) {
		d->unparked = 0;
		d->unparks = 1;
	}
	give_lock(&host_lock);
	return d->unparks;
}

/* One of them; whether more are to come. */
__weak __noinline bool unpark_one(u32 domain)
{
	struct domain *d = domain_at(domain);
	u64 now = bpf_ktime_get_ns();

	take_lock(&host_lock);
	if (d->unparks)
		d->unparks = engine_unpark_some(&engine, domain, &d->unparked, now);
	give_lock(&host_lock);
	return d->unparks;
}

static __always_inline void pass_domain(u32 domain)
{
	bool more = SAFELY(domain_time(domain));

	while (more && can_loop)
		more = SAFELY(unpark_one(domain));
}

CALLBACK(domain_timer, pass_domain(*key))

/* One part of it; whether there are more. */
__weak __noinline bool balance_goes_on(u32 queue)
{
	bool more;

	host_lock_queue(&engine, queue);
	more = engine_balance_some(&engine, queue, time_of(queue));
	unlock_queue(queue);
	return more;
}

static __always_inline void balance(u32 queue)
{
	bool more = true;

	while (more && can_loop)
		more = SAFELY(balance_goes_on(queue));
}

__weak __noinline int settle_one(u32 vcpu)
{
	u32 queue = lock_queue_of(vcpu);

	if (queue == SY_NONE)
		return 0;
	engine_settle_later(&engine, vcpu, time_of(queue));
	unlock_queue(queue);
	return 0;
}

__weak __noinline int round_begins(bool samples)
{
	u64 now = bpf_ktime_get_ns();

	take_lock(&host_lock);
	the_round.place = 0;
	the_round.visits = 0;
	the_round.settles = 0;
	if (samples) {
		sample_due_ns = engine_repeats_ns(0, sy_sample_ns(host_policy(&engine)), now);
		engine_sample_begin(&engine, now);
	} else {
		account_due_ns = engine_repeats_ns(0, sy_account_ns(host_policy(&engine)), now);
		engine_account_begin(&engine, now);
	}
	give_lock(&host_lock);
	return 0;
}

/* One domain or vCPU of it; whether there are more. */
__weak __noinline bool account_goes_on(void)
{
	u64 now = bpf_ktime_get_ns();
	bool more;

	take_lock(&host_lock);
	more = engine_account_some(&engine, &the_round, now);
	if (!more)
		engine_account_end(&engine);
	give_lock(&host_lock);
	return more;
}

__weak __noinline bool sample_goes_on(void)
{
	u64 now = bpf_ktime_get_ns();
	bool more;

	take_lock(&host_lock);
	more = engine_sample_some(&engine, &the_round, now);
	give_lock(&host_lock);
	return more;
}

static __always_inline void go_round(bool samples)
{
	bool more = true;

	SAFELY(round_begins(samples));
	while (more && can_loop)
		more = samples ? SAFELY(sample_goes_on()) : SAFELY(account_goes_on());
}

/* Accountings and samples come as often as the parameters say from now on. */
__weak __noinline int repeat(void)
{
	u64 now = bpf_ktime_get_ns();

	take_lock(&host_lock);
	account_due_ns = engine_repeats_ns(account_due_ns, sy_account_ns(host_policy(&engine)), now);
	sample_due_ns = engine_repeats_ns(sample_due_ns, sy_sample_ns(host_policy(&engine)), now);
	arm_round();
	give_lock(&host_lock);
	return 0;
}

/* Makes this call for each `i` in the set, which that leaves before. */
#define SERVE(set, count, call) \
	bpf_for(i, 0, (count)) \
	{ \
		if (!bit_of(set, i)) \
			continue; \
		set_bit_of(word_of(set, i / 64), i, false); \
		call; \
	}

/* What has been put off. Who puts something off from now on sets the timer again. */
static int later_due(void *map, u32 *key, struct timer *timer)
{
	u32 i;

	__sync_lock_test_and_set(&later, LATER_UNSET);
	SERVE(unbalanced_queues, engine.queues, balance(i));
	SERVE(unsettled_vcpus, vcpus_used, SAFELY(settle_one(i)));
	/* Who is called before its time sets its timer again. */
	SERVE(untimed_vcpus, vcpus_used, SAFELY(vcpu_time(i)));
	SERVE(untimed_domains, domains_used, pass_domain(i));
	if (__sync_lock_test_and_set(&untimed_round, 0))
		SAFELY(repeat());
	return 0;
}

/* Accountings and samples, by one timer and so never at the same time. */
static int round_due(void *map, u32 *key, struct timer *timer)
{
	if (account_due_ns && account_due_ns <= bpf_ktime_get_ns())
		go_round(false);
	if (sample_due_ns && sample_due_ns <= bpf_ktime_get_ns())
		go_round(true);
	SAFELY(repeat());
	return 0;
}

#endif
