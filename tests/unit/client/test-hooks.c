/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of the device functions' C build. */
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "libclient/objects.h"
#include "tests/lib/test.h"

static uint64_t cpu_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return nsec_from_timespec(&ts);
}

TEST(now_goes_forward_with_the_monotonic_clock)
{
	uint64_t before = nsec_now(), now = shmd_dev_host_now_nsec(), after = nsec_now();

	ASSERT_LE(before, now);
	ASSERT_LE(now, after);
}

TEST(first_rounds_do_not_sleep)
{
	uint64_t best = UINT64_MAX;

	/* The best of several: another process may take the core in any one of them. */
	for (int i = 0; i < 20; i++) {
		uint64_t start = nsec_now();

		for (uint32_t round = 1; round < 576; round++)
			shmd_dev_host_relax(round);
		if (nsec_now() - start < best)
			best = nsec_now() - start;
	}
	/* Sleeps of 20 us and more would take 50 ms. */
	ASSERT_LT(best, 20 * NSEC_PER_MSEC);
}

/* From a round on that is far beyond the first ones. */
static uint64_t longest_relax(uint32_t n_rounds)
{
	uint64_t longest = 0;

	for (uint32_t round = 1000; round < 1000 + n_rounds; round++) {
		uint64_t before = nsec_now();

		shmd_dev_host_relax(round);
		if (nsec_now() - before > longest)
			longest = nsec_now() - before;
	}
	return longest;
}

TEST(a_long_wait_costs_little_cpu_and_stays_responsive)
{
	uint64_t cpu = cpu_nsec(), start = nsec_now(), longest = UINT64_MAX;

	for (uint32_t round = 1; nsec_now() - start < 300 * NSEC_PER_MSEC; round++)
		shmd_dev_host_relax(round);
	ASSERT_LT(cpu_nsec() - cpu, 100 * NSEC_PER_MSEC);
	/* Sleeps are bounded by a millisecond, plus what a loaded machine adds: not all the time. */
	for (int i = 0; i < 10 && longest >= 50 * NSEC_PER_MSEC; i++)
		longest = longest_relax(10);
	ASSERT_LT(longest, 50 * NSEC_PER_MSEC);
}

TEST(sleeps_are_bounded_for_every_round)
{
	static const uint32_t rounds[] = {576, 1000, 100000, 0x7fffffff, UINT32_MAX};

	for (unsigned int i = 0; i < 5; i++) {
		uint64_t best = UINT64_MAX;

		for (int k = 0; k < 5; k++) {
			uint64_t start = nsec_now();

			shmd_dev_host_relax(rounds[i]);
			if (nsec_now() - start < best)
				best = nsec_now() - start;
		}
		ASSERT_LT(best, 20 * NSEC_PER_MSEC);
		ASSERT_GT(best, 10 * NSEC_PER_USEC);
	}
}

TEST(wake_adds_one_to_the_eventfd)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	uint64_t count;

	shmd_dev_host_wake((uint64_t)fd);
	shmd_dev_host_wake((uint64_t)fd);
	ASSERT_EQ(read(fd, &count, sizeof(count)), (int)sizeof(count));
	ASSERT_EQ(count, 2);
	close(fd);
	errno = 0;
	shmd_dev_host_wake((uint64_t)fd);
	ASSERT_EQ(errno, 0);
}
