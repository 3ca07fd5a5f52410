/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a saved context, on its ledger: the process of its executor has it for as long as it lives, and it may have to wake first.
 * A process that takes the context over tests the lock first. Any thread that may wait.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define LOOK_NSEC NSEC_PER_MSEC

/* An OFD lock belongs to an open file description, and the store shares this one. So it is opened again. */
static int open_again(int fd)
{
	char path[32];
	int own;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_RDWR | O_CLOEXEC);
	return own < 0 ? -EBADF : own;
}

int soft_lock_take(int fd, uint64_t nsec, int *ret_fd)
{
	const struct timespec pause = nsec_to_timespec(LOOK_NSEC);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	_cleanup_close_ int own = open_again(fd);
	uint64_t begin = nsec_now();

	if (own < 0)
		return own;
	while (fcntl(own, F_OFD_SETLK, &lock) < 0) {
		if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || nsec_now() - begin >= nsec)
			return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
		nanosleep(&pause, NULL);
	}
	*ret_fd = take_fd(&own);
	return 0;
}
