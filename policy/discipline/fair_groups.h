/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Groups as entities, as Linux's control groups are: part of fair.h, which has the parameters.
 *
 * In each queue a domain of several vCPUs is one entity among those that share the queue, and its vCPUs share what it has
 * there; domains may be in a group, which then is the entity. At each level the same holds as of vCPUs in a queue: weights,
 * virtual time, lag, deadlines. An entity's weight is its part of the domain's, by load: weights of who runs or waits in
 * it here, against those in all queues,
 *	domain's weight x here / (here + elsewhere),
 * here the greater of now and average, elsewhere the average, taken anew when it has changed by a 64th, at most once a
 * ms: calc_group_shares() and update_tg_load_avg() of kernel/sched/fair.c. Who is next is decided from the outermost
 * level inwards.
 *
 * A queue has room for SY_QUEUE_GROUPS groups. The vCPUs of a domain that finds none share the queue themselves, each with
 * an equal part of the weight, and so do groups that find none for what is around them, or are in more than FAIR_DEPTH. A
 * group that nobody belongs to keeps its place, and its lag, until another needs it.
 */
#ifndef STEELYARD_FAIR_GROUPS_H
#define STEELYARD_FAIR_GROUPS_H

#include "fair_sums.h"

/* Groups within groups, a domain the innermost. */
#define FAIR_DEPTH 4
/* update_tg_load_avg(): time between two changes, and part of a load that is none. */
#define FAIR_TOLD_NS SY_MS
#define FAIR_TOLD_PART 64

static inline bool fair_entities(const struct sy_policy *p)
{
	return SY_QUEUE_GROUPS && SY_CHOICE(p, FAIR_GROUPS) == FAIR_GROUPS_ENTITIES && fair_by_deadline(p);
}

/* The one of this number in the queue, or 0. */
static inline struct fair_group *fair_group(struct fair_queue *f, u32 number)
{
#if SY_QUEUE_GROUPS
	struct sy_queue *q = (struct sy_queue *)((char *)f - __builtin_offsetof(struct sy_queue, state));

	if (number)
		return (struct fair_group *)q->group[number - 1];
#endif
	return 0;
}

static inline const struct fair_group *fair_group_const(const struct fair_queue *f, u32 number)
{
#if SY_QUEUE_GROUPS
	const struct sy_queue *q =
		(const struct sy_queue *)((const char *)f - __builtin_offsetof(struct sy_queue, state));

	if (number)
		return (const struct fair_group *)q->group[number - 1];
#endif
	return 0;
}

/* Those that the entity shares with. */
static inline struct fair_sums *fair_sums_of(struct fair_queue *f, const struct fair_entity *s)
{
	struct fair_group *g = fair_group(f, s->group);

	return g ? &g->sums : &f->sums;
}

static inline const struct fair_sums *fair_sums_of_const(const struct fair_queue *f, const struct fair_entity *s)
{
	const struct fair_group *g = fair_group_const(f, s->group);

	return g ? &g->sums : &f->sums;
}

/* Of these domains, each around the one before, the one whose entity this is; or 0. */
static inline struct sy_domain *fair_domain_around(struct sy_domain *d, const struct fair_group *g)
{
	u32 depth;

	for (depth = 0; depth < FAIR_DEPTH && d; depth++, d = d->group) {
		if (d->id == g->id)
			return d;
	}
	return 0;
}

/* ---- Who belongs where ---- */

/* The number of the domain's group in this queue, a new one if need be; 0: there is no room. */
static inline u8 fair_number(struct fair_queue *f, const struct sy_domain *d)
{
	const u32 room = SY_QUEUE_GROUPS;
	u32 number, unused = 0;
	struct fair_group *g;

	for (number = 1; number <= room; number++) {
		g = fair_group(f, number);
		if (g->id == d->id)
			return (u8)number;
		if (!g->members && !unused)
			unused = number;
	}
	g = fair_group(f, unused);
	if (!g)
		return 0;
	*g = (struct fair_group){ .id = d->id };
	g->entity.vruntime = f->sums.vruntime;
	g->entity.weight = fair_whole_weight(d);
	g->sums.vruntime = FAIR_VRUNTIME_START;
	g->sums.scale = f->sums.scale;
	return (u8)unused;
}

/* A vCPU belongs to this queue from now on; of its groups those that were not there come with it. */
static inline void fair_belong(const struct sy_policy *p, struct fair_queue *f, const struct sy_domain *d,
			       struct fair_entity *s)
{
	const struct sy_domain *around;
	struct fair_group *g;
	u32 depth;

	if (!fair_entities(p))
		return;
	around = fair_grouped(d) ? d : d->group;
	for (depth = 0; depth < FAIR_DEPTH && around; depth++, around = around->group) {
		s->group = fair_number(f, around);
		g = fair_group(f, s->group);
		if (!g || g->members++)
			return;
		s = &g->entity;
		s->group = 0;
	}
}

/* And now no more. */
static inline void fair_part(struct fair_queue *f, struct fair_entity *s)
{
	struct fair_group *g = fair_group(f, s->group);

	s->group = 0;
	for (; g && !--g->members; g = fair_group(f, g->entity.group))
		;
}

/* ---- Weights and loads ---- */

/* The averages move on, and follow who runs or waits now. */
static inline void fair_follow(const struct sy_policy *p, struct sy_domain *d, struct fair_group *g, u64 now)
{
	struct fair_domain *fd = fair_domain(d);
	u64 half_life_ns = SY_PARAMETER(p, FAIR_LOAD_HALF_LIFE_NS);
	u64 weight = fair_sum(&g->sums);

	fair_average(&g->load, g->told, half_life_ns, now);
	fair_average(&fd->average, fd->load, half_life_ns, now);
	fd->load += weight - g->told;
	g->told = weight;
}

/* What part of the domain's weight is its entity's here. */
static inline u64 fair_share(const struct sy_policy *p, struct sy_domain *d, struct fair_group *g, u64 now)
{
	u64 here, elsewhere;

	fair_follow(p, d, g, now);
	elsewhere = fair_domain(d)->average.value;
	elsewhere -= sy_min(elsewhere, g->load.value);
	if (now - g->elsewhere_ns >= FAIR_TOLD_NS &&
	    sy_max(elsewhere, g->elsewhere) - sy_min(elsewhere, g->elsewhere) > g->elsewhere / FAIR_TOLD_PART) {
		g->elsewhere = elsewhere;
		g->elsewhere_ns = now;
	}
	/* Counted in weights as users know them. */
	here = sy_clamp(sy_max(g->told, g->load.value) / FAIR_WEIGHT_SCALE, 1, 1ULL << 37);
	return sy_max(fair_whole_weight(d) * here / (here + g->elsewhere / FAIR_WEIGHT_SCALE), 1);
}

/* What of the load of a member, of this weight, falls to its group. */
static inline u64 fair_outwards(const struct fair_group *g, u64 weight, u64 load)
{
	u64 all = sy_max(fair_sum(&g->sums), weight);

	return sy_min(load, FAIR_LOAD_MAX) / FAIR_WEIGHT_SCALE * sy_min(g->entity.weight, FAIR_WEIGHT_UNIT << 8) /
	       sy_max(all / FAIR_WEIGHT_SCALE, 1);
}

/* The averaged load of a vCPU where it shares. */
static inline u64 fair_averaged_load(const struct fair_vcpu *s)
{
	return (u64)fair_scaled((s64)s->runnable.value, s->entity.weight, FAIR_ONE);
}

static inline u64 fair_own_load(const struct sy_policy *p, const struct fair_vcpu *s)
{
	return SY_CHOICE(p, FAIR_BALANCE_LOAD) == FAIR_LOAD_MOMENTARY ? s->entity.weight : fair_averaged_load(s);
}

/* A vCPU's part of the load of its queue: task_h_load(). */
static inline u64 fair_vcpu_load(const struct sy_policy *p, const struct fair_queue *f, const struct fair_vcpu *s)
{
	u64 weight = s->entity.weight, load = fair_own_load(p, s);
	const struct fair_group *g;

	for (g = fair_group_const(f, s->entity.group); g; g = fair_group_const(f, g->entity.group)) {
		load = fair_outwards(g, weight, load);
		weight = g->entity.weight;
	}
	return load;
}

/* The averages of a queue and its groups move on to now, and the load of a vCPU comes with it or goes. */
static inline void fair_move_load(const struct sy_policy *p, struct fair_queue *f, struct sy_domain *d,
				  struct fair_vcpu *s, bool comes, u64 now)
{
	u64 half_life_ns = SY_PARAMETER(p, FAIR_LOAD_HALF_LIFE_NS);
	u64 weight = s->entity.weight, load;
	struct fair_average *average;
	struct fair_group *g;
	struct sy_domain *around;

	if (SY_CHOICE(p, FAIR_BALANCE_LOAD) == FAIR_LOAD_MOMENTARY && !fair_entities(p))
		return;
	fair_average(&s->runnable, fair_awake(s), half_life_ns, now);
	load = fair_averaged_load(s);
	for (g = fair_group(f, s->entity.group); g; g = fair_group(f, g->entity.group)) {
		around = fair_domain_around(d, g);
		if (around)
			fair_follow(p, around, g, now);
		average = &g->load;
		average->value = comes ? average->value + load : average->value - sy_min(average->value, load);
		load = fair_outwards(g, weight, load);
		weight = g->entity.weight;
	}
	average = &f->load;
	average->value = comes ? average->value + load : average->value - sy_min(average->value, load);
}

/* Before anything changes in the queue's sums: its load moves on to now. */
static inline void fair_move_on(const struct sy_policy *p, struct fair_queue *f, u64 now)
{
	if (SY_CHOICE(p, FAIR_BALANCE_LOAD) == FAIR_LOAD_AVERAGED)
		fair_average(&f->load, fair_sum(&f->sums), SY_PARAMETER(p, FAIR_LOAD_HALF_LIFE_NS), now);
}

/* The weight of a vCPU where it shares. */
static inline u64 fair_weight(const struct sy_policy *p, struct sy_domain *d, struct fair_vcpu *s, u64 now)
{
	if (fair_entities(p) || SY_CHOICE(p, FAIR_BALANCE_LOAD) == FAIR_LOAD_AVERAGED)
		fair_average(&s->runnable, fair_awake(s), SY_PARAMETER(p, FAIR_LOAD_HALF_LIFE_NS), now);
	if (!fair_entities(p))
		return fair_flattened_weight(p, d, s, now);
	if (!fair_grouped(d))
		return fair_whole_weight(d);
	return s->entity.group ? FAIR_WEIGHT_UNIT : sy_max(sy_divide(fair_whole_weight(d), d->vcpus), 1);
}

/* ---- Groups follow their members ---- */

/* Somebody has come into the group's sums or left them, or time has passed: it comes, goes or is weighed anew, and so on. */
static inline void fair_follow_members(const struct sy_policy *p, struct fair_queue *f, struct sy_domain *d, u32 number,
				       u64 now)
{
	struct fair_group *g;

	for (g = fair_group(f, number); g; g = fair_group(f, g->entity.group)) {
		struct sy_domain *around = fair_domain_around(d, g);
		struct fair_sums *sums = fair_sums_of(f, &g->entity);
		u64 weight;

		/* Nobody is in the sums of a group whose last vCPU is parked, and runs on for a moment. */
		if (!around || (g->entity.place < FAIR_WAITING && !fair_sum(&g->sums)))
			return;
		weight = fair_share(p, around, g, now);
		if (g->entity.place < FAIR_WAITING)
			fair_enter(p, sums, around, &g->entity, weight, now);
		else if (g->told)
			fair_reweigh(p, sums, &g->entity, weight);
		else
			fair_exit(p, sums, around, &g->entity);
	}
}

/* A vCPU starts whose group this is. A group that it takes the pCPU over from is no more protected than a vCPU. */
static inline void fair_groups_start(struct fair_queue *f, u32 number, bool protects)
{
	struct fair_group *g;

	for (g = fair_group(f, number); g; g = fair_group(f, g->entity.group)) {
		if (g->entity.place == FAIR_WAITING)
			g->entity.protected = protects;
	}
	for (g = fair_group(f, f->running); g; g = fair_group(f, g->entity.group)) {
		if (g->entity.place == FAIR_RUNNING)
			g->entity.place = FAIR_WAITING;
	}
	for (g = fair_group(f, number); g; g = fair_group(f, g->entity.group)) {
		if (g->entity.place == FAIR_WAITING)
			g->entity.place = FAIR_RUNNING;
	}
	f->running = number;
}

/* ---- Who is next, level by level ---- */

/* Order deadline: whether it may run, and all its groups. */
static inline bool fair_all_eligible(const struct fair_queue *f, const struct fair_entity *s)
{
	const struct fair_group *g;

	if (!fair_eligible(fair_sums_of_const(f, s), s))
		return false;
	for (g = fair_group_const(f, s->group); g; g = fair_group_const(f, g->entity.group)) {
		if (!fair_eligible(fair_sums_of_const(f, &g->entity), &g->entity))
			return false;
	}
	return true;
}

static inline u32 fair_depth(const struct fair_queue *f, const struct fair_entity *s)
{
	const struct fair_group *g;
	u32 depth = 0;

	for (g = fair_group_const(f, s->group); g; g = fair_group_const(f, g->entity.group))
		depth++;
	return depth;
}

/* Of two vCPUs or what they are in, those two that share: find_matching_se(). */
static inline void fair_match(const struct fair_queue *f, const struct fair_entity **a, const struct fair_entity **b)
{
	u32 depth_a = fair_depth(f, *a), depth_b = fair_depth(f, *b);

	for (; depth_a > depth_b; depth_a--)
		*a = &fair_group_const(f, (*a)->group)->entity;
	for (; depth_b > depth_a; depth_b--)
		*b = &fair_group_const(f, (*b)->group)->entity;
	while ((*a)->group != (*b)->group) {
		*a = &fair_group_const(f, (*a)->group)->entity;
		*b = &fair_group_const(f, (*b)->group)->entity;
	}
}

#endif
