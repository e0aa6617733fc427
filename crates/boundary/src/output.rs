// SPDX-License-Identifier: GPL-2.0-only
//! One way to write files: regular files are replaced whole or not at all; devices, FIFOs and links are
//! written through; what is read is never written over.
