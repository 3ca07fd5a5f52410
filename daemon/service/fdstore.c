/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors from the service manager: the protocol of sd_listen_fds(3), which is a few environment variables, so that every build
 * speaks it. fdstore-tell.c has the other direction.
 *
 * Names tell descriptors apart at the start: kept ones have names of ours, and at most one other is there, the listening socket
 * of activation. This file closes or uses none before it has compared LISTEN_PID with its own pid. Control thread.
 */
#include "daemon/service/fdstore.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/overflow.h"

#define FIRST_FD 3
#define MAX_PASSED (1u << 20)

/* ---- environment ------------------------------------------------------------------------------------------------ */

/* A variable that is a number and nothing else, up to most. */
static bool env_number(const char *key, uint64_t most, uint64_t *ret_value)
{
	const char *text = getenv(key);
	unsigned long long value;
	char *end;

	if (!text || !isdigit((unsigned char)*text))
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end || errno || value > most)
		return false;
	*ret_value = value;
	return true;
}

static bool is_for_us(const char *key)
{
	uint64_t pid;

	return env_number(key, INT_MAX, &pid) && pid == (uint64_t)getpid();
}

uint64_t fdstore_watchdog_nsec(void)
{
	uint64_t usec, nsec;

	if (getenv("WATCHDOG_PID") && !is_for_us("WATCHDOG_PID"))
		return 0;
	if (!env_number("WATCHDOG_USEC", UINT64_MAX, &usec) || mul_overflows(usec, NSEC_PER_USEC, &nsec))
		return 0;
	return nsec;
}

unsigned int fdstore_max(void)
{
	uint64_t max;

	return fdstore_has_manager() && env_number("FDSTORE", MAX_PASSED, &max) ? (unsigned int)max : 0;
}

/* ---- what was passed -------------------------------------------------------------------------------------------- */

static unsigned int n_passed(void)
{
	uint64_t n;

	return is_for_us("LISTEN_PID") && env_number("LISTEN_FDS", MAX_PASSED, &n) ? (unsigned int)n : 0;
}

/* The next of the names, "" where there is none or it is none of ours; *names moves on. */
static void next_name(const char **names, char *ret, size_t size)
{
	size_t bytes = *names ? strcspn(*names, ":") : 0;

	snprintf(ret, size, "%.*s", bytes < size ? (int)bytes : 0, *names ? *names : "");
	if (*names)
		*names = (*names)[bytes] ? *names + bytes + 1 : NULL;
}

static bool is_value(int fd, int option, int want)
{
	socklen_t size = sizeof(int);
	int value;

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == want;
}

static bool is_listener(int fd)
{
	return is_value(fd, SO_DOMAIN, AF_UNIX) && is_value(fd, SO_TYPE, SOCK_SEQPACKET) &&
	       is_value(fd, SO_ACCEPTCONN, 1) && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

int fdstore_listener(int *ret_fd, bool *ret_kept)
{
	const char *names = getenv("LISTEN_FDNAMES");
	unsigned int n = n_passed(), n_others = 0;
	int kept = -1, other = -1;
	char name[FDSTORE_NAME_BYTES];

	for (unsigned int i = 0; i < n; i++) {
		next_name(&names, name, sizeof(name));
		if (strcmp(name, FDSTORE_LISTENER) == 0)
			kept = FIRST_FD + (int)i;
		else if (!fdstore_is_name(name) && n_others++ == 0)
			other = FIRST_FD + (int)i;
	}
	if (n_others > 1 || (n_others == 1 && !is_listener(other)))
		return -EINVAL;
	if (kept >= 0 && (other >= 0 || !is_listener(kept))) {
		/* From a run in which the daemon made its socket itself. */
		fdstore_drop(FDSTORE_LISTENER);
		kept = safe_close(kept);
	}
	if (kept < 0 && other < 0)
		return -ENOENT;
	*ret_fd = other >= 0 ? other : kept;
	*ret_kept = other < 0;
	return 0;
}

int fdstore_copy_listener(void)
{
	const char *names = getenv("LISTEN_FDNAMES");
	unsigned int n = n_passed();
	char name[FDSTORE_NAME_BYTES];

	for (unsigned int i = 0; i < n; i++) {
		next_name(&names, name, sizeof(name));
		if (!fdstore_is_name(name) && is_listener(FIRST_FD + (int)i))
			return fcntl(FIRST_FD + (int)i, F_DUPFD_CLOEXEC, 0);
	}
	return -1;
}

bool fdstore_has_sessions(void)
{
	const char *names = getenv("LISTEN_FDNAMES");
	char name[FDSTORE_NAME_BYTES];

	for (unsigned int n = n_passed(); n > 0; n--) {
		next_name(&names, name, sizeof(name));
		if (fdstore_is_name(name) && name[0] == 's')
			return true;
	}
	return false;
}

void fdstore_claim(void (*fn)(void *arg, const char *name, int fd), void *arg)
{
	const char *names = getenv("LISTEN_FDNAMES");
	unsigned int n = n_passed();
	char name[FDSTORE_NAME_BYTES];

	for (unsigned int i = 0; i < n; i++) {
		int fd = FIRST_FD + (int)i;

		next_name(&names, name, sizeof(name));
		if (fdstore_is_name(name) && strcmp(name, FDSTORE_LISTENER) != 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
			fn(arg, name, fd);
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
}
