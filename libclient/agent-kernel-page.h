/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory between a memory agent and its kernel. C and CUDA.
 *
 * The kernel says that it has begun and asks; the agent says whether. So the agent alone decides, once, and a kernel that comes late does nothing. Numbers
 * of turns only grow.
 */
#ifndef SHMD_AGENT_KERNEL_PAGE_H
#define SHMD_AGENT_KERNEL_PAGE_H

#include <stdint.h>

#define AGENT_KERNEL_NAME "shmd_agent_writes"
#define AGENT_KERNEL_THREADS 32
#define AGENT_KERNEL_WRITES 254
#define AGENT_KERNEL_NARROW 1u /* in an address: 4 bytes instead of 8 */

struct agent_kernel_write {
	uint64_t addr; /* aligned, and AGENT_KERNEL_NARROW */
	uint64_t value;
};

struct agent_kernel_page {
	uint64_t verdict; /* the agent's: the turn, shifted by one; 1 in the lowest bit: go on */
	uint64_t unused0[7];
	uint64_t begun, ended; /* the kernel's: turns; what it has written is visible to all when it has ended */
	uint64_t unused1[6];
	struct agent_kernel_write writes[AGENT_KERNEL_WRITES]; /* they take effect in their order */
};

#endif
