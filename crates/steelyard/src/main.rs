// SPDX-License-Identifier: GPL-2.0-only
//! The program `steelyard`.

use std::process::ExitCode;

fn main() -> ExitCode {
    steelyard::main()
}
