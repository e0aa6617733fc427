/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A process whose threads compute and sleep, or pass a token round, for as long as is said: a load for
 * measuring how far replays are off (record-loads.sh).
 *
 *	load SECONDS SEED THREAD...
 *
 * THREAD is NAME=duty,RUN_US,SLEEP_US: computes and sleeps, for exponential times of these means, 0 of sleep:
 * never; or NAME=pass,RUN_US: waits for the token, computes, and passes it to the next of this kind.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 64

struct thread {
	char name[16];
	double run_us, sleep_us;
	int passes; /* whether it is one of those that pass the token */
	int from, to; /* ends of pipes for it */
	uint64_t random;
};

static struct thread threads[MOST_THREADS];
static double rounds_per_us;

static double cpu_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

/* xorshift64; Marsaglia 2003. */
static double exponential(struct thread *t, double mean)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return -mean * log((double)((t->random >> 11) + 1) / 9007199254740993.0);
}

static void work(double rounds)
{
	volatile unsigned int sum = 0;

	for (double i = 0; i < rounds; i++)
		sum = sum + 1;
}

/*
 * The clock is not read while a load runs: the kernel brings a thread's CPU time up to date for that, and ends its
 * slice if it has consumed it (task_sched_runtime(), update_curr()), where it would have had the tick to wait for.
 */
static void calibrate(void)
{
	double sample_rounds = 1e6;

	for (int i = 0; i < 20; i++) {
		double start_us = cpu_us(), rate;

		work(sample_rounds);
		rate = sample_rounds / (cpu_us() - start_us);
		if (rate > rounds_per_us)
			rounds_per_us = rate;
	}
}

static void *run(void *of_thread)
{
	struct thread *t = of_thread;
	char token;

	pthread_setname_np(pthread_self(), t->name);
	for (;;) {
		if (t->passes && read(t->from, &token, 1) != 1)
			return NULL;
		work(exponential(t, t->run_us) * rounds_per_us);
		if (t->passes && write(t->to, "", 1) != 1)
			return NULL;
		if (!t->passes && t->sleep_us > 0) {
			double us = exponential(t, t->sleep_us);
			struct timespec sleep = { us / 1e6, fmod(us, 1e6) * 1e3 };

			nanosleep(&sleep, NULL);
		}
	}
}

static int parse(struct thread *t, const char *text)
{
	if (sscanf(text, "%15[^=]=duty,%lf,%lf", t->name, &t->run_us, &t->sleep_us) == 3)
		return 1;
	t->passes = sscanf(text, "%15[^=]=pass,%lf", t->name, &t->run_us) == 2;
	return t->passes;
}

int main(int count, char **arguments)
{
	int first = -1, last = -1, pair[2];

	if (count < 4 || count - 3 > MOST_THREADS || atoi(arguments[1]) < 1)
		return fputs("load: SECONDS SEED THREAD...\n", stderr), 2;
	for (int i = 0; i < count - 3; i++) {
		struct thread *t = &threads[i];

		t->random = strtoull(arguments[2], NULL, 10) * 2654435761u + i + 1;
		if (!parse(t, arguments[i + 3]))
			return fprintf(stderr, "load: no thread: %s\n", arguments[i + 3]), 2;
		if (!t->passes)
			continue;
		if (pipe(pair))
			return perror("load"), 1;
		t->from = pair[0];
		/* For now to itself: the last one closes the ring. */
		t->to = pair[1];
		if (last >= 0) {
			int mine = t->to;

			t->to = threads[last].to;
			threads[last].to = mine;
		} else {
			first = i;
		}
		last = i;
	}
	if (first >= 0 && write(threads[last].to, "", 1) != 1)
		return perror("load"), 1;
	calibrate();
	for (int i = 0; i < count - 3; i++) {
		pthread_t id;

		if (pthread_create(&id, NULL, run, &threads[i]))
			return fputs("load: no thread could be made\n", stderr), 1;
	}
	sleep(atoi(arguments[1]));
	return 0;
}
