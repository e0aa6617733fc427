/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What libxl has for schedulers of the kind steelyard beyond what it has for all: /steelyard in Xen's hypfs. Each says what
 * failed through the context's logger. What is returned is freed with free().
 */
#ifndef LIBXL_STEELYARD_H
#define LIBXL_STEELYARD_H

#include <libxl.h>

/* The text of a leaf, such as "policy" or "parameters/NAME"; NULL: it could not be read. */
char *libxl_steelyard_read(libxl_ctx *ctx, const char *leaf);

/* 0, or ERROR_INVAL: the hypervisor refuses it; or ERROR_FAIL. */
int libxl_steelyard_write(libxl_ctx *ctx, const char *leaf, const char *text);

/* The names of the policy's parameters, with NULL behind the last; each name and the list are freed. */
char **libxl_steelyard_parameters(libxl_ctx *ctx);

/* A setting by the name that scenarios have for it, times in ns; NULL: it is asked for no more. Errors as above. */
int libxl_steelyard_domain_set(libxl_ctx *ctx, uint32_t domid, const char *setting, const char *value);

#endif
