/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random numbers that are the same everywhere for one seed.
 */
#ifndef STEELYARD_TESTS_RANDOM_H
#define STEELYARD_TESTS_RANDOM_H

static _Thread_local u64 random_state;

/* splitmix64 (Steele, Lea, Flood 2014) */
static u64 random_word(void)
{
	u64 z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static u64 below(u64 bound)
{
	return random_word() % bound;
}

/* Every order of magnitude equally likely */
static u64 magnitude(void)
{
	u64 word = random_word(); /* a draw each, so that a seed means the same with every compiler */

	return word >> below(64);
}

/* The same, and the ends more so */
static u64 between(u64 minimum, u64 maximum)
{
	u64 range = maximum - minimum;

	switch (below(8)) {
	case 0:
		return minimum;
	case 1:
		return maximum;
	default:
		return minimum + sy_min(magnitude(), range);
	}
}

/* From one thing that happens on a host to the next: mostly at once, so that they meet. */
static u64 pause_ns(void)
{
	switch (below(8)) {
	case 0 ... 3:
		return 0;
	case 4 ... 5:
		return below(100 * SY_US);
	case 6:
		return below(5 * SY_MS);
	default:
		return below(8) ? below(50 * SY_MS) : below(2 * SY_S);
	}
}

#endif
