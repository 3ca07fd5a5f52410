/* SPDX-License-Identifier: Apache-2.0 */
/* The memory agent: what a NIC asks for happens to GPU memory, in order, and an end of any kind is announced. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent-lab.h"
#include "proto/base/nsec.h"
#include "proto/status.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"

static void random_bytes(uint8_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)rand();
}

static uint64_t addr_of(const struct agent_lab *lab, int gpu, uint64_t offset)
{
	return (uintptr_t)lab->at[gpu] + offset;
}

/* A write or read of `bytes`; its payload in the request or completion where `data_offset` is 0. */
static struct shmd_agent_request transfer(uint8_t op, uint64_t addr, uint64_t bytes, uint64_t data_offset)
{
	return (struct shmd_agent_request){.id = (uint32_t)rand(), .op = op, .addr = addr, .bytes = bytes, .data_offset = data_offset};
}

/* ---- one at a time --------------------------------------------------------------------------------------------------- */

static void write_once(struct agent_lab *lab, uint64_t offset, uint64_t bytes, bool is_inline)
{
	struct shmd_agent_request write = transfer(SHMD_AGENT_WRITE, addr_of(lab, 0, offset), bytes, is_inline ? 0 : SHMD_AGENT_DATA_OFFSET + 5);
	uint8_t *payload = is_inline ? write.inline_data : lab_data(lab, write.data_offset), before[256], *at = lab->at[0];
	struct shmd_agent_completion completion;

	random_bytes(payload, bytes);
	memcpy(before, at, sizeof(before));
	memcpy(before + offset, payload, bytes);
	completion = lab_do(lab, &write);
	ASSERT_EQ(completion.id, write.id);
	ASSERT_EQ(completion.status, 0);
	ASSERT_MEMEQ(at, before, sizeof(before));
}

TEST(writes_of_1_to_64_bytes_land_at_any_alignment)
{
	struct agent_lab lab = {0};

	lab_open(&lab);
	for (int how = 0; how < 4; how++) {
		fake_cuda_put_off(how & 1);
		fake_cuda_lack_values(how & 2);
		for (uint64_t bytes = 1; bytes <= 64; bytes++)
			for (uint64_t offset = 0; offset < 9; offset++)
				write_once(&lab, offset, bytes, (offset + bytes) % 2);
	}
	fake_cuda_put_off(0);
	fake_cuda_lack_values(0);
	lab_close(&lab);
}

TEST(reads_return_what_is_there)
{
	struct agent_lab lab = {0};

	lab_open(&lab);
	random_bytes(lab.at[0], 256);
	fake_cuda_put_off(1);
	for (uint64_t bytes = 1; bytes <= 64; bytes++)
		for (uint64_t offset = 0; offset < 9; offset++) {
			bool is_inline = bytes <= SHMD_AGENT_INLINE_READ_BYTES && offset % 2;
			struct shmd_agent_request read =
				transfer(SHMD_AGENT_READ, addr_of(&lab, 0, offset), bytes, is_inline ? 0 : SHMD_AGENT_DATA_OFFSET + 3);
			struct shmd_agent_completion completion = lab_do(&lab, &read);

			ASSERT_EQ(completion.id, read.id);
			ASSERT_EQ(completion.status, 0);
			ASSERT_MEMEQ(is_inline ? completion.inline_data : lab_data(&lab, read.data_offset), lab.at[0] + offset, bytes);
		}
	fake_cuda_put_off(0);
	lab_close(&lab);
}

TEST(all_of_the_data_area_goes_both_ways)
{
	struct agent_lab lab = {0};
	struct shmd_agent_request write, read;
	uint64_t half = SHMD_AGENT_DATA_BYTES / 2, bytes = LAB_BYTES;

	lab_open(&lab);
	write = transfer(SHMD_AGENT_WRITE, addr_of(&lab, 1, 0), bytes, SHMD_AGENT_DATA_OFFSET);
	read = transfer(SHMD_AGENT_READ, addr_of(&lab, 1, 0), bytes, SHMD_AGENT_DATA_OFFSET + 2 * half - bytes);
	random_bytes(lab_data(&lab, write.data_offset), bytes);
	ASSERT_EQ(lab_do(&lab, &write).status, 0);
	ASSERT_MEMEQ(lab.at[1], lab_data(&lab, write.data_offset), bytes);
	ASSERT_EQ(lab_do(&lab, &read).status, 0);
	ASSERT_MEMEQ(lab.at[1], lab_data(&lab, read.data_offset), bytes);
	lab_close(&lab);
}

/* ---- batches --------------------------------------------------------------------------------------------------------- */

/* A word of the few that atomics fight about, on either GPU. */
static struct shmd_agent_request random_request(const struct agent_lab *lab, unsigned int i)
{
	uint64_t bytes = rand() % 2 ? 4 : 8, offset = (uint64_t)(rand() % 8) * 4 / bytes * bytes;
	struct shmd_agent_request request = transfer((uint8_t)(1 + rand() % 4), addr_of(lab, rand() % 8 == 0, offset), bytes, 0);

	if (request.op == SHMD_AGENT_FETCH_ADD || request.op == SHMD_AGENT_COMPARE_SWAP) {
		request.atomic = (struct shmd_agent_atomic){.swap_or_add = (uint64_t)rand() % 4,
							    .compare = (uint64_t)rand() % 4,
							    .swap_mask = rand() % 2 ? UINT64_MAX : (uint64_t)rand(),
							    .compare_mask = rand() % 2 ? UINT64_MAX : (uint64_t)rand() % 8,
							    .boundary = rand() % 4 ? 0 : UINT64_C(0x8080808080808080)};
		return request;
	}
	request.bytes = 1 + (uint64_t)rand() % 40;
	request.addr -= request.addr % 32 && rand() % 2;
	if (rand() % 2)
		request.data_offset = SHMD_AGENT_DATA_OFFSET + i * 64;
	random_bytes(request.data_offset && request.op == SHMD_AGENT_WRITE ? lab_data(lab, request.data_offset) : request.inline_data, 40);
	return request;
}

static uint64_t model_atomic(uint64_t old, const struct shmd_agent_request *request)
{
	const struct shmd_agent_atomic *what = &request->atomic;
	uint64_t sum = 0, carry = 0;

	if (request->op == SHMD_AGENT_COMPARE_SWAP)
		return (old & what->compare_mask) == (what->compare & what->compare_mask)
			       ? (old & ~what->swap_mask) | (what->swap_or_add & what->swap_mask)
			       : old;
	/* Bit by bit, as on paper. */
	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t a = old >> bit & 1, b = what->swap_or_add >> bit & 1;

		sum |= (a ^ b ^ carry) << bit;
		carry = what->boundary >> bit & 1 ? 0 : (a & b) | (carry & (a | b));
	}
	return sum;
}

/* The results that the NIC expects of one request. */
struct expected {
	uint8_t read[40];
	uint64_t old;
};

static struct expected model(const struct agent_lab *lab, uint8_t memory[2][128], const struct shmd_agent_request *request)
{
	int gpu = request->addr - addr_of(lab, 1, 0) < LAB_BYTES;
	uint8_t *at = memory[gpu] + (request->addr - addr_of(lab, gpu, 0));
	struct expected expected = {.old = 0};
	uint64_t value;

	if (request->op == SHMD_AGENT_WRITE) {
		memcpy(at, request->data_offset ? lab_data(lab, request->data_offset) : request->inline_data, request->bytes);
	} else if (request->op == SHMD_AGENT_READ) {
		memcpy(expected.read, at, request->bytes);
	} else {
		uint64_t masked;

		memcpy(&expected.old, at, request->bytes);
		masked = expected.old;
		if (request->bytes == 4 && request->op == SHMD_AGENT_COMPARE_SWAP) {
			struct shmd_agent_request narrow = *request;

			narrow.atomic.compare_mask &= UINT32_MAX;
			value = model_atomic(masked, &narrow);
		} else {
			value = model_atomic(masked, request);
		}
		memcpy(at, &value, request->bytes);
	}
	return expected;
}

static void check_completion(const struct agent_lab *lab, const struct shmd_agent_request *request, const struct expected *expected,
			     const struct shmd_agent_completion *completion)
{
	ASSERT_EQ(completion->id, request->id);
	ASSERT_EQ(completion->status, 0);
	if (request->op == SHMD_AGENT_READ)
		ASSERT_MEMEQ(request->data_offset ? lab_data(lab, request->data_offset) : completion->inline_data, expected->read,
			     request->bytes);
	else if (request->op != SHMD_AGENT_WRITE)
		ASSERT_EQ(completion->old_value, expected->old);
}

static void run_batch(struct agent_lab *lab, struct shmd_agent_request *requests, struct expected *expected, unsigned int n)
{
	uint8_t memory[2][128];

	for (int gpu = 0; gpu < 2; gpu++)
		memcpy(memory[gpu], lab->at[gpu], sizeof(memory[gpu]));
	for (unsigned int i = 0; i < n; i++) {
		requests[i] = random_request(lab, i);
		expected[i] = model(lab, memory, &requests[i]);
		lab_post(lab, &requests[i]);
	}
	lab_ring_it(lab);
	for (unsigned int i = 0; i < n; i++) {
		struct shmd_agent_completion completion = lab_await(lab);

		check_completion(lab, &requests[i], &expected[i], &completion);
	}
	for (int gpu = 0; gpu < 2; gpu++)
		ASSERT_MEMEQ(lab->at[gpu], memory[gpu], sizeof(memory[gpu]));
}

/* Reads, writes and atomics of 4 and 8 bytes on few words: each sees what those before it have done, on two GPUs. */
TEST(batches_of_1000_take_effect_in_their_order)
{
	static struct shmd_agent_request requests[1000];
	static struct expected expected[1000];
	struct agent_lab lab = {0};

	lab_open(&lab);
	for (unsigned int i = 0; i < 8; i++) {
		fake_cuda_put_off(i % 2 * 3);
		fake_cuda_lack_values(i % 4 > 1);
		run_batch(&lab, requests, expected, 1000);
	}
	fake_cuda_put_off(0);
	fake_cuda_lack_values(0);
	lab_close(&lab);
}

/* A GPU whose stream never comes to its end: what waits for the agent has the limit of a request, and may be done again. */
TEST(a_gpu_that_stands_still_holds_up_nobody_for_ever)
{
	struct shmd_agent_request request;
	struct shmd_request_limit former;
	struct agent_lab lab = {0};

	lab_open(&lab);
	former = shmd_request_limit_set((struct shmd_request_limit){.client = lab.client, .timeout_nsec = 50 * NSEC_PER_MSEC});
	fake_cuda_put_off(INT_MAX);
	request = transfer(SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, 0);
	lab_post(&lab, &request);
	lab_ring_it(&lab);
	while (!fake_cuda_counts().put_off)
		sched_yield();
	ASSERT_ERR(shmd_gpu_mem_free(lab.mems[0]), ETIMEDOUT);
	ASSERT_ERR(shmd_gpu_mem_free(lab.mems[0]), ETIMEDOUT);
	ASSERT_EQ(lab.n_deregistered, 1);
	fake_cuda_put_off(0);
	shmd_request_limit_set(former);
	ASSERT_OK(shmd_gpu_mem_free(lab.mems[0]));
	ASSERT_OK(shmd_gpu_mem_free(lab.mems[1]));
	ASSERT_OK(shmd_nic_close(lab.nic));
	lab_close(&lab);
}

/* ---- requests that make no sense ------------------------------------------------------------------------------------- */

TEST(requests_outside_regions_and_payload_outside_the_ring_are_refused)
{
	const uint64_t end = SHMD_AGENT_DATA_OFFSET + SHMD_AGENT_DATA_BYTES;
	struct agent_lab lab = {0};

	lab_open(&lab);
	const struct {
		uint8_t op;
		uint64_t addr, bytes, data_offset;
		int status;
	} cases[] = {
		{0, addr_of(&lab, 0, 0), 8, 0, -EINVAL},
		{5, addr_of(&lab, 0, 0), 8, 0, -EINVAL},
		{SHMD_AGENT_WRITE, addr_of(&lab, 0, 0), 0, 0, -EINVAL},
		{SHMD_AGENT_WRITE, addr_of(&lab, 0, 0), 65, 0, -EINVAL},
		{SHMD_AGENT_READ, addr_of(&lab, 0, 0), 41, 0, -EINVAL},
		{SHMD_AGENT_WRITE, addr_of(&lab, 0, 0), 8, 8, -EINVAL},
		{SHMD_AGENT_WRITE, addr_of(&lab, 0, 0), 8, SHMD_AGENT_DATA_OFFSET - 1, -EINVAL},
		{SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, end - 7, -EINVAL},
		{SHMD_AGENT_READ, addr_of(&lab, 0, 0), UINT64_MAX, end - 7, -EINVAL},
		{SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, UINT64_MAX - 3, -EINVAL},
		{SHMD_AGENT_FETCH_ADD, addr_of(&lab, 0, 0), 2, 0, -EINVAL},
		{SHMD_AGENT_FETCH_ADD, addr_of(&lab, 0, 4), 8, 0, -EINVAL},
		{SHMD_AGENT_COMPARE_SWAP, addr_of(&lab, 0, 2), 4, 0, -EINVAL},
		{SHMD_AGENT_WRITE, addr_of(&lab, 0, 0) - 1, 8, 0, -EFAULT},
		{SHMD_AGENT_WRITE, addr_of(&lab, 0, LAB_BYTES) - 7, 8, 0, -EFAULT},
		{SHMD_AGENT_WRITE, UINT64_MAX, 8, 0, -EFAULT},
		{SHMD_AGENT_READ, 0, 8, 0, -EFAULT},
		{SHMD_AGENT_WRITE, addr_of(&lab, 0, LAB_BYTES) - 8, 8, 0, 0},
		{SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, end - 8, 0},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct shmd_agent_request request = transfer(cases[i].op, cases[i].addr, cases[i].bytes, cases[i].data_offset);

		ASSERT_EQ(lab_do(&lab, &request).status, cases[i].status);
	}
	lab_close(&lab);
}

/* More requests than there are entries, and a count that goes back. */
TEST(a_count_that_cannot_be_is_ignored)
{
	struct agent_lab lab = {0};
	struct shmd_agent_request request;

	lab_open(&lab);
	request = transfer(SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, 0);
	ASSERT_EQ(lab_do(&lab, &request).status, 0);
	for (int i = 0; i < 2; i++) {
		__atomic_store_n(&lab_ring(&lab)->n_requests, i ? 0 : lab.n_posted + SHMD_AGENT_ENTRIES + 1, __ATOMIC_RELEASE);
		usleep(1000);
		ASSERT_EQ(__atomic_load_n(&lab_ring(&lab)->n_completions, __ATOMIC_ACQUIRE), lab.n_seen);
	}
	ASSERT_EQ(lab_do(&lab, &request).status, 0);
	lab_close(&lab);
}

/* ---- regions --------------------------------------------------------------------------------------------------------- */

TEST(automatic_mode_takes_the_agent_and_says_why_not_a_better_one)
{
	const struct shmd_gpu_mr_attr attr = {.addr = 0, .length_bytes = 100, .access = SHMD_ACCESS_REMOTE_READ, .iova = 0x7000};
	struct shmd_gpu_mr_attr part = attr;
	struct agent_lab lab = {0};
	struct shmd_gpu_mem_info info;
	struct shmd_mr_info mr_info;
	struct shmd_mr *mr;

	lab_open(&lab);
	ASSERT_EQ(lab.n_attached, 1);
	ASSERT_OK(shmd_gpu_mem_info(lab.mems[1], &info));
	ASSERT(strstr(info.reason, "no dmabuf: soft0 takes none; no peermem: "));
	ASSERT_OK(shmd_mr_info(info.mr, &mr_info));
	ASSERT_EQ(mr_info.kind, SHMD_MEM_AGENT);
	ASSERT_EQ(lab.last.offset, info.addr);
	ASSERT_EQ(lab.last.iova, info.iova);
	part.addr = info.addr + 8;
	ASSERT_OK(shmd_gpu_mr_reg(lab.gpus[1], lab.nic, &part, &mr));
	ASSERT_EQ(lab.last.offset, info.addr + 8);
	ASSERT_EQ(lab.last.iova, 0x7000);
	ASSERT_OK(shmd_mr_dereg(mr));
	ASSERT_EQ(lab.n_attached, 1);
	lab_close(&lab);
}

TEST(host_memory_follows_a_refusal_of_the_agent)
{
	const struct shmd_gpu_mem_attr attr = {.bytes = 4096, .access = SHMD_ACCESS_ALL};
	static const char *const reasons[] = {"no rings today", "no regions today", "register the ring of the memory agent with the GPU"};
	struct shmd_gpu_mem_info info;

	for (unsigned int i = 0; i < 3; i++) {
		struct agent_lab lab = {.attach_status = i == 0 ? SHMD_STATUS_UNKNOWN_REQUEST : 0,
					.reg_status = i == 1 ? SHMD_STATUS_PERMISSION : 0};

		lab_open_bare(&lab);
		if (i == 2)
			fake_cuda_fail("cuMemHostRegister_v2", 2);
		ASSERT_OK(shmd_gpu_mem_alloc(lab.gpus[0], lab.nic, &attr, &lab.mems[0]));
		ASSERT_OK(shmd_gpu_mem_info(lab.mems[0], &info));
		ASSERT_EQ(info.mode, SHMD_GPU_MEM_HOST);
		ASSERT(strstr(info.reason, "; no agent: "));
		if (!strstr(info.reason, reasons[i]))
			test_fail(TEST_WHERE, "%s", info.reason);
		lab_close(&lab);
	}
}

/* The daemon has a ring that no agent serves; it takes another one. */
TEST(an_attach_without_an_answer_is_made_again)
{
	const struct shmd_gpu_mem_attr attr = {.bytes = LAB_BYTES, .access = SHMD_ACCESS_ALL, .mode = SHMD_GPU_MEM_AGENT};
	struct agent_lab lab = {.n_silent = 1};
	struct shmd_request_limit former;
	struct shmd_agent_request read;

	lab_open_bare(&lab);
	former = shmd_request_limit_set((struct shmd_request_limit){.client = lab.client, .timeout_nsec = 50 * NSEC_PER_MSEC});
	ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpus[0], lab.nic, &attr, &lab.mems[0]), ETIMEDOUT);
	shmd_request_limit_set(former);
	lab_alloc(&lab, 0);
	ASSERT_EQ(lab.n_attached, 1);
	read = transfer(SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, 0);
	ASSERT_EQ(lab_do(&lab, &read).status, 0);
	lab_close(&lab);
}

/* The program's memory is gone when the call has returned: here touching it is a fault. */
TEST(nothing_touches_memory_that_was_freed)
{
	const struct shmd_gpu_mem_attr attr = {.bytes = 4096, .access = SHMD_ACCESS_ALL, .mode = SHMD_GPU_MEM_AGENT};
	struct agent_lab lab = {0};
	struct shmd_agent_request write;
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;
	int n_done = 0, status;

	lab_open(&lab);
	for (int i = 0; i < 300; i++) {
		ASSERT_OK(shmd_gpu_mem_alloc(lab.gpus[i % 2], lab.nic, &attr, &mem));
		ASSERT_OK(shmd_gpu_mem_info(mem, &info));
		fake_cuda_put_off(i % 30);
		write = transfer(SHMD_AGENT_WRITE, info.addr, 64, 0);
		for (int n = 0; n < 100; n++)
			lab_post(&lab, &write);
		lab_ring_it(&lab);
		if (i % 3 == 0)
			usleep(20);
		ASSERT_OK(shmd_gpu_mem_free(mem));
		for (int n = 0; n < 100; n++) {
			status = lab_await(&lab).status;
			ASSERT(!status || status == -EFAULT);
			n_done += !status;
		}
	}
	ASSERT_GT(n_done, 0);
	fake_cuda_put_off(0);
	lab_close(&lab);
}

/*
 * Otherwise it would take effect later, if the same addresses are registered again. The round under way has not seen it when the region
 * goes, and the next one is still at it when it has begun.
 */
TEST(what_a_nic_asked_before_a_region_ended_is_answered_when_it_has)
{
	const struct shmd_gpu_mem_attr attr = {.bytes = 4096, .access = SHMD_ACCESS_ALL, .mode = SHMD_GPU_MEM_AGENT};
	struct shmd_agent_request read, write;
	struct agent_lab lab = {0};
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;

	lab_open(&lab);
	ASSERT_OK(shmd_gpu_mem_alloc(lab.gpus[0], lab.nic, &attr, &mem));
	ASSERT_OK(shmd_gpu_mem_info(mem, &info));
	read = transfer(SHMD_AGENT_READ, addr_of(&lab, 1, 0), 8, 0);
	write = transfer(SHMD_AGENT_WRITE, info.addr, 64, 0);
	fake_cuda_put_off(100);
	lab_post(&lab, &read);
	lab_ring_it(&lab);
	while (!fake_cuda_counts().put_off)
		sched_yield();
	lab_post(&lab, &write);
	lab_post(&lab, &read);
	lab_ring_it(&lab);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	ASSERT_EQ(__atomic_load_n(&lab_ring(&lab)->n_completions, __ATOMIC_ACQUIRE), lab.n_posted);
	fake_cuda_put_off(0);
	lab_close(&lab);
}

/* ---- sleep ----------------------------------------------------------------------------------------------------------- */

TEST(each_side_wakes_the_other_if_it_sleeps)
{
	struct agent_lab lab = {0};
	struct shmd_agent_request request;
	uint64_t count;

	lab_open(&lab);
	request = transfer(SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, 0);
	for (uint32_t nic_sleeps = 0; nic_sleeps < 2; nic_sleeps++) {
		__atomic_store_n(&lab.page->asleep, nic_sleeps, __ATOMIC_SEQ_CST);
		while (!__atomic_load_n(&lab_ring(&lab)->agent_asleep, __ATOMIC_ACQUIRE))
			sched_yield();
		ASSERT_EQ(lab_do(&lab, &request).status, 0);
		/* The wake follows the completion. */
		while (nic_sleeps && read(lab.nic_fd, &count, sizeof(count)) != sizeof(count))
			sched_yield();
		ASSERT_EQ(read(lab.nic_fd, &count, sizeof(count)), -1);
	}
	lab_close(&lab);
}

TEST(a_new_generation_begins_at_0)
{
	struct agent_lab lab = {0};
	struct shmd_agent_request request;

	lab_open(&lab);
	request = transfer(SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, 0);
	for (uint32_t generation = 2; generation < 50; generation++) {
		for (uint32_t i = 0; i < generation; i++)
			ASSERT_EQ(lab_do(&lab, &request).status, 0);
		lab.n_posted = lab.n_seen = 0;
		__atomic_store_n(&lab_ring(&lab)->n_requests, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&lab_ring(&lab)->generation, generation, __ATOMIC_RELEASE);
		/* Wakes it. */
		lab_ring_it(&lab);
		lab_post(&lab, &request);
		ASSERT_EQ(lab_ring(&lab)->n_completions, 0);
		lab_ring_it(&lab);
		ASSERT_EQ(lab_await(&lab).status, 0);
	}
	lab_close(&lab);
}

/* ---- ends ------------------------------------------------------------------------------------------------------------ */

static uint32_t state_of(const struct agent_lab *lab)
{
	return __atomic_load_n(&lab_ring(lab)->agent_state, __ATOMIC_ACQUIRE);
}

/* CUDA fails at one call: the agent has ended, or has not noticed. */
static bool fails_at(const char *symbol, int n_before)
{
	const struct shmd_gpu_mem_attr again = {.bytes = 4096, .mode = SHMD_GPU_MEM_AGENT};
	struct agent_lab lab = {0};
	struct shmd_agent_request requests[3];
	struct shmd_gpu_mem *mem;
	bool failed;

	lab_open(&lab);
	requests[0] = transfer(SHMD_AGENT_WRITE, addr_of(&lab, 0, 0), 40, 0);
	requests[1] = transfer(SHMD_AGENT_FETCH_ADD, addr_of(&lab, 0, 64), 8, 0);
	requests[1].atomic.swap_or_add = 1;
	requests[2] = transfer(SHMD_AGENT_FETCH_ADD, addr_of(&lab, 0, 72), 4, 0);
	requests[2].atomic.swap_or_add = 1;
	/* The agent asks for the state of the GPU only where it waits. */
	fake_cuda_put_off(!strcmp(symbol, "cuStreamQuery"));
	fake_cuda_fail_after(symbol, 700, n_before, 1);
	for (int i = 0; i < 3; i++)
		lab_post(&lab, &requests[i]);
	lab_ring_it(&lab);
	while (state_of(&lab) == SHMD_AGENT_RUNNING && __atomic_load_n(&lab_ring(&lab)->n_completions, __ATOMIC_ACQUIRE) < 3)
		sched_yield();
	failed = fake_cuda_failed();
	fake_cuda_fail_after("", 0, 0, 0);
	fake_cuda_put_off(0);
	ASSERT_EQ(state_of(&lab), failed ? SHMD_AGENT_ENDED : SHMD_AGENT_RUNNING);
	if (failed) {
		ASSERT_EQ(lab_ring(&lab)->n_completions, 0);
		ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpus[0], lab.nic, &again, &mem), EIO);
		ASSERT(strstr(shmd_error_text(), "the memory agent has ended: "));
		ASSERT_OK(shmd_gpu_mem_free(lab.mems[0]));
	}
	lab_close(&lab);
	return failed;
}

TEST(a_failure_of_cuda_at_any_call_ends_the_agent)
{
	static const char *const symbols[] = {"cuCtxPushCurrent_v2",     "cuMemcpyHtoDAsync_v2",     "cuMemcpyDtoHAsync_v2",
					      "cuStreamBatchMemOp_v2", "cuStreamQuery"};

	for (unsigned int i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		int n = 0;

		while (fails_at(symbols[i], n))
			n++;
		ASSERT_GT(n, 0);
	}
}

/* CUDA refuses memory that the program has freed: the failure of that request alone. */
TEST(a_request_that_cuda_refuses_fails_alone)
{
	struct agent_lab lab = {0};
	struct shmd_agent_request request;

	lab_open(&lab);
	request = transfer(SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, 0);
	fake_cuda_fail("cuMemcpyDtoHAsync_v2", 1);
	ASSERT_EQ(lab_do(&lab, &request).status, -EFAULT);
	ASSERT_EQ(lab_do(&lab, &request).status, 0);
	ASSERT_EQ(state_of(&lab), SHMD_AGENT_RUNNING);
	lab_close(&lab);
}

/* Atomics on one word are written once: what CUDA does not write has not happened for any of them. */
TEST(atomics_on_a_word_that_is_not_written_all_fail)
{
	struct agent_lab lab = {0};
	struct shmd_agent_request request;

	lab_open(&lab);
	request = transfer(SHMD_AGENT_FETCH_ADD, addr_of(&lab, 0, 0), 8, 0);
	request.atomic = (struct shmd_agent_atomic){.swap_or_add = 1};
	/* Behind the mark of the reads: the writes and their mark together, and then the write alone. */
	fake_cuda_fail_after("cuStreamBatchMemOp_v2", 1, 1, 2);
	for (unsigned int i = 0; i < 3; i++)
		lab_post(&lab, &request);
	lab_ring_it(&lab);
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_EQ(lab_await(&lab).status, -EFAULT);
	ASSERT_EQ(lab_do(&lab, &request).status, 0);
	lab_close(&lab);
}

TEST(closing_ends_the_agent_and_says_so)
{
	struct agent_lab lab = {0};
	struct shmd_agent_request request;

	lab_open(&lab);
	ASSERT_EQ(state_of(&lab), SHMD_AGENT_RUNNING);
	request = transfer(SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, 0);
	ASSERT_EQ(lab_do(&lab, &request).status, 0);
	shmd_client_close(lab.client);
	lab.client = NULL;
	ASSERT_EQ(state_of(&lab), SHMD_AGENT_ENDED);
	lab_close(&lab);
}

static unsigned int n_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned int n = 0;

	ASSERT(folder);
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

/* The agent's thread frees the client, once the driver lets it go. */
TEST(closing_has_the_limit_of_a_request_where_a_call_of_cuda_does_not_return)
{
	struct shmd_request_limit former;
	struct shmd_agent_request request;
	unsigned int n_before = n_descriptors();
	struct fake_cuda_counts counts;
	struct agent_lab lab = {0};

	lab_open(&lab);
	former = shmd_request_limit_set((struct shmd_request_limit){.client = lab.client, .timeout_nsec = 50 * NSEC_PER_MSEC});
	fake_cuda_hang(1);
	request = transfer(SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, 0);
	lab_post(&lab, &request);
	lab_ring_it(&lab);
	while (!fake_cuda_hanging())
		sched_yield();
	shmd_client_close(lab.client);
	lab.client = NULL;
	shmd_request_limit_set(former);
	ASSERT_EQ(state_of(&lab), SHMD_AGENT_RUNNING);
	ASSERT_EQ(fake_cuda_counts().allocations, 2);
	fake_cuda_hang(0);
	do
		counts = fake_cuda_counts();
	while (counts.contexts || counts.streams || counts.allocations);
	ASSERT_EQ(state_of(&lab), SHMD_AGENT_ENDED);
	lab_close(&lab);
	/* The thread closes them last. */
	while (n_descriptors() != n_before)
		sched_yield();
}

TEST(a_forked_child_has_no_agent_and_ends_none)
{
	struct agent_lab lab = {0};
	struct shmd_agent_request request;
	pid_t child;
	int status;

	lab_open(&lab);
	request = transfer(SHMD_AGENT_READ, addr_of(&lab, 0, 0), 8, 0);
	child = fork();
	if (!child) {
		shmd_client_close(lab.client);
		_exit(0);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_EQ(status, 0);
	ASSERT_EQ(state_of(&lab), SHMD_AGENT_RUNNING);
	ASSERT_EQ(lab_do(&lab, &request).status, 0);
	lab_close(&lab);
}
