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

#define FIXED_SIZE (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int make_memfd(const char *name, uint64_t bytes, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

int nic_queue_memfd(uint64_t bytes, int *ret_fd)
{
	return nic_memfd_new("shmemd-queues", bytes, ret_fd);
}

int nic_memfd_new(const char *name, uint64_t bytes, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	int r = make_memfd(name, bytes, &fd);

	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, FIXED_SIZE) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int map_as(int fd, size_t bytes, int prot, void **ret_map)
{
	void *map = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	*ret_map = map;
	return 0;
}

static int map_all(int fd, size_t bytes, void **ret_map)
{
	return map_as(fd, bytes, PROT_READ | PROT_WRITE, ret_map);
}

int nic_mem_view(int fd, size_t bytes, bool writable, void **ret_map)
{
	uint64_t size;
	int r;

	if (nic_memfd_check(fd, &size) < 0 || size != bytes)
		return -EBADF;
	r = map_as(fd, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, ret_map);
	return r == -EACCES || r == -EPERM ? -EBADF : r;
}

/* Seals against writing come behind the mapping that goes on to write. */
int nic_mem_create(const char *name, size_t bytes, int seals, int *ret_fd, void **ret_map)
{
	_cleanup_close_ int fd = -1;
	void *map = NULL;
	int r = make_memfd(name, bytes, &fd);

	if (r == 0)
		r = map_all(fd, bytes, &map);
	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, seals | FIXED_SIZE) < 0) {
		r = -errno;
		munmap(map, bytes);
		return r;
	}
	*ret_fd = take_fd(&fd);
	*ret_map = map;
	return 0;
}

int nic_mem_adopt(int fd, size_t bytes, int *ret_fd, void **ret_map)
{
	_cleanup_close_ int copy = -1;
	uint64_t size;
	int r;

	if (nic_memfd_check(fd, &size) < 0 || size != bytes)
		return -EBADF;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return -errno;
	r = map_all(copy, bytes, ret_map);
	if (r < 0)
		return r == -EACCES || r == -EPERM ? -EBADF : r;
	*ret_fd = take_fd(&copy);
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
