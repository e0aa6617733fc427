/* SPDX-License-Identifier: GPL-2.0-only */
#define bpf_core_field_exists(type, field) model_kvm_is_there
#define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)
#define BPF_CORE_READ(object, field) ((object)->field)
