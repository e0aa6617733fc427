/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is counted of all that is decided, for who measures, of each pCPU: where it happens, or where the vCPU that it
 * happens to belongs. This list is the only place that names it: what hosts keep and what they tell of it follow from it.
 *
 *	X(KIND, "name", "unit", "meaning")
 */
#ifndef STEELYARD_ENGINE_COUNTS_H
#define STEELYARD_ENGINE_COUNTS_H

/* clang-format off */
#define ENGINE_COUNTS(X) \
	X(ENGINE_CHOICES, "choices", "times", "a pCPU chose who runs there") \
	X(ENGINE_KEPT, "kept", "times", "it chose who had run there already") \
	X(ENGINE_IDLED, "idled", "times", "it found nobody") \
	X(ENGINE_STOLEN, "stolen", "times", "it took a vCPU from the queue of another one") \
	X(ENGINE_WAKES, "wakes", "times", "a blocked vCPU had work again") \
	X(ENGINE_INTERRUPTS, "interrupts", "times", "a pCPU was asked to choose") \
	X(ENGINE_MOVED, "moved", "times", "balancing moved a vCPU to another queue") \
	X(ENGINE_REPLACED, "replaced", "times", "a running vCPU was sent to a less shared pCPU") \
	X(ENGINE_RESETS, "resets", "times", "the credit of a queue was reset") \
	X(ENGINE_PARKED, "parked", "times", "a vCPU was kept off its queue, by a cap or a pause-loop exit") \
	X(ENGINE_UNPARKED, "unparked", "times", "a parked vCPU was let go on") \
	X(ENGINE_YIELDS, "yields", "times", "a vCPU yielded") \
	X(ENGINE_PAUSE_LOOPS, "pause_loops", "times", "a pause-loop exit of a vCPU was told") \
	X(ENGINE_SUMMONED, "summoned", "times", "a sibling that spins summoned a vCPU") \
	X(ENGINE_ACCOUNTINGS, "accountings", "times", "all domains were accounted") \
	X(ENGINE_SAMPLES, "samples", "times", "all domains were sampled for governors") \
	X(ENGINE_OCCUPIED, "occupied", "times", "something that is no vCPU took a pCPU") \
	X(ENGINE_OTHERS_NS, "others_ns", "ns", "that ran, as far as the scheduler sees it")
/* clang-format on */

#define ENGINE_COUNT_KIND(KIND, ...) KIND,
enum engine_count { ENGINE_COUNTS(ENGINE_COUNT_KIND) ENGINE_COUNT_KINDS };

#endif
