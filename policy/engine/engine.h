/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine: all that happens between an event on a host and its effects, written once. A host
 * tells what happens by one of the calls below and supplies mechanism (host.h); what is decided on
 * the way is decided here or by the policy.
 *
 * The life of a vCPU: engine_vcpu_begin(), engine_wake(), [a choice starts it], engine_block(),
 * engine_wake() ..., engine_vcpu_end() once it is blocked. That of a pCPU: engine_pcpu_begin(),
 * engine_choose() whenever it was interrupted, a slice has ended or somebody has blocked,
 * engine_occupy() instead when something that is no vCPU comes, engine_pcpu_end(). Times are those of
 * the policy's clock and never go back from call to call with the same lock held. What a call does in
 * another queue that it has tried for may be of an earlier time than that queue knows: none has passed then.
 *
 * Where the parts are: state.h what is known of everything, queue.h who waits where and what
 * policies ask for, placement.h whom a wake interrupts, choice.h who runs next, balance.h who
 * moves, events.h all that a host calls but engine_choose() and engine_balance().
 *
 * Rules, beside those of the core (vocabulary.h): no recursion, and each loop is over the pCPUs or
 * queues of the host, over a walk of the host's, or over bits of a word. Under a queue's lock no walk is over all
 * vCPUs or domains of the host. What is walked there: a spinning vCPU's siblings; who waits in or belongs to a queue that a
 * balance, a steal or a survey looks at, or one whose order, pCPUs or affinities have changed. Where a policy has one
 * queue for the whole host, that is everybody.
 */
#ifndef STEELYARD_ENGINE_H
#define STEELYARD_ENGINE_H

#include "events.h"

#endif
