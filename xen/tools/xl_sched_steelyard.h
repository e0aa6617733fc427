/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Part of xl_sched.c: xl sched-steelyard.
 *
 *	xl sched-steelyard [-p CPUPOOL]				what is asked for each domain
 *	xl sched-steelyard -d DOMAIN				for this one
 *	xl sched-steelyard -d DOMAIN [-w WEIGHT] [-c CAP] [NAME=VALUE...]
 *	xl sched-steelyard -s [NAME=VALUE...]			the policy's parameters
 *
 * Names are those of scenarios, times are in ns, and NAME= asks for that no more.
 */
#include "libxl_steelyard.h"

/* What is asked for the domain beside weight and cap, behind its line. */
static void print_other_settings(int domid)
{
	char *text = libxl_steelyard_read(ctx, "settings"), *line, *rest, setting[64], value[64];
	int id;

	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
		if (sscanf(line, "%d %63s %63s", &id, setting, value) == 3 && id == domid &&
		    strcmp(setting, "weight") && strcmp(setting, "cap_percent"))
			printf(" %s=%s", setting, value);
	free(text);
}

static int sched_steelyard_domain_output(int domid)
{
	libxl_domain_sched_params scinfo;
	char *name;
	int failed;

	if (domid < 0) {
		printf("%-33s %4s %6s %6s  %s\n", "Name", "ID", "Weight", "Cap", "Other settings");
		return 0;
	}
	libxl_domain_sched_params_init(&scinfo);
	failed = sched_domain_get(LIBXL_SCHEDULER_STEELYARD, domid, &scinfo);
	if (!failed) {
		name = libxl_domid_to_name(ctx, domid);
		printf("%-33s %4d %6d %6d ", name, domid, scinfo.weight, scinfo.cap);
		print_other_settings(domid);
		printf("\n");
		free(name);
	}
	libxl_domain_sched_params_dispose(&scinfo);
	return failed;
}

static int sched_steelyard_pool_output(uint32_t poolid)
{
	char *name = libxl_cpupoolid_to_name(ctx, poolid), *policy = libxl_steelyard_read(ctx, "policy");

	printf("Cpupool %s: policy %s\n", name, policy ? policy : "unknown");
	free(name);
	free(policy);
	return 0;
}

static int print_parameters(void)
{
	char **names = libxl_steelyard_parameters(ctx), leaf[128];
	unsigned int i;
	int failed = !names;

	for (i = 0; names && names[i]; i++) {
		char *value;

		snprintf(leaf, sizeof(leaf), "parameters/%s", names[i]);
		value = libxl_steelyard_read(ctx, leaf);
		if (value)
			printf("%s=%s\n", names[i], value);
		failed |= !value;
		free(value);
		free(names[i]);
	}
	free(names);
	return failed;
}

/* Each NAME=VALUE to a domain, or to the parameters; the first that is refused ends it. */
static int set_each(const char *domain, uint32_t domid, char **settings)
{
	for (; *settings; settings++) {
		char *value = strchr(*settings, '='), leaf[128];
		int rc;

		if (!value || value == *settings) {
			fprintf(stderr, "'%s' is no NAME=VALUE.\n", *settings);
			return 1;
		}
		*value++ = '\0';
		snprintf(leaf, sizeof(leaf), "parameters/%s", *settings);
		rc = domain ? libxl_steelyard_domain_set(ctx, domid, *settings, *value ? value : NULL) :
			      libxl_steelyard_write(ctx, leaf, value);
		if (rc) {
			fprintf(stderr, "%s=%s was refused.\n", *settings, value);
			return 1;
		}
	}
	return 0;
}

int main_sched_steelyard(int argc, char **argv)
{
	const char *domain = NULL, *pool = NULL, *weight = NULL, *cap = NULL;
	bool parameters = false;
	uint32_t domid = 0;
	int opt;
	static struct option opts[] = {
		{ "domain", 1, 0, 'd' },
		{ "weight", 1, 0, 'w' },
		{ "cap", 1, 0, 'c' },
		{ "schedparam", 0, 0, 's' },
		{ "cpupool", 1, 0, 'p' },
		COMMON_LONG_OPTS,
	};

	SWITCH_FOREACH_OPT(opt, "d:w:c:p:s", opts, "sched-steelyard", 0)
	{
	case 'd':
		domain = optarg;
		break;
	case 'w':
		weight = optarg;
		break;
	case 'c':
		cap = optarg;
		break;
	case 'p':
		pool = optarg;
		break;
	case 's':
		parameters = true;
		break;
	}
	if ((pool || parameters) && (domain || weight || cap)) {
		fprintf(stderr, "A cpupool or -s is not allowed with other options.\n");
		return EXIT_FAILURE;
	}
	if (!domain && !parameters && (weight || cap || argv[optind])) {
		fprintf(stderr, "Must specify a domain.\n");
		return EXIT_FAILURE;
	}
	if (parameters)
		return (argv[optind] ? set_each(NULL, 0, argv + optind) : print_parameters()) ? EXIT_FAILURE : EXIT_SUCCESS;
	if (!domain)
		return sched_domain_output(LIBXL_SCHEDULER_STEELYARD, sched_steelyard_domain_output,
					   sched_steelyard_pool_output, pool) ?
			       EXIT_FAILURE :
			       EXIT_SUCCESS;
	domid = find_domain(domain);
	if (!weight && !cap && !argv[optind]) {
		sched_steelyard_domain_output(-1);
		return sched_steelyard_domain_output(domid) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	if ((weight && libxl_steelyard_domain_set(ctx, domid, "weight", weight)) ||
	    (cap && libxl_steelyard_domain_set(ctx, domid, "cap_percent", cap)))
		return EXIT_FAILURE;
	return set_each(domain, domid, argv + optind) ? EXIT_FAILURE : EXIT_SUCCESS;
}
