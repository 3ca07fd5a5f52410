/* SPDX-License-Identifier: Apache-2.0 */
/* A client with memory of two GPUs behind its memory agent, on a fake daemon and a fake CUDA; the test is the NIC. */
#ifndef SHMEMD_TESTS_AGENT_LAB_H
#define SHMEMD_TESTS_AGENT_LAB_H

#include <shmd/abi/agent-ring.h>

#include "fake-daemon.h"

#define LAB_BYTES (UINT64_C(2) << 20) /* of each GPU's memory */

struct agent_lab {
	struct fake_daemon fake;
	uint32_t attach_status; /* not 0: the daemon refuses a ring */
	uint32_t reg_status; /* not 0: the daemon refuses regions */
	unsigned int n_silent; /* rings that the daemon takes without an answer */
	unsigned int n_attached, n_deregistered;
	struct msg_mem_reg_req last; /* of kind agent */

	/* The NIC's. */
	uint8_t *ring;
	int agent_fd; /* wakes the agent */
	int nic_fd; /* wakes the NIC */
	struct shmd_nic_page *page;
	uint32_t n_posted, n_seen;

	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_gpu *gpus[2];
	struct shmd_gpu_mem *mems[2];
	uint8_t *at[2]; /* the memories; here they are the host's */
};

/* With memory on each GPU, automatic mode. */
void lab_open(struct agent_lab *lab);
/* Without memory. */
void lab_open_bare(struct agent_lab *lab);
/* Memory of that GPU; it is behind the agent. */
void lab_alloc(struct agent_lab *lab, int gpu);
void lab_close(struct agent_lab *lab);

struct shmd_agent_ring *lab_ring(const struct agent_lab *lab);
/* Where a data offset lies. */
uint8_t *lab_data(const struct agent_lab *lab, uint64_t offset);
/* Writes the next request; the agent sees it once lab_ring_it() was called. */
void lab_post(struct agent_lab *lab, const struct shmd_agent_request *request);
void lab_ring_it(struct agent_lab *lab);
/* Waits for the next completion. */
struct shmd_agent_completion lab_await(struct agent_lab *lab);
/* All of it, for one request. */
struct shmd_agent_completion lab_do(struct agent_lab *lab, const struct shmd_agent_request *request);

#endif
