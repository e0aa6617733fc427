// SPDX-License-Identifier: GPL-2.0-only
//! A busy loop with a duty cycle: compute, sleep, again. Without a sleep it never stops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Busy {
    /// CPU time of each burst.
    pub compute: Nanoseconds,
    /// Sleep after each burst; 0: none.
    pub sleep: Nanoseconds,
    /// Both vary uniformly by up to so many percent.
    #[schemars(range(max = 100))]
    pub jitter_percent: u32,
}

impl Default for Busy {
    fn default() -> Self {
        Busy { compute: Nanoseconds::from_ms(10), sleep: Nanoseconds(0), jitter_percent: 0 }
    }
}
