/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of the device functions' C build, and waiting for a descriptor.
 *
 * kernels/dev makes no system call; it calls these functions to wait, and to wake a sleeping NIC thread.
 * Waiting spins first, because most completions come within a microsecond; then yields, so that more processes
 * than cores make progress; then sleeps for growing times, so that a long wait costs nothing. The kernel adds 50 us to
 * each sleep, so yields last longer than the put of a megabyte takes. No state, any thread.
 */
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "libclient/text.h"

#define RELAX_SPIN_ROUNDS 64u
#define RELAX_YIELD_ROUNDS 512u
#define RELAX_MIN_SLEEP_NSEC 20000u
#define RELAX_MAX_SLEEP_NSEC 1000000u
#define RELAX_ROUNDS_PER_DOUBLING 16u

int wait_fd(int fd, short events, uint64_t deadline_nsec)
{
	struct pollfd pfd = {.fd = fd, .events = events};

	for (;;) {
		uint64_t now = nsec_now();
		uint64_t left = now < deadline_nsec ? deadline_nsec - now : 0;
		struct timespec ts = nsec_to_timespec(left);
		int r = ppoll(&pfd, 1, &ts, NULL);

		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
		if (!left)
			return -EAGAIN;
	}
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

static uint32_t sleep_nsec_of(uint32_t round)
{
	uint32_t doublings = round / RELAX_ROUNDS_PER_DOUBLING;
	uint32_t nsec;

	if (doublings > 6)
		return RELAX_MAX_SLEEP_NSEC;
	nsec = RELAX_MIN_SLEEP_NSEC << doublings;
	return nsec < RELAX_MAX_SLEEP_NSEC ? nsec : RELAX_MAX_SLEEP_NSEC;
}

uint64_t shmd_dev_host_now_nsec(void)
{
	return nsec_now();
}

void shmd_dev_host_relax(uint32_t round)
{
	struct timespec ts = {0};

	if (round < RELAX_SPIN_ROUNDS) {
		pause_cpu();
		return;
	}
	round -= RELAX_SPIN_ROUNDS;
	if (round < RELAX_YIELD_ROUNDS) {
		sched_yield();
		return;
	}
	ts.tv_nsec = sleep_nsec_of(round - RELAX_YIELD_ROUNDS);
	nanosleep(&ts, NULL);
}

void shmd_dev_host_wake(uint64_t wake_handle)
{
	const uint64_t one = 1;
	int saved = errno;

	/* A full counter means that a wake is pending already; any other failure the NIC thread's timer covers. */
	if (write((int)wake_handle, &one, sizeof(one)) < 0)
		errno = saved;
}
