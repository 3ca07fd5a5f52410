/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the daemon and connecting to it.
 *
 * A daemon that dies between accepting a connection and answering Hello leaves the client without a session, and the next daemon
 * has none to take over: the client connects anew, and waits at the socket for that daemon. A client that is refused does not try
 * again.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libclient/client-open.h"
#include "libclient/state.h"
#include "proto/framing.h"

#define MAX_PATH_BYTES 107 /* of a Unix socket: unix(7) */
#define FIRST_PAUSE_NSEC (5 * NSEC_PER_MSEC)
#define LONGEST_PAUSE_NSEC (500 * NSEC_PER_MSEC)

static int fail_connect(int err, const char *path)
{
	switch (err) {
	case -ENOENT:
	case -ECONNREFUSED:
		return fail_not_running(err, path);
	case -EACCES:
	case -EPERM:
		return fail_not_allowed(err, path);
	case -ENOTDIR:
	case -EPROTOTYPE:
		return fail_not_socket(err, path);
	case -ENAMETOOLONG:
		return text_fail(err, "the path of the socket is too long (%zu bytes, at most %d): %.64s...", strlen(path),
				 MAX_PATH_BYTES, path);
	default:
		return text_fail(err, "cannot connect to shmemd at %s: %s", path, strerror(-err));
	}
}

static const char *socket_path_of(const struct shmd_client_attr *attr)
{
	const char *path = attr ? attr->socket_path : NULL;

	if (!path)
		path = secure_getenv(SHMD_SOCKET_ENV);
	return path && *path ? path : SHMD_DEFAULT_SOCKET;
}

static int open_once(const char *path, const struct shmd_client_attr *attr, struct shmd_client **ret_client)
{
	int sock = framing_connect(path);

	return sock < 0 ? fail_connect(sock, path) : client_open_on_fd(sock, attr, ret_client);
}

/* False: no time is left for another try. */
static bool pause_before(uint64_t deadline, uint64_t *pause_nsec)
{
	const struct timespec pause = nsec_to_timespec(*pause_nsec);

	if (nsec_add(nsec_now(), *pause_nsec) >= deadline)
		return false;
	nanosleep(&pause, NULL);
	*pause_nsec = 2 * *pause_nsec < LONGEST_PAUSE_NSEC ? 2 * *pause_nsec : LONGEST_PAUSE_NSEC;
	return true;
}

/* All tries together take no longer than one. */
static int open_within(const char *path, const struct shmd_client_attr *wanted, struct shmd_client **ret_client)
{
	uint64_t pause_nsec = FIRST_PAUSE_NSEC, deadline = nsec_add(nsec_now(), wanted->timeout_nsec), now;
	struct shmd_client_attr attr = *wanted;
	int r = open_once(path, &attr, ret_client);

	while (r == -ECONNRESET && pause_before(deadline, &pause_nsec)) {
		now = nsec_now();
		attr.timeout_nsec = now < deadline ? deadline - now : 1;
		r = open_once(path, &attr, ret_client);
	}
	if (!r)
		(*ret_client)->timeout_nsec = wanted->timeout_nsec;
	return r;
}

int shmd_client_open(const struct shmd_client_attr *attr, struct shmd_client **ret_client)
{
	struct shmd_client_attr wanted = attr ? *attr : (struct shmd_client_attr){0};

	if (!ret_client)
		return text_fail(-EINVAL, "ret_client is NULL");
	if (wanted.role > SHMD_ROLE_CONTROL)
		return text_fail(-EINVAL, "role %u is unknown", (unsigned int)wanted.role);
	if (!wanted.timeout_nsec)
		wanted.timeout_nsec = CLIENT_DEFAULT_TIMEOUT_NSEC;
	return open_within(socket_path_of(attr), &wanted, ret_client);
}
