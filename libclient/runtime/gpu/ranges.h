/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU heaps of a node's PEs in the addresses of this process.
 *
 * One range of addresses is reserved for each PE, all of one size, before there is memory. A chunk is memory of each PE on its own GPU, which
 * appears at one offset in the range of that PE; peers get it as a descriptor. So a copy of an address that belongs to another PE is its
 * base plus the same offset, and nothing ever moves. Descriptors of CUDA's memory hold it as mappings do: the last of them frees it.
 *
 * Threads	one call at a time on one object. Blocks: never.
 * Errors	a negative errno and a sentence by shmd_error_set(). A call that fails leaves everything as it was.
 */
#ifndef SHMD_GPU_RANGES_H
#define SHMD_GPU_RANGES_H

#include <stdint.h>

#include "libclient/runtime/gpu/device.h"

#define GPU_RANGES_STEP (UINT64_C(2) << 20) /* chunks begin and end at multiples of it */

struct gpu_ranges;

/*
 * device stays the caller's, and there until gpu_ranges_free(). `own` is this PE's place among the n. The ranges have range_bytes, halved as
 * often as needed where addresses are short. -ENOMEM: less than least_bytes; -EOPNOTSUPP: the GPU has no memory in steps of 2 MiB.
 */
int gpu_ranges_new(const struct device *device, uint32_t n, uint32_t own, uint64_t range_bytes, uint64_t least_bytes,
		   struct gpu_ranges **ret_ranges);
/* Unmaps everything. NULL: nothing. */
void gpu_ranges_free(struct gpu_ranges *ranges);

uint64_t gpu_ranges_bytes(const struct gpu_ranges *ranges);
/* Offset 0 of a PE. */
uint64_t gpu_ranges_base(const struct gpu_ranges *ranges, uint32_t pe);

/* Memory of this PE's GPU at `offset` of its own range, and a descriptor of it for the peers; the caller's, to close. -ENOMEM, ... */
int gpu_ranges_make(struct gpu_ranges *ranges, uint64_t offset, uint64_t bytes, int *ret_fd);
/*
 * The same with memory of the program's that cuMemCreate() has made, and that begins at addr: it appears a second time and stays the program's.
 * -EINVAL: no such memory, or less than bytes; -EOPNOTSUPP: CUDA makes no descriptor of it, or is too old.
 */
int gpu_ranges_lend(struct gpu_ranges *ranges, uint64_t offset, uint64_t addr, uint64_t bytes, int *ret_fd);
/*
 * The memory of another PE, in that PE's range. fd stays the caller's. -EXDEV: CUDA has no way from this GPU to that memory, as between GPUs
 * without peer access, MIG devices, or processes that it keeps apart.
 */
int gpu_ranges_take(struct gpu_ranges *ranges, uint32_t pe, int fd, uint64_t offset, uint64_t bytes);
/* Unmap what is there of the chunk at `offset`, of all PEs, because another PE could not map it. Addresses stay reserved. */
void gpu_ranges_undo(struct gpu_ranges *ranges, uint64_t offset);

#endif
