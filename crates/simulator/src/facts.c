// SPDX-License-Identifier: GPL-2.0-only
/* What `engine.rs` must agree with: the engine's structs, and those of host.c. */
/* Whichever: the layout is the same. */
#define SIMULATED_DISCIPLINE 0
#define SIMULATED_CALLS simulated_calls
#include "host.c"
#include "engine/others.h"
#include "facts.h"

void facts(void);

void facts(void)
{
	CONSTANT(SY_DISCIPLINES);

	SIZE(engine_vcpu);
	FIELD(engine_vcpu, state);
	FIELD(engine_vcpu, key);
	FIELD(engine_vcpu, since_ns);
	FIELD(engine_vcpu, parked_ns);
	FIELD(engine_vcpu, status);
	FIELD(engine_vcpu, domain);
	FIELD(engine_vcpu, queue);
	FIELD(engine_vcpu, ran_on);
	FIELD(engine_vcpu, move_to);
	FIELD(engine_vcpu, queued);
	FIELD(engine_vcpu, parked);
	FIELD(engine_vcpu, requeue);
	FIELD(engine_vcpu, woken);
	FIELD(engine_vcpu, saving);
	FIELD(engine_vcpu, unplaced);
	FIELD(simulated_vcpu, allowed);
	FIELD(simulated_vcpu, preferred);

	SIZE(simulated_domain);
	FIELD(simulated_domain, engine.state);
	FIELD(simulated_domain, engine.resets);
	FIELD(simulated_domain, engine.summoned);
	FIELD(simulated_domain, first_vcpu);
	FIELD(simulated_domain, end_vcpu);

	SIZE(simulated_queue);
	FIELD(simulated_queue, engine.state);
	FIELD(simulated_queue, engine.balance);
	FIELD(simulated_queue, engine.first_pcpu);
	FIELD(simulated_queue, engine.end_pcpu);
	FIELD(simulated_queue, engine.occupied);
	FIELD(simulated_queue, waiting);
	FIELD(simulated_queue, members);
	FIELD(simulated_queue, waiting_count);
	FIELD(simulated_queue, members_count);

	SIZE(simulated_pcpu);
	FIELD(simulated_pcpu, engine.state);
	FIELD(simulated_pcpu, engine.charged_ns);
	FIELD(simulated_pcpu, engine.tick_ns);
	FIELD(simulated_pcpu, engine.turn_end_ns);
	FIELD(simulated_pcpu, engine.turn_left_ns);
	FIELD(simulated_pcpu, engine.current);
	FIELD(simulated_pcpu, engine.queue);
	FIELD(simulated_pcpu, engine.paused);
	FIELD(simulated_pcpu, engine.vcpus);
	FIELD(simulated_pcpu, engine.interrupted);
	FIELD(simulated_pcpu, engine.occupied);
	FIELD(simulated_pcpu, engine.online);
	FIELD(simulated_pcpu, engine.lesser);
	FIELD(simulated_pcpu, engine.tick_missed);

	SIZE(simulated_host);
	FIELD(simulated_host, engine.accounting);
	FIELD(simulated_host, engine.governor);
	FIELD(simulated_host, engine.began_ns);
	FIELD(simulated_host, engine.pcpus);
	FIELD(simulated_host, engine.level_pcpus);
	FIELD(simulated_host, engine.queues);
	FIELD(simulated_host, engine.online);
	FIELD(simulated_host, engine.rotor);
	FIELD(simulated_host, policy);
	FIELD(simulated_host, simulation);
	FIELD(simulated_host, tables);

	SIZE(simulated_tables);
	FIELD(simulated_tables, vcpus);
	FIELD(simulated_tables, domains);
	FIELD(simulated_tables, queues);
	FIELD(simulated_tables, pcpus);
	FIELD(simulated_tables, vcpu_bytes);
	FIELD(simulated_tables, domain_bytes);
	FIELD(simulated_tables, queue_bytes);
	FIELD(simulated_tables, pcpu_bytes);
	FIELD(simulated_tables, sets);
	FIELD(simulated_tables, idle);
	FIELD(simulated_tables, waited);
	FIELD(simulated_tables, lesser);
	FIELD(simulated_tables, words);
	FIELD(simulated_tables, account_count);
	FIELD(simulated_tables, account_order);

	SIZE(simulated_calls);
	FIELD(simulated_calls, begin);
	FIELD(simulated_calls, queue_end);
	FIELD(simulated_calls, queue_begin);
	FIELD(simulated_calls, group_begin);
	FIELD(simulated_calls, domain_begin);
	FIELD(simulated_calls, vcpu_begin);
	FIELD(simulated_calls, wake);
	FIELD(simulated_calls, block);
	FIELD(simulated_calls, spin);
	FIELD(simulated_calls, interrupt_pcpu);
	FIELD(simulated_calls, choose);
	FIELD(simulated_calls, occupy);
	FIELD(simulated_calls, balance_queue);
	FIELD(simulated_calls, tick_of);
	FIELD(simulated_calls, vcpu_timer_of);
	FIELD(simulated_calls, domain_timer_of);
	FIELD(simulated_calls, account);
	FIELD(simulated_calls, sample_all);

	SIZE(engine_line);
	FIELD(engine_line, time_ns);

	SIZE(engine_other);
	FIELD(engine_other, time_ns);
	FIELD(engine_other, line);
	FIELD(engine_other, is_known);

	SIZE(engine_turns);
	FIELD(engine_turns, ahead_ns);
	FIELD(engine_turns, changed_ns);
	FIELD(engine_turns, run);
	FIELD(engine_turns, yields);

	SIZE(waiting);
	FIELD(waiting, key);
	FIELD(waiting, vcpu);
}
