/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler decides, or meets with: STEELYARD_DECISION(number, name, words of its trace record). Each is counted
 * (notes.h and Xen's perfc_defn.h include this) and, while xentrace listens, recorded with the time. Nothing else is here:
 * it is included as often as somebody wants the list.
 *
 * A number is never given to something else, so that a trace can be read later. Words are u32; a time or a key of 64 bits
 * is its lower half, then its upper one. `who` is the domain times 65536 plus the vCPU, as in Xen's records of runstates,
 * or -1: nobody. `pcpu` is Xen's number, `queue` the engine's. The pCPU that decides is the one that records.
 */
STEELYARD_DECISION(1, wake, "who pcpu queue") /* it has work; belongs to this pCPU */
STEELYARD_DECISION(2, queue, "who queue key key") /* it waits behind those with this key and lower ones */
STEELYARD_DECISION(3, interrupt, "pcpu who") /* that pCPU chooses anew; this one runs there */
STEELYARD_DECISION(4, choose, "who ran slice slice waiting") /* who runs now, who did, so many ns; the others of the queue */
STEELYARD_DECISION(5, steal, "who queue") /* out of this other queue */
STEELYARD_DECISION(6, move, "who queue queue pcpu") /* from the first queue to the second one and its pCPU */
STEELYARD_DECISION(7, reset, "who queue units") /* credits of the queue, since this one had none */
STEELYARD_DECISION(8, account, "ns") /* of all domains, which took so long */
STEELYARD_DECISION(9, sample, "ns") /* likewise, for governors */
STEELYARD_DECISION(10, park, "who") /* its cap is used up */
STEELYARD_DECISION(11, unpark, "who")
STEELYARD_DECISION(12, boost, "who boosted class") /* from now on or, 0, no longer; enum sy_class */
STEELYARD_DECISION(13, spin, "who") /* a pause-loop exit, or a yield */
STEELYARD_DECISION(14, tasklet, "who") /* Xen's own work runs instead of this one */
STEELYARD_DECISION(15, miss, "queue") /* the lock of another queue was taken: done without, or later */
STEELYARD_DECISION(16, later, "who queue") /* what is to be done with this one is put off */
STEELYARD_DECISION(17, balance, "who queue queue") /* as `move`, since the first queue has more load; one that runs goes later */
STEELYARD_DECISION(18, replace, "who pcpu") /* it leaves this pCPU for a less shared one, as soon as it has stopped */
STEELYARD_DECISION(19, summon, "who") /* a sibling of it spins */
