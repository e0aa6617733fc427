// SPDX-License-Identifier: GPL-2.0-only
/* What `ffi.rs` must agree with: the structs of policy/vocabulary.h that it has twins of. */
#include "../../../policy/core.c"
#include "../../../policy/facts.h"

/* Where it lies, and from what to what it goes. */
#define SETTING(field, name, unit, least, most, ...) \
	FIELD(sy_settings, field); \
	FACT(name " least", least); \
	FACT(name " most", most);

void facts(void);

void facts(void)
{
	CONSTANT(SY_PARAMETER_WORDS);
	CONSTANT(SY_GOVERNORS);
	CONSTANT(SY_GOVERNOR_PARAMETER_WORDS);
	CONSTANT(SY_GOVERNORS_HOST_WORDS);
	CONSTANT(SY_GOVERNORS_DOMAIN_WORDS);
	CONSTANT(SY_GOVERNORS_VCPU_WORDS);
	CONSTANT(SY_GOVERNORS_QUEUE_WORDS);
	CONSTANT(SY_VINTAGES);
	CONSTANT(SY_VCPU_WORDS);
	CONSTANT(SY_DOMAIN_WORDS);
	CONSTANT(SY_QUEUE_WORDS);
	CONSTANT(SY_PCPU_WORDS);
	CONSTANT(SY_ACCOUNTING_WORDS);

	SIZE(sy_policy);
	FIELD(sy_policy, discipline);
	FIELD(sy_policy, governors);
	FIELD(sy_policy, parameter);
	FIELD(sy_policy, governor_parameter);

	SIZE(sy_settings);
	SY_SETTINGS(SETTING)

	SIZE(sy_sample);
	FIELD(sy_sample, interval_ns);
	FIELD(sy_sample, gotten_ns);
	FIELD(sy_sample, waited_ns);
	FIELD(sy_sample, packets);
	FIELD(sy_sample, waits);
	FIELD(sy_sample, late_waits);
	FIELD(sy_sample, offered_ns);
	FIELD(sy_sample, offered_age_ns);

	SIZE(sy_vcpu);
	FIELD(sy_vcpu, timer_ns);
	FIELD(sy_vcpu, pcpu);
	FIELD(sy_vcpu, runnable);
	FIELD(sy_vcpu, index);
	FIELD(sy_vcpu, apart);
	FIELD(sy_vcpu, first);
	FIELD(sy_vcpu, boost_ns);
	FIELD(sy_vcpu, asked);
	FIELD(sy_vcpu, state);
	FIELD(sy_vcpu, governor);

	SIZE(sy_domain);
	FIELD(sy_domain, id);
	FIELD(sy_domain, settings);
	FIELD(sy_domain, weight);
	FIELD(sy_domain, slice_ns);
	FIELD(sy_domain, tick_ns);
	FIELD(sy_domain, account_ns);
	FIELD(sy_domain, vcpus);
	FIELD(sy_domain, timer_ns);
	FIELD(sy_domain, group);
	FIELD(sy_domain, state);
	FIELD(sy_domain, governor);

	SIZE(sy_governor);
	FIELD(sy_governor, reweigh);
	FIELD(sy_governor, governor);

	SIZE(sy_queue);
	FIELD(sy_queue, pcpus);
	FIELD(sy_queue, queued);
	FIELD(sy_queue, state);
	FIELD(sy_queue, governor);

	SIZE(sy_pcpu);
	FIELD(sy_pcpu, id);
	FIELD(sy_pcpu, busy);
	FIELD(sy_pcpu, started_ns);
	FIELD(sy_pcpu, state);

	SIZE(sy_accounting);
	FIELD(sy_accounting, pcpus);
	FIELD(sy_accounting, state);

	SIZE(sy_parameter);
	FIELD(sy_parameter, name);
	FIELD(sy_parameter, unit);
	FIELD(sy_parameter, minimum);
	FIELD(sy_parameter, maximum);
	FIELD(sy_parameter, help);
	FIELD(sy_parameter, source);
	FIELD(sy_parameter, value);

	SIZE(sy_description);
	FIELD(sy_description, name);
	FIELD(sy_description, help);
	FIELD(sy_description, vintage);
	FIELD(sy_description, parameters);
	FIELD(sy_description, parameter);
	FIELD(sy_description, known);
	FIELD(sy_description, disciplines);
	FIELD(sy_description, reason);

	SIZE(sy_published);
	FIELD(sy_published, name);
	FIELD(sy_published, meaning);
}
