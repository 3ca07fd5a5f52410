/* SPDX-License-Identifier: Apache-2.0 */
/* The small kernel of the memory agent, as a thread: it carries out many writes where it begins at once, and holds up nothing where it does not. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "agent-lab.h"
#include "libclient/agent-kernel-page.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"

#define MANY 64u
#define MAX_LAUNCHES 64

/* Launches, each a thread. */
static struct launch {
	pthread_t thread;
	struct agent_kernel_page *page;
	uint64_t turn;
	uint32_t n;
} launches[MAX_LAUNCHES];
static unsigned int n_launches, n_written;
static bool is_full; /* the GPU: what is launched does not begin */
static bool stands_still; /* a kernel that may write does not end */

static void store(const struct agent_kernel_write *write)
{
	uint64_t addr = write->addr & ~(uint64_t)AGENT_KERNEL_NARROW;
	uint32_t narrow = (uint32_t)write->value;

	if (write->addr & AGENT_KERNEL_NARROW)
		memcpy((void *)(uintptr_t)addr, &narrow, sizeof(narrow));
	else
		memcpy((void *)(uintptr_t)addr, &write->value, sizeof(write->value));
}

/* The page is mapped twice, which ThreadSanitizer does not see; it sees the lock of the driver, which the agent takes behind the kernel. */
static void show_order(void)
{
	(void)fake_cuda_counts();
}

static void wait_false(const bool *flag)
{
	while (__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void *run(void *arg)
{
	const struct launch *launch = arg;
	struct agent_kernel_page *page = launch->page;
	uint64_t verdict;

	wait_false(&is_full);
	__atomic_store_n(&page->begun, launch->turn, __ATOMIC_RELEASE);
	do
		verdict = __atomic_load_n(&page->verdict, __ATOMIC_ACQUIRE);
	while (verdict >> 1 != launch->turn && !sched_yield());
	if (verdict & 1)
		wait_false(&stands_still);
	for (uint32_t i = 0; verdict & 1 && i < launch->n; i++)
		store(&page->writes[i]);
	if (verdict & 1)
		__atomic_add_fetch(&n_written, launch->n, __ATOMIC_RELAXED);
	show_order();
	__atomic_store_n(&page->ended, launch->turn, __ATOMIC_RELEASE);
	return NULL;
}

/* In the thread that launches. */
static void launch_kernel(void **parameters)
{
	struct launch *launch = &launches[n_launches];

	ASSERT_LT(n_launches, MAX_LAUNCHES);
	memcpy(&launch->page, parameters[0], sizeof(launch->page));
	memcpy(&launch->turn, parameters[1], sizeof(launch->turn));
	memcpy(&launch->n, parameters[2], sizeof(launch->n));
	/* A thread may begin late on a machine that is busy. */
	if (!__atomic_load_n(&is_full, __ATOMIC_ACQUIRE))
		__atomic_store_n(&launch->page->begun, launch->turn, __ATOMIC_RELEASE);
	ASSERT_EQ(pthread_create(&launch->thread, NULL, run, launch), 0);
	n_launches++;
}

static void open_lab(struct agent_lab *lab)
{
	n_launches = n_written = 0;
	is_full = stands_still = false;
	fake_cuda_kernel(AGENT_KERNEL_NAME, launch_kernel);
	lab_open(lab);
	/* One for each GPU that writes nothing: behind it kernels may be launched. */
	ASSERT_EQ(n_launches, 2);
	for (int i = 0; i < 2; i++)
		pthread_join(launches[i].thread, NULL);
}

static void join_from(unsigned int first)
{
	show_order();
	for (unsigned int i = first; i < n_launches; i++)
		pthread_join(launches[i].thread, NULL);
}

/* Words of 8 and 4 bytes on few places, so that later ones cover earlier ones, and what must be there in the end. */
static void post_writes(struct agent_lab *lab, unsigned int n, uint8_t *expected)
{
	for (unsigned int i = 0; i < n; i++) {
		unsigned int bytes = i % 3 ? 8 : 4, at = i * 8 % 160 + (i % 6 == 3 ? 4 : 0);
		struct shmd_agent_request request = {.id = i, .op = SHMD_AGENT_WRITE, .addr = (uintptr_t)lab->at[0] + at, .bytes = bytes};

		memset(request.inline_data, (int)(n + i), bytes);
		memcpy(expected + at, request.inline_data, bytes);
		lab_post(lab, &request);
	}
	lab_ring_it(lab);
}

static void await_all(struct agent_lab *lab, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		ASSERT_EQ(lab_await(lab).status, 0);
}

static void write_many(struct agent_lab *lab, unsigned int n)
{
	uint8_t expected[256];

	memcpy(expected, lab->at[0], sizeof(expected));
	post_writes(lab, n, expected);
	await_all(lab, n);
	ASSERT_MEMEQ(lab->at[0], expected, sizeof(expected));
}

TEST(many_small_writes_go_by_one_kernel_in_their_order)
{
	struct agent_lab lab = {0};
	int batches;

	open_lab(&lab);
	batches = fake_cuda_counts().batches;
	write_many(&lab, MANY);
	ASSERT_EQ(n_launches, 3);
	ASSERT_EQ(n_written, MANY);
	ASSERT_EQ(fake_cuda_counts().batches, batches);
	write_many(&lab, SHMD_AGENT_ENTRIES);
	/* The last ones are too few. */
	ASSERT_EQ(n_written, MANY + SHMD_AGENT_ENTRIES / AGENT_KERNEL_WRITES * AGENT_KERNEL_WRITES);
	join_from(2);
	lab_close(&lab);
	ASSERT_EQ(fake_cuda_counts().modules, 0);
}

TEST(few_writes_and_writes_behind_a_copy_go_by_the_stream)
{
	struct shmd_agent_request copy = {.id = 9, .op = SHMD_AGENT_WRITE, .bytes = 40};
	struct agent_lab lab = {0};
	uint8_t expected[256];

	open_lab(&lab);
	write_many(&lab, 2);
	memcpy(expected, lab.at[0], sizeof(expected));
	copy.addr = (uintptr_t)lab.at[0];
	memset(copy.inline_data, 0xee, copy.bytes);
	memcpy(expected, copy.inline_data, copy.bytes);
	lab_post(&lab, &copy);
	post_writes(&lab, MANY, expected);
	await_all(&lab, 1 + MANY);
	ASSERT_MEMEQ(lab.at[0], expected, sizeof(expected));
	ASSERT_EQ(n_launches, 2);
	lab_close(&lab);
}

TEST(where_the_gpu_is_full_writes_do_not_wait_for_the_kernel_which_then_does_nothing)
{
	struct agent_lab lab = {0};

	open_lab(&lab);
	__atomic_store_n(&is_full, true, __ATOMIC_RELEASE);
	write_many(&lab, MANY);
	/* As long as it has not come and gone there is no other. */
	write_many(&lab, MANY + 1);
	ASSERT_EQ(n_launches, 3);
	__atomic_store_n(&is_full, false, __ATOMIC_RELEASE);
	join_from(2);
	ASSERT_EQ(n_written, 0);
	while (!n_written)
		write_many(&lab, MANY);
	ASSERT_EQ(n_launches, 4);
	join_from(3);
	lab_close(&lab);
}

TEST(freeing_memory_does_not_wait_for_a_kernel_that_has_not_begun)
{
	struct agent_lab lab = {0};

	open_lab(&lab);
	__atomic_store_n(&is_full, true, __ATOMIC_RELEASE);
	write_many(&lab, MANY);
	for (int i = 0; i < 2; i++)
		ASSERT_OK(shmd_gpu_mem_free(lab.mems[i]));
	ASSERT_EQ(fake_cuda_counts().modules, 1);
	lab_alloc(&lab, 0);
	write_many(&lab, MANY);
	ASSERT_EQ(n_launches, 3);
	__atomic_store_n(&is_full, false, __ATOMIC_RELEASE);
	join_from(2);
	ASSERT_EQ(n_written, 0);
	lab_close(&lab);
	ASSERT_EQ(fake_cuda_counts().modules, 0);
}

int cuDevicePrimaryCtxRetain(void **ret_context, int gpu);

/* As a program of the CUDA runtime the test has the context, too. */
TEST(a_kernel_that_has_not_begun_when_the_client_closes_keeps_its_memory)
{
	struct agent_lab lab = {0};
	void *context;

	open_lab(&lab);
	ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
	__atomic_store_n(&is_full, true, __ATOMIC_RELEASE);
	write_many(&lab, MANY);
	lab_leave(&lab);
	ASSERT_EQ(fake_cuda_counts().modules, 1);
	__atomic_store_n(&is_full, false, __ATOMIC_RELEASE);
	join_from(2);
	ASSERT_EQ(n_written, 0);
}

TEST(memory_that_the_program_has_freed_fails_alone_and_no_kernel_writes_there)
{
	struct shmd_agent_request request = {.op = SHMD_AGENT_WRITE, .bytes = 8};
	struct agent_lab lab = {0};

	open_lab(&lab);
	fake_cuda_fail("cuPointerGetAttribute", 1);
	write_many(&lab, MANY);
	ASSERT_EQ(n_launches, 2);
	request.addr = (uintptr_t)lab.at[0];
	ASSERT_EQ(lab_do(&lab, &request).status, 0);
	lab_close(&lab);
}

TEST(a_driver_that_launches_no_kernel_takes_memory_operations)
{
	static const char *const symbols[] = {"cuLaunchKernel", "cuModuleLoadData", "cuModuleGetFunction"};

	for (unsigned int i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		struct agent_lab lab = {0};

		n_launches = 0;
		fake_cuda_kernel(AGENT_KERNEL_NAME, launch_kernel);
		fake_cuda_fail_times(symbols[i], 801, 2);
		lab_open(&lab);
		write_many(&lab, MANY);
		ASSERT_EQ(n_launches, 0);
		lab_close(&lab);
		ASSERT_EQ(fake_cuda_counts().modules, 0);
	}
}

TEST(a_launch_that_fails_later_is_the_last_one)
{
	struct agent_lab lab = {0};

	open_lab(&lab);
	fake_cuda_fail("cuLaunchKernel", 700);
	write_many(&lab, MANY);
	write_many(&lab, MANY);
	ASSERT_EQ(n_launches, 2);
	lab_close(&lab);
}

TEST(a_gpu_that_fails_under_the_kernel_ends_the_agent)
{
	struct agent_lab lab = {0};
	uint8_t expected[256];

	open_lab(&lab);
	__atomic_store_n(&stands_still, true, __ATOMIC_RELEASE);
	fake_cuda_fail("cuStreamQuery", 700);
	post_writes(&lab, MANY, expected);
	while (__atomic_load_n(&lab_ring(&lab)->agent_state, __ATOMIC_ACQUIRE) == SHMD_AGENT_RUNNING)
		sched_yield();
	ASSERT_EQ(lab_ring(&lab)->n_completions, 0);
	__atomic_store_n(&stands_still, false, __ATOMIC_RELEASE);
	join_from(2);
	lab_close(&lab);
}
