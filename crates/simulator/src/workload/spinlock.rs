// SPDX-License-Identifier: GPL-2.0-only
//! Threads that compute and then hold one common spin lock for a moment: what happens when the
//! holder, or a waiter, loses its pCPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Spinlock {
    /// CPU time between two critical sections.
    pub compute: Nanoseconds,
    /// CPU time of a critical section.
    pub hold: Nanoseconds,
}

impl Default for Spinlock {
    fn default() -> Self {
        Spinlock { compute: Nanoseconds::from_us(50), hold: Nanoseconds::from_us(5) }
    }
}
