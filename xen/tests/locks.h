/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Spin locks as a model of Xen has them. Each knows who holds it, whether it is taken with interrupts off, which must
 * always be the same, and by its name its place in the order in which locks are waited for. Who tries for one may fail
 * without a reason, and whenever one is given back something else may happen before the caller goes on.
 */
#ifndef STEELYARD_MODEL_LOCKS_H
#define STEELYARD_MODEL_LOCKS_H

/* Who executes: what goes on, or what came between. */
enum model_context {
	MODEL_NOBODY,
	MODEL_FIRST,
	MODEL_BETWEEN,
	MODEL_CONTEXTS
};

typedef struct {
	enum model_context holder;
	const char *name;
	unsigned int rank;
	int interrupts; /* 0: not known yet, 1: on, -1: off */
} spinlock_t;

/* The order at the head of steelyard.c; what Xen holds where a pCPU joins comes before all. */
static const char *const model_order[] = { "another scheduler's", "told_lock", "hosts_lock", "&h->lock", "&h->idle_lock", "&q->lock.lock", "&d->lock.lock", "&h->shared.lock" };

enum {
	MODEL_RANK_HOST = 3,
	MODEL_RANK_QUEUE = 5,
	MODEL_RANKS = sizeof(model_order) / sizeof(model_order[0])
};

static enum model_context model_context = MODEL_FIRST;
static unsigned int model_held[MODEL_CONTEXTS][MODEL_RANKS];
static bool model_interrupts_off[MODEL_CONTEXTS];
static bool model_looks; /* the model itself looks at everything, whoever holds it */
static u64 model_locks, model_tries, model_misses;

static bool model_misses_lock(void);
static void model_comes_between(void);

#define DEFINE_SPINLOCK(it) spinlock_t it = { .name = #it }
#define spin_lock_init(it) (*(it) = (spinlock_t){ .name = #it })

static inline bool local_irq_is_enabled(void)
{
	return !model_interrupts_off[model_context];
}

static inline void local_irq_disable(void)
{
	model_interrupts_off[model_context] = true;
}

static inline void local_irq_enable(void)
{
	model_interrupts_off[model_context] = false;
}

static inline unsigned int model_rank(spinlock_t *lock)
{
	while (strcmp(lock->name, model_order[lock->rank])) {
		lock->rank++;
		ASSERT(lock->rank < MODEL_RANKS);
	}
	return lock->rank;
}

/* The last one of the order that is held; MODEL_RANKS if none is. */
static inline unsigned int model_last_held(void)
{
	unsigned int rank = MODEL_RANKS;

	while (rank-- && !model_held[model_context][rank])
		;
	return rank < MODEL_RANKS ? rank : MODEL_RANKS;
}

static inline void model_take(spinlock_t *lock)
{
	int interrupts = local_irq_is_enabled() ? 1 : -1;

	ASSERT(!lock->interrupts || lock->interrupts == interrupts);
	lock->interrupts = interrupts;
	lock->holder = model_context;
	model_held[model_context][model_rank(lock)]++;
}

static inline void spin_lock(spinlock_t *lock)
{
	ASSERT(lock->holder == MODEL_NOBODY);
	ASSERT(model_last_held() == MODEL_RANKS || model_last_held() < model_rank(lock));
	model_locks++;
	model_take(lock);
}

/* Of those held none is after it. */
static inline bool spin_trylock(spinlock_t *lock)
{
	ASSERT(model_last_held() == MODEL_RANKS || model_last_held() <= model_rank(lock));
	model_tries++;
	if (lock->holder != MODEL_NOBODY || model_misses_lock()) {
		model_misses++;
		return false;
	}
	model_take(lock);
	return true;
}

static inline void spin_unlock(spinlock_t *lock)
{
	ASSERT(lock->holder == model_context);
	lock->holder = MODEL_NOBODY;
	model_held[model_context][lock->rank]--;
	if (model_context == MODEL_FIRST)
		model_comes_between();
}

static inline bool spin_is_locked(const spinlock_t *lock)
{
	return model_looks || lock->holder == model_context;
}

static inline void spin_lock_irq(spinlock_t *lock)
{
	ASSERT(local_irq_is_enabled());
	local_irq_disable();
	spin_lock(lock);
}

static inline void spin_unlock_irq(spinlock_t *lock)
{
	spin_unlock(lock);
	local_irq_enable();
}

#define spin_lock_irqsave(lock, flags) \
	do { \
		(flags) = local_irq_is_enabled(); \
		local_irq_disable(); \
		spin_lock(lock); \
	} while (0)
#define spin_unlock_irqrestore(lock, flags) \
	do { \
		spin_unlock(lock); \
		if (flags) \
			local_irq_enable(); \
	} while (0)

/* Of two of the same kind the one with the lower address first. */
static inline void sched_spin_lock_double(spinlock_t *a, spinlock_t *b)
{
	spinlock_t *first = a < b ? a : b, *second = a < b ? b : a;

	spin_lock_irq(first);
	if (second != first) {
		ASSERT(second->holder == MODEL_NOBODY);
		model_take(second);
	}
}

static inline void sched_spin_unlock_double(spinlock_t *a, spinlock_t *b)
{
	if (a != b)
		spin_unlock(b);
	spin_unlock_irq(a);
}

#endif
