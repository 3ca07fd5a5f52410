/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels behind calls on streams, loaded into the context of a world's GPU, and the failure that they report there.
 *
 * They are loaded once, by the first call. CUDA may wait for kernels that run then, so that call comes before kernels that wait for other PEs.
 * It also launches each of them, for nothing: a kernel that needs more stack than CUDA has set aside waits in its first launch until no other
 * kernel runs, and holds the lock meanwhile without which a memory agent cannot serve those that do (libclient/README.md).
 *
 * Threads	any
 * Blocks	the first call; stream_kernels_run(), stream_own_run(); and stream_kernels_failure() for a copy
 * Errors	a negative errno and a sentence by shmd_error_set()
 */
#ifndef SHMD_STREAM_KERNELS_HOST_H
#define SHMD_STREAM_KERNELS_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "libclient/cuda/cuda-api.h"
#include "libclient/runtime/stream/stream-call.h"

struct device;
struct stream_kernels;

/* stream-kernels.cu as CUDA loads it; 0 bytes: the library was built without nvcc, and CUDA refuses what there is. */
extern const unsigned char stream_image[];
extern const size_t stream_image_bytes;

/* device stays the caller's, and there until stream_kernels_free(). -EOPNOTSUPP: an image of a build without nvcc, or a driver without what it needs. */
int stream_kernels_new(const struct device *device, struct stream_kernels **ret_kernels);
/* NULL is allowed. No kernel runs. */
void stream_kernels_free(struct stream_kernels *kernels);

/* Returns at once; call->failure_addr is set here. stream: of the device's context. */
int stream_kernels_launch(const struct stream_kernels *kernels, enum stream_kernel kernel, struct stream_call *call, cuda_stream stream);
/* Launches on the stream of the device, and waits. One call at a time; call->source is set here. */
int stream_kernels_run(const struct stream_kernels *kernels, enum stream_kernel kernel, struct stream_call *call, struct stream_result *ret_result);
/* ---- a stream of the library's own for kernels that wait for other PEs, and a word for their failure */

struct stream_own;

int stream_own_new(const struct device *device, struct stream_own **ret_own);
void stream_own_free(struct stream_own *own); /* NULL is allowed. No kernel runs. */
/* Launches there, and waits. status 0 in ret_failure: none. One call at a time. */
int stream_own_run(const struct stream_own *own, const struct stream_kernels *kernels, enum stream_kernel kernel, struct stream_call *call,
		   struct stream_failure *ret_failure);

/* The first failure since the last call, which is forgotten; status 0: none. */
int stream_kernels_failure(const struct stream_kernels *kernels, struct stream_failure *ret_failure);

#endif
