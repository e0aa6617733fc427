/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What libbpf gives a BPF program, for the model in model.c.
 */
#ifndef STEELYARD_MODEL_BPF_HELPERS_H
#define STEELYARD_MODEL_BPF_HELPERS_H

struct bpf_timer;
struct task_struct;
struct timer;
struct thread;

#define SEC(name)
#undef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#define __noinline __attribute__((__noinline__))
#define __weak
#define __ksym
#define __arg_trusted
#define __arg_nonnull
#define __kptr
#define __uint(name, value) int(*name)[value]
#define __type(name, type) type *name
#define barrier_var(variable) __asm__ volatile("" \
					       : "+r"(variable))
#define bpf_for(i, first, end) for ((i) = (first); (i) < (end); (i)++)
#define bpf_ksym_exists(function) model_exists_##function

static inline u64 bpf_ktime_get_ns(void);
static inline struct task_struct *bpf_get_current_task_btf(void);
static inline struct thread *model_storage(struct task_struct *p, u64 flags);
static inline void *model_lookup(void *map, const void *key);
static inline int model_update(void *map, const void *key, const void *value);
static inline void model_delete(void *map, const void *key);
static inline int model_set_callback(struct bpf_timer *timer, int (*callback)(void *, u32 *, struct timer *));
static inline int bpf_timer_start(struct bpf_timer *timer, u64 time_ns, u64 flags);
static inline struct task_struct *model_exchange(struct task_struct **task, struct task_struct *p);
static inline void bpf_probe_read_kernel(void *to, u32 size, const void *from);
static inline void bpf_probe_read_kernel_str(void *to, u32 size, const void *from);

#define bpf_task_storage_get(map, p, value, flags) model_storage(p, flags)
#define bpf_kptr_xchg(task, p) model_exchange(task, p)
#define bpf_map_lookup_elem(map, key) model_lookup(map, key)
#define bpf_map_update_elem(map, key, value, flags) model_update(map, key, value)
#define bpf_map_delete_elem(map, key) model_delete(map, key)
#define bpf_timer_init(timer, map, clock) ((void)(timer), 0)
#define bpf_timer_set_callback(timer, callback) model_set_callback(timer, callback)

#endif
