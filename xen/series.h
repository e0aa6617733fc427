/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All that differs between the series of Xen that xen/build takes: the rest of the scheduler is written for 4.20. What
 * is asked for is the thing itself and no version, as vendors of a series take over single changes of later ones.
 */

/* Until 4.18 there was a macro for each count of words, all made of the one that takes any. */
#ifndef TRACE_TIME
#define TRACE_TIME TRACE_varD
#endif
