/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page that ends with the process is sealed against writing, but for the mapping that is there. One that may outlive it cannot
 * be, since the next process maps it anew: clients get a descriptor that is open for reading, and the file's mode lets nobody of
 * another user open a writable one.
 */
#include "daemon/nic/nic-page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/nic/nic.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define NAME "shmemd-nic-page"
#define SAVED_MODE 0600

/* ---- the page ------------------------------------------------------------------------------------------------------------ */

static int open_for_clients(struct nic_page *page)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", page->fd);
	page->client_fd = open(path, O_RDONLY | O_CLOEXEC);
	return page->client_fd < 0 ? -errno : 0;
}

static int create(bool is_saved, struct nic_page *page)
{
	void *map;
	int r = nic_mem_create(NAME, SHMD_DB_PAGE_BYTES, is_saved ? 0 : F_SEAL_FUTURE_WRITE,
			       is_saved ? &page->fd : &page->client_fd, &map);

	if (r < 0)
		return r;
	page->told = map;
	page->told->version = SHMD_NIC_PAGE_VERSION;
	if (!is_saved)
		return 0;
	return fchmod(page->fd, SAVED_MODE) < 0 ? -errno : open_for_clients(page);
}

static int adopt(int fd, struct nic_page *page)
{
	struct stat st;
	void *map;
	int r = nic_mem_adopt(fd, SHMD_DB_PAGE_BYTES, &page->fd, &map);

	if (r < 0)
		return r;
	page->told = map;
	if (fstat(fd, &st) < 0 || (st.st_mode & 0777) != SAVED_MODE || page->told->version != SHMD_NIC_PAGE_VERSION)
		return -EBADF;
	return open_for_clients(page);
}

static int hand_out(int r, struct nic_page *page, struct nic_page *ret_page)
{
	if (r < 0)
		nic_page_deinit(page);
	else
		*ret_page = *page;
	return r;
}

int nic_page_create(bool is_saved, struct nic_page *ret_page)
{
	struct nic_page page = NIC_PAGE_NONE;

	return hand_out(create(is_saved, &page), &page, ret_page);
}

int nic_page_adopt(int fd, struct nic_page *ret_page)
{
	struct nic_page page = NIC_PAGE_NONE;

	return hand_out(adopt(fd, &page), &page, ret_page);
}

bool nic_page_is(const struct nic_page *page, int fd)
{
	struct stat ours, theirs;

	return fstat(page->fd, &ours) == 0 && fstat(fd, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

void nic_page_deinit(struct nic_page *page)
{
	if (page->told)
		munmap(page->told, SHMD_DB_PAGE_BYTES);
	safe_close(page->client_fd);
	safe_close(page->fd);
	*page = NIC_PAGE_NONE;
}

/* ---- the thread ---------------------------------------------------------------------------------------------------------- */

void nic_page_beat(const struct nic_page *page)
{
	__atomic_store_n(&page->told->heartbeat_nsec, nsec_now(), __ATOMIC_RELAXED);
}

void nic_page_set_asleep(const struct nic_page *page, bool asleep)
{
	nic_page_beat(page);
	__atomic_exchange_n(&page->told->asleep, asleep, __ATOMIC_SEQ_CST);
	/* Before the last look at doorbells and dbrecs; pairs with the client's fence after ringing. */
	__sync_synchronize();
}
