// SPDX-License-Identifier: GPL-2.0-only
//! The command line: any arguments are understood or refused with a message.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use arbitrary::{Result, Unstructured};
use clap::{CommandFactory as _, Parser as _};
use steelyard::Arguments;

use crate::schema;
use crate::values::{Number, Word, chance};

/// Any arguments, of words that mean something and of bytes.
pub fn arguments(bytes: &[u8]) {
    let Ok(arguments) = words(&mut Unstructured::new(bytes)) else { return };
    if let Err(error) = Arguments::try_parse_from(&arguments) {
        let message = error.render().to_string();
        assert!(!message.is_empty());
        // Zero for what was asked for: help, version.
        assert!(matches!(error.exit_code(), 0 | 2), "{message}");
    }
}

fn words(bytes: &mut Unstructured<'_>) -> Result<Vec<OsString>> {
    let command = Arguments::command();
    let mut arguments = vec![OsString::from("steelyard")];
    let subcommands: Vec<_> = command.get_subcommands().collect();
    let subcommand = bytes.choose(&subcommands)?;
    if chance(bytes, 15, 16)? {
        arguments.push(subcommand.get_name().into());
    }
    let options: Vec<_> = subcommand.get_opts().filter_map(|option| option.get_long()).collect();
    while chance(bytes, 4, 5)? {
        arguments.push(match bytes.int_in_range(0..=9_u8)? {
            0..3 if !options.is_empty() => format!("--{}", bytes.choose(&options)?).into(),
            3 => format!("--{}={}", bytes.arbitrary::<Word>()?.0, bytes.arbitrary::<Word>()?.0)
                .into(),
            4 => bytes.arbitrary::<Number>()?.0.to_string().into(),
            5 => format!("{}ms", bytes.arbitrary::<Number>()?.0).into(),
            6 => schema::policy(bytes)?.into(),
            7 => format!("-{}", bytes.arbitrary::<char>()?).into(),
            8 => bytes.arbitrary::<Word>()?.0.into(),
            _ => OsString::from_vec(bytes.arbitrary()?),
        });
    }
    Ok(arguments)
}
