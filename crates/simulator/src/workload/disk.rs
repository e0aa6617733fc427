// SPDX-License-Identifier: GPL-2.0-only
//! A disk stream such as dd's: each thread reads or writes one block after another, with direct
//! I/O, so that it waits for each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Disk {
    /// Size of a block.
    #[schemars(range(min = 1))]
    pub block_bytes: u64,
    /// CPU time of the guest per block.
    pub block_service: Nanoseconds,
}

impl Default for Disk {
    fn default() -> Self {
        Disk { block_bytes: 1 << 20, block_service: Nanoseconds::from_us(100) }
    }
}
