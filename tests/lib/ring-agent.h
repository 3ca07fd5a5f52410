/* SPDX-License-Identifier: Apache-2.0 */
/* A memory agent for tests: a thread that serves an agent ring over memory of this process, well or badly. */
#ifndef SHMD_TESTS_LIB_RING_AGENT_H
#define SHMD_TESTS_LIB_RING_AGENT_H

#include <pthread.h>
#include <stdint.h>

#include <shmd/abi/agent-ring.h>
#include <shmd/abi/doorbell.h>

#define RING_AGENT_SLOW_MSEC 50u

enum ring_agent_mood {
	RING_AGENT_FAIR,
	RING_AGENT_REVERSE, /* each batch that it finds, from the last request to the first */
	RING_AGENT_SLOW, /* RING_AGENT_SLOW_MSEC for each request */
	RING_AGENT_STILL, /* takes nothing, until it ends */
	RING_AGENT_STRANGE_ID, /* completes what nobody asked for */
	RING_AGENT_STRANGE_COUNT, /* completes more than was asked for */
	RING_AGENT_FAILS, /* each request with -EFAULT */
	RING_AGENT_ENDS, /* with the first request, and says so */
};

struct ring_agent {
	int fd; /* the ring */
	uint8_t *map;
	uint64_t bytes;
	enum ring_agent_mood mood;
	int wake_fd; /* its own */
	int nic_wake_fd; /* borrowed */
	const struct shmd_nic_page *nic_page; /* borrowed; NULL: no thread runs */
	pthread_t thread;
	uint32_t stop; /* atomic */
	uint32_t n_seen, n_done, n_most; /* requests; the most in one batch */
};

/* A ring that no thread serves yet. */
void ring_agent_open(struct ring_agent *agent, uint64_t data_bytes);
void ring_agent_start(struct ring_agent *agent, const struct shmd_nic_page *nic_page, int nic_wake_fd, enum ring_agent_mood mood);
void ring_agent_stop(struct ring_agent *agent); /* its thread: the NIC page is not read any more */
void ring_agent_close(struct ring_agent *agent); /* also one that was not started */

#endif
