/* SPDX-License-Identifier: Apache-2.0 */
/* The text is what Linux 6.1 prints for a buffer of the system heap. */
#include <errno.h>
#include <unistd.h>

#include "daemon/session/dmabuf.h"
#include "tests/lib/strange-fd.h"
#include "tests/lib/test.h"

static const char real[] = "pos:\t0\nflags:\t02000002\nmnt_id:\t11\nino:\t7\nsize:\t1048576\ncount:\t2\nexp_name:\tsystem\n";

TEST(size_of_a_dmabuf_is_read_from_the_kernel)
{
	uint64_t bytes = 0;

	ASSERT_OK(dmabuf_parse_fdinfo(real, &bytes));
	ASSERT_EQ(bytes, 1 << 20);
}

TEST(a_page_that_lacks_a_line_is_no_dmabuf)
{
	static const char *const texts[] = {
		"", "\n", "size", "size:\t1", "size:\t5\nexp_name", "exp_name:\tx\n", "exp_name:\tx\nsize:\t\n",
		"pos:\t0\nxsize:\t1\nexp_name:\tx\n", "pos:\t0 size:\t1\nexp_name:\tx\n"};
	uint64_t bytes = 7;

	for (unsigned int i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		ASSERT_ERR(dmabuf_parse_fdinfo(texts[i], &bytes), EBADF);
	ASSERT_EQ(bytes, 7);
}

TEST(nothing_else_is_a_dmabuf)
{
	uint64_t bytes;

	for (unsigned int kind = 0; kind < STRANGE_FD_N; kind++) {
		int fd = strange_fd_new(kind);

		ASSERT_ERR(dmabuf_size(fd, &bytes), EBADF);
		close(fd);
	}
	ASSERT_ERR(dmabuf_size(-1, &bytes), EBADF);
}
