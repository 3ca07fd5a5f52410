/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/log.h"
#include "tests/lib/test.h"

#define SEC 1000000000ull

TEST(burst_then_two_a_second)
{
	struct log_bucket bucket = {0};
	uint64_t dropped = 0, now = 1000 * SEC;
	unsigned int n = 0;

	for (int i = 0; i < 1000; i++)
		n += log_bucket_take(&bucket, now, &dropped);
	ASSERT_EQ(n, 20);
	ASSERT_EQ(dropped, 0);
	ASSERT(!log_bucket_take(&bucket, now + SEC / 4, &dropped));
	ASSERT(log_bucket_take(&bucket, now + SEC / 2, &dropped));
	ASSERT_EQ(dropped, 981);
	ASSERT(!log_bucket_take(&bucket, now + SEC / 2, &dropped));
	n = 0;
	for (int i = 0; i < 1000; i++)
		n += log_bucket_take(&bucket, now + 3600 * SEC, &dropped);
	ASSERT_EQ(n, 20);
}

/* The lines of `write_lines` as stderr shows them. */
static void capture(void (*write_lines)(void), char *out, size_t size)
{
	int fd = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO);
	ssize_t n;

	dup2(fd, STDERR_FILENO);
	write_lines();
	dup2(saved, STDERR_FILENO);
	close(saved);
	n = pread(fd, out, size - 1, 0);
	out[n > 0 ? n : 0] = 0;
	close(fd);
}

static void write_some(void)
{
	const struct log_fields fields = {.session = 7, .has_peer = true, .uid = 1000, .pid = 42};

	log_init(LOG_TO_STDERR, LOG_NOTICE);
	log_line(LOG_INFO, NULL, "not shown");
	log_line(LOG_NOTICE, NULL, "plain %d", 5);
	log_line(LOG_ERR, &fields, "with facts");
}

TEST(lines_carry_level_and_peer)
{
	char text[1024];

	capture(write_some, text, sizeof(text));
	ASSERT_STREQ(text, "shmemd: notice: plain 5\n"
			   "shmemd: error: session 7 (uid 1000, pid 42): with facts\n");
}

static void write_long(void)
{
	char text[2000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	log_init(LOG_TO_STDERR, LOG_NOTICE);
	log_line(LOG_NOTICE, NULL, "%s", text);
}

TEST(long_line_is_cut_and_ends)
{
	char text[4096];

	capture(write_long, text, sizeof(text));
	ASSERT_LT(strlen(text), 1400);
	ASSERT_EQ(text[strlen(text) - 1], '\n');
}

static void write_many(void)
{
	log_init(LOG_TO_STDERR, LOG_NOTICE);
	for (int i = 0; i < 500; i++)
		log_provoked(LOG_NOTICE, NULL, "again");
}

TEST(provoked_lines_are_bounded)
{
	char text[65536];
	unsigned int n = 0;

	capture(write_many, text, sizeof(text));
	for (char *at = text; (at = strstr(at, "again")); at++)
		n++;
	ASSERT_GE(n, 20);
	ASSERT_LE(n, 30);
}
