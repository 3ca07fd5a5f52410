/* SPDX-License-Identifier: Apache-2.0 */
/* main() for a harness without libFuzzer: runs it on every file of the folders named. An empty folder is a failure. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

#define MAX_FILE_BYTES (1024 * 1024)

/* In a heap block of its size exactly, so that a sanitizer sees a read beyond it. */
static int run_file(int folder, const char *name)
{
	_cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ uint8_t *bytes = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > MAX_FILE_BYTES)
		return -1;
	bytes = malloc(st.st_size ? (size_t)st.st_size : 1);
	if (!bytes || read(fd, bytes, (size_t)st.st_size) != st.st_size)
		return -1;
	return LLVMFuzzerTestOneInput(bytes, (size_t)st.st_size);
}

static int run_folder(const char *path)
{
	unsigned int n_files = 0;
	DIR *folder = opendir(path);
	struct dirent *entry;
	int r = 0;

	if (!folder) {
		fprintf(stderr, "%s: %m\n", path);
		return -1;
	}
	while (r == 0 && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		n_files++;
		r = run_file(dirfd(folder), entry->d_name);
		if (r < 0)
			fprintf(stderr, "%s/%s: cannot be read\n", path, entry->d_name);
	}
	closedir(folder);
	printf("%s: %u files\n", path, n_files);
	return r < 0 || !n_files ? -1 : 0;
}

int main(int argc, char **argv)
{
	int r = argc > 1 ? 0 : -1;

	for (int i = 1; i < argc; i++)
		if (run_folder(argv[i]) < 0)
			r = -1;
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
