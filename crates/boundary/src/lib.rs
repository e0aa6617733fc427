// SPDX-License-Identifier: GPL-2.0-only
//! Where Steelyard meets bytes that are not its own: [`input`] reads them within a budget, [`text`]
//! tells them harmlessly, [`output`] writes files whole. Whoever reads, tells or writes does it here.

pub mod input;
pub mod output;
pub mod text;
