// SPDX-License-Identifier: GPL-2.0-only
//! `sysbench cpu`: threads take events from one common count until none is left. An event tests
//! the numbers up to a limit for primality; its CPU time is the parameter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SysbenchCpu {
    /// Events over all threads; 0: for ever.
    pub events: u64,
    /// CPU time of one event.
    pub event: Nanoseconds,
}

impl Default for SysbenchCpu {
    fn default() -> Self {
        SysbenchCpu { events: 0, event: Nanoseconds::from_ms(1) }
    }
}
