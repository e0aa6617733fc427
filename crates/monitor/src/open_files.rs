// SPDX-License-Identifier: GPL-2.0-only
//! How many files may be open, and who gets how many: nobody takes all of them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as this process may, and says what it is.
fn limit() -> usize {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // If this is refused, it stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize)
}

/// For files of threads that are watched: half.
pub(crate) fn for_threads() -> usize {
    limit() / 2
}

/// For connections: a quarter.
pub(crate) fn for_connections() -> usize {
    limit() / 4
}
