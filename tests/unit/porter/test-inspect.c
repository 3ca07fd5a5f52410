/* SPDX-License-Identifier: Apache-2.0 */
/* The text is what Linux 6.1 prints for a buffer of the system heap. */
#include <errno.h>
#include <unistd.h>

#include "daemon/porter/inspect.h"
#include "tests/lib/strange-fd.h"
#include "tests/lib/test.h"

static const char real[] = "pos:\t0\nflags:\t02000002\nmnt_id:\t11\nino:\t7\nsize:\t1048576\ncount:\t2\nexp_name:\tsystem\n";

TEST(size_of_a_dmabuf_is_read_from_the_kernel)
{
	uint64_t bytes = 0;

	ASSERT_OK(inspect_parse_dmabuf(real, &bytes));
	ASSERT_EQ(bytes, 1 << 20);
}

TEST(a_page_that_lacks_a_line_is_no_dmabuf)
{
	static const char *const texts[] = {
		"", "\n", "size", "size:\t1", "size:\t5\nexp_name", "exp_name:\tx\n", "exp_name:\tx\nsize:\t\n",
		"pos:\t0\nxsize:\t1\nexp_name:\tx\n", "pos:\t0 size:\t1\nexp_name:\tx\n"};
	uint64_t bytes = 7;

	for (unsigned int i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		ASSERT_ERR(inspect_parse_dmabuf(texts[i], &bytes), EBADF);
	ASSERT_EQ(bytes, 7);
}

static uint32_t kind_of(int fd)
{
	struct inspect_info info;

	inspect_fd(fd, &info);
	return info.kind;
}

TEST(nothing_else_is_a_dmabuf)
{
	for (unsigned int kind = 0; kind < STRANGE_FD_N; kind++) {
		int fd = strange_fd_new(kind);

		ASSERT_NE(kind_of(fd), INSPECT_DMABUF);
		close(fd);
	}
	ASSERT_EQ(kind_of(-1), INSPECT_UNKNOWN);
}

static enum inspect_kind expected(enum strange_fd kind)
{
	switch (kind) {
	case STRANGE_FILE:
	case STRANGE_FOLDER:
	case STRANGE_PATH:
	case STRANGE_NULL:
	case STRANGE_ZERO:
		return INSPECT_FILE;
	case STRANGE_PIPE:
	case STRANGE_PIPE_READ:
		return INSPECT_PIPE;
	case STRANGE_SOCKET:
	case STRANGE_TCP:
		return INSPECT_SOCKET;
	case STRANGE_EVENTFD:
	case STRANGE_EPOLL:
	case STRANGE_TIMERFD:
	case STRANGE_INOTIFY:
	case STRANGE_PIDFD:
		return INSPECT_ANON;
	default:
		return INSPECT_MEMFD;
	}
}

/* An eventfd replaces a kind that this machine lacks. A file on tmpfs counts as memory. */
TEST(kinds_are_distinguished_and_files_refused)
{
	for (unsigned int kind = 0; kind < STRANGE_FD_N; kind++) {
		int fd = strange_fd_new(kind);
		uint32_t seen = kind_of(fd);

		if (seen != expected(kind) && seen != INSPECT_ANON && !(kind == STRANGE_FILE && seen == INSPECT_MEMFD))
			ASSERT_EQ(seen, expected(kind));
		ASSERT_EQ(!inspect_refusal(seen), seen != INSPECT_FILE);
		close(fd);
	}
	ASSERT(inspect_refusal(0) && inspect_refusal(INSPECT_UNKNOWN) && inspect_refusal(INSPECT_N) && inspect_refusal(UINT32_MAX));
}
