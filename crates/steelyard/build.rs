// SPDX-License-Identifier: GPL-2.0-only
//! What `steelyard --version` says: the commit, or what `STEELYARD_COMMIT` names where there is no repository of
//! git, and the features.

use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=STEELYARD_COMMIT");
    let commit = env::var("STEELYARD_COMMIT").ok().or_else(commit);
    println!("cargo::rustc-env=STEELYARD_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    let features = ["kvm", "faults"].into_iter().filter(|feature| {
        env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_some()
    });
    let features: Vec<_> = features.collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    println!("cargo::rustc-env=STEELYARD_FEATURES={features}");
}

/// That of the repository in which this is built; asked again when there is a new one.
fn commit() -> Option<String> {
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if fs::exists(&log).unwrap_or(false) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
