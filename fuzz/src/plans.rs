// SPDX-License-Identifier: GPL-2.0-only
//! Plans of `steelyard apply`, and the journal that it keeps: whatever is read is told as commands of one line each,
//! and a journal that is believed says the same when it is written anew.

use steelyard_apply::{Journal, Plan};
use steelyard_scenario::Source;

/// Any text as a plan.
pub fn plan(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = Plan::parse(Source::new("fuzz.toml", text)) {
        assert!(!error.to_string().is_empty());
    }
}

/// Any bytes as a journal.
pub fn journal(bytes: &[u8]) {
    let journal = match Journal::parse(bytes) {
        Ok(journal) => journal,
        Err(error) => return assert!(!error.is_empty()),
    };
    let written = serde_json::to_vec(&journal).expect("a journal is JSON");
    assert_eq!(Journal::parse(&written).as_ref(), Ok(&journal));
    for change in journal.changes() {
        for value in [&change.old, &change.new] {
            let command = change.knob.command(value);
            assert!(command.lines().count() == 1, "{command}");
        }
    }
}
