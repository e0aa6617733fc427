// SPDX-License-Identifier: GPL-2.0-only
//! `ping` from outside: an echo request at a fixed interval, answered by the guest's kernel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ping {
    /// Time between two requests.
    pub interval: Nanoseconds,
    /// CPU time of the guest for one answer.
    pub service: Nanoseconds,
}

impl Default for Ping {
    fn default() -> Self {
        Ping { interval: Nanoseconds::from_ms(100), service: Nanoseconds::from_us(10) }
    }
}
