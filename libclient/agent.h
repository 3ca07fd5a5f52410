/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory agent: a thread of a client that carries out what NICs in software ask of GPU memory. agent.c has the thread and what it
 * serves, agent-gpu.c carries out, agent-stream.h has the CUDA, agent-ring.h the rings.
 */
#ifndef SHMD_AGENT_H
#define SHMD_AGENT_H

#include "libclient/agent-ring.h"
#include "libclient/agent-stream.h"
#include "libclient/gpu-private.h"

/* ---- agent-gpu.c */

/* A GPU with regions. */
struct agent_gpu {
	struct list link; /* of the agent */
	struct shmd_gpu *gpu; /* counted */
	struct agent_stream stream; /* the agent's thread alone */
	unsigned int n_regions;
};

/* The client's lock is held in the first four. */
int agent_gpu_new(struct shmd_gpu *gpu, struct agent_gpu **ret_gpu);
void agent_gpu_free(struct agent_gpu *gpu);
/* Registers a ring, so that copies from and to it are asynchronous. */
int agent_gpu_pin(struct shmd_gpu *gpu, void *addr, size_t bytes);
void agent_gpu_unpin(struct shmd_gpu *gpu, void *addr);
/*
 * Carries out what has status 0, in order, and returns when all of it is done. An operation that CUDA refuses gets a status. A negative
 * errno, with text, if the GPU carries out nothing more. The agent's thread.
 */
int agent_gpu_carry_out(struct agent_op *ops, unsigned int n);

/* ---- agent.c */

/*
 * From now on the NIC reads and writes these addresses by the agent, which starts with the first such NIC of a client. Takes the client's
 * lock, and makes at most one request.
 */
int agent_region_add(struct shmd_nic *nic, struct shmd_gpu *gpu, uint64_t addr, uint64_t bytes, struct agent_region **ret_region);
/*
 * Waits until nothing is under way in the region, and frees it. -ETIMEDOUT, with text, after the client's time limit: the region then
 * takes no more requests, and the call may be repeated.
 */
int agent_region_end(struct shmd_client *client, struct agent_region *region);
/* Before the NIC is freed. -ETIMEDOUT: a GPU stands still, and the NIC stays. The client's lock is held. */
int agent_forget_nic(struct shmd_nic *nic);
/*
 * The client is closing, in its own process: ends the thread. False if a GPU, or the driver, keeps it beyond the client's time limit: then the
 * thread itself calls end_client() once it is free, and the caller leaves the client alone.
 */
bool agent_stop(struct shmd_client *client, void (*end_client)(struct shmd_client *client));
/* Frees what is left, behind agent_stop(); also in a forked child, where there is no thread. */
void agent_free(struct shmd_client *client);

#endif
