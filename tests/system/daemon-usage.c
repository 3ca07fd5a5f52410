/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/daemon-usage.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define SETTLED_LOOKS 25u

static FILE *open_proc(pid_t pid, const char *name)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/%.32s", (int)pid, name);
	file = fopen(path, "re");
	ASSERT(file);
	return file;
}

static unsigned int count_fds(pid_t pid)
{
	unsigned int n = 0;
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	ASSERT(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

static unsigned int count_shared(pid_t pid)
{
	FILE *file = open_proc(pid, "maps");
	unsigned int n = 0;
	char line[512];

	while (fgets(line, sizeof(line), file))
		n += strstr(line, "/memfd:") != NULL;
	fclose(file);
	return n;
}

static unsigned int count_settled(pid_t pid)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	unsigned int n = count_shared(pid), now;

	for (unsigned int n_same = 0; n_same < SETTLED_LOOKS; n_same = now == n ? n_same + 1 : 0, n = now) {
		nanosleep(&pause, NULL);
		now = count_shared(pid);
	}
	return n;
}

void daemon_usage(pid_t pid, struct daemon_usage *ret_usage)
{
	unsigned int n_shared = count_settled(pid);
	FILE *file = open_proc(pid, "status");
	unsigned long kib;
	char line[256];

	*ret_usage = (struct daemon_usage){.n_fds = count_fds(pid), .n_shared = n_shared};
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "VmRSS: %lu kB", &kib) == 1)
			ret_usage->rss_bytes = (uint64_t)kib << 10;
		else if (sscanf(line, "VmHWM: %lu kB", &kib) == 1)
			ret_usage->peak_rss_bytes = (uint64_t)kib << 10;
	}
	fclose(file);
	ASSERT_GT(ret_usage->rss_bytes, 0);
}

uint64_t daemon_thread_nsec(pid_t pid, const char *thread)
{
	unsigned long long nsec = 0;
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	ASSERT(dir);
	while ((entry = readdir(dir))) {
		char name[32] = "";
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "task/%.20s/comm", entry->d_name);
		file = open_proc(pid, path);
		if (fscanf(file, "%31s", name) != 1)
			name[0] = 0;
		fclose(file);
		if (strcmp(name, thread) != 0)
			continue;
		snprintf(path, sizeof(path), "task/%.20s/schedstat", entry->d_name);
		file = open_proc(pid, path);
		ASSERT_EQ(fscanf(file, "%llu", &nsec), 1);
		fclose(file);
	}
	closedir(dir);
	return nsec;
}

bool daemon_is_empty(struct raw_client *ctl)
{
	struct msg_status_rep status;
	struct msg req, rep;
	unsigned int listed;

	raw_status(ctl, &status);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
	listed = rep.list_rep.n_sessions;
	msg_deinit(&rep);
	return listed == 0 && status.n_sessions == 0 && status.n_qps == 0 && status.n_cqs == 0 &&
	       status.n_mrs == 0 && status.registered_bytes == 0 && status.n_published == 0 &&
	       status.n_fds == 0;
}

uint64_t daemon_expect_empty(struct raw_client *ctl, uint64_t limit_nsec)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	uint64_t begin = nsec_now();

	if (test_has_sanitizer())
		limit_nsec *= 5;
	while (!daemon_is_empty(ctl)) {
		if (nsec_now() - begin > limit_nsec)
			test_fail(TEST_WHERE, "the client's things are still there after %.1f s",
				  (double)limit_nsec / 1e9);
		nanosleep(&pause, NULL);
	}
	return nsec_now() - begin;
}
