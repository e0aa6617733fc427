/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A Xen guest of a few kB, paravirtual or with -DPVH one of that kind, whose vCPUs compute and sleep in turn
 * and measure what they get. No library, no interrupts: events stay masked, time and run states are read from memory that
 * Xen keeps up to date, and sleep is a poll that only its timeout ends.
 *
 * Command line, times in ns of Xen's clock (since the host's boot):
 *	begin=, end=	what happens between the two is measured
 *	start=		until so long after begin it sleeps
 *	compute=	CPU time between two sleeps; 0: no sleep
 *	sleep=		length of a sleep
 *	jitter=		percent by which each of both times is longer or shorter, evenly distributed
 *	seed=		above 0, of that distribution
 *	hold=		CPU time for which it holds a ticket lock of all its vCPUs, after each compute=; no sleep then
 *	yields=		1: yields after every few ms of computing, as one does that has spun for a lock
 *	hostile=	1: asks the scheduler for something every few us, all that a guest can
 *	spins=		1: it waits for locks in loops of PAUSE, which the processor finds, and never yields by itself
 *	vcpus=
 * At the end vCPU 0 prints a line for each vCPU on the console; the domain then sleeps for good.
 */
#include <stdint.h>
#include <stddef.h>

#define __XEN_INTERFACE_VERSION__ 0x00040e00
#include <public/xen.h>
#include <public/vcpu.h>
#include <public/sched.h>
#include <public/elfnote.h>
#include <public/event_channel.h>
#include <public/io/console.h>

typedef uint64_t u64;
typedef uint32_t u32;

#define VCPUS_MAX 16
#define STACK_BYTES 8192
#define PAGE_BYTES 4096UL

struct measured {
	struct vcpu_runstate_info runstate; /* Xen writes it at every switch to or from this vCPU */
	u64 at_begin[4], at_end[4];
	u64 seen_entry, seen_waited; /* the last run state looked at */
	u64 worst_wait, switches;
	u64 rounds; /* of computing; of one with locks, how often it had the lock */
	u64 pauses;
	u64 asked; /* by one that is hostile */
	u64 random;
	volatile u32 done;
} __attribute__((aligned(64)));

static volatile struct xencons_interface *console;
static evtchn_port_t console_port;
static struct measured measured[VCPUS_MAX];
unsigned char stacks[VCPUS_MAX][STACK_BYTES] __attribute__((aligned(4096)));
static struct vcpu_info vcpu_infos[PAGE_BYTES / sizeof(struct vcpu_info)] __attribute__((aligned(4096)));
static const char *command_line;
static u64 begin, end, start_after, compute, hold, sleep_time, jitter, seed, yields, hostile, spins, vcpus;
static u64 rounds_of_batch = 200; /* between two PAUSEs of one that computes */
static volatile u64 sink;

/* Of another vCPU than the first. */
__asm__(".text\n.globl start_other\nstart_other:\n"
	"	cld\n"
	"	xor %ebp, %ebp\n"
	"	call run\n" /* its number is in rdi */
	"1:	jmp 1b\n");
extern void start_other(void);

/* What is in memory is written and read again here. */
static void barrier(void)
{
	__asm__ volatile("" ::
				 : "memory");
}

static long hypercall(long number, long a, long b, long c);

#ifdef PVH
#include "pvh.h"
#else
#include "pv.h"
#endif

static long hypercall(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile(HYPERCALL
			 : "=a"(result), "+D"(a), "+S"(b), "+d"(c)
			 : "0"(number)
			 : "rcx", "r11", "r10", "r8", "memory");
	return result;
}

/* ---- Time ---- */

static u64 ticks(void)
{
	u32 low, high;

	__asm__ volatile("lfence; rdtsc"
			 : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

static u64 now(u64 vcpu)
{
	volatile struct vcpu_time_info *time = &vcpu_infos[vcpu].time;
	u64 delta, system;
	u32 version;

	do {
		version = time->version;
		barrier();
		delta = ticks() - time->tsc_timestamp;
		delta = time->tsc_shift < 0 ? delta >> -time->tsc_shift : delta << time->tsc_shift;
		system = time->system_time +
			 (u64)((unsigned __int128)delta * time->tsc_to_system_mul >> 32);
		barrier();
	} while (version & 1 || version != time->version);
	return system;
}

static void sleep_until(u64 time)
{
	struct sched_poll poll = { .nr_ports = 0, .timeout = time };

	hypercall(__HYPERVISOR_sched_op, SCHEDOP_poll, (long)&poll, 0);
}

/* Time in each run state up to now; returns now. */
static u64 look(u64 vcpu, u64 times[4])
{
	struct measured *m = &measured[vcpu];
	volatile struct vcpu_runstate_info *r = &m->runstate;
	u64 entry, time, i;

	do {
		entry = r->state_entry_time;
		for (i = 0; i < 4; i++)
			times[i] = r->time[i];
		time = now(vcpu);
	} while (entry != r->state_entry_time);
	if (time > entry)
		times[RUNSTATE_running] += time - entry;
	if (entry != m->seen_entry) {
		/* It ran last before at most one wait: a run is longer than the time between two looks. */
		u64 wait = times[RUNSTATE_runnable] - m->seen_waited;

		if (time >= begin) {
			m->switches++;
			if (wait > m->worst_wait)
				m->worst_wait = wait;
		}
		m->seen_entry = entry;
		m->seen_waited = times[RUNSTATE_runnable];
	}
	return time;
}

/* ---- Console ---- */

static void publish(u32 produced)
{
	struct evtchn_send send = { .port = console_port };

	barrier();
	console->out_prod = produced;
	hypercall(__HYPERVISOR_event_channel_op, EVTCHNOP_send, (long)&send, 0);
}

static void print(const char *text)
{
	u32 produced = console->out_prod;

	for (; *text; text++) {
		while (produced - console->out_cons >= sizeof(console->out)) {
			publish(produced);
			sleep_until(now(0) + 1000000);
		}
		console->out[produced++ & (sizeof(console->out) - 1)] = *text;
	}
	publish(produced);
}

static void print_number(u64 value)
{
	char text[24], *digit = text + sizeof(text);

	*--digit = '\0';
	do {
		*--digit = '0' + value % 10;
		value /= 10;
	} while (value);
	print(" ");
	print(digit);
}

static u64 option(const char *name)
{
	const char *text = command_line;
	u64 value = 0, i;

	for (; *text; text++) {
		if (text != command_line && text[-1] != ' ')
			continue;
		for (i = 0; name[i] && text[i] == name[i]; i++)
			;
		if (name[i] || text[i] != '=')
			continue;
		for (text += i + 1; *text >= '0' && *text <= '9'; text++)
			value = value * 10 + (u64)(*text - '0');
		break;
	}
	return value;
}

/* ---- What a vCPU does ---- */

/*
 * One emulated processor runs until this instruction, or until a device's next timer; with a few us
 * between two of them all processors run at the same speed. Without, the first ones leave the others
 * nothing for tens of ms.
 */
static void let_other_pcpus_run(void)
{
	__asm__ volatile("pause");
}

/* Yields, timers that are due at once or soon, and sleeps that end at once or soon, in turn. */
static void ask_for_something(u64 vcpu)
{
	u64 time = now(vcpu);
	struct vcpu_set_singleshot_timer timer = { .timeout_abs_ns = time + 2000 };

	switch (measured[vcpu].asked++ % 8) {
	case 0:
		timer.timeout_abs_ns = time;
		/* fallthrough */
	case 1:
		hypercall(__HYPERVISOR_vcpu_op, VCPUOP_set_singleshot_timer, (long)vcpu, (long)&timer);
		break;
	case 2:
		sleep_until(time);
		break;
	case 3:
		sleep_until(time + 5000);
		break;
	default:
		hypercall(__HYPERVISOR_sched_op, SCHEDOP_yield, 0, 0);
		break;
	}
}

/* The time with its jitter; xorshift64 by G. Marsaglia. */
static u64 draw(struct measured *m, u64 time)
{
	u64 range = time * jitter / 50;

	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return time - range / 2 + (range ? m->random % range : 0);
}

/* So much CPU time, or up to the end. Whether that has come, and then the times. */
static int compute_for(u64 vcpu, u64 length, u64 times[4])
{
	u64 until, i;

	look(vcpu, times);
	until = times[RUNSTATE_running] + length;
	do {
		for (i = 0; i < rounds_of_batch; i++)
			sink++;
		let_other_pcpus_run();
		if (look(vcpu, times) >= end)
			return 1;
	} while (times[RUNSTATE_running] < until);
	return 0;
}

/*
 * A ticket lock, as Linux has had since 2.6.25. Who has spun for a window, the 24 us of a scenario's
 * pause_loop_window, yields: a paravirtual guest's pause loops are told to nobody else.
 */
static void contend(u64 vcpu, u64 times[4])
{
	static volatile u32 next, owner;
	struct measured *m = &measured[vcpu];
	u64 yield_at, i;
	u32 ticket;

	for (;;) {
		if (compute_for(vcpu, draw(m, compute), times))
			return;
		ticket = __atomic_fetch_add(&next, 1, __ATOMIC_SEQ_CST);
		yield_at = times[RUNSTATE_running] + 24000;
		while (owner != ticket) {
			for (i = spins ? 16 : 1; i && owner != ticket; i--)
				let_other_pcpus_run();
			if (look(vcpu, times) >= end)
				return;
			if (spins || times[RUNSTATE_running] < yield_at)
				continue;
			hypercall(__HYPERVISOR_sched_op, SCHEDOP_yield, 0, 0);
			yield_at = times[RUNSTATE_running] + 24000;
		}
		m->rounds++;
		if (compute_for(vcpu, hold, times))
			return;
		owner = ticket + 1;
	}
}

static void take_turns(u64 vcpu, u64 times[4])
{
	struct measured *m = &measured[vcpu];
	u64 compute_until, time, i;

	compute_until = times[RUNSTATE_running] + draw(m, compute);
	for (;;) {
		for (i = 0; i < rounds_of_batch; i++)
			sink++;
		let_other_pcpus_run();
		if (yields && !(++m->pauses % 256))
			hypercall(__HYPERVISOR_sched_op, SCHEDOP_yield, 0, 0);
		if (hostile)
			ask_for_something(vcpu);
		time = look(vcpu, times);
		if (time >= end)
			return;
		if (!compute || times[RUNSTATE_running] < compute_until)
			continue;
		m->rounds++;
		time += draw(m, sleep_time);
		sleep_until(time < end ? time : end);
		time = look(vcpu, times);
		if (time >= end)
			return;
		compute_until = times[RUNSTATE_running] + draw(m, compute);
	}
}

static void work(u64 vcpu)
{
	struct measured *m = &measured[vcpu];
	u64 times[4], i;

	while (now(vcpu) < begin)
		sleep_until(begin);
	look(vcpu, m->at_begin);
	m->worst_wait = 0;
	m->switches = 0;
	m->random = seed * VCPUS_MAX + vcpu;
	while (now(vcpu) < begin + start_after)
		sleep_until(begin + start_after);
	look(vcpu, times);
	if (hold)
		contend(vcpu, times);
	else
		take_turns(vcpu, times);
	for (i = 0; i < 4; i++)
		m->at_end[i] = times[i];
	barrier();
	m->done = 1;
}

void run(u64 vcpu)
{
	struct vcpu_register_vcpu_info place = {
		.mfn = frame_of(vcpu_infos),
		.offset = (u32)(vcpu * sizeof(struct vcpu_info)),
	};
	struct vcpu_register_runstate_memory_area area = { .addr.v = &measured[vcpu].runstate };

	hypercall(__HYPERVISOR_vcpu_op, VCPUOP_register_vcpu_info, (long)vcpu, (long)&place);
	hypercall(__HYPERVISOR_vcpu_op, VCPUOP_register_runstate_memory_area, (long)vcpu, (long)&area);
	work(vcpu);
	if (!vcpu)
		return;
	for (;;)
		sleep_until(now(vcpu) + 1000000000000UL);
}

static void start_others(void)
{
	u64 vcpu;

	for (vcpu = 1; vcpu < vcpus; vcpu++) {
		if (hypercall(__HYPERVISOR_vcpu_op, VCPUOP_initialise, (long)vcpu, (long)context_of(vcpu)) ||
		    hypercall(__HYPERVISOR_vcpu_op, VCPUOP_up, (long)vcpu, 0)) {
			print("a vCPU did not start\r\n");
			return;
		}
	}
}

void start(void *told)
{
	static const int states[] = { RUNSTATE_running, RUNSTATE_runnable, RUNSTATE_blocked, RUNSTATE_offline };
	u64 vcpu, i;

	command_line = begin_machine(told);
	begin = option("begin");
	end = option("end");
	start_after = option("start");
	compute = option("compute");
	hold = option("hold");
	sleep_time = option("sleep");
	jitter = option("jitter");
	seed = option("seed");
	yields = option("yields");
	hostile = option("hostile");
	spins = option("spins");
	/* 80 us: PAUSEs that far apart are no loop. */
	if (spins)
		rounds_of_batch = 4000;
	vcpus = option("vcpus");
	if (vcpus > VCPUS_MAX)
		vcpus = VCPUS_MAX;
	start_others();
	run(0);
	for (vcpu = 0; vcpu < vcpus; vcpu++) {
		struct measured *m = &measured[vcpu];

		while (!m->done)
			sleep_until(now(0) + 10000000);
		print("vcpu");
		print_number(vcpu);
		for (i = 0; i < 4; i++)
			print_number(m->at_end[states[i]] - m->at_begin[states[i]]);
		print_number(m->worst_wait);
		print_number(m->switches);
		print_number(m->rounds);
		print("\r\n");
	}
	print("end\r\n");
	for (;;)
		sleep_until(now(0) + 1000000000000UL);
}

/* The compiler calls it to copy structures. */
void *memset(void *to, int value, size_t size)
{
	char *byte = to;

	while (size--)
		*byte++ = (char)value;
	return to;
}

void *memcpy(void *to, const void *from, size_t size)
{
	char *byte = to;
	const char *source = from;

	while (size--)
		*byte++ = *source++;
	return to;
}
