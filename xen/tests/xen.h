/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of Xen as a scheduler sees, for the model in model.c: the same names, our own and simpler
 * insides. A unit has one vCPU, a scheduling resource one pCPU.
 */
#ifndef STEELYARD_MODEL_XEN_H
#define STEELYARD_MODEL_XEN_H

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s_time_t;

static void model_failed(const char *what, const char *file, int line);

#define ASSERT(holds) ((holds) ? (void)0 : model_failed(#holds, __FILE__, __LINE__))
#define BUG() model_failed("BUG()", __FILE__, __LINE__)
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define DIV_ROUND_UP(a, b) (((a) + (b)-1) / (b))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define MICROSECS(us) ((s_time_t)(us)*1000)
#define write_atomic(at, value) (*(at) = (value))
#define ACCESS_ONCE(it) (*(volatile __typeof__(it) *)&(it))
#define smp_wmb() ((void)0)
#define __aligned(bytes) __attribute__((__aligned__(bytes)))
#define SMP_CACHE_BYTES 128
#define cf_check
#define __init
#define __initdata
#define __read_mostly
#define string_param(name, text) extern int model_unused
#define custom_param(name, function) \
	static int (*const model_##function)(const char *) __attribute__((unused)) = function
#define XENLOG_ERR
#define printk(...) ((void)snprintf(model_line, sizeof(model_line), "" __VA_ARGS__))
static char model_line[1024];

#define NR_CPUS 384
static unsigned int nr_cpu_ids;

/* ---- Memory and texts ---- */

#define xzalloc(type) ((type *)calloc(1, sizeof(type)))
#define xmalloc_array(type, count) ((type *)malloc((count) * sizeof(type)))
#define xzalloc_array(type, count) ((type *)model_zalloc((count) * sizeof(type), _Alignof(type)))
#define xzalloc_flex_struct(type, member, count) \
	((type *)calloc(1, sizeof(type) + (count) * sizeof(((type *)0)->member[0])))
static inline void *model_zalloc(size_t size, size_t alignment)
{
	void *memory = aligned_alloc(alignment < 16 ? 16 : alignment, DIV_ROUND_UP(size, 128) * 128);

	return memset(memory, 0, size);
}

#define MAX_PARAM_SIZE 128
#define ZERO_BLOCK_PTR ((void *)-1L)
#define xfree(memory) free(memory)
#define XFREE(memory) (free(memory), (memory) = NULL)
#define ERR_PTR(error) ((void *)(long)(error))
#define IS_ERR(pointer) ((unsigned long)(pointer) >= (unsigned long)-4095)
#define CONFIG_HYPFS
#define DOMID_FIRST_RESERVED 0x7ff0
#define scnprintf(text, size, ...) ((int)min((size_t)snprintf(text, size, __VA_ARGS__), (size_t)(size)-1))
#define safe_strcpy(to, from) snprintf(to, sizeof(to), "%s", from)
#define strlcat(to, from, size) strncat(to, from, (size)-strlen(to) - 1)

/* ---- Lists ---- */

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD(name) struct list_head name = { &name, &name }
#define list_entry(node, type, member) container_of(node, type, member)
#define list_empty(list) ((list)->next == (list))
#define list_for_each_entry(item, list, member) \
	for ((item) = list_entry((list)->next, __typeof__(*(item)), member); &(item)->member != (list); \
	     (item) = list_entry((item)->member.next, __typeof__(*(item)), member))

#define list_first_entry(list, type, member) list_entry((list)->next, type, member)
#define list_for_each_entry_safe(item, after, list, member) \
	for ((item) = list_entry((list)->next, __typeof__(*(item)), member), \
	    (after) = list_entry((item)->member.next, __typeof__(*(item)), member); \
	     &(item)->member != (list); \
	     (item) = (after), (after) = list_entry((item)->member.next, __typeof__(*(item)), member))

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list->prev = list;
}

static inline void list_add(struct list_head *node, struct list_head *after)
{
	node->next = after->next;
	node->prev = after;
	after->next->prev = node;
	after->next = node;
}

static inline void list_add_tail(struct list_head *node, struct list_head *list)
{
	list_add(node, list->prev);
}

static inline void list_del(struct list_head *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->next = node->prev = NULL;
}

static inline void list_move(struct list_head *node, struct list_head *list)
{
	list_del(node);
	list_add(node, list);
}

static inline void list_del_init(struct list_head *node)
{
	list_del(node);
	INIT_LIST_HEAD(node);
}

static inline void list_splice_init(struct list_head *from, struct list_head *to)
{
	if (list_empty(from))
		return;
	from->next->prev = to;
	from->prev->next = to->next;
	to->next->prev = from->prev;
	to->next = from->next;
	INIT_LIST_HEAD(from);
}

/* ---- Trees, which nothing balances here ---- */

struct rb_node {
	struct rb_node *parent, *rb_left, *rb_right;
};

struct rb_root {
	struct rb_node *rb_node;
};

#define RB_ROOT ((struct rb_root){ NULL })
#define rb_entry(node, type, member) container_of(node, type, member)

static inline void rb_link_node(struct rb_node *node, struct rb_node *parent, struct rb_node **link)
{
	node->parent = parent;
	node->rb_left = node->rb_right = NULL;
	*link = node;
}

static inline void rb_insert_color(struct rb_node *node, struct rb_root *root)
{
}

static inline struct rb_node *rb_leftmost(struct rb_node *node)
{
	while (node && node->rb_left)
		node = node->rb_left;
	return node;
}

static inline struct rb_node *rb_first(const struct rb_root *root)
{
	return rb_leftmost(root->rb_node);
}

static inline struct rb_node *rb_next(const struct rb_node *node)
{
	if (node->rb_right)
		return rb_leftmost(node->rb_right);
	while (node->parent && node == node->parent->rb_right)
		node = node->parent;
	return node->parent;
}

static inline void rb_put(struct rb_root *root, struct rb_node *old, struct rb_node *new)
{
	if (!old->parent)
		root->rb_node = new;
	else if (old->parent->rb_left == old)
		old->parent->rb_left = new;
	else
		old->parent->rb_right = new;
	if (new)
		new->parent = old->parent;
}

static inline void rb_erase(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *next;

	if (!node->rb_left || !node->rb_right) {
		rb_put(root, node, node->rb_left ? node->rb_left : node->rb_right);
		return;
	}
	next = rb_leftmost(node->rb_right);
	rb_put(root, next, next->rb_right);
	next->rb_left = node->rb_left;
	next->rb_right = node->rb_right;
	rb_put(root, node, next);
	next->rb_left->parent = next;
	if (next->rb_right)
		next->rb_right->parent = next;
}

/* ---- Sets of pCPUs ---- */

typedef struct {
	unsigned long bits[NR_CPUS / 64];
} cpumask_t;

static inline bool cpumask_test_cpu(unsigned int cpu, const cpumask_t *set)
{
	return set->bits[cpu / 64] >> cpu % 64 & 1;
}

static inline void cpumask_set_cpu(unsigned int cpu, cpumask_t *set)
{
	set->bits[cpu / 64] |= 1ULL << cpu % 64;
}

static inline void cpumask_clear_cpu(unsigned int cpu, cpumask_t *set)
{
	set->bits[cpu / 64] &= ~(1ULL << cpu % 64);
}

static inline unsigned int cpumask_next(int cpu, const cpumask_t *set)
{
	unsigned int next = cpu + 1;

	while (next < nr_cpu_ids && !cpumask_test_cpu(next, set))
		next++;
	return next;
}

#define cpumask_first(set) cpumask_next(-1, set)
#define cpumask_empty(set) (cpumask_first(set) >= nr_cpu_ids)
#define for_each_cpu(cpu, set) \
	for ((cpu) = cpumask_first(set); (cpu) < nr_cpu_ids; (cpu) = cpumask_next(cpu, set))
#define BITS_TO_LONGS(bits) DIV_ROUND_UP(bits, 64)
#define cpumask_bits(set) ((set)->bits)
#define cpumask_copy(to, from) (*(to) = *(from))
#define cpumask_clear(set) ((void)memset(set, 0, sizeof(cpumask_t)))
#define cpumask_equal(a, b) (!memcmp(a, b, sizeof(cpumask_t)))

static inline void cpumask_and(cpumask_t *to, const cpumask_t *a, const cpumask_t *b)
{
	for (int i = 0; i < NR_CPUS / 64; i++)
		to->bits[i] = a->bits[i] & b->bits[i];
}

static inline void cpumask_andnot(cpumask_t *to, const cpumask_t *a, const cpumask_t *b)
{
	for (int i = 0; i < NR_CPUS / 64; i++)
		to->bits[i] = a->bits[i] & ~b->bits[i];
}

static inline unsigned int cpumask_weight(const cpumask_t *set)
{
	unsigned int weight = 0;

	for (int i = 0; i < NR_CPUS / 64; i++)
		weight += __builtin_popcountll(set->bits[i]);
	return weight;
}

/* ---- The machine ---- */

static u64 model_now;
static unsigned int model_cpu; /* the one that executes */
static unsigned int model_socket[NR_CPUS], model_node[NR_CPUS];
static cpumask_t model_core[NR_CPUS], cpu_online_map;
static cpumask_t *model_cpu_sibling_mask[NR_CPUS];
static int model_sched_urgent_count[NR_CPUS];
static bool model_softirq[NR_CPUS];

/* Clocks of pCPUs differ a little. */
#define NOW() ((s_time_t)(model_now + model_cpu % 3 * 100))
#define smp_processor_id() model_cpu
#define per_cpu(variable, cpu) (model_##variable[cpu])
#define cpu_to_socket(cpu) model_socket[cpu]
#define cpu_to_node(cpu) model_node[cpu]
#define for_each_online_cpu(cpu) for_each_cpu (cpu, &cpu_online_map)
#define num_present_cpus() nr_cpu_ids
#define atomic_inc(count) (++*(count))
#define atomic_dec(count) (--*(count))
#define set_bit(bit, set) ((void)((set)[(bit) / 64] |= 1ULL << (bit) % 64))
#define clear_bit(bit, set) ((void)((set)[(bit) / 64] &= ~(1ULL << (bit) % 64)))
#define test_bit(bit, set) ((bool)((set)[(bit) / 64] >> (bit) % 64 & 1))
#define cpu_relax() ((void)0)
#define SCHEDULE_SOFTIRQ 0
#define cpu_raise_softirq(cpu, which) (model_softirq[cpu] = true)

#include "locks.h"
#include "trace.h"

struct timer {
	s_time_t expires;
	unsigned int cpu;
	void (*function)(void *data);
	void *data;
	bool active;
	struct list_head in_timers;
};

static LIST_HEAD(model_timers);

static inline void init_timer(struct timer *timer, void (*function)(void *), void *data, unsigned int cpu)
{
	timer->function = function;
	timer->data = data;
	timer->active = false;
	timer->cpu = cpu;
	list_add_tail(&timer->in_timers, &model_timers);
}

static inline void set_timer(struct timer *timer, s_time_t expires)
{
	timer->expires = expires;
	timer->active = true;
}

#define stop_timer(timer) ((timer)->active = false)
#define timer_is_active(timer) ((timer)->active)
#define kill_timer(timer) list_del(&(timer)->in_timers)
#define migrate_timer(timer, to) \
	do { \
		ASSERT((timer)->function && (to) < nr_cpu_ids); \
		(timer)->cpu = (to); \
	} while (0)

/* ---- What Xen schedules ---- */

enum {
	RUNSTATE_running,
	RUNSTATE_runnable,
	RUNSTATE_blocked,
};

enum {
	PAUSED_BLOCKED = 1,
	PAUSED_POLLING = 2, /* beside that */
	PAUSED_BY_ADMINISTRATOR = 4,
	PAUSED_MIGRATING = 8
};

struct vcpu {
	struct sched_unit *sched_unit;
	unsigned int processor;
	unsigned int pause_flags;
	int new_state;
	bool is_urgent;
	bool is_idle;
	bool sleeps; /* it was stopped, and the scheduler is told soon */
	bool wakes; /* likewise */
};

struct domain {
	unsigned int domain_id;
	unsigned int max_vcpus;
	struct vcpu *vcpu[16];
	void *sched_priv;
	struct cpupool *cpupool;
};

struct sched_resource {
	unsigned int master_cpu;
	spinlock_t *schedule_lock;
	struct cpupool *pool; /* or null */
	struct sched_unit *curr;
	struct sched_unit *prev; /* its context is not saved */
	struct sched_unit *idle;
	u64 due_ns; /* of the timer that ends a slice; 0: off */
	bool tasklet;
};

struct sched_unit {
	struct domain *domain;
	struct vcpu *vcpu_list;
	void *priv;
	struct sched_resource *res;
	struct sched_unit *next_task;
	s_time_t next_time;
	unsigned int unit_id;
	bool is_running;
	bool migrated;
	cpumask_t cpu_hard_affinity[1];
	cpumask_t cpu_soft_affinity[1];
};

struct scheduler;

struct cpupool {
	struct scheduler *sched;
	cpumask_t res_valid[1];
	unsigned int gran;
	unsigned int sched_gran;
};

static struct sched_resource model_resource[NR_CPUS];

#define get_sched_res(cpu) (&model_resource[cpu])
#define sched_idle_unit(cpu) (model_resource[cpu].idle)
#define sched_get_resource_cpu(cpu) (cpu)
#define sched_unit_master(unit) ((unit)->res->master_cpu)
#define is_idle_unit(unit) ((unit)->vcpu_list->is_idle)
#define unit_runnable(unit) (!(unit)->vcpu_list->pause_flags)
#define for_each_sched_unit_vcpu(unit, v) for ((v) = (unit)->vcpu_list; (v); (v) = NULL)

static inline bool unit_runnable_state(const struct sched_unit *unit)
{
	unit->vcpu_list->new_state = unit_runnable(unit) ? RUNSTATE_running : RUNSTATE_blocked;
	return unit_runnable(unit);
}

static inline void sched_set_res(struct sched_unit *unit, struct sched_resource *res)
{
	unit->res = res;
	unit->vcpu_list->processor = res->master_cpu;
}

static inline spinlock_t *unit_schedule_lock_irq(const struct sched_unit *unit)
{
	spin_lock_irq(unit->res->schedule_lock);
	return unit->res->schedule_lock;
}

/* Xen counts on this. */
static inline void unit_schedule_unlock_irq(spinlock_t *lock, const struct sched_unit *unit)
{
	ASSERT(lock == unit->res->schedule_lock);
	spin_unlock_irq(lock);
}

static inline const cpumask_t *sched_get_opt_cpumask(unsigned int gran, unsigned int cpu)
{
	static cpumask_t alone;

	alone = (cpumask_t){ 0 };
	cpumask_set_cpu(cpu, &alone);
	return &alone;
}

/* ---- The scheduler, and what the toolstack asks it ---- */

enum {
	XEN_DOMCTL_SCHEDOP_putinfo,
	XEN_DOMCTL_SCHEDOP_getinfo,
	XEN_DOMCTL_SCHEDOP_putvcpuinfo,
	XEN_DOMCTL_SCHEDOP_getvcpuinfo,
	XEN_SYSCTL_SCHEDOP_putinfo,
	XEN_SYSCTL_SCHEDOP_getinfo,
	XEN_SCHEDULER_CREDIT,
	XEN_SCHEDULER_CREDIT2,
	XEN_SCHEDULER_RTDS,
	XEN_DOMCTL_SCHEDRT_extra = 1,
	XEN_SYSCTL_SCHED_RATELIMIT_MAX = 500000,
	XEN_SYSCTL_CSCHED_TSLICE_MAX = 1000,
	XEN_SYSCTL_CSCHED_MGR_DLY_MAX_US = 100000
};

struct xen_domctl_sched_rtds {
	u32 period, budget, flags; /* times in us */
};

struct xen_domctl_schedparam_vcpu {
	union {
		struct xen_domctl_sched_rtds rtds;
	} u;
	u32 vcpuid;
};

struct xen_domctl_scheduler_op {
	int cmd;
	union {
		struct {
			u16 weight, cap;
		} credit2;
		struct xen_domctl_sched_rtds rtds;
		struct {
			struct xen_domctl_schedparam_vcpu *vcpus;
			u32 nr_vcpus;
		} v;
	} u;
};

struct xen_sysctl_scheduler_op {
	int cmd;
	union {
		struct {
			u32 tslice_ms, ratelimit_us, vcpu_migr_delay_us;
		} sched_credit;
		struct {
			u32 ratelimit_us;
		} sched_credit2;
	} u;
};

static inline bool hypercall_preempt_check(void)
{
	return false;
}

struct scheduler {
	const char *name;
	const char *opt_name;
	unsigned int sched_id;
	void *sched_data;
	struct cpupool *cpupool;
	int (*global_init)(void);
	int (*init)(struct scheduler *);
	void (*deinit)(struct scheduler *);
	void (*free_udata)(const struct scheduler *, void *);
	void *(*alloc_udata)(const struct scheduler *, struct sched_unit *, void *);
	void *(*alloc_pdata)(const struct scheduler *, int);
	void (*deinit_pdata)(const struct scheduler *, void *, int);
	void *(*alloc_domdata)(const struct scheduler *, struct domain *);
	void (*free_domdata)(const struct scheduler *, void *);
	spinlock_t *(*switch_sched)(struct scheduler *, unsigned int, void *, void *);
	void (*insert_unit)(const struct scheduler *, struct sched_unit *);
	void (*remove_unit)(const struct scheduler *, struct sched_unit *);
	void (*sleep)(const struct scheduler *, struct sched_unit *);
	void (*wake)(const struct scheduler *, struct sched_unit *);
	void (*yield)(const struct scheduler *, struct sched_unit *);
	void (*context_saved)(const struct scheduler *, struct sched_unit *);
	void (*do_schedule)(const struct scheduler *, struct sched_unit *, s_time_t, bool);
	struct sched_resource *(*pick_resource)(const struct scheduler *, const struct sched_unit *);
	void (*migrate)(const struct scheduler *, struct sched_unit *, unsigned int);
	int (*adjust)(const struct scheduler *, struct domain *, struct xen_domctl_scheduler_op *);
	void (*adjust_affinity)(const struct scheduler *, struct sched_unit *, const cpumask_t *,
				const cpumask_t *);
	int (*adjust_global)(const struct scheduler *, struct xen_sysctl_scheduler_op *);
	void (*dump_settings)(const struct scheduler *);
	void (*dump_cpu_state)(const struct scheduler *, int);
	void (*move_timers)(const struct scheduler *, struct sched_resource *);
};

#include "hypfs.h"

#define REGISTER_SCHEDULER(it) static struct scheduler *const model_scheduler = &it

#endif
