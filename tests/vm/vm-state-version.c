/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the cases of the VM lab: gives every state that the daemon PID has saved the version VERSION, as if another shmemd had
 * written it, with the bytes that were in it. Prints how many they were.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/restart/state.h"

/* A link of /proc/PID/fd to one of the daemon's states? */
static int is_state(int folder, const char *name)
{
	char to[64] = "";

	return readlinkat(folder, name, to, sizeof(to) - 1) > 0 && strncmp(to, "/memfd:shmemd-state", 19) == 0;
}

static int rewrite(int folder, const char *name, uint32_t version)
{
	int fd = openat(folder, name, O_RDWR | O_CLOEXEC), r;
	uint32_t before;
	const void *bytes = "";
	struct state *state;
	size_t n = 0;

	if (fd < 0 || state_open(fd, &state) < 0)
		return -1;
	r = state_read(state, &before, &bytes, &n);
	if (r == 0)
		r = state_write_version(state, version, bytes, n);
	state_free(state);
	return r;
}

int main(int argc, char **argv)
{
	char path[64];
	unsigned int n = 0;
	struct dirent *entry;
	DIR *dir;

	if (argc != 3) {
		fprintf(stderr, "usage: vm-state-version PID VERSION\n");
		return 2;
	}
	snprintf(path, sizeof(path), "/proc/%s/fd", argv[1]);
	dir = opendir(path);
	if (!dir) {
		perror(path);
		return 1;
	}
	while ((entry = readdir(dir)) != NULL)
		if (is_state(dirfd(dir), entry->d_name) &&
		    rewrite(dirfd(dir), entry->d_name, (uint32_t)strtoul(argv[2], NULL, 10)) == 0)
			n++;
	closedir(dir);
	printf("%u\n", n);
	return n > 0 ? 0 : 1;
}
