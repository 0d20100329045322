// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Arrays that user space maps into its memory.
#ifndef SLUICE_ARRAY_H
#define SLUICE_ARRAY_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define TABLE(name, entries, content)         \
    struct {                                  \
        __uint(type, BPF_MAP_TYPE_ARRAY);     \
        __uint(max_entries, entries);         \
        __uint(map_flags, BPF_F_MMAPABLE);    \
        __type(key, __u32);                   \
        __type(value, content);               \
    } name SEC(".maps")

#endif
