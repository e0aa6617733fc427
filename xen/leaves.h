/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * /steelyard: the policy, a leaf per parameter, what each vCPU got, what dom0 asks for its domains and which packets
 * it tells.
 */

/* The text of the leaf /steelyard/vcpus: there from when it is entered until it is left, and locked. */
static char *statistics;
static unsigned int statistics_length;
static DEFINE_SPINLOCK(statistics_lock);

/* Calls visit(v) for each vCPU; `hosts_lock` is held. One without a domain may have no cpupool yet. */
static void for_each_vcpu_here(void (*visit)(const struct host_vcpu *v, void *data), void *data)
{
	const struct host_domain *d;
	const struct host_vcpu *v;
	struct host *h;

	list_for_each_entry (h, &hosts, in_hosts) {
		spin_lock(&h->lock);
		list_for_each_entry (d, &h->domain_list, in_host)
			list_for_each_entry (v, &d->vcpus, in_domain)
				visit(v, data);
		spin_unlock(&h->lock);
	}
}

static void cf_check count_line(const struct host_vcpu *v, void *bytes)
{
	*(size_t *)bytes += STATISTICS_LINE_BYTES;
}

static void cf_check add_line(const struct host_vcpu *v, void *bytes)
{
	statistics_length += statistics_line(statistics + statistics_length, *(size_t *)bytes - statistics_length, v);
}

/* Who begins between the two walks may not find room, and has got nothing yet. */
static const struct hypfs_entry *cf_check statistics_enter(const struct hypfs_entry *entry)
{
	size_t bytes = sizeof(STATISTICS_HEAD);

	spin_lock(&statistics_lock);
	spin_lock(&hosts_lock);
	for_each_vcpu_here(count_line, &bytes);
	statistics = xmalloc_array(char, bytes);
	if (statistics) {
		statistics_length = scnprintf(statistics, bytes, STATISTICS_HEAD);
		for_each_vcpu_here(add_line, &bytes);
	}
	spin_unlock(&hosts_lock);
	if (statistics)
		return entry;
	spin_unlock(&statistics_lock);
	return ERR_PTR(-ENOMEM);
}

static void cf_check statistics_exit(const struct hypfs_entry *entry)
{
	XFREE(statistics);
	spin_unlock(&statistics_lock);
}

static unsigned int cf_check statistics_getsize(const struct hypfs_entry *entry)
{
	return statistics_length + 1;
}

static int cf_check statistics_read(const struct hypfs_entry *entry, XEN_GUEST_HANDLE_PARAM(void) to)
{
	return copy_to_guest(to, statistics, statistics_length + 1) ? -EFAULT : 0;
}

static const struct hypfs_funcs statistics_funcs = {
	.enter = statistics_enter,
	.exit = statistics_exit,
	.read = statistics_read,
	.write = hypfs_write_deny,
	.getsize = statistics_getsize,
	.findentry = hypfs_leaf_findentry,
};

/* A leaf per parameter; its text is the value as a number. */
struct parameter_leaf {
	struct hypfs_entry_leaf leaf;
	const struct sy_parameter *parameter;
	u64 *value;
	char name[64];
};

#define VALUE_BYTES 48

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

/* Xen does not see packets; dom0, which moves them, tells: "DOMAIN PACKETS". */
static int cf_check packets_write(struct hypfs_entry_leaf *leaf,
				  XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size)
{
	char text[VALUE_BYTES];
	const char *rest = text;
	u64 domain_id, packets;
	int result = copy_text(text, from, size);

	if (result)
		return result;
	if (!parse_number(&rest, &domain_id) || *rest++ != ' ' || !parse_number(&rest, &packets) || *rest)
		return -EINVAL;
	return tell(domain_id, say_packets, 0, packets);
}

static const struct hypfs_funcs packets_funcs = {
	.enter = hypfs_node_enter,
	.exit = hypfs_node_exit,
	.read = hypfs_read_leaf,
	.write = packets_write,
	.getsize = hypfs_getsize,
	.findentry = hypfs_leaf_findentry,
};

/* A setting is a word of them all. */
static void cf_check say_setting(struct host_domain *d, unsigned int setting, u64 value)
{
	struct sy_settings settings = settings_of(d);

	((u64 *)&settings)[setting] = value;
	engine_domain_change(&d->host->engine, d->number, &settings);
}

/* "DOMAIN SETTING VALUE", with the names of scenarios; "DOMAIN SETTING" asks for it no more. */
static int cf_check settings_write(struct hypfs_entry_leaf *leaf,
				   XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size)
{
	char text[VALUE_BYTES], *value;
	const char *rest = text;
	u64 domain_id, number = 0;
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
		if (value)
			result = parse_value(&sy_settings_described[i], value, &number);
		return result ?: tell(domain_id, say_setting, i, number);
	}
	return -EINVAL;
}

static const struct hypfs_funcs settings_funcs = {
	.enter = hypfs_node_enter,
	.exit = hypfs_node_exit,
	.read = hypfs_read_leaf,
	.write = settings_write,
	.getsize = hypfs_getsize,
	.findentry = hypfs_leaf_findentry,
};

static HYPFS_DIR_INIT(steelyard_dir, "steelyard");
static HYPFS_DIR_INIT(parameters_dir, "parameters");
static HYPFS_STRING_INIT(policy_leaf, "policy");
static HYPFS_VARSIZE_INIT(packets_leaf, XEN_HYPFS_TYPE_STRING, "packets", VALUE_BYTES, &packets_funcs);
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
	if (list_empty(&hosts))
		return 0;
	hypfs_string_set_reference(&policy_leaf, policy_name);
	/* Xen takes no leaf without contents; these have functions of their own. */
	hypfs_string_set_reference(&statistics_leaf, "");
	hypfs_string_set_reference(&settings_leaf, "");
	hypfs_string_set_reference(&packets_leaf, "");
	hypfs_add_dir(&hypfs_root, &steelyard_dir, true);
	hypfs_add_leaf(&steelyard_dir, &policy_leaf, true);
	hypfs_add_leaf(&steelyard_dir, &statistics_leaf, true);
	hypfs_add_leaf(&steelyard_dir, &settings_leaf, true);
	if (sy_wants_packets(&policy))
		hypfs_add_leaf(&steelyard_dir, &packets_leaf, true);
	hypfs_add_dir(&steelyard_dir, &parameters_dir, true);
	for_each_parameter(add_parameter, NULL);
	return 0;
}
__initcall(steelyard_hypfs_init);
