/* SPDX-License-Identifier: Apache-2.0 */
#include "process-lab.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/child.h"
#include "tests/lib/test.h"

uint32_t alice(void)
{
	return 100000 + (uint32_t)getpid() % 400000;
}

uint32_t bob(void)
{
	return alice() + 400000;
}

void nap(uint64_t nsec)
{
	struct timespec ts = nsec_to_timespec(nsec);

	nanosleep(&ts, NULL);
}

pid_t process_of(uint32_t uid)
{
	char name[32];

	snprintf(name, sizeof(name), "executor %u", uid);
	return child_called(child_called(getpid(), "shmemd-zygote"), name);
}

void expect_gone(pid_t pid)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	while (kill(pid, 0) == 0 && nsec_now() < end)
		nap(NSEC_PER_MSEC);
	ASSERT_ERR(kill(pid, 0) < 0 ? -errno : 0, ESRCH);
}

void wait_event(struct nic *nic, struct nic_event *ret_event)
{
	struct pollfd pfd = {.fd = nic->event_fd, .events = POLLIN};
	int r;

	while ((r = nic->ops->next_event(nic, ret_event)) == -EAGAIN)
		ASSERT_EQ(poll(&pfd, 1, (int)(test_patience_nsec() / NSEC_PER_MSEC)), 1);
	ASSERT_OK(r);
}
