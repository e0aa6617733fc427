/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Facts that a host in another language must know at compile time: each is a line of the assembly, where its build
 * finds it. Use them in a function that nobody calls.
 */
#ifndef STEELYARD_FACTS_H
#define STEELYARD_FACTS_H

#include <stddef.h>

/* Not %c0, which has no numbers above 32 bits; the sign that machines put before a number is for the reader to drop. */
#define FACT(name, value) __asm__ volatile("\n.ascii \"->" name " %0\"" \
					   : \
					   : "i"(value))
#define CONSTANT(name) FACT(#name, name)
#define SIZE(type) FACT(#type, sizeof(struct type))
/* Where a field lies, in bytes. */
#define FIELD(type, field) FACT(#type "." #field, offsetof(struct type, field))

#endif
