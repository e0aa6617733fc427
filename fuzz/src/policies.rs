// SPDX-License-Identifier: GPL-2.0-only
//! Policies: every name and every parameter that is accepted schedules, and comes back from its text.

use arbitrary::{Arbitrary as _, Result, Unstructured};
use steelyard_policy::Policy;
use steelyard_simulator::config::{Boost, Domain, Host, Reservation, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, Spinlock};

use crate::scenarios::simulate;
use crate::schema;
use crate::values::{Number, Word, chance};

/// vCPUs compute for so long at least.
const LEAST_NS: u64 = 100;

/// A policy by any name with any parameters, on a host of two pCPUs.
pub fn policy(bytes: &[u8]) {
    let _ = any(&mut Unstructured::new(bytes));
}

fn any(bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut policy = match Policy::named(&schema::policy(bytes)?) {
        Ok(policy) => policy,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Ok(());
        }
    };
    assert!(Policy::named(&policy.to_string()).is_ok(), "{policy}");
    // Mostly parameters that it has.
    let known: Vec<_> = policy.values().map(|(name, parameter, _)| (name, parameter)).collect();
    while chance(bytes, 3, 4)? {
        if known.is_empty() || chance(bytes, 1, 8)? {
            let (name, value) = schema::parameter(bytes)?;
            let value =
                if bytes.arbitrary()? { value.to_string() } else { Word::arbitrary(bytes)?.0 };
            if let Err(error) = policy.set(&name, &value) {
                assert!(!error.to_string().is_empty());
            }
            continue;
        }
        let (name, parameter) = bytes.choose(&known)?;
        let value = match bytes.int_in_range(0..=3_u8)? {
            0 => parameter.minimum,
            1 => parameter.maximum,
            2 => parameter.minimum.saturating_add(bytes.arbitrary::<u8>()?.into()),
            _ => bytes.arbitrary::<Number>()?.0,
        };
        let text = parameter.format(value);
        if policy.set(name, &text).is_ok() {
            assert_eq!(policy.value(name), Some(value), "{name} = {text}");
        }
    }
    let setup = setup(bytes)?;
    simulate(&setup, &policy, 1 << 40, LEAST_NS);
    Ok(())
}

fn setup(bytes: &mut Unstructured<'_>) -> Result<Setup> {
    let pcpus = bytes.int_in_range(1..=2)?;
    let mut domains = vec![];
    for index in 0..bytes.int_in_range(1..=3)? {
        let mut domain = Domain::new(index.to_string(), bytes.int_in_range(1..=3)?);
        domain.weight = *bytes.choose(&[1, 2, 255, 256, 257, 65_535])?;
        domain.cap_percent = *bytes.choose(&[0, 0, 0, 1, 20, 100])? * pcpus;
        if chance(bytes, 1, 4)? {
            let period = bytes.int_in_range(10_000..=20_000_000)?;
            domain.sedf = Some(Reservation {
                period: Nanoseconds(period),
                slice: Nanoseconds(bytes.int_in_range(5_000..=period)?),
                extra_time: bytes.arbitrary()?,
            });
        }
        if chance(bytes, 1, 4)? {
            let limit = Nanoseconds(bytes.arbitrary::<Number>()?.0.min(1 << 62));
            domain.boost = Some(Boost { limit, ratio_percent: bytes.int_in_range(0..=200)? });
        }
        let time = |bytes: &mut Unstructured<'_>| {
            bytes.int_in_range(LEAST_NS..=20_000_000).map(Nanoseconds)
        };
        let threads = bytes.int_in_range(1..=4)?;
        domains.push(if chance(bytes, 1, 4)? {
            let (compute, hold) = (time(bytes)?, time(bytes)?);
            domain.with_task(threads, Spinlock { compute, hold })
        } else {
            let sleep = if bytes.arbitrary()? { time(bytes)? } else { Nanoseconds(0) };
            domain.with_task(threads, Busy { compute: time(bytes)?, sleep, ..Busy::default() })
        });
    }
    Ok(Setup { host: Host::with_pcpus(pcpus), domains })
}
