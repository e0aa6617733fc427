// SPDX-License-Identifier: GPL-2.0-only
//! The thresholds of [`Alerts`] as rules for Prometheus, of the metrics that [`crate::Exposition`] writes.

use std::fmt::Write as _;

use crate::settings::Alerts;

/// A rule waits so long before it fires, and looks back so far: Prometheus asks every minute, as a rule.
const FOR: &str = "5m";

/// The file of rules; none if there are no thresholds.
#[must_use]
pub fn alerting_rules(alerts: &Alerts) -> Option<String> {
    let Alerts { waited_percent, wait_p99_ms } = *alerts;
    let mut rules = vec![];
    if let Some(percent) = waited_percent {
        let part = percent / 100.0;
        rules.push((
            "SteelyardVmWaits",
            format!(
                "avg by (instance, domain) (rate(steelyard_vcpu_wait_seconds_total[{FOR}])) > {part}"
            ),
            format!("vCPUs of {{{{ $labels.domain }}}} wait for a pCPU more than {percent} % of the time"),
        ));
    }
    if let Some(ms) = wait_p99_ms {
        let seconds = ms / 1e3;
        rules.push((
            "SteelyardVmWaitP99",
            format!(
                "histogram_quantile(0.99, sum by (instance, domain, le) \
                 (rate(steelyard_domain_waits_seconds_bucket[{FOR}]))) > {seconds}"
            ),
            format!(
                "1 % of the waits of {{{{ $labels.domain }}}} for a pCPU are longer than {ms} ms"
            ),
        ));
    }
    if rules.is_empty() {
        return None;
    }
    let mut text = "# Written by `steelyard export --rules`, from [alert] in top.toml.\n\
                    groups:\n- name: steelyard\n  rules:\n"
        .to_owned();
    for (name, expression, summary) in rules {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "  - alert: {name}\n    expr: {expression}\n    for: {FOR}\n    labels:\n      severity: warning\n    \
             annotations:\n      summary: \"{summary}\"\n"
        );
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threshold_is_a_rule() {
        assert_eq!(alerting_rules(&Alerts::default()), None);
        let alerts = Alerts { waited_percent: Some(40.0), wait_p99_ms: Some(20.0) };
        let text = alerting_rules(&alerts).unwrap_or_default();
        assert_eq!(text.matches("- alert:").count(), 2);
        for part in ["_total[5m])) > 0.4\n", "_bucket[5m]))) > 0.02\n", "{{ $labels.domain }}"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
