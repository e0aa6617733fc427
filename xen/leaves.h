/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * /steelyard: the policy, a leaf per parameter, what each vCPU got, what dom0 asks for its domains, and which packets
 * and loads it tells.
 */

#define VALUE_BYTES 48

/* The text of a leaf that tells of each domain: there from when it is entered until it is left, and locked. */
static char *told;
static unsigned int told_length;
static size_t told_bytes;
static DEFINE_SPINLOCK(told_lock);

/* Calls visit(d) for each domain; `hosts_lock` is held. */
static void for_each_domain_here(void (*visit)(struct host_domain *d))
{
	struct host_domain *d;
	struct host *h;

	list_for_each_entry (h, &hosts, in_hosts) {
		spin_lock(&h->lock);
		list_for_each_entry (d, &h->domain_list, in_host)
			visit(d);
		spin_unlock(&h->lock);
	}
}

/* Who begins between the two walks may not find room, and has got and asked for nothing yet. */
static const struct hypfs_entry *told_enter(const struct hypfs_entry *entry, const char *head,
					    void (*make_room)(struct host_domain *d),
					    void (*add_lines)(struct host_domain *d))
{
	spin_lock(&told_lock);
	spin_lock(&hosts_lock);
	told_bytes = strlen(head) + 1;
	for_each_domain_here(make_room);
	told = xmalloc_array(char, told_bytes);
	if (told) {
		told_length = scnprintf(told, told_bytes, "%s", head);
		for_each_domain_here(add_lines);
	}
	spin_unlock(&hosts_lock);
	if (told)
		return entry;
	spin_unlock(&told_lock);
	return ERR_PTR(-ENOMEM);
}

static void cf_check told_exit(const struct hypfs_entry *entry)
{
	XFREE(told);
	spin_unlock(&told_lock);
}

static unsigned int cf_check told_getsize(const struct hypfs_entry *entry)
{
	return told_length + 1;
}

static int cf_check told_read(const struct hypfs_entry *entry, XEN_GUEST_HANDLE_PARAM(void) to)
{
	return copy_to_guest(to, told, told_length + 1) ? -EFAULT : 0;
}

static void cf_check make_room_for_vcpus(struct host_domain *d)
{
	const struct host_vcpu *v;

	list_for_each_entry (v, &d->vcpus, in_domain)
		told_bytes += STATISTICS_LINE_BYTES;
}

static void cf_check add_vcpus(struct host_domain *d)
{
	const struct host_vcpu *v;

	list_for_each_entry (v, &d->vcpus, in_domain)
		told_length += statistics_line(told + told_length, told_bytes - told_length, v);
}

static const struct hypfs_entry *cf_check statistics_enter(const struct hypfs_entry *entry)
{
	return told_enter(entry, STATISTICS_HEAD, make_room_for_vcpus, add_vcpus);
}

static const struct hypfs_funcs statistics_funcs = {
	.enter = statistics_enter,
	.exit = told_exit,
	.read = told_read,
	.write = hypfs_write_deny,
	.getsize = told_getsize,
	.findentry = hypfs_leaf_findentry,
};

/* A leaf per parameter; its text is the value as a number. */
struct parameter_leaf {
	struct hypfs_entry_leaf leaf;
	const struct sy_parameter *parameter;
	u64 *value;
	char name[64];
};

static const struct parameter_leaf *parameter_leaf(const struct hypfs_entry *entry)
{
	return container_of((struct hypfs_entry *)entry, struct parameter_leaf, leaf.e);
}

static unsigned int cf_check parameter_getsize(const struct hypfs_entry *entry)
{
	char text[VALUE_BYTES];

	return snprintf(text, sizeof(text), "%" PRIu64, *parameter_leaf(entry)->value) + 1;
}

static int cf_check parameter_read(const struct hypfs_entry *entry, XEN_GUEST_HANDLE_PARAM(void) to)
{
	char text[VALUE_BYTES];
	unsigned int size = snprintf(text, sizeof(text), "%" PRIu64, *parameter_leaf(entry)->value) + 1;

	return copy_to_guest(to, text, size) ? -EFAULT : 0;
}

/* What dom0 writes, as a text of at most VALUE_BYTES. */
static int copy_text(char *text, XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size)
{
	if (!size || size > VALUE_BYTES)
		return -EDOM;
	if (copy_from_guest(text, from, size))
		return -EFAULT;
	return text[size - 1] ? -EINVAL : 0;
}

static int cf_check parameter_write(struct hypfs_entry_leaf *leaf,
				    XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size)
{
	const struct parameter_leaf *p = parameter_leaf(&leaf->e);
	char text[VALUE_BYTES];
	u64 value;
	int result = copy_text(text, from, size);

	if (!result)
		result = parse_value(p->parameter, text, &value);
	if (!result)
		change(p->value, value);
	return result;
}

static const struct hypfs_funcs parameter_funcs = {
	.enter = hypfs_node_enter,
	.exit = hypfs_node_exit,
	.read = parameter_read,
	.write = parameter_write,
	.getsize = parameter_getsize,
	.findentry = hypfs_leaf_findentry,
};

/* dom0 says something of a domain, in whichever pool that is. */
static int tell(u64 domain_id, void (*say)(struct host_domain *d, unsigned int what, u64 value),
		unsigned int what, u64 value)
{
	int result = -ENOENT;
	struct host_domain *d;
	struct host *h;

	spin_lock(&hosts_lock);
	list_for_each_entry (h, &hosts, in_hosts) {
		spin_lock(&h->lock);
		d = domain_id < DOMID_FIRST_RESERVED ? look_up(&h->domains, domain_id) : NULL;
		if (d) {
			say(d, what, value);
			result = 0;
		}
		spin_unlock(&h->lock);
	}
	spin_unlock(&hosts_lock);
	return result;
}

/* So many it has received by now. */
static void cf_check say_packets(struct host_domain *d, unsigned int what, u64 packets)
{
	/* What was before the first time nobody has sampled. */
	if (!d->samples.packets)
		d->samples.sampled.packets = packets;
	d->samples.packets = max(packets, d->samples.packets);
}

/* So many percent of a pCPU its work asks for, from now on. */
static void cf_check say_load(struct host_domain *d, unsigned int what, u64 percent)
{
	d->samples.offered = min(percent, (u64)SY_PERCENT_MAX) * SY_PERCENT;
	d->samples.offered_at_ns = NOW();
}

/* What Xen does not see and dom0 tells: "DOMAIN NUMBER". */
static int tell_number(XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size,
		       void (*say)(struct host_domain *d, unsigned int what, u64 value))
{
	char text[VALUE_BYTES];
	const char *rest = text;
	u64 domain_id, number;
	int result = copy_text(text, from, size);

	if (result)
		return result;
	if (!parse_number(&rest, &domain_id) || *rest++ != ' ' || !parse_number(&rest, &number) || *rest)
		return -EINVAL;
	return tell(domain_id, say, 0, number);
}

/* Packets pass through dom0. */
static int cf_check packets_write(struct hypfs_entry_leaf *leaf,
				  XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size)
{
	return tell_number(from, size, say_packets);
}

/* What lies in a guest only the guest knows, and who asks it. */
static int cf_check loads_write(struct hypfs_entry_leaf *leaf,
				XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size)
{
	return tell_number(from, size, say_load);
}

#define FUNCS_OF_TOLD(write_it) \
	{ \
		.enter = hypfs_node_enter, .exit = hypfs_node_exit, .read = hypfs_read_leaf, \
		.write = write_it, .getsize = hypfs_getsize, .findentry = hypfs_leaf_findentry, \
	}

static const struct hypfs_funcs packets_funcs = FUNCS_OF_TOLD(packets_write);
static const struct hypfs_funcs loads_funcs = FUNCS_OF_TOLD(loads_write);

/* A setting is a word of them all; what is not asked for is as the list says. */
static void cf_check say_setting(struct host_domain *d, unsigned int setting, u64 value)
{
	struct sy_settings settings = settings_of(d);

	((u64 *)&settings)[setting] = value;
	engine_domain_change(&d->host->engine, d->number, &settings);
}

/*
 * "DOMAIN SETTING VALUE", with the names of scenarios; "DOMAIN SETTING" asks for it no more. Read, it is a line of that
 * form for each that is asked for.
 */
static int cf_check settings_write(struct hypfs_entry_leaf *leaf,
				   XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size)
{
	char text[VALUE_BYTES], *value;
	const char *rest = text;
	u64 domain_id, number;
	unsigned int i;
	int result = copy_text(text, from, size);

	if (result)
		return result;
	if (!parse_number(&rest, &domain_id) || *rest++ != ' ')
		return -EINVAL;
	value = strchr(rest, ' ');
	if (value)
		*value++ = '\0';
	for (i = 0; i < ARRAY_SIZE(sy_settings_described); i++) {
		if (strcmp(rest, sy_settings_described[i].name))
			continue;
		number = sy_settings_described[i].value[0];
		if (value)
			result = parse_value(&sy_settings_described[i], value, &number);
		return result ?: tell(domain_id, say_setting, i, number);
	}
	return -EINVAL;
}

static void cf_check make_room_for_settings(struct host_domain *d)
{
	told_bytes += ARRAY_SIZE(sy_settings_described) * VALUE_BYTES;
}

static void cf_check add_settings(struct host_domain *d)
{
	const struct sy_settings settings = settings_of(d);
	const u64 *value = (const u64 *)&settings;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sy_settings_described); i++)
		if (value[i] != sy_settings_described[i].value[0])
			told_length += scnprintf(told + told_length, told_bytes - told_length, "%u %s %" PRIu64 "\n",
						 d->number, sy_settings_described[i].name, value[i]);
}

static const struct hypfs_entry *cf_check settings_enter(const struct hypfs_entry *entry)
{
	return told_enter(entry, "", make_room_for_settings, add_settings);
}

static const struct hypfs_funcs settings_funcs = {
	.enter = settings_enter,
	.exit = told_exit,
	.read = told_read,
	.write = settings_write,
	.getsize = told_getsize,
	.findentry = hypfs_leaf_findentry,
};

static HYPFS_DIR_INIT(steelyard_dir, "steelyard");
static HYPFS_DIR_INIT(parameters_dir, "parameters");
static HYPFS_STRING_INIT(policy_leaf, "policy");
static HYPFS_VARSIZE_INIT(packets_leaf, XEN_HYPFS_TYPE_STRING, "packets", VALUE_BYTES, &packets_funcs);
static HYPFS_VARSIZE_INIT(loads_leaf, XEN_HYPFS_TYPE_STRING, "loads", VALUE_BYTES, &loads_funcs);
static HYPFS_VARSIZE_INIT(settings_leaf, XEN_HYPFS_TYPE_STRING, "settings", VALUE_BYTES, &settings_funcs);
static HYPFS_VARSIZE_INIT(statistics_leaf, XEN_HYPFS_TYPE_STRING, "vcpus", 0, &statistics_funcs);

static bool cf_check add_parameter(const char *name, const struct sy_parameter *parameter, u64 *value,
				   void *data)
{
	struct parameter_leaf *p = xzalloc(struct parameter_leaf);

	if (!p)
		return true;
	safe_strcpy(p->name, name);
	p->parameter = parameter;
	p->value = value;
	p->leaf.e.type = XEN_HYPFS_TYPE_STRING;
	p->leaf.e.encoding = XEN_HYPFS_ENC_PLAIN;
	p->leaf.e.name = p->name;
	p->leaf.e.max_size = VALUE_BYTES;
	p->leaf.e.funcs = &parameter_funcs;
	p->leaf.u.content = value;
	INIT_LIST_HEAD(&p->leaf.e.list);
	return hypfs_add_leaf(&parameters_dir, &p->leaf, false);
}

static int __init cf_check steelyard_hypfs_init(void)
{
	if (sched_steelyard_def.sched_id == NOT_IN_USE)
		return 0;
	hypfs_string_set_reference(&policy_leaf, policy_name);
	/* Xen takes no leaf without contents; these have functions of their own. */
	hypfs_string_set_reference(&statistics_leaf, "");
	hypfs_string_set_reference(&settings_leaf, "");
	hypfs_string_set_reference(&packets_leaf, "");
	hypfs_string_set_reference(&loads_leaf, "");
	hypfs_add_dir(&hypfs_root, &steelyard_dir, true);
	hypfs_add_leaf(&steelyard_dir, &policy_leaf, true);
	hypfs_add_leaf(&steelyard_dir, &statistics_leaf, true);
	hypfs_add_leaf(&steelyard_dir, &settings_leaf, true);
	if (sy_wants_packets(&steelyard_policy))
		hypfs_add_leaf(&steelyard_dir, &packets_leaf, true);
	if (sy_wants_offered(&steelyard_policy))
		hypfs_add_leaf(&steelyard_dir, &loads_leaf, true);
	hypfs_add_dir(&steelyard_dir, &parameters_dir, true);
	for_each_parameter(add_parameter, NULL);
	return 0;
}
__initcall(steelyard_hypfs_init);
