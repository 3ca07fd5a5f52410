/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue memory that the daemon makes, for clients that bring none. Neither side can take it away from the other: its size
 * is fixed. Any thread.
 */
#include "daemon/nic/nic.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

int nic_queue_memfd(uint64_t bytes, int *ret_fd)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	_cleanup_close_ int fd = memfd_create("shmemd-queues", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}
