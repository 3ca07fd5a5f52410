/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"

static void name_it(char *path, size_t bytes, const char *name)
{
	const char *tmp = getenv("TMPDIR");

	ASSERT_LT(snprintf(path, bytes, "%s/%s-XXXXXX", tmp && *tmp ? tmp : "/tmp", name), (int)bytes);
}

void test_make_folder(char *path, size_t bytes, const char *name)
{
	name_it(path, bytes, name);
	if (!mkdtemp(path))
		test_fail(TEST_WHERE, "mkdtemp %s: %s", path, strerror(errno));
}

void test_make_file(char *path, size_t bytes, const char *name)
{
	int fd;

	name_it(path, bytes, name);
	fd = mkstemp(path);
	if (fd < 0)
		test_fail(TEST_WHERE, "mkstemp %s: %s", path, strerror(errno));
	close(fd);
}
