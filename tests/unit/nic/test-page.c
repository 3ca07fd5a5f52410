/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC page: its writers, and the check of a saved page. */
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/nic/nic-page.h"
#include "proto/base/cleanup.h"
#include "tests/lib/test.h"

static void *map_as(int fd, int prot)
{
	return mmap(NULL, SHMD_DB_PAGE_BYTES, prot, MAP_SHARED, fd, 0);
}

static void expect_read_only(const struct nic_page *page)
{
	const struct shmd_nic_page *client = map_as(page->client_fd, PROT_READ);

	ASSERT(client != MAP_FAILED);
	ASSERT_EQ(client->version, SHMD_NIC_PAGE_VERSION);
	page->told->asleep = 1;
	ASSERT_EQ(client->asleep, 1u);
	page->told->asleep = 0;
	ASSERT(map_as(page->client_fd, PROT_READ | PROT_WRITE) == MAP_FAILED);
	ASSERT(pwrite(page->client_fd, "", 1, 0) < 0);
	ASSERT(ftruncate(page->client_fd, 0) < 0);
	munmap((void *)(uintptr_t)client, SHMD_DB_PAGE_BYTES);
}

TEST(clients_read_a_page_and_cannot_write_it)
{
	struct nic_page page;
	struct stat st;

	for (int is_saved = 0; is_saved <= 1; is_saved++) {
		ASSERT_OK(nic_page_create(is_saved, &page));
		ASSERT_EQ(page.fd >= 0, is_saved);
		expect_read_only(&page);
		nic_page_deinit(&page);
		nic_page_deinit(&page);
	}
	ASSERT_OK(nic_page_create(true, &page));
	ASSERT_OK(fstat(page.client_fd, &st));
	ASSERT_EQ(st.st_mode & 0777, 0600u);
	ASSERT(ftruncate(page.fd, 0) < 0);
	nic_page_deinit(&page);
}

TEST(the_next_process_goes_on_with_the_same_page)
{
	struct nic_page page, next, other;

	ASSERT_OK(nic_page_create(true, &page));
	ASSERT_OK(nic_page_create(true, &other));
	page.told->heartbeat_nsec = 77;
	ASSERT_OK(nic_page_adopt(page.fd, &next));
	ASSERT_NE(next.fd, page.fd);
	ASSERT_EQ(next.told->heartbeat_nsec, 77u);
	ASSERT(nic_page_is(&next, page.fd) && nic_page_is(&next, page.client_fd));
	ASSERT(!nic_page_is(&next, other.fd) && !nic_page_is(&next, -1));
	nic_page_deinit(&page);
	expect_read_only(&next);
	nic_page_deinit(&other);
	nic_page_deinit(&next);
}

/* A memfd that could be one but for its size, seals or mode; its content is that of none. */
static int stranger(off_t bytes, int seals, mode_t mode)
{
	int fd = memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const uint32_t version = SHMD_NIC_PAGE_VERSION;

	ASSERT(fd >= 0);
	ASSERT_OK(ftruncate(fd, bytes));
	ASSERT_EQ(pwrite(fd, &version, sizeof(version), 0), (ssize_t)sizeof(version));
	ASSERT_OK(fchmod(fd, mode));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static void expect_no_page(int fd)
{
	struct nic_page page = NIC_PAGE_NONE;

	ASSERT_ERR(nic_page_adopt(fd, &page), EBADF);
	ASSERT(page.fd < 0 && page.client_fd < 0 && !page.told);
	safe_close(fd);
}

TEST(memory_that_others_can_cut_off_or_write_is_refused_as_a_page)
{
	struct nic_page page;
	int fd;

	ASSERT_OK(nic_page_create(true, &page));
	expect_no_page(-1);
	expect_no_page(eventfd(0, EFD_CLOEXEC));
	expect_no_page(open("/", O_RDONLY | O_CLOEXEC));
	expect_no_page(fcntl(page.client_fd, F_DUPFD_CLOEXEC, 0)); /* not for writing */
	expect_no_page(stranger(SHMD_DB_PAGE_BYTES, F_SEAL_GROW, 0600));
	expect_no_page(stranger(SHMD_DB_PAGE_BYTES * 2, F_SEAL_SHRINK, 0600));
	expect_no_page(stranger(SHMD_DB_PAGE_BYTES, F_SEAL_SHRINK, 0644));
	fd = stranger(SHMD_DB_PAGE_BYTES, F_SEAL_SHRINK, 0600);
	ASSERT_EQ(pwrite(fd, &(uint32_t){SHMD_NIC_PAGE_VERSION + 1}, sizeof(uint32_t), 0), (ssize_t)sizeof(uint32_t));
	expect_no_page(fd);
	nic_page_deinit(&page);
}
