// SPDX-License-Identifier: GPL-2.0-only
//! What one execution may cost. Memory is counted by the allocator, thread by thread, so that the count
//! is the same on every machine; it refuses what is beyond the limit, and the program ends there.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write as _;

/// What an execution may hold at a time: that no input takes more than 1 GB is promised.
pub const MOST_BYTES: usize = 1 << 30;

thread_local! {
    /// Bytes that this thread allocated and did not give back; wraps if another one did.
    static HELD: Cell<usize> = const { Cell::new(0) };
    /// The most of them since the execution began, and what was held then.
    static PEAK: Cell<usize> = const { Cell::new(0) };
    static BEFORE: Cell<usize> = const { Cell::new(0) };
    /// Who runs.
    static NAME: Cell<&'static str> = const { Cell::new("") };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

impl Counting {
    /// Whether so much more may be held; if so it is.
    fn hold(more: usize) -> bool {
        let held = HELD.get().wrapping_add(more);
        let since = held.wrapping_sub(BEFORE.get()) as isize;
        if since > MOST_BYTES as isize {
            let name = NAME.get();
            let _ =
                writeln!(std::io::stderr(), "{name} wants more than {MOST_BYTES} bytes at a time");
            return false;
        }
        HELD.set(held);
        PEAK.set(PEAK.get().max(since.max(0) as usize));
        true
    }

    fn give_back(bytes: usize) {
        HELD.set(HELD.get().wrapping_sub(bytes));
    }
}

// SAFETY: all is done by the system's allocator; none of it is refused but what a null pointer tells.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Counting::hold(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the contract is that of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Counting::give_back(layout.size());
        // SAFETY: the contract is that of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !Counting::hold(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the contract is that of the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Counting::hold(size) {
            return std::ptr::null_mut();
        }
        Counting::give_back(layout.size());
        // SAFETY: the contract is that of the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs this; the most bytes that it held at a time.
pub(crate) fn peak_bytes(name: &'static str, run: impl FnOnce()) -> usize {
    NAME.set(name);
    BEFORE.set(HELD.get());
    PEAK.set(0);
    run();
    PEAK.get()
}
