/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels behind calls on streams, in their C build, for the libcuda of tests, which takes any image for theirs. Include it in one file of
 * a program.
 */
#ifndef SHMEMD_TESTS_FAKE_KERNELS_H
#define SHMEMD_TESTS_FAKE_KERNELS_H

#include "libclient/runtime/stream/stream-kernels.h"
#include "tests/lib/fake-cuda.h"

#define FAKE_KERNEL(name)                                     \
	static void fake_kernel_##name(void **parameters)     \
	{                                                     \
		name(parameters[0]);                          \
	}
FAKE_KERNEL(stream_word)
FAKE_KERNEL(stream_order)
FAKE_KERNEL(stream_move)
FAKE_KERNEL(stream_reduce)

static inline void fake_kernels_add(void)
{
	static void (*const runs[STREAM_N_KERNELS])(void **) = {fake_kernel_stream_word, fake_kernel_stream_order, fake_kernel_stream_move,
								fake_kernel_stream_reduce};
	static const char *const names[STREAM_N_KERNELS] = STREAM_NAMES;

	for (int i = 0; i < STREAM_N_KERNELS; i++)
		fake_cuda_kernel(names[i], runs[i]);
}

#endif
