/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/base/fdlist.h"
#include "tests/lib/test.h"

static int new_fd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	ASSERT_GE(fd, 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

TEST(descriptors_that_are_not_taken_are_closed)
{
	int kept = new_fd(), taken = new_fd();
	struct fdlist fds;

	fdlist_init(&fds);
	ASSERT_OK(fdlist_add(&fds, kept));
	ASSERT_OK(fdlist_add(&fds, taken));
	ASSERT_EQ(fdlist_take(&fds, 1), taken);
	fdlist_deinit(&fds);
	ASSERT(!is_open(kept));
	ASSERT(is_open(taken));
	close(taken);
}

TEST(an_index_keeps_its_meaning_after_a_take)
{
	int a = new_fd(), b = new_fd();
	struct fdlist fds;

	fdlist_init(&fds);
	ASSERT_OK(fdlist_add(&fds, a));
	ASSERT_OK(fdlist_add(&fds, b));
	ASSERT_EQ(fdlist_take(&fds, 0), a);
	ASSERT_EQ(fdlist_get(&fds, 1), b);
	fdlist_deinit(&fds);
	close(a);
}

TEST(taking_twice_is_refused)
{
	int fd = new_fd();
	struct fdlist fds;

	fdlist_init(&fds);
	ASSERT_OK(fdlist_add(&fds, fd));
	ASSERT_EQ(fdlist_take(&fds, 0), fd);
	ASSERT_ERR(fdlist_take(&fds, 0), EBADF);
	ASSERT_ERR(fdlist_get(&fds, 0), EBADF);
	fdlist_deinit(&fds);
	close(fd);
}

TEST(an_index_beyond_the_list_is_refused)
{
	struct fdlist fds;

	fdlist_init(&fds);
	ASSERT_ERR(fdlist_get(&fds, 0), EBADF);
	ASSERT_ERR(fdlist_get(&fds, FDLIST_MAX), EBADF);
	ASSERT_ERR(fdlist_get(&fds, UINT32_MAX), EBADF);
	ASSERT_ERR(fdlist_take(&fds, UINT32_MAX), EBADF);
}

TEST(a_full_list_refuses_and_does_not_take)
{
	struct fdlist fds;
	int extra = new_fd();

	fdlist_init(&fds);
	for (int i = 0; i < FDLIST_MAX; i++)
		ASSERT_OK(fdlist_add(&fds, new_fd()));
	ASSERT_ERR(fdlist_add(&fds, extra), ENOSPC);
	ASSERT_ERR(fdlist_add(&fds, -1), EBADF);
	fdlist_deinit(&fds);
	ASSERT(is_open(extra));
	close(extra);
}

TEST(deinit_twice_and_of_nothing_is_harmless)
{
	int fd = new_fd(), again;
	struct fdlist fds;

	fdlist_init(&fds);
	ASSERT_OK(fdlist_add(&fds, fd));
	fdlist_deinit(&fds);
	again = new_fd(); /* the same number: a second close would hit it */
	ASSERT_EQ(again, fd);
	fdlist_deinit(&fds);
	fdlist_deinit(NULL);
	ASSERT(is_open(again));
	close(again);
}
