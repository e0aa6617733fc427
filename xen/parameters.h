/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy and its parameters, as texts: boot options and what dom0 writes.
 */

static char __read_mostly policy_name[128] = "credit2@xen-4.20";

/* The next part of a text up to the separator, which is cut off; null at the end. */
static char *__init next_part(char **text, char separator)
{
	char *part = *text, *end;

	if (!part)
		return NULL;
	end = strchr(part, separator);
	*text = end ? end + 1 : NULL;
	if (end)
		*end = '\0';
	return part;
}

/* Adds a governor with its defaults to `steelyard_policy`, whose discipline is described. */
static int __init add_governor(const char *name, const struct sy_description *discipline)
{
	const struct sy_description *governor;
	unsigned int g, i;

	for (g = 0; g < SY_GOVERNORS && strcmp(name, sy_governors[g]->name); g++)
		;
	if (g == SY_GOVERNORS)
		return -EINVAL;
	governor = sy_governors[g];
	if (!(governor->disciplines & 1 << steelyard_policy.discipline)) {
		printk(XENLOG_ERR "steelyard: %s has no meaning for %s: %s\n", governor->name,
		       discipline->name, governor->reason);
		return -EINVAL;
	}
	steelyard_policy.governors |= 1 << g;
	for (i = 0; i < governor->parameters; i++)
		steelyard_policy.governor_parameter[g][i] = governor->parameter[i].value[0];
	return 0;
}

/* Sets `steelyard_policy` to the defaults of the one named. */
static int __init policy_by_name(const char *name)
{
	char text[sizeof(policy_name)], *rest = text, *vintage, *part;
	const struct sy_description *description = NULL;
	unsigned int i, chosen = SY_NONE;

	safe_strcpy(text, name);
	for (i = 0; i < SY_PUBLISHED; i++)
		if (!strcmp(name, sy_published[i].name))
			safe_strcpy(text, sy_published[i].meaning);
	memset(&steelyard_policy, 0, sizeof(steelyard_policy));
	vintage = next_part(&rest, '+');
	part = next_part(&vintage, '@');
	for (i = 0; part && i < SY_DISCIPLINES; i++) {
		if (!strcmp(part, sy_disciplines[i]->name)) {
			steelyard_policy.discipline = i;
			description = sy_disciplines[i];
		}
	}
	if (!description)
		return -EINVAL;
	for (i = 0; i < SY_VINTAGES && description->vintage[i]; i++)
		if (!vintage || !strcmp(vintage, description->vintage[i]))
			chosen = i;
	if (chosen == SY_NONE)
		return -EINVAL;
	for (i = 0; i < description->parameters; i++)
		steelyard_policy.parameter[i] = description->parameter[i].value[chosen];
	while ((part = next_part(&rest, '+'))) {
		int error = add_governor(part, description);

		if (error)
			return error;
	}
	return 0;
}

/* Calls visit(name, description, value) for each parameter of the policy, until it answers true. */
static bool for_each_parameter(bool (*visit)(const char *name, const struct sy_parameter *parameter,
					     u64 *value, void *data),
			       void *data)
{
	const struct sy_description *description = sy_disciplines[steelyard_policy.discipline];
	unsigned int g, i;

	for (i = 0; i < description->parameters; i++)
		if (visit(description->parameter[i].name, &description->parameter[i],
			  &steelyard_policy.parameter[i], data))
			return true;
	for (g = 0; g < SY_GOVERNORS; g++) {
		if (!(steelyard_policy.governors & 1 << g))
			continue;
		description = sy_governors[g];
		for (i = 0; i < description->parameters; i++) {
			char name[64];

			snprintf(name, sizeof(name), "%s.%s", description->name, description->parameter[i].name);
			if (visit(name, &description->parameter[i], &steelyard_policy.governor_parameter[g][i], data))
				return true;
		}
	}
	return false;
}

/* Reads digits and goes past them; false: there are none, or they say more than 64 bits hold. */
static bool parse_number(const char **text, u64 *number)
{
	const char *digit = *text;

	for (*number = 0; *digit >= '0' && *digit <= '9'; digit++) {
		if (*number > (~0ULL - (*digit - '0')) / 10)
			return false;
		*number = *number * 10 + (*digit - '0');
	}
	if (digit == *text)
		return false;
	*text = digit;
	return true;
}

/* The number of a choice in "one|other|third", or a number; then within the limits. */
static int parse_value(const struct sy_parameter *parameter, const char *text, u64 *value)
{
	const char *choice = parameter->unit, *end;
	u64 number;

	for (number = 0; strchr(parameter->unit, '|'); number++) {
		size_t length;

		end = strchr(choice, '|');
		length = end ? (size_t)(end - choice) : strlen(choice);

		if (strlen(text) == length && !strncmp(choice, text, length)) {
			*value = number;
			return 0;
		}
		if (!end)
			break;
		choice = end + 1;
	}
	if (!parse_number(&text, &number) || *text)
		return -EINVAL;
	if (number < parameter->minimum || number > parameter->maximum)
		return -ERANGE;
	*value = number;
	return 0;
}

/* A parameter of the policy by its name; null, null: it has none of this name. */
struct named_parameter {
	const char *name;
	const struct sy_parameter *parameter;
	u64 *value;
};

static bool cf_check is_named(const char *name, const struct sy_parameter *parameter, u64 *value, void *data)
{
	struct named_parameter *named = data;

	if (strcmp(name, named->name))
		return false;
	named->parameter = parameter;
	named->value = value;
	return true;
}

static struct named_parameter parameter_of(const char *name)
{
	struct named_parameter named = { .name = name };

	for_each_parameter(is_named, &named);
	return named;
}

/* ---- Boot options ---- */

/* Xen hands an option to each variable that asks for it. */
static char __initdata opt_sched[10];
string_param("sched", opt_sched);
static char __initdata opt_policy[sizeof(policy_name)];
string_param("steelyard_policy", opt_policy);
static char __initdata opt_params[512];
#define PARAMS_OPTION "steelyard_params"
/* The first that was not taken, and how many there were: read_options() says so, when the console is there. */
static char __initdata refused_params[MAX_PARAM_SIZE];
static unsigned int __initdata params_refused;

/* A part of a text would set something else: it is taken as a whole, or not at all. */
static int __init cf_check add_params(const char *text)
{
	/* Xen cuts what is longer, name and all, and does not say so. */
	bool cut = strlen(PARAMS_OPTION "=") + strlen(text) >= MAX_PARAM_SIZE - 1;

	if (cut || strlen(opt_params) + strlen(",") + strlen(text) >= sizeof(opt_params)) {
		if (!params_refused++)
			safe_strcpy(refused_params, text);
		return -E2BIG;
	}
	strlcat(opt_params, ",", sizeof(opt_params));
	strlcat(opt_params, text, sizeof(opt_params));
	return 0;
}
custom_param(PARAMS_OPTION, add_params);

/* The policy and its parameters, as the options say or by default. */
static int __init read_options(void)
{
	char *rest = opt_params, *text;

	if (opt_policy[0] && policy_by_name(opt_policy))
		printk(XENLOG_ERR "steelyard: no policy '%s'\n", opt_policy);
	else if (opt_policy[0])
		safe_strcpy(policy_name, opt_policy);
	if (strcmp(policy_name, opt_policy) && policy_by_name(policy_name))
		return -EINVAL;
	if (params_refused)
		printk(XENLOG_ERR "steelyard: " PARAMS_OPTION " too long or too many, %u not followed, the first '%s'\n",
		       params_refused, refused_params);
	while ((text = next_part(&rest, ','))) {
		struct named_parameter named = parameter_of(next_part(&text, '='));
		int result = text && named.value ? parse_value(named.parameter, text, named.value) : -ENOENT;

		if (result && *named.name)
			printk(XENLOG_ERR "steelyard: parameter '%s' not set: %d\n", named.name, result);
	}
	return 0;
}
