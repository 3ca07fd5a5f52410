/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the process below /proc with the pid that the daemon reports is the daemon: a daemon in its own pid namespace reports
 * its pid there, which here is unused or another process. Keeps nothing; see check.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/check-private.h"
#include "proto/base/nsec.h"

#define DAEMON_COMM "shmemd\n"
#define START_FIELD 22 /* of /proc/PID/stat */
#define TICKS_PER_SEC 100 /* of it: USER_HZ, the same on every machine */
#define CLOCK_SLACK_NSEC (2 * NSEC_PER_SEC)
/* From a process's start to the time that a daemon counts from. */
#define STARTING_NSEC (300 * NSEC_PER_SEC)

enum process_kind {
	PROCESS_IS_DAEMON,
	PROCESS_IS_OTHER,
};

const char *check_stat_field(const char *stat, unsigned int field)
{
	const char *at = strrchr(stat, ')');

	for (unsigned int i = 2; at && i < field; i++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at;
}

/* Names of a process from the outermost namespace that is seen here to its own; kernels without namespaces have no such line. */
static bool says_pid(const char *status, uint32_t pid)
{
	const char *at = check_line(status, "NSpid:");
	unsigned long last = pid;
	char *end;

	while (at && *(at += strspn(at, " \t")) >= '0' && *at <= '9') {
		last = strtoul(at, &end, 10);
		at = end;
	}
	return last == pid;
}

static bool fits(const struct check_daemon *daemon, uint64_t start_ticks)
{
	uint64_t start = start_ticks * (NSEC_PER_SEC / TICKS_PER_SEC);

	return start <= nsec_add(daemon->started_max_nsec, CLOCK_SLACK_NSEC) &&
	       nsec_add(start, STARTING_NSEC) >= daemon->started_min_nsec;
}

/* Reads proc/PID/FILE; the path stays for who tells of it. */
static int read_file(const struct check_host *host, const char *file, char path[CHECK_PATH_BYTES],
		     char text[CHECK_FILE_BYTES])
{
	snprintf(path, CHECK_PATH_BYTES, "proc/%" PRIu32 "/%s", host->daemon->pid, file);
	return check_text(host, path, text);
}

/* enum process_kind; or -errno of what could not be read. All these files anybody may read. */
static int look_at_process(const struct check_host *host, char path[CHECK_PATH_BYTES])
{
	char text[CHECK_FILE_BYTES];
	const char *start;
	uint64_t ticks;
	int r = read_file(host, "comm", path, text);

	if (r < 0 || strcmp(text, DAEMON_COMM))
		return r < 0 ? r : PROCESS_IS_OTHER;
	r = read_file(host, "status", path, text);
	if (r < 0 || !says_pid(text, host->daemon->pid))
		return r < 0 ? r : PROCESS_IS_OTHER;
	r = read_file(host, "stat", path, text);
	if (r < 0)
		return r;
	start = check_stat_field(text, START_FIELD);
	if (!start || sscanf(start, "%18" SCNu64, &ticks) != 1)
		return -EBADMSG;
	return fits(host->daemon, ticks) ? PROCESS_IS_DAEMON : PROCESS_IS_OTHER;
}

bool check_has_process(const struct check_host *host, struct check_teller *to)
{
	char path[CHECK_PATH_BYTES];
	int r = look_at_process(host, path);

	if (r < 0 && r != -ENOENT && r != -ESRCH)
		check_say_unread(to, "", path, r);
	else if (r != PROCESS_IS_DAEMON)
		check_say(to, CHECK_WARN, "",
			  "nsenter -t PID -m -p shmemctl doctor as root, with the PID that pidof "
			  "shmemd tells here; or in its container (docker exec, kubectl exec)",
			  "not known: the daemon is in another pid namespace: process %" PRIu32
			  ", as it calls itself, is %s here",
			  host->daemon->pid, r < 0 ? "nobody, or hidden" : "another one");
	return r == PROCESS_IS_DAEMON;
}
