// SPDX-License-Identifier: GPL-2.0-only
//! One place that makes foreign text harmless and short before it reaches a terminal, a log or a metric.
