/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/child.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_called(int pid, const char *name)
{
	char path[64], text[32] = "";
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	in = fopen(path, "re");
	if (in && fgets(text, sizeof(text), in))
		text[strcspn(text, "\n")] = '\0';
	if (in)
		fclose(in);
	return strcmp(text, name) == 0;
}

pid_t child_called(pid_t parent, const char *name)
{
	char path[64];
	int pid = 0;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	in = fopen(path, "re");
	while (in && fscanf(in, "%d", &pid) == 1 && !is_called(pid, name))
		pid = 0;
	if (in)
		fclose(in);
	return pid;
}

unsigned int child_tree(pid_t root, pid_t *ret_pids, unsigned int max)
{
	unsigned int n = 0;

	ret_pids[n++] = root;
	for (unsigned int i = 0; i < n; i++) {
		char path[64];
		FILE *in;
		int pid;

		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", ret_pids[i], ret_pids[i]);
		in = fopen(path, "re");
		while (in && n < max && fscanf(in, "%d", &pid) == 1)
			ret_pids[n++] = pid;
		if (in)
			fclose(in);
	}
	return n;
}
