/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "tests/lib/test.h"

struct thing {
	int *n_freed;
};

static struct thing *thing_free(struct thing *thing)
{
	if (thing)
		(*thing->n_freed)++;
	return NULL;
}
DEFINE_CLEANUP(struct thing *, thing_free);

static void leave_scope(int fd, struct thing *thing, bool take)
{
	_cleanup_close_ int owned_fd = fd;
	_cleanup_(thing_freep) struct thing *owned = thing;

	if (take) {
		ASSERT_EQ(take_fd(&owned_fd), fd);
		ASSERT_EQ(owned_fd, -1);
		ASSERT_EQ(take_ptr(owned), thing);
		ASSERT_EQ(owned, NULL);
	}
}

TEST(leaving_a_scope_releases_what_was_not_taken)
{
	int n_freed = 0, fd = eventfd(0, EFD_CLOEXEC);
	struct thing thing = {&n_freed};

	leave_scope(fd, &thing, true);
	ASSERT_EQ(n_freed, 0);
	ASSERT_GE(fcntl(fd, F_GETFD), 0);
	leave_scope(fd, &thing, false);
	ASSERT_EQ(n_freed, 1);
	ASSERT_EQ(fcntl(fd, F_GETFD), -1);
	leave_scope(-1, NULL, false);
	ASSERT_EQ(n_freed, 1);
}

TEST(closing_keeps_errno)
{
	errno = ENOTTY;
	ASSERT_EQ(safe_close(1000000), -1);
	ASSERT_EQ(errno, ENOTTY);
}

TEST(assert_bug_lets_truth_pass)
{
	_cleanup_free_ char *memory = malloc(1);

	assert_bug(memory || !memory);
}
