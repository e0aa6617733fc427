/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For how long a vCPU waits beside an idle pCPU of any queue that it may use: what the models of Linux and of Xen assert
 * while nothing is late.
 */
#ifndef STEELYARD_TESTS_BESIDE_IDLE_H
#define STEELYARD_TESTS_BESIDE_IDLE_H

/*
 * At most, in ns, by the parameters of the vintages, as longest_allowed_ns() of the simulator's tests has it: under credit until
 * those before it have had their slices; under fair as many balances as there are vCPUs. SY_FOREVER: sedf moves nobody,
 * credit2 balances queues by their loads.
 */
static u64 beside_idle_most_ns(const struct sy_policy *p, const struct engine *e, u64 vcpus)
{
	u64 interval_ns;

	if (p->discipline == SY_CREDIT)
		return vcpus * p->parameter[CREDIT_SLICE_NS];
	if (p->discipline != SY_FAIR)
		return SY_FOREVER;
	interval_ns = sy_min(p->parameter[FAIR_BALANCE_INTERVAL_NS] * e->online, p->parameter[FAIR_BALANCE_INTERVAL_MAX_NS]);
	return vcpus * (2 * 8 * (interval_ns + p->parameter[FAIR_TICK_NS]) + p->parameter[FAIR_TICK_NS]);
}

#endif
