/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/daemon-usage.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/nsec.h"
#include "tests/lib/child.h"
#include "tests/lib/test.h"

#define MOST_PROCESSES 512u
#define SETTLED_LOOKS 25u
#define LOOK_NSEC 10000000
#define PATIENCE_NSEC (10 * NSEC_PER_SEC)
#define HANG_FACTOR 10u /* beyond this many limits it is not the machine */

static FILE *open_proc(pid_t pid, const char *name)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/%.32s", (int)pid, name);
	file = fopen(path, "re");
	ASSERT(file);
	return file;
}

unsigned int daemon_n_fds(pid_t pid)
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

uint64_t daemon_own_kib(pid_t pid)
{
	FILE *file = open_proc(pid, "status");
	unsigned long kib, sum = 0;
	char line[256];

	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %lu kB", &kib) == 1 ||
		    sscanf(line, "RssShmem: %lu kB", &kib) == 1)
			sum += kib;
	fclose(file);
	ASSERT_GT(sum, 0);
	return sum;
}

static unsigned int count_maps(pid_t pid, const char *words)
{
	FILE *file = open_proc(pid, "maps");
	unsigned int n = 0;
	char line[512];

	while (fgets(line, sizeof(line), file))
		n += strstr(line, words) != NULL;
	fclose(file);
	return n;
}

unsigned int daemon_n_maps(pid_t pid)
{
	return count_maps(pid, "\n");
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = LOOK_NSEC}, NULL);
}

static void count(pid_t pid, struct daemon_usage *usage)
{
	usage->n_fds = daemon_n_fds(pid);
	usage->n_shared = count_maps(pid, "/memfd:");
}

static void settle(pid_t pid, struct daemon_usage *usage)
{
	unsigned int n_same = 0;
	struct daemon_usage now;

	for (count(pid, usage); n_same < SETTLED_LOOKS; *usage = now) {
		nap();
		count(pid, &now);
		n_same = now.n_fds == usage->n_fds && now.n_shared == usage->n_shared ? n_same + 1 : 0;
	}
}

static void read_memory(pid_t pid, struct daemon_usage *usage)
{
	FILE *file = open_proc(pid, "status");
	unsigned long kib;
	char line[256];

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "VmRSS: %lu kB", &kib) == 1)
			usage->rss_bytes = (uint64_t)kib << 10;
		else if (sscanf(line, "VmHWM: %lu kB", &kib) == 1)
			usage->peak_rss_bytes = (uint64_t)kib << 10;
	}
	fclose(file);
	ASSERT_GT(usage->rss_bytes, 0);
}

void daemon_usage(pid_t pid, struct daemon_usage *ret_usage)
{
	*ret_usage = (struct daemon_usage){0};
	settle(pid, ret_usage);
	read_memory(pid, ret_usage);
}

void daemon_expect_usage(pid_t pid, const struct daemon_usage *most, struct daemon_usage *ret_usage)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	for (;;) {
		daemon_usage(pid, ret_usage);
		if (ret_usage->n_fds <= most->n_fds && ret_usage->n_shared <= most->n_shared)
			return;
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "the daemon holds %u descriptors and %u mappings, and %u and %u before",
				  ret_usage->n_fds, ret_usage->n_shared, most->n_fds, most->n_shared);
	}
}

/* 0 for a thread of another name. One may end between the list and the look. */
static uint64_t thread_nsec(pid_t pid, const char *tid, const char *thread)
{
	unsigned long long nsec = 0;
	char path[64], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/comm", (int)pid, tid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%31s", name) != 1)
		name[0] = 0;
	fclose(file);
	if (strcmp(name, thread) != 0)
		return 0;
	snprintf(path, sizeof(path), "task/%.20s/schedstat", tid);
	file = open_proc(pid, path);
	ASSERT_EQ(fscanf(file, "%llu", &nsec), 1);
	fclose(file);
	return nsec;
}

uint64_t daemon_thread_nsec(pid_t pid, const char *thread)
{
	pid_t pids[MOST_PROCESSES];
	unsigned int n = child_tree(pid, pids, MOST_PROCESSES);
	const struct dirent *entry;
	uint64_t sum = 0;
	char path[64];

	for (unsigned int i = 0; i < n; i++) {
		DIR *dir;

		snprintf(path, sizeof(path), "/proc/%d/task", (int)pids[i]);
		dir = opendir(path);
		while (dir && (entry = readdir(dir)))
			sum += entry->d_name[0] == '.' ? 0 : thread_nsec(pids[i], entry->d_name, thread);
		if (dir)
			closedir(dir);
	}
	return sum;
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

/* For how long a thread has been ready to run without a CPU; 0 where the kernel does not tell. */
static uint64_t run_delay_nsec(const char *path)
{
	unsigned long long nsec = 0;
	FILE *file = fopen(path, "re");

	if (!file)
		return 0;
	if (fscanf(file, "%*u %llu", &nsec) != 1)
		nsec = 0;
	fclose(file);
	return nsec;
}

static uint64_t delays_of(pid_t pid)
{
	const struct dirent *entry;
	uint64_t nsec = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", (int)pid, entry->d_name);
		nsec += run_delay_nsec(path);
	}
	if (dir)
		closedir(dir);
	return nsec;
}

/* The delays of this thread and of all that the daemon and its processes have; they wait for each other. */
static uint64_t delays_nsec(pid_t daemon)
{
	pid_t pids[MOST_PROCESSES];
	unsigned int n = child_tree(daemon, pids, MOST_PROCESSES);
	uint64_t nsec = run_delay_nsec("/proc/thread-self/schedstat");

	for (unsigned int i = 0; i < n; i++)
		nsec += delays_of(pids[i]);
	return nsec;
}

uint64_t daemon_expect(struct raw_client *ctl, bool (*is_so)(struct raw_client *ctl, void *arg), void *arg, const char *what,
		       uint64_t limit_nsec)
{
	uint64_t begin = nsec_now(), took, delays, before;
	struct msg_status_rep status;

	raw_status(ctl, &status);
	before = delays_nsec(status.pid);
	if (test_has_sanitizer())
		limit_nsec *= 5;
	while (!is_so(ctl, arg)) {
		if (nsec_now() - begin > HANG_FACTOR * limit_nsec)
			test_fail(TEST_WHERE, "%s are still there after %.1f s", what, (double)(HANG_FACTOR * limit_nsec) / 1e9);
		nap();
	}
	took = nsec_now() - begin;
	delays = delays_nsec(status.pid);
	delays = delays > before ? delays - before : 0;
	/* A simulated NIC has the commands carried out, and for how long it was without a CPU is not known here. */
	if (getenv("SHMEMD_TEST_BACKEND"))
		return took;
	if (took > limit_nsec + delays)
		test_fail(TEST_WHERE, "%s were there for %.1f s, %.1f s of them for want of a CPU", what, (double)took / 1e9,
			  (double)delays / 1e9);
	return took;
}

static bool is_empty(struct raw_client *ctl, void *arg)
{
	(void)arg;
	return daemon_is_empty(ctl);
}

uint64_t daemon_expect_empty(struct raw_client *ctl, uint64_t limit_nsec)
{
	return daemon_expect(ctl, is_empty, NULL, "the client's things", limit_nsec);
}
