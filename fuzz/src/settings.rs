// SPDX-License-Identifier: GPL-2.0-only
//! What a person keeps for `top`: any text is taken or refused with a sentence, and what is taken makes rules.

use steelyard_monitor::{Settings, alerting_rules};

/// Any text as `top.toml`.
pub fn text(bytes: &[u8]) {
    match Settings::parse(&String::from_utf8_lossy(bytes)) {
        Ok(settings) => {
            let alerts = settings.alert;
            let told = alerts.waited_percent.is_some() || alerts.wait_p99_ms.is_some();
            assert_eq!(alerting_rules(&alerts).is_some(), told);
        }
        Err(error) => assert!(!error.is_empty()),
    }
}
