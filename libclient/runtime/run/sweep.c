/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See sweep.h. Children are found in /proc: a child that has not been waited for keeps its pid, so a signal hits nobody else. The
 * children of one that was killed become children of this process in turn, hence the rounds.
 */
#include "libclient/runtime/run/sweep.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"

#define GIVE_UP_NSEC (10 * NSEC_PER_SEC)
#define ROUND_NSEC (2 * NSEC_PER_MSEC)

/* The command in brackets may hold any character, so the last bracket counts. */
static pid_t parent_of(const char *pid)
{
	char path[64], text[512] = "", *at;
	FILE *file;
	size_t n;
	int parent;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = 0;
	at = strrchr(text, ')');
	return at && sscanf(at, ") %*c %d", &parent) == 1 ? parent : -1;
}

static void kill_children(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == getpid())
			kill((pid_t)strtol(entry->d_name, NULL, 10), SIGKILL);
	if (proc)
		closedir(proc);
}

/* Whether children are left. Counts those that ended by SIGKILL. */
static bool reap(int *n_killed)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		*n_killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	return !pid;
}

int sweep_children(unsigned int grace_msec)
{
	uint64_t kill_at = nsec_now() + grace_msec * NSEC_PER_MSEC;
	struct timespec pause = nsec_to_timespec(ROUND_NSEC);
	int n_killed = 0, n_before = 0;

	while (reap(nsec_now() < kill_at ? &n_before : &n_killed)) {
		if (nsec_now() > kill_at + GIVE_UP_NSEC)
			break;
		if (nsec_now() >= kill_at)
			kill_children();
		nanosleep(&pause, NULL);
	}
	return n_killed;
}
