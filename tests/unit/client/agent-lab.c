/* SPDX-License-Identifier: Apache-2.0 */
/* See agent-lab.h. */
#include "agent-lab.h"

#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/fence.h"
#include "proto/status.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"

#define RING_BYTES (SHMD_AGENT_DATA_OFFSET + SHMD_AGENT_DATA_BYTES)

/* ---- the daemon ------------------------------------------------------------------------------------------------------ */

static void answer_open(struct agent_lab *lab, uint64_t id)
{
	int fds[3] = {fake_memfd(4096), fake_memfd(4096), eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	struct msg rep;

	lab->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	ASSERT(lab->page != MAP_FAILED);
	lab->page->version = SHMD_NIC_PAGE_VERSION;
	lab->nic_fd = fds[2];
	msg_init(&rep, MSG_NIC_OPEN_REP, id);
	rep.nic_open_rep.doorbell = 1;
	rep.nic_open_rep.nic_page_fd = 2;
	rep.nic_open_rep.wake_fd = 3;
	memcpy(rep.nic_open_rep.info.name, "soft0", 6);
	rep.nic_open_rep.info.n_mem_kinds = 2;
	rep.nic_open_rep.info.mem_kinds[0] = MSG_MEM_MEMFD;
	rep.nic_open_rep.info.mem_kinds[1] = MSG_MEM_AGENT;
	fake_send(&lab->fake, &rep, fds, 3);
	close(fds[0]);
	close(fds[1]);
}

static void answer_attach(struct agent_lab *lab, const struct msg *req, struct fdlist *fds)
{
	struct msg rep;

	ASSERT_EQ(fds->n, 1);
	if (lab->n_silent) {
		lab->n_silent--;
		return;
	}
	if (lab->attach_status) {
		fake_send_error(&lab->fake, req->id, lab->attach_status, "no rings today");
		return;
	}
	lab->ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fdlist_get(fds, 0), 0);
	ASSERT(lab->ring != MAP_FAILED);
	ASSERT_EQ(lab_ring(lab)->version, SHMD_AGENT_RING_VERSION);
	ASSERT_EQ(lab_ring(lab)->size_bytes, sizeof(struct shmd_agent_ring));
	ASSERT_EQ(lab_ring(lab)->data_offset, SHMD_AGENT_DATA_OFFSET);
	ASSERT_EQ(lab_ring(lab)->data_bytes, SHMD_AGENT_DATA_BYTES);
	lab->agent_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	lab->n_attached++;
	__atomic_store_n(&lab_ring(lab)->generation, 1, __ATOMIC_RELEASE);
	msg_init(&rep, MSG_AGENT_ATTACH_REP, req->id);
	fake_send(&lab->fake, &rep, &lab->agent_fd, 1);
}

static void answer_reg(struct agent_lab *lab, const struct msg *req)
{
	struct msg rep;

	if (req->mem_reg_req.kind == MSG_MEM_AGENT) {
		lab->last = req->mem_reg_req;
		if (lab->reg_status) {
			fake_send_error(&lab->fake, req->id, lab->reg_status, "no regions today");
			return;
		}
	}
	msg_init(&rep, MSG_MEM_REG_REP, req->id);
	rep.mem_reg_rep.mr = 9;
	fake_send(&lab->fake, &rep, NULL, 0);
}

static void handle(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct agent_lab *lab = fake->arg;

	if (req->kind == MSG_NIC_OPEN_REQ) {
		answer_open(lab, req->id);
	} else if (req->kind == MSG_AGENT_ATTACH_REQ) {
		answer_attach(lab, req, fds);
	} else if (req->kind == MSG_MEM_REG_REQ) {
		answer_reg(lab, req);
	} else if (req->kind == MSG_MEM_DEREG_REQ) {
		lab->n_deregistered++;
		fake_send_ok(fake, req->id);
	}
}

/* ---- the client ------------------------------------------------------------------------------------------------------ */

void lab_open_bare(struct agent_lab *lab)
{
	lab->fake.handle = handle;
	lab->fake.arg = lab;
	lab->agent_fd = -1;
	ASSERT_OK(fake_open(&lab->fake, NULL, &lab->client));
	ASSERT_OK(shmd_nic_open(lab->client, NULL, &lab->nic));
	for (int i = 0; i < 2; i++)
		ASSERT_OK(shmd_gpu_open(lab->client, i, &lab->gpus[i]));
}

void lab_alloc(struct agent_lab *lab, int gpu)
{
	const struct shmd_gpu_mem_attr attr = {.bytes = LAB_BYTES, .access = SHMD_ACCESS_ALL};
	struct shmd_gpu_mem_info info;

	if (shmd_gpu_mem_alloc(lab->gpus[gpu], lab->nic, &attr, &lab->mems[gpu]) < 0)
		test_fail(TEST_WHERE, "no memory: %s", shmd_error_text());
	ASSERT_OK(shmd_gpu_mem_info(lab->mems[gpu], &info));
	ASSERT_EQ(info.mode, SHMD_GPU_MEM_AGENT);
	lab->at[gpu] = (uint8_t *)(uintptr_t)info.addr;
}

void lab_open(struct agent_lab *lab)
{
	lab_open_bare(lab);
	for (int i = 0; i < 2; i++)
		lab_alloc(lab, i);
}

void lab_close(struct agent_lab *lab)
{
	struct fake_cuda_counts counts;

	shmd_client_close(lab->client);
	fake_join(&lab->fake);
	if (lab->ring)
		munmap(lab->ring, RING_BYTES);
	munmap(lab->page, 4096);
	safe_close(lab->agent_fd);
	close(lab->nic_fd);
	counts = fake_cuda_counts();
	ASSERT_EQ(counts.allocations, 0);
	ASSERT_EQ(counts.registered, 0);
	ASSERT_EQ(counts.contexts, 0);
	ASSERT_EQ(counts.streams, 0);
}

/* ---- the NIC --------------------------------------------------------------------------------------------------------- */

struct shmd_agent_ring *lab_ring(const struct agent_lab *lab)
{
	return (struct shmd_agent_ring *)(void *)lab->ring;
}

uint8_t *lab_data(const struct agent_lab *lab, uint64_t offset)
{
	return lab->ring + offset;
}

static void wait_generation(const struct agent_lab *lab)
{
	const struct shmd_agent_ring *ring = lab_ring(lab);

	while (__atomic_load_n(&ring->agent_generation, __ATOMIC_ACQUIRE) != ring->generation)
		sched_yield();
}

void lab_post(struct agent_lab *lab, const struct shmd_agent_request *request)
{
	struct shmd_agent_request *slots = (struct shmd_agent_request *)(void *)(lab->ring + SHMD_AGENT_REQUESTS_OFFSET);

	wait_generation(lab);
	slots[lab->n_posted++ % SHMD_AGENT_ENTRIES] = *request;
}

/*
 * ThreadSanitizer does not see that the ring's two mappings are one, so it knows nothing of the order that the counts make. The lock of the
 * driver, which the agent takes in between, makes one that it knows.
 */
static void show_order(void)
{
	(void)fake_cuda_counts();
}

void lab_ring_it(struct agent_lab *lab)
{
	const uint64_t one = 1;

	show_order();
	__atomic_store_n(&lab_ring(lab)->n_requests, lab->n_posted, __ATOMIC_RELEASE);
	full_fence();
	if (__atomic_load_n(&lab_ring(lab)->agent_asleep, __ATOMIC_RELAXED))
		ASSERT_EQ(write(lab->agent_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
}

struct shmd_agent_completion lab_await(struct agent_lab *lab)
{
	const struct shmd_agent_completion *slots =
		(const struct shmd_agent_completion *)(const void *)(lab->ring + SHMD_AGENT_COMPLETIONS_OFFSET);

	while (__atomic_load_n(&lab_ring(lab)->n_completions, __ATOMIC_ACQUIRE) == lab->n_seen)
		sched_yield();
	show_order();
	return slots[lab->n_seen++ % SHMD_AGENT_ENTRIES];
}

struct shmd_agent_completion lab_do(struct agent_lab *lab, const struct shmd_agent_request *request)
{
	lab_post(lab, request);
	lab_ring_it(lab);
	return lab_await(lab);
}
