/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before a kernel of ours is launched there are the kernels of the world, which its first call loads under world->gpu_copies, and the copies
 * of context and team that the kernel reads.
 *
 * Threads	any
 * Blocks	a first call for a world, a context or a team
 * Errors	a negative errno and a sentence by shmd_error_set()
 */
#ifndef SHMD_STREAM_BEGIN_H
#define SHMD_STREAM_BEGIN_H

#include <shmd.h>

#include "libclient/runtime/stream/stream-call.h"

/* The world has a GPU heap. team: NULL if there is none. */
int stream_begin(struct shmd_ctx *ctx, struct shmd_team *team, struct stream_call *call);

/*
 * An atomic on a word of the GPU heap that is mapped, by a kernel on the library's own stream; done when it returns. 0; 1 with the status of
 * the device function in ret_result; or an error of CUDA. One at a time in a world.
 */
int stream_atomic(struct shmd_ctx *ctx, void *word, const struct shmd_atomic *atomic, int pe, struct stream_result *ret_result);

#endif
