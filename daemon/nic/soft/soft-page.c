/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC page: what every client of a NIC reads, and its data thread alone writes.
 *
 * One that ends with the process is sealed against writing, but for the mapping that is there. One that may outlive it
 * cannot be, since the next process maps it anew: clients get a descriptor that is open for reading, and the file's mode
 * lets nobody of another user open a writable one. Which it is the NIC was told when it was made, not by its first context:
 * all contexts have this page. Behind what clients read lies what the NIC itself keeps.
 *
 * Control thread, before the data thread runs.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/cleanup.h"

_Static_assert(sizeof(struct soft_page) <= SHMD_DB_PAGE_BYTES, "one page");

static int open_for_clients(struct soft_nic *nic)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", nic->page_kept_fd);
	nic->page_fd = open(path, O_RDONLY | O_CLOEXEC);
	return nic->page_fd < 0 ? -errno : 0;
}

static int make_kept(struct soft_nic *nic)
{
	int r = soft_map_create("shmemd-nic-page", SHMD_DB_PAGE_BYTES, 0, &nic->page_kept_fd, &nic->page_map);

	if (r < 0)
		return r;
	if (fchmod(nic->page_kept_fd, 0600) < 0)
		return -errno;
	return open_for_clients(nic);
}

int soft_page_make(struct soft_nic *nic)
{
	int r = nic->keeps ? make_kept(nic)
			   : soft_map_create("shmemd-nic-page", SHMD_DB_PAGE_BYTES, F_SEAL_FUTURE_WRITE, &nic->page_fd,
					     &nic->page_map);

	if (r < 0)
		return r;
	nic->page = nic->page_map.base;
	nic->page->client.version = SHMD_NIC_PAGE_VERSION;
	nic->page->port_is_down = soft_port_is_down(nic->port);
	return 0;
}

int soft_page_adopt(struct soft_nic *nic, int fd)
{
	struct stat st;
	int r = soft_map_whole(fd, SHMD_DB_PAGE_BYTES, &nic->page_map, &nic->page_kept_fd);

	if (r < 0)
		return r;
	nic->page = nic->page_map.base;
	if (fstat(fd, &st) < 0 || (st.st_mode & 0777) != 0600 || nic->page->client.version != SHMD_NIC_PAGE_VERSION)
		return -EBADF;
	__atomic_store_n(&nic->port->down, nic->page->port_is_down != 0, __ATOMIC_RELAXED);
	return open_for_clients(nic);
}

bool soft_page_is(const struct soft_nic *nic, int fd)
{
	struct stat ours, theirs;

	return fstat(nic->page_kept_fd, &ours) == 0 && fstat(fd, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

void soft_page_deinit(struct soft_nic *nic)
{
	soft_map_deinit(&nic->page_map);
	nic->page = NULL;
	nic->page_fd = safe_close(nic->page_fd);
	nic->page_kept_fd = safe_close(nic->page_kept_fd);
}
