// SPDX-License-Identifier: GPL-2.0-only
//! For build scripts: the one way in which C is compiled for user space, and what Rust must know of it.
//!
//! What Rust shares with C is checked when it is compiled: a C file names facts (`policy/facts.h`), the compiler's
//! assembly tells their values, as for the Linux kernel's own assembly, and [`facts`] writes them for
//! `steelyard_policy::twin!`, which refuses to compile with others. No C runs, so that this holds for any target.

use std::collections::HashMap;
use std::path::Path;
use std::{env, fs};

/// Compiles a file of the core, or of a host around it, with the flags of a kernel: strict warnings, no type-based
/// aliasing. `policy/` is searched for headers.
pub fn core(file: &str) -> cc::Build {
    println!("cargo::rerun-if-changed=../../policy");
    println!("cargo::rerun-if-changed={file}");
    let mut build = cc::Build::new();
    build
        .file(file)
        .include("../../policy")
        .std("c11")
        .flag("-fno-strict-aliasing")
        // Without it position-independent code may not inline one function into another.
        .flag("-fvisibility=hidden")
        // Debug information does without; each call of the core would pay for one.
        .force_frame_pointer(false)
        .flag("-Wstrict-prototypes")
        // Every discipline answers a call with the same arguments, used or not.
        .flag("-Wno-unused-parameter")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .opt_level(3);
    build
}

/// Writes `facts.rs`, with `FACTS: &[(&str, usize)]`: what this C file says, each by its name; and returns that.
///
/// # Panics
/// If the file does not compile: a build script has no other way to say so.
pub fn facts(file: &str) -> HashMap<String, usize> {
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let assembly = Path::new(&out).join("facts.s");
    let mut compiler = core(file).get_compiler().to_command();
    compiler.args(["-S", "-o"]).arg(&assembly).arg(file);
    assert!(compiler.status().is_ok_and(|status| status.success()), "{compiler:?} failed");
    let text = fs::read_to_string(&assembly).expect("the compiler has written it");
    let facts: Vec<(&str, usize)> = text.lines().filter_map(fact).collect();
    assert!(!facts.is_empty(), "{file} names no facts");
    let constant = format!("const FACTS: &[(&str, usize)] = &{facts:?};\n");
    fs::write(Path::new(&out).join("facts.rs"), constant)
        .expect("cargo's directory can be written");
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Of a line as `.ascii "->NAME VALUE"`, the value as the machine's assembler takes it.
fn fact(line: &str) -> Option<(&str, usize)> {
    let (name, value) = line.split_once("->")?.1.trim_end_matches('"').rsplit_once(' ')?;
    Some((name, value.trim_start_matches(['$', '#']).parse().ok()?))
}
