/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory in ranges of addresses, over a CUDA without a GPU: each call of CUDA's that fails leaves nothing behind. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/gpu/ranges.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"

#define STEP GPU_RANGES_STEP

static void expect_nothing(void)
{
	struct fake_cuda_counts counts = fake_cuda_counts();

	ASSERT_EQ(counts.memories + counts.reserved + counts.mapped, 0);
	ASSERT_EQ(counts.allocations + counts.streams + counts.contexts + counts.pushed, 0);
}

TEST(a_gpu_is_chosen_by_number_context_or_share)
{
	struct device *device = NULL;

	ASSERT_ERR(device_open("second", 0, &device), EINVAL);
	ASSERT_ERR(device_open("7", 0, &device), ENODEV);
	ASSERT_ERR(device_open("current", 0, &device), EINVAL);
	ASSERT_OK(device_open("1", 0, &device));
	ASSERT_EQ(device->ordinal, 1);
	device_close(device);
	ASSERT_OK(device_open("auto", 3, &device));
	ASSERT_EQ(device->ordinal, 1);
	device_close(device);
	fake_cuda_set_current(1);
	ASSERT_OK(device_open("auto", 0, &device));
	ASSERT_EQ(device->ordinal, 1);
	device_close(device);
	fake_cuda_set_current(-1);
	expect_nothing();
}

/* A range of two PEs, a chunk of each; what the other one maps is the same memory. 0 or the error. */
static int make_all(struct device *device)
{
	struct gpu_ranges *mine = NULL, *theirs = NULL;
	int fd = -1, r = gpu_ranges_new(device, 2, 0, 16 * STEP, STEP, &mine);

	if (!r)
		r = gpu_ranges_new(device, 2, 1, 16 * STEP, STEP, &theirs);
	if (!r)
		r = gpu_ranges_make(mine, 2 * STEP, STEP, &fd);
	if (!r)
		r = gpu_ranges_take(theirs, 0, fd, 2 * STEP, STEP);
	if (!r) {
		uint8_t *here = (uint8_t *)(uintptr_t)gpu_ranges_base(mine, 0) + 2 * STEP;
		uint8_t *there = (uint8_t *)(uintptr_t)gpu_ranges_base(theirs, 0) + 2 * STEP;

		here[STEP - 1] = 7;
		ASSERT_NE(here, there);
		ASSERT_EQ(there[STEP - 1], 7);
	}
	if (fd >= 0)
		close(fd);
	gpu_ranges_free(theirs);
	gpu_ranges_free(mine);
	return r;
}

TEST(a_peer_maps_the_same_memory_and_no_failure_leaves_anything)
{
	static const char *const calls[] = {"cuMemGetAllocationGranularity", "cuMemAddressReserve", "cuMemCreate", "cuMemExportToShareableHandle",
					    "cuMemMap", "cuMemSetAccess", "cuMemImportFromShareableHandle", "cuCtxPushCurrent_v2"};
	struct device *device;

	ASSERT_OK(device_open("0", 0, &device));
	ASSERT_OK(make_all(device));
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (int before = 0; before < 2; before++) {
			fake_cuda_fail_after(calls[i], 1, before, 1);
			if (make_all(device) == 0)
				ASSERT(before > 0 && !fake_cuda_failed());
			fake_cuda_fail_after("", 0, 0, 0);
			ASSERT_EQ(fake_cuda_counts().memories + fake_cuda_counts().reserved + fake_cuda_counts().mapped, 0);
		}
	}
	device_close(device);
	expect_nothing();
}

/* Memory in the range of another object stands for that of a program. 0 or the error. */
static int lend_to(struct gpu_ranges *ranges, uint64_t addr)
{
	int fd = -1, r = gpu_ranges_lend(ranges, STEP, addr, STEP, &fd);

	if (!r) {
		volatile uint8_t *here = (uint8_t *)(uintptr_t)gpu_ranges_base(ranges, 0) + STEP;

		*(volatile uint8_t *)(uintptr_t)addr = 9;
		ASSERT_EQ(here[0], 9);
		close(fd);
		gpu_ranges_undo(ranges, STEP);
	}
	return r;
}

TEST(memory_of_a_program_appears_a_second_time_and_stays_its_own)
{
	static const char *const calls[] = {"cuMemGetAddressRange_v2", "cuMemRetainAllocationHandle", "cuMemExportToShareableHandle", "cuMemMap", "cuMemSetAccess",
					    "cuCtxPushCurrent_v2"};
	struct gpu_ranges *ranges, *program;
	struct fake_cuda_counts counts;
	struct device *device;
	uint64_t addr;
	int fd;

	ASSERT_OK(device_open("0", 0, &device));
	ASSERT_OK(gpu_ranges_new(device, 1, 0, 4 * STEP, STEP, &ranges));
	ASSERT_OK(gpu_ranges_new(device, 1, 0, 4 * STEP, STEP, &program));
	ASSERT_OK(gpu_ranges_make(program, 0, 2 * STEP, &fd));
	close(fd);
	addr = gpu_ranges_base(program, 0);
	counts = fake_cuda_counts();
	ASSERT_OK(lend_to(ranges, addr));
	ASSERT_ERR(lend_to(ranges, addr + STEP), EINVAL);
	ASSERT_ERR(lend_to(ranges, (uintptr_t)&counts), EINVAL);
	ASSERT_ERR(gpu_ranges_lend(ranges, 0, addr, 4 * STEP, &fd), EINVAL);
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fake_cuda_fail(calls[i], 1);
		ASSERT(lend_to(ranges, addr) < 0);
		fake_cuda_fail("", 0);
	}
	ASSERT_EQ(fake_cuda_counts().memories, counts.memories);
	ASSERT_EQ(fake_cuda_counts().mapped, counts.mapped);
	ASSERT_OK(lend_to(ranges, addr));
	gpu_ranges_free(ranges);
	*(volatile uint8_t *)(uintptr_t)addr = 3;
	gpu_ranges_free(program);
	device_close(device);
	expect_nothing();
}

TEST(ranges_are_halved_where_addresses_are_short)
{
	struct device *device;
	struct gpu_ranges *ranges;

	ASSERT_OK(device_open("0", 0, &device));
	fake_cuda_fail_times("cuMemAddressReserve", 2, 2);
	ASSERT_OK(gpu_ranges_new(device, 2, 0, 16 * STEP, STEP, &ranges));
	ASSERT_EQ(gpu_ranges_bytes(ranges), 4 * STEP);
	gpu_ranges_free(ranges);
	fake_cuda_fail_times("cuMemAddressReserve", 2, 2);
	ASSERT_ERR(gpu_ranges_new(device, 2, 0, 16 * STEP, 8 * STEP, &ranges), ENOMEM);
	fake_cuda_fail_after("", 0, 0, 0);
	device_close(device);
	expect_nothing();
}

TEST(a_chunk_has_its_place_once_until_it_is_undone)
{
	struct device *device;
	struct gpu_ranges *ranges;
	int fd;

	ASSERT_OK(device_open("0", 0, &device));
	ASSERT_OK(gpu_ranges_new(device, 1, 0, 4 * STEP, STEP, &ranges));
	ASSERT_ERR(gpu_ranges_make(ranges, 1, STEP, &fd), EINVAL);
	ASSERT_ERR(gpu_ranges_make(ranges, 3 * STEP, 2 * STEP, &fd), EINVAL);
	ASSERT_OK(gpu_ranges_make(ranges, 0, STEP, &fd));
	close(fd);
	ASSERT_ERR(gpu_ranges_make(ranges, 0, STEP, &fd), EINVAL);
	gpu_ranges_undo(ranges, 0);
	ASSERT_OK(gpu_ranges_make(ranges, 0, STEP, &fd));
	close(fd);
	gpu_ranges_free(ranges);
	device_close(device);
	expect_nothing();
}

TEST(copies_may_overlap)
{
	struct device *device;
	char text[16] = "";
	uint64_t at;

	ASSERT_OK(device_open("0", 0, &device));
	ASSERT_OK(device_alloc(device, 64, &at));
	ASSERT_OK(device_write(device, at, "abcdef", 7));
	ASSERT_OK(device_move(device, at + 2, at, 7));
	ASSERT_OK(device_move(device, at + 32, at + 2, 7));
	ASSERT_OK(device_read(device, text, at + 32, 7));
	ASSERT(!strcmp(text, "abcdef"));
	device_free(device, at);
	device_close(device);
	expect_nothing();
}

