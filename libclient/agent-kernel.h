/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many small writes of a memory agent by one small kernel, where the GPU has room for it at once.
 *
 * A launch would wait for kernels of the program where these fill the GPU, and they may wait for the agent. So the kernel has a stream of its own, and asks
 * before it writes. If it has not begun within some microseconds the agent forbids it to write, takes memory operations of its other stream, and launches none
 * until that one has come and gone. The agent asks CUDA for the memory before a launch, since a kernel that writes to memory that the program has freed ends
 * the context.
 *
 * Without nvcc at build time, or without what it takes of the driver, there is none. The agent's thread, but making and freeing.
 */
#ifndef SHMD_AGENT_KERNEL_H
#define SHMD_AGENT_KERNEL_H

#include "libclient/agent-kernel-page.h"
#include "libclient/gpu-private.h"

struct agent_kernel {
	const struct cuda_api *cuda;
	cuda_stream stream;
	cuda_module module;
	cuda_function function; /* NULL: there is none */
	struct agent_kernel_page *page;
	cuda_address page_on_gpu;
	uint64_t n_turns; /* begun with */
	bool is_late; /* the agent has forbidden the last one to write, and it may not have begun */
	uint64_t again_nsec; /* no launch before */
};

extern const unsigned char agent_image[];
extern const size_t agent_image_bytes;

/* The GPU's context is current in all of these. The stream becomes the kernel's. Without a part of it there is no kernel. */
void agent_kernel_init(struct agent_kernel *kernel, const struct cuda_api *cuda, cuda_stream stream);
/* The agent has forbidden it to write, and it has not come. */
bool agent_kernel_is_late(const struct agent_kernel *kernel);
/* A kernel that does not come soon keeps its memory and its image. */
void agent_kernel_deinit(struct agent_kernel *kernel);
/* Writes of 4 or 8 bytes, done when it returns 0. 1: nothing has happened. A negative errno, with text: the end of the context. */
int agent_kernel_write(struct agent_kernel *kernel, const struct cuda_memop *memops, unsigned int n);

#endif
