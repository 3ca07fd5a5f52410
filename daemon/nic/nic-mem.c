/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the daemon and its clients both have. Neither side can take it away from the other: what the daemon makes for
 * clients that bring none has a fixed size, and what clients bring is taken when it cannot shrink. Any thread.
 */
#include "daemon/nic/nic.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
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

/*
 * Other files have no seals that one could add. Not of huge pages: a hole that is punched there may not be filled again, so
 * that touching it would fault; and less than a whole one cannot be unmapped.
 */
int nic_memfd_check(int fd, uint64_t *ret_bytes)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return -EBADF;
	if (!S_ISREG(st.st_mode) || fs.f_type != TMPFS_MAGIC)
		return -EBADF;
	if (!(seals & F_SEAL_SHRINK))
		return -EPERM;
	*ret_bytes = (uint64_t)st.st_size;
	return 0;
}
