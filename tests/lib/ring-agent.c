/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memory agent for tests. Addresses are those of this process, which it believes: the NIC under test is no attacker. Its thread sleeps
 * as an agent should, so that a wake that is forgotten is seen.
 */
#include "tests/lib/ring-agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/engine/engine.h"
#include "proto/base/fence.h"
#include "tests/lib/test.h"

#define LOOK_MSEC 50 /* for the end of a test; wakes come by the eventfd */

static struct shmd_agent_ring *head_of(const struct ring_agent *agent)
{
	return (struct shmd_agent_ring *)(void *)agent->map;
}

static const struct shmd_agent_request *request_at(const struct ring_agent *agent, uint32_t i)
{
	return (const struct shmd_agent_request *)(const void *)(agent->map + SHMD_AGENT_REQUESTS_OFFSET) + i % SHMD_AGENT_ENTRIES;
}

static uint64_t apply(const struct shmd_agent_request *request)
{
	const struct engine_atomic what = {
		.is_compare_swap = request->op == SHMD_AGENT_COMPARE_SWAP,
		.bytes = (uint8_t)request->bytes,
		.swap_or_add = request->atomic.swap_or_add,
		.compare = request->atomic.compare,
		.swap_mask = request->atomic.swap_mask,
		.compare_mask = request->atomic.compare_mask,
		.boundary = request->atomic.boundary,
	};

	return engine_atomic_apply((void *)(uintptr_t)request->addr, &what);
}

static void carry_out(const struct ring_agent *agent, const struct shmd_agent_request *request, struct shmd_agent_completion *done)
{
	void *at = (void *)(uintptr_t)request->addr;
	uint8_t *data = request->data_offset ? agent->map + request->data_offset : NULL;

	if (request->op == SHMD_AGENT_READ)
		memcpy(data ? data : done->inline_data, at, request->bytes);
	else if (request->op == SHMD_AGENT_WRITE)
		memcpy(at, data ? data : request->inline_data, request->bytes);
	else
		done->old_value = apply(request);
}

static void wake_nic(const struct ring_agent *agent)
{
	const uint64_t one = 1;

	full_fence();
	if (__atomic_load_n(&agent->nic_page->asleep, __ATOMIC_RELAXED))
		ASSERT(write(agent->nic_wake_fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

static void complete(struct ring_agent *agent, uint32_t i)
{
	const struct shmd_agent_request *request = request_at(agent, i);
	struct shmd_agent_completion *done =
		(struct shmd_agent_completion *)(void *)(agent->map + SHMD_AGENT_COMPLETIONS_OFFSET) + agent->n_done % SHMD_AGENT_ENTRIES;

	if (agent->mood == RING_AGENT_SLOW)
		usleep(RING_AGENT_SLOW_MSEC * 1000);
	done->id = request->id ^ (agent->mood == RING_AGENT_STRANGE_ID ? 0x80000000u : 0);
	done->status = agent->mood == RING_AGENT_FAILS ? -EFAULT : 0;
	if (done->status == 0)
		carry_out(agent, request, done);
	agent->n_done += agent->mood == RING_AGENT_STRANGE_COUNT ? SHMD_AGENT_ENTRIES + 1 : 1;
	__atomic_store_n(&head_of(agent)->n_completions, agent->n_done, __ATOMIC_RELEASE);
}

static void serve(struct ring_agent *agent, uint32_t n)
{
	agent->n_most = n > agent->n_most ? n : agent->n_most;
	if (agent->mood == RING_AGENT_STILL)
		return;
	if (agent->mood == RING_AGENT_ENDS)
		__atomic_store_n(&head_of(agent)->agent_state, SHMD_AGENT_ENDED, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; agent->mood != RING_AGENT_ENDS && i < n; i++)
		complete(agent, agent->n_seen + (agent->mood == RING_AGENT_REVERSE ? n - 1 - i : i));
	agent->n_seen += n;
	wake_nic(agent);
}

static uint32_t n_new(const struct ring_agent *agent)
{
	return __atomic_load_n(&head_of(agent)->n_requests, __ATOMIC_SEQ_CST) - agent->n_seen;
}

static void sleep_until_woken(struct ring_agent *agent)
{
	struct pollfd fd = {.fd = agent->wake_fd, .events = POLLIN};
	uint64_t count;

	__atomic_store_n(&head_of(agent)->agent_asleep, 1, __ATOMIC_SEQ_CST);
	if (n_new(agent) == 0 || agent->mood == RING_AGENT_STILL)
		if (poll(&fd, 1, LOOK_MSEC) > 0 && read(agent->wake_fd, &count, sizeof(count)) < 0)
			ASSERT_EQ(errno, EAGAIN);
	__atomic_store_n(&head_of(agent)->agent_asleep, 0, __ATOMIC_SEQ_CST);
}

static void *run(void *arg)
{
	struct ring_agent *agent = arg;
	struct shmd_agent_ring *head = head_of(agent);

	__atomic_store_n(&head->agent_generation, __atomic_load_n(&head->generation, __ATOMIC_ACQUIRE), __ATOMIC_SEQ_CST);
	__atomic_store_n(&head->agent_state, SHMD_AGENT_RUNNING, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&agent->stop, __ATOMIC_ACQUIRE)) {
		uint32_t n = n_new(agent);

		if (n > 0)
			serve(agent, n);
		if (n == 0 || agent->mood == RING_AGENT_STILL)
			sleep_until_woken(agent);
	}
	return NULL;
}

void ring_agent_open(struct ring_agent *agent, uint64_t data_bytes)
{
	struct shmd_agent_ring *head;

	*agent = (struct ring_agent){.bytes = SHMD_AGENT_DATA_OFFSET + data_bytes, .nic_wake_fd = -1};
	agent->fd = memfd_create("test-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ASSERT_GE(agent->fd, 0);
	ASSERT_OK(ftruncate(agent->fd, (off_t)agent->bytes));
	ASSERT_OK(fcntl(agent->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	agent->map = mmap(NULL, agent->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, agent->fd, 0);
	ASSERT(agent->map != MAP_FAILED);
	agent->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ASSERT_GE(agent->wake_fd, 0);
	head = head_of(agent);
	head->version = SHMD_AGENT_RING_VERSION;
	head->size_bytes = sizeof(*head);
	head->data_offset = SHMD_AGENT_DATA_OFFSET;
	head->data_bytes = data_bytes;
}

void ring_agent_start(struct ring_agent *agent, const struct shmd_nic_page *nic_page, int nic_wake_fd, enum ring_agent_mood mood)
{
	agent->nic_page = nic_page;
	agent->nic_wake_fd = nic_wake_fd;
	agent->mood = mood;
	ASSERT_EQ(pthread_create(&agent->thread, NULL, run, agent), 0);
}

void ring_agent_stop(struct ring_agent *agent)
{
	__atomic_store_n(&agent->stop, 1, __ATOMIC_RELEASE);
	if (agent->nic_page)
		pthread_join(agent->thread, NULL);
	agent->nic_page = NULL;
}

void ring_agent_close(struct ring_agent *agent)
{
	ring_agent_stop(agent);
	munmap(agent->map, agent->bytes);
	close(agent->wake_fd);
	close(agent->fd);
}
