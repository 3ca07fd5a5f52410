/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors from and notifications to the service manager: the protocols of sd_listen_fds(3) and sd_notify(3), which
 * are a few environment variables and datagrams, so that every build speaks them.
 *
 * Names tell descriptors apart at the start: kept ones have names of ours, and at most one other is there, the listening socket
 * of activation. This file closes or uses none before it has compared LISTEN_PID with its own pid. Control thread.
 */
#include "daemon/service/fdstore.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/overflow.h"

#define FIRST_FD 3
#define MAX_PASSED (1u << 20)
#define NODE_NAME "node-state"

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

/* Names of the daemon's own descriptors, which belong to no session. */
static bool is_own_name(const char *name)
{
	return strcmp(name, NODE_NAME) == 0 || strcmp(name, FDSTORE_LISTENER) == 0 || strcmp(name, FDSTORE_LIFELINE) == 0;
}

bool fdstore_is_name(const char *name)
{
	size_t bytes = strlen(name), digits;

	if (bytes >= FDSTORE_NAME_BYTES)
		return false;
	if (is_own_name(name))
		return true;
	digits = name[0] == 's' ? strspn(name + 1, "0123456789abcdef") : 0;
	return digits > 0 && name[1 + digits] == '-' && name[2 + digits] &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == bytes;
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
		if (fdstore_is_name(name) && !is_own_name(name))
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

/* ---- telling the manager ---------------------------------------------------------------------------------------- */

/* The address of the service manager. NULL: none, or of an unknown kind. */
static const char *notify_path(void)
{
	const char *path = getenv("NOTIFY_SOCKET");

	return path && (path[0] == '/' || path[0] == '@') && path[1] ? path : NULL;
}

bool fdstore_has_manager(void)
{
	return notify_path();
}

static int fill_address(struct sockaddr_un *addr, socklen_t *ret_size)
{
	const char *path = notify_path();
	size_t bytes = path ? strlen(path) : 0;

	if (!path)
		return -ENOENT;
	if (bytes >= sizeof(addr->sun_path))
		return -ENAMETOOLONG;
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(addr->sun_path, path, bytes);
	if (path[0] == '@')
		addr->sun_path[0] = 0; /* of the abstract kind, without a NUL at its end */
	*ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
	return 0;
}

static void attach(struct msghdr *hdr, char *control, size_t size, int passed)
{
	struct cmsghdr *cmsg;

	hdr->msg_control = control;
	hdr->msg_controllen = size;
	cmsg = CMSG_FIRSTHDR(hdr);
	*cmsg = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(passed))};
	memcpy(CMSG_DATA(cmsg), &passed, sizeof(passed));
}

/* One for all that is said: to let go of a descriptor must not need a free one. */
static int words = -1;

/* Removals that have not reached the manager yet, in this order. */
static struct {
	char (*names)[FDSTORE_NAME_BYTES]; /* owned */
	size_t n, n_told, room;
} drops;

static int words_socket(void)
{
	if (words < 0)
		words = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return words < 0 ? -errno : words;
}

/* One datagram, with a descriptor unless it is -1. */
static int send_text(const char *text, int passed, int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (void *)text, .iov_len = strlen(text)};
	struct sockaddr_un addr;
	struct msghdr hdr = {.msg_name = &addr, .msg_iov = &iov, .msg_iovlen = 1};
	int fd = words_socket(), r;
	ssize_t n;

	if (fd < 0)
		return fd;
	r = fill_address(&addr, &hdr.msg_namelen);
	if (r < 0)
		return r;
	if (passed >= 0)
		attach(&hdr, control, sizeof(control), passed);
	do {
		n = sendmsg(fd, &hdr, flags | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

void fdstore_notify(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	send_text(text, -1, 0);
}

int fdstore_try_notify(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (!fdstore_has_manager())
		return 0;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return send_text(text, -1, MSG_DONTWAIT);
}

/* ---- letting go --------------------------------------------------------------------------------------------------- */

static int tell_drop(const char *name, int flags)
{
	char text[FDSTORE_NAME_BYTES + 64];

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	return send_text(text, -1, flags);
}

/* A manager that closes large memory reads nothing meanwhile. Errors but -EAGAIN have no remedy. */
static int tell_drops(int flags)
{
	int r = 0;

	while (r != -EAGAIN && drops.n_told < drops.n) {
		r = tell_drop(drops.names[drops.n_told], flags);
		drops.n_told += r != -EAGAIN;
	}
	if (r == -EAGAIN)
		return r;
	drops.n = drops.n_told = 0;
	return 0;
}

bool fdstore_flush(void)
{
	return tell_drops(MSG_DONTWAIT) == 0;
}

static int add_drop(const char *name)
{
	if (drops.n == drops.room) {
		/* bounded: by the names that the manager has. */
		size_t room = drops.room ? 2 * drops.room : 64;
		void *names = realloc(drops.names, room * sizeof(*drops.names));

		if (!names)
			return -ENOMEM;
		drops.names = names;
		drops.room = room;
	}
	snprintf(drops.names[drops.n++], FDSTORE_NAME_BYTES, "%s", name);
	return 0;
}

/* Without memory for the name this waits for the manager. */
int fdstore_drop(const char *name)
{
	int r;

	if (!fdstore_is_name(name))
		return -EINVAL;
	r = fdstore_flush() ? tell_drop(name, MSG_DONTWAIT) : -EAGAIN;
	if (r != -EAGAIN || add_drop(name) == 0)
		return r == -EAGAIN ? 0 : r;
	tell_drops(0);
	return tell_drop(name, 0);
}

void fdstore_end(void)
{
	tell_drops(0);
	free(drops.names);
	drops.names = NULL;
	drops.room = 0;
	words = safe_close(words);
}

/* ---- keeping ------------------------------------------------------------------------------------------------------ */

/* A manager looks at what it keeps, and lets go of a socket that hangs up: FDPOLL=0 says that it shall not. */
int fdstore_keep(const char *name, int fd)
{
	char text[FDSTORE_NAME_BYTES + 64];

	if (!fdstore_is_name(name))
		return -EINVAL;
	if (fd < 0)
		return -EBADF;
	/* It may have had this name. */
	tell_drops(0);
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	return send_text(text, fd, 0);
}
