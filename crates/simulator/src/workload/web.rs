// SPDX-License-Identifier: GPL-2.0-only
//! A web server: a request arrives in one packet, costs CPU time, and the page leaves in packets of
//! 1500 bytes. Clients outside ask at a rate of their own (open loop) or wait for the page and
//! think (closed loop).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// Who asks.
    pub client: Client,
    /// CPU time of a request in the guest.
    pub service: Nanoseconds,
    /// Size of a page.
    pub page_bytes: u64,
}

/// The clients of a [`Web`] server.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Client {
    /// Requests at random (Poisson) at this rate, whether or not earlier ones were answered.
    Open {
        /// Requests per second.
        rate_per_s: u64,
    },
    /// So many clients, each of which waits for its page, then thinks.
    Closed {
        /// Number of clients.
        clients: u32,
        /// Mean time (exponential) between a page and the next request.
        think: Nanoseconds,
    },
}

impl Default for Web {
    fn default() -> Self {
        Web {
            client: Client::Open { rate_per_s: 100 },
            service: Nanoseconds::from_us(300),
            page_bytes: 4096,
        }
    }
}
