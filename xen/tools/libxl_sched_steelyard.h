/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Part of libxl_sched.c: what libxl knows of a domain's scheduling, in a cpupool of steelyard. Settings are read and written
 * as texts, in Xen's hypfs (xen/leaves.h): a new one needs no change here.
 */
#include <xenhypfs.h>

#include "libxl_steelyard.h"

#define STEELYARD_ROOT "/steelyard/"

static xenhypfs_handle *steelyard_open(libxl__gc *gc)
{
	xenhypfs_handle *hypfs = xenhypfs_open(CTX->lg, 0);

	if (!hypfs)
		LOGE(ERROR, "Xen's hypfs cannot be opened");
	return hypfs;
}

char *libxl_steelyard_read(libxl_ctx *ctx, const char *leaf)
{
	GC_INIT(ctx);
	xenhypfs_handle *hypfs = steelyard_open(gc);
	char *text = NULL;

	if (hypfs) {
		text = xenhypfs_read(hypfs, GCSPRINTF(STEELYARD_ROOT "%s", leaf));
		if (!text)
			LOGE(ERROR, "Reading " STEELYARD_ROOT "%s", leaf);
		xenhypfs_close(hypfs);
	}
	GC_FREE;
	return text;
}

int libxl_steelyard_write(libxl_ctx *ctx, const char *leaf, const char *text)
{
	GC_INIT(ctx);
	xenhypfs_handle *hypfs = steelyard_open(gc);
	int rc = ERROR_FAIL;

	if (hypfs) {
		rc = xenhypfs_write(hypfs, GCSPRINTF(STEELYARD_ROOT "%s", leaf), text) ? ERROR_INVAL : 0;
		if (rc)
			LOGE(ERROR, "Writing '%s' to " STEELYARD_ROOT "%s", text, leaf);
		xenhypfs_close(hypfs);
	}
	GC_FREE;
	return rc;
}

char **libxl_steelyard_parameters(libxl_ctx *ctx)
{
	GC_INIT(ctx);
	xenhypfs_handle *hypfs = steelyard_open(gc);
	struct xenhypfs_dirent *entries = NULL;
	unsigned int count = 0, i;
	char **names = NULL;

	if (hypfs) {
		entries = xenhypfs_readdir(hypfs, STEELYARD_ROOT "parameters", &count);
		if (!entries)
			LOGE(ERROR, "Listing " STEELYARD_ROOT "parameters");
		xenhypfs_close(hypfs);
	}
	if (entries) {
		names = libxl__calloc(NOGC, count + 1, sizeof(*names));
		for (i = 0; i < count; i++)
			names[i] = libxl__strdup(NOGC, entries[i].name);
		free(entries);
	}
	GC_FREE;
	return names;
}

int libxl_steelyard_domain_set(libxl_ctx *ctx, uint32_t domid, const char *setting, const char *value)
{
	GC_INIT(ctx);
	int rc = libxl_steelyard_write(ctx, "settings",
				       value ? GCSPRINTF("%u %s %s", domid, setting, value) :
					       GCSPRINTF("%u %s", domid, setting));

	GC_FREE;
	return rc;
}

/* The settings of libxl's own form, with what a domain has that asks for nothing, and their unit in the hypervisor's. */
static const struct steelyard_field {
	const char *setting;
	size_t offset;
	int absent;
	int not_set;
	unsigned int unit;
} steelyard_fields[] = {
#define FIELD(field, FIELD, setting, absent, unit) \
	{ \
		setting, offsetof(libxl_domain_sched_params, field), absent, LIBXL_DOMAIN_SCHED_PARAM_##FIELD##_DEFAULT, unit \
	}
	FIELD(weight, WEIGHT, "weight", 256, 1),
	FIELD(cap, CAP, "cap_percent", 0, 1),
	/* In us, as rtds has them. */
	FIELD(period, PERIOD, "sedf.period", 0, 1000),
	FIELD(budget, BUDGET, "sedf.slice", 0, 1000),
	FIELD(extratime, EXTRATIME, "sedf.extra_time", 1, 1),
#undef FIELD
};

static int *steelyard_field(libxl_domain_sched_params *scinfo, const struct steelyard_field *field)
{
	return (int *)((char *)scinfo + field->offset);
}

static int sched_steelyard_domain_get(libxl__gc *gc, uint32_t domid, libxl_domain_sched_params *scinfo)
{
	char *text = libxl_steelyard_read(CTX, "settings"), *line, *rest, setting[64];
	unsigned long long value;
	unsigned int i, id;

	if (!text)
		return ERROR_FAIL;
	for (i = 0; i < ARRAY_SIZE(steelyard_fields); i++)
		*steelyard_field(scinfo, &steelyard_fields[i]) = steelyard_fields[i].absent;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (sscanf(line, "%u %63s %llu", &id, setting, &value) != 3 || id != domid)
			continue;
		for (i = 0; i < ARRAY_SIZE(steelyard_fields); i++)
			if (!strcmp(setting, steelyard_fields[i].setting))
				*steelyard_field(scinfo, &steelyard_fields[i]) = value / steelyard_fields[i].unit;
	}
	free(text);
	return 0;
}

static int sched_steelyard_domain_set(libxl__gc *gc, uint32_t domid, const libxl_domain_sched_params *scinfo)
{
	libxl_domain_sched_params asked = *scinfo;
	unsigned int i;
	int rc = 0;

	for (i = 0; !rc && i < ARRAY_SIZE(steelyard_fields); i++) {
		const struct steelyard_field *field = &steelyard_fields[i];
		int value = *steelyard_field(&asked, field);

		if (value != field->not_set)
			rc = libxl_steelyard_domain_set(CTX, domid, field->setting,
							GCSPRINTF("%lld", (long long)value * field->unit));
	}
	return rc;
}
