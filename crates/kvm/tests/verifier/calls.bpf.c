/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler does at each of the kernel's calls, as programs that a kernel without sched_ext reads too: of that
 * nothing is called here. They are never run (tests/verifier.rs). There
 * is one governor more than policies have: it fits, too.
 */
#include "../../bpf/kernel.h"
#include "tests/more_governors.h"

#define scx_bpf_select_cpu_dfl(p, cpu, flags, idle) ((s32)bpf_get_prandom_u32())
#define scx_bpf_dsq_insert(p, queue, slice_ns, flags) ((void)(slice_ns))
#define scx_bpf_dsq_move_to_local(queue) ((bool)bpf_get_prandom_u32())
#define scx_bpf_create_dsq(queue, node) ((s32)bpf_get_prandom_u32())
#define scx_bpf_dsq_nr_queued(queue) ((s32)bpf_get_prandom_u32())
#define scx_bpf_kick_cpu(cpu, flags) ((void)(cpu))
#define scx_bpf_task_cpu(p) ((s32)bpf_get_prandom_u32())
#define scx_bpf_error_bstr(format, data, length) ((void)(format), (void)(data))
#define scx_bpf_dump_bstr(format, data, length) ((void)(format), (void)(data))
#define scx_bpf_reenqueue_local() 0
#define scx_bpf_task_set_slice(p, slice_ns) ((void)(slice_ns))
#define scx_bpf_task_set_dsq_vtime(p, time_ns) ((void)(time_ns))
#define __scx_bpf_dsq_insert_vtime(p, how) ((void)(how))
#define scx_bpf_dsq_insert_vtime(p, queue, slice_ns, time_ns, flags) ((void)(time_ns))
#define scx_bpf_pick_idle_cpu(mask, flags) ((s32)bpf_get_prandom_u32())

#include "../../bpf/steelyard.bpf.c"

struct call {
	u32 vcpu, pcpu, domain, queue;
	u64 ns;
	bool flag;
};

#define CALL(name, ...) \
	SEC("syscall") \
	int call_##name(struct call *c) \
	{ \
		return __VA_ARGS__; \
	}

CALL(enqueue, adopt(bpf_get_current_task_btf(), c->ns) + arrive(c->vcpu))
CALL(dispatch, choose(c->pcpu, c->vcpu, c->ns, c->ns))
CALL(stopping, occupy(c->pcpu, c->vcpu))
CALL(quiescent, depart(c->vcpu))
CALL(exit_task, depart(c->vcpu) + end(c->vcpu))
CALL(yield, let_others(c->vcpu, c->pcpu, c->flag))
CALL(change, change())
CALL(timer, time_passed(c->pcpu))
CALL(vcpu_timer, vcpu_time(c->vcpu))
CALL(domain_timer, domain_time(c->domain) + unpark_one(c->domain))
CALL(round, round_begins(c->flag) + account_goes_on() + sample_goes_on())
CALL(later, balance_goes_on(c->queue) + settle_one(c->vcpu))
