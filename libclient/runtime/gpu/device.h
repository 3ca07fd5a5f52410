/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU of a PE: its context, a stream of the library's own, memory and copies.
 *
 * Calls make the context current and leave the caller's own behind; they work while a thread captures a stream. Copies go by a stream
 * that waits for no kernel, and are done when the call returns. A GPU is never used in a forked child: CUDA does not work there.
 *
 * Threads	any. Blocks: for a copy.
 * Errors	a negative errno and a sentence by shmd_error_set().
 */
#ifndef SHMD_GPU_DEVICE_H
#define SHMD_GPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/cuda/cuda-api.h"

struct device {
	const struct cuda_api *cuda;
	cuda_ordinal ordinal;
	cuda_context context;
	cuda_stream stream;
	bool is_primary; /* the primary context, retained here */
};

/* "auto", "current", "none" or a number. -EINVAL with a sentence. */
int device_check_name(const char *which);
/*
 * which: "current": the context of this thread; a number: the primary context of that GPU; "auto": the current context if there is one, else
 * GPU `node_pe` modulo their number. -ENODEV, -EINVAL.
 */
int device_open(const char *which, int node_pe, struct device **ret_device);
void device_close(struct device *device); /* NULL is allowed */

/* Its PCI address; empty if CUDA does not say it. */
void device_pci(const struct device *device, char *text, size_t bytes);

/* Makes the context current until device_leave(), and this thread's captures relaxed. Not again in between. */
int device_enter(const struct device *device);
/* Leaves the context. 0; or a negative errno, with a sentence, if result is not CUDA_OK. */
int device_leave(const struct device *device, cuda_result result, const char *what);

/* Memory of a GPU is at this address. False also where CUDA is too old to say. */
bool device_has_memory_at(const struct device *device, uint64_t addr);

/* Memory of the library on the GPU, zeroed. */
int device_alloc(const struct device *device, size_t bytes, uint64_t *ret_addr);
void device_free(const struct device *device, uint64_t addr); /* 0 is allowed */

int device_write(const struct device *device, uint64_t to, const void *from, size_t bytes);
/* 1, 2, 4 or 8 bytes, aligned: kernels see all of them or none. */
int device_write_word(const struct device *device, uint64_t to, uint64_t value, size_t bytes);
int device_read(const struct device *device, void *to, uint64_t from, size_t bytes);
int device_zero(const struct device *device, uint64_t at, size_t bytes);
/* The two may overlap. -ENOMEM */
int device_move(const struct device *device, uint64_t to, uint64_t from, size_t bytes);

#endif
