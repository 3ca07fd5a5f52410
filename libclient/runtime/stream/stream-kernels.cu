/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels behind calls on streams, by the names of STREAM_NAMES. One block each, of STREAM_THREADS. */
#include "libclient/runtime/stream/stream-kernels.h"

#define STREAM_KERNEL(name, threads) \
	extern "C" __global__ void __launch_bounds__(threads) shmd_##name(const struct stream_call call) \
	{ \
		name(&call); \
	}

STREAM_KERNEL(stream_word, 1)
STREAM_KERNEL(stream_order, 32)
STREAM_KERNEL(stream_move, 512)
STREAM_KERNEL(stream_reduce, 512)
