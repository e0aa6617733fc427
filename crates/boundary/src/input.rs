// SPDX-License-Identifier: GPL-2.0-only
//! One budget of bytes, memory and time for everything that is read, checked while it is unpacked.
